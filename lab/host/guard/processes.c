// SPDX-License-Identifier: MIT OR Apache-2.0
/* The processes of a lab as the host sees them: their number, their limit, and their end. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "guard.h"

#define MAX_PIDS 4194304 /* PID_MAX_LIMIT (linux/threads.h) */
#define ROUNDS 200       /* rounds of stopping, before killing what forks all the same */

static const struct timespec PAUSE = {.tv_nsec = 1000000};

struct stat_of {
	char state;
	pid_t parent;
	long threads;
};

static int read_stat(const char *pid, struct stat_of *found)
{
	char path[64], text[1024], *at;
	FILE *file;
	size_t length;
	int parent;

	snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return -1;
	length = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[length] = 0;
	at = strrchr(text, ')'); /* the program's name may contain spaces and parentheses */
	if (!at || sscanf(at + 1, " %c %d", &found->state, &parent) != 2)
		return -1;
	found->parent = parent;
	for (int field = 2; at && field < 20; field++) /* the twentieth: number of threads (proc(5)) */
		at = strchr(at + 1, ' ');
	found->threads = at ? strtol(at + 1, NULL, 10) : 1;
	return 0;
}

/* Whether PID descends from this process, by the recorded parents; marks the walked ones, to walk each once. */
static int descends(pid_t *parents, pid_t pid, pid_t self)
{
	pid_t at = pid, next;
	int answer;

	while (at > 1 && at != self && parents[at] > 0)
		at = parents[at];
	answer = at == self || (at > 1 && parents[at] == -1);
	for (at = pid; at > 1 && at != self && parents[at] > 0; at = next) {
		next = parents[at];
		parents[at] = answer ? -1 : -2;
	}
	return answer;
}

/* Sends SIGNAL to every descendant; returns how many of them were neither stopped nor dead. */
static long signal_all(pid_t *parents, int signal_)
{
	static pid_t found[MAX_PIDS];
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	struct stat_of about;
	long count = 0, moving = 0;
	pid_t self = getpid();

	while (proc && (entry = readdir(proc))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (pid <= 0 || pid >= MAX_PIDS || count >= MAX_PIDS || read_stat(entry->d_name, &about))
			continue;
		found[count++] = about.state == 'Z' || about.state == 'T' || about.state == 't' ? -pid : pid;
		parents[pid] = about.parent;
	}
	if (proc)
		closedir(proc);
	for (long i = 0; i < count; i++) {
		pid_t pid = abs(found[i]);

		if (pid != self && descends(parents, pid, self)) {
			moving += found[i] > 0;
			kill(pid, signal_);
		}
	}
	for (long i = 0; i < count; i++)
		parents[abs(found[i])] = 0;
	return moving;
}

/* Whether there are children left. */
static int reap(void)
{
	pid_t child;

	while ((child = waitpid(-1, NULL, WNOHANG | __WALL)) > 0)
		;
	return child == 0;
}

/*
 * Stops all before killing one: the end of one makes room for another that forks, and a stopped process does not fork.
 * Orphans become children of this process.
 */
void end_descendants(void)
{
	pid_t *parents;

	if (!reap())
		return;
	parents = calloc(MAX_PIDS, sizeof(*parents));
	if (!parents)
		return;
	for (int round = 0; round < ROUNDS && signal_all(parents, SIGSTOP); round++)
		;
	do {
		signal_all(parents, SIGKILL);
		nanosleep(&PAUSE, NULL);
	} while (reap());
	free(parents);
}

long count_namespace(pid_t first)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	struct stat of_first, of_this;
	char path[64];
	long count = 0;

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", first);
	if (!proc || stat(path, &of_first)) {
		if (proc)
			closedir(proc);
		return 0;
	}
	while ((entry = readdir(proc))) {
		snprintf(path, sizeof(path), "/proc/%.20s/ns/pid", entry->d_name);
		if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && !stat(path, &of_this))
			count += of_this.st_ino == of_first.st_ino;
	}
	closedir(proc);
	return count;
}

void limit_processes(long most)
{
	DIR *proc;
	struct dirent *entry;
	struct stat_of about;
	struct stat folder;
	struct rlimit limit;
	char path[64];
	uid_t user = getuid();

	if (!user || getrlimit(RLIMIT_NPROC, &limit) || !(proc = opendir("/proc")))
		return;
	while ((entry = readdir(proc))) {
		snprintf(path, sizeof(path), "/proc/%.20s", entry->d_name);
		if (entry->d_name[0] < '1' || entry->d_name[0] > '9' || stat(path, &folder) || folder.st_uid != user)
			continue;
		if (!read_stat(entry->d_name, &about))
			most += about.threads;
	}
	closedir(proc);
	if ((rlim_t)most < limit.rlim_cur) {
		limit.rlim_cur = limit.rlim_max = (rlim_t)most;
		setrlimit(RLIMIT_NPROC, &limit);
	}
}

void join_group(const char *group)
{
	char path[4096];
	int file;

	snprintf(path, sizeof(path), "%s/cgroup.procs", group);
	file = open(path, O_WRONLY | O_CLOEXEC);
	if (file < 0)
		return;
	(void)!write(file, "0", 1);
	close(file);
}

void leave_group(const char *group)
{
	for (int tries = 0; tries < 1000 && rmdir(group) && errno == EBUSY; tries++)
		nanosleep(&PAUSE, NULL);
}

void each_group(const char *groups, void (*act)(const char *group))
{
	char *copy = strdup(groups), *rest = copy, *group;

	while (copy && (group = strsep(&rest, "\n")))
		if (strcmp(group, "-"))
			act(group);
	free(copy);
}
