// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The script: records, of which the first field says what to do:
 *
 *   rw DIR               mount this folder of the host writable, in its place
 *   cd DIR               working directory of what follows
 *   env NAME=VALUE       environment of what follows
 *   insmod FILE PARAMS   load a kernel module
 *   netns FILE           enter this network namespace; none: leave it
 *   write FILE TEXT      as echo TEXT > FILE
 *   call ARG...          run a command that must succeed; what it prints goes to the log
 *   serve NAME ARG...    start a process with NAME.in as its input, which stays open
 *   collect FILE NAME    copy what FILE gives to NAME.out now and then, and at the end
 *   start NS [FILE TEXT] when every served process has written a line, tell all to start at a multiple of NS that is
 *                        at least NS away, write "start", that instant and TEXT to FILE, and wait for the processes
 *   exec ARG...          run a command; its exit code is the lab's. Output: NAME.out of "stdout" and "stderr"
 *   shell ARG...         run a command on the terminal /dev/tty1
 */
#include "init.h"

#include <sys/mount.h>
#include <sys/stat.h>

enum {
	MAX_FIELDS = 4096
};

static bool all_spoke(void)
{
	for (size_t i = 0; i < stream_count; i++)
		if (streams[i].input >= 0 && !streams[i].spoke)
			return false;
	return true;
}

/*
 * Starts the plan: `fields` are the lead, and optionally a file and a text for it. The instant is a multiple of the
 * lead, so that the duration of loading, and the number of clock readings, do not decide how the plan meets the
 * kernel's ticks.
 */
static void start_served(char **fields, size_t count)
{
	uint64_t lead = strtoull(fields[0], NULL, 10), epoch;
	char line[256];
	int length, all = served;

	if (!lead)
		fail("start: expected nanoseconds, there is %s", fields[0]);
	while (!all_spoke() && served == all)
		turn();
	if (served < all)
		finish();
	epoch = (now_ns() / lead + 2) * lead;
	if (count == 3) {
		snprintf(line, sizeof(line), "start %" PRIu64 " %s", epoch, fields[2]);
		write_value(fields[1], line);
	}
	length = snprintf(line, sizeof(line),
			  "{\"command\":\"start\",\"clock\":\"monotonic\",\"reading_ns\":%" PRIu64 ",\"after_ns\":0}\n",
			  epoch);
	for (size_t i = 0; i < stream_count; i++)
		if (streams[i].input >= 0 && write(streams[i].input, line, (size_t)length) != length)
			return;
	while (served && !exit_code)
		turn();
	collect();
}

static void carry_out(char **field, size_t count)
{
	const char *what = field[0];

	if (!strcmp(what, "rw") && count == 2)
		mount_or_fail("rw", field[1], "hostfs", MS_NOSUID | MS_NODEV, field[1]);
	else if (!strcmp(what, "cd") && count == 2 && chdir(field[1]))
		fail("cannot enter %s: %s", field[1], strerror(errno));
	else if (!strcmp(what, "env") && count == 2)
		putenv(field[1]);
	else if (!strcmp(what, "insmod") && count == 3)
		load_module(field[1], field[2]);
	else if (!strcmp(what, "netns") && count == 2)
		enter_namespace(field[1]);
	else if (!strcmp(what, "write") && count == 3)
		write_value(field[1], field[2]);
	else if (!strcmp(what, "call") && count > 1)
		call(field + 1);
	else if (!strcmp(what, "serve") && count > 2)
		serve(field[1], field + 2);
	else if (!strcmp(what, "collect") && count == 3)
		begin_collecting(field[1], field[2]);
	else if (!strcmp(what, "start") && (count == 2 || count == 4))
		start_served(field + 1, count - 1);
	else if (!strcmp(what, "exec") && count > 1)
		start_command(field + 1);
	else if (!strcmp(what, "shell") && count > 1)
		start_shell(field + 1);
	else if (strcmp(what, "cd"))
		fail("the script has a record %s of %zu fields, which this init does not know", what, count);
}

static char *read_script(size_t *length)
{
	struct stat about;
	int file = open(RUN "/script", O_RDONLY | O_CLOEXEC);
	char *text;

	if (file < 0 || fstat(file, &about))
		fail("cannot read the script: %s", strerror(errno));
	text = malloc((size_t)about.st_size + 1);
	if (!text || read(file, text, (size_t)about.st_size) != about.st_size)
		fail("cannot read the script: %s", strerror(errno));
	text[about.st_size] = 0;
	*length = (size_t)about.st_size;
	close(file);
	return text;
}

void run_script(void)
{
	static char *field[MAX_FIELDS + 1];
	size_t length, count = 0;
	char *text = read_script(&length);

	for (char *at = text; at < text + length; at += strlen(at) + 1) {
		if (*at == '=') {
			if (count == MAX_FIELDS)
				fail("the script has a record of more than %d fields", MAX_FIELDS);
			field[count++] = at + 1;
		} else if (count) {
			field[count] = NULL;
			carry_out(field, count);
			count = 0;
		}
	}
}
