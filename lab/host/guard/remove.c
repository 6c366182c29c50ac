// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Removes a folder and everything below it, whatever a guest put there: folders that their owner may not read, folders
 * a thousand levels deep, links to elsewhere. It uses no path of more than one name, does not recurse, and follows no
 * link and no mount (python/weir/_remove.py does the same).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guard.h"

#define TRIES 8 /* attempts to empty a folder into which others still write */

/* A folder on the way down to the one that is being emptied. */
struct level {
	char *name; /* in the parent folder */
	dev_t device;
	ino_t inode;
	int tries;    /* attempts to empty the entry entered last */
	long skipped; /* entries that cannot be removed: they come first when it is read again */
};

/* As struct open_how of linux/openat2.h, which older headers lack. */
struct how {
	uint64_t flags, mode, resolve;
};
#define NO_OTHER_MOUNT 0x01
#define NO_LINK 0x04

/* The folder NAME of FOLDER, without following a link or leaving the mount. */
static int open_place(int folder, const char *name)
{
	struct how how = {.flags = O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC,
			  .resolve = folder == AT_FDCWD ? 0 : NO_OTHER_MOUNT | NO_LINK};
	long place = syscall(SYS_openat2, folder, name, &how, sizeof(how));
	struct stat above, about;

	if (place >= 0 || (errno != ENOSYS && errno != EPERM))
		return (int)place;
	place = openat(folder, name, O_PATH | O_NOFOLLOW | O_DIRECTORY | O_CLOEXEC);
	if (place < 0 || folder == AT_FDCWD)
		return (int)place;
	if (fstat(folder, &above) || fstat((int)place, &about) || above.st_dev != about.st_dev) {
		close((int)place);
		errno = EXDEV;
		return -1;
	}
	return (int)place;
}

/* The same, for reading, and from now on writable for its owner. */
static int open_folder(int folder, const char *name)
{
	char path[64];
	struct stat about;
	int opened, place = open_place(folder, name);

	if (place < 0)
		return -1;
	if (!fstat(place, &about) && (about.st_mode & 0700) != 0700) {
		snprintf(path, sizeof(path), "/proc/self/fd/%d", place); /* fchmod takes no O_PATH */
		(void)!chmod(path, (about.st_mode & 07777) | 0700);
	}
	opened = openat(place, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	close(place);
	return opened;
}

/*
 * Removes everything except folders from FOLDER; returns a copy of the name of a folder in it, NULL if there is none
 * left to enter.
 */
static char *clear(int folder, struct level *level)
{
	int again = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = again < 0 ? NULL : fdopendir(again);
	struct dirent *entry;
	long seen = 0;
	char *found = NULL;

	while (stream && !found && (entry = readdir(stream))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (!unlinkat(folder, entry->d_name, 0) || errno == ENOENT)
			continue;
		if (errno == EISDIR && (!unlinkat(folder, entry->d_name, AT_REMOVEDIR) || errno == ENOENT))
			continue;
		if (seen++ < level->skipped)
			continue;
		if (errno == ENOTEMPTY || errno == EEXIST)
			found = strdup(entry->d_name);
		else
			level->skipped++;
	}
	if (stream)
		closedir(stream);
	return found;
}

static int push(struct level **levels, size_t *count, char *name, int folder)
{
	struct stat about;
	struct level *more = realloc(*levels, (*count + 1) * sizeof(**levels));

	if (!more)
		return -1;
	*levels = more;
	if (fstat(folder, &about))
		return -1;
	more[(*count)++] = (struct level){.name = name, .device = about.st_dev, .inode = about.st_ino};
	return 0;
}

/* Empties the folder that is open as HERE, and closes it. */
static void empty(int here)
{
	struct level *levels = NULL;
	size_t count = 0;
	struct stat about;

	if (push(&levels, &count, NULL, here))
		count = 0;
	while (count) {
		struct level *level = &levels[count - 1];
		char *name = clear(here, level);
		int next;

		if (name) {
			next = open_folder(here, name);
			if (next < 0 || push(&levels, &count, name, next)) {
				levels[count - 1].skipped++;
				free(name);
				if (next >= 0)
					close(next);
				continue;
			}
		} else {
			if (count == 1)
				break;
			next = openat(here, "..", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			level = &levels[--count - 1];
			if (next < 0 || fstat(next, &about) || about.st_dev != level->device ||
			    about.st_ino != level->inode) {
				free(levels[count].name);
				if (next >= 0)
					close(next);
				break; /* somebody moved it meanwhile */
			}
			if (!unlinkat(next, levels[count].name, AT_REMOVEDIR) || errno == ENOENT)
				level->tries = 0;
			else if (levels[count].skipped || ++level->tries >= TRIES)
				level->skipped++, level->tries = 0;
			free(levels[count].name);
		}
		close(here);
		here = next;
	}
	for (size_t i = 1; i < count; i++)
		free(levels[i].name);
	free(levels);
	close(here);
}

int remove_all(const char *path)
{
	int folder;

	if (!unlink(path) || errno == ENOENT)
		return 1;
	folder = open_folder(AT_FDCWD, path);
	if (folder >= 0)
		empty(folder);
	return !rmdir(path) || errno == ENOENT;
}
