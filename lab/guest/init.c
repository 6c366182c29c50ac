// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The first process of a lab: prepares the system, carries out the script that weir left in the run's folder, says how
 * it ended, and switches the machine off.
 *
 * The host's files are its root, read-only. The run's folder is mounted on /run/weir; its path on the host arrives as
 * WEIR_LAB on the kernel's command line. In it:
 *
 *   script     what to do: records of fields. A field is '=', its bytes and a NUL; a record ends with one more NUL.
 *   NAME.in    what a served process NAME reads first, NAME.out what it wrote
 *   log        what commands of the script and this program say
 *   clock      nanoseconds of virtual time as decimal text, brought up to date ten times a virtual second
 *   status     how it ended, written last: "exit N", or "failed: WHY"
 *
 * Records (the first field says which):
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
 *   start NS [FILE TEXT] when every served process has written a line, tell all to start NS from now, write "start",
 *                        that instant and TEXT to FILE, and wait for the processes
 *   exec ARG...          run a command; its exit code is the lab's. Output: NAME.out of "stdout" and "stderr"
 *   shell ARG...         run a command on the terminal /dev/tty1
 *
 * Data go out through the page cache of hostfs and are pushed to the host at once, so that nothing here ever waits for
 * the host: a wait would let virtual time pass by an amount that depends on the machine.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RUN "/run/weir"

enum {
	MAX_FIELDS = 4096,
	MAX_STREAMS = 16,
	CHUNK = 1 << 18,
	BEAT_NS = 100000000,
	FILES = 1 << 16, /* open files of a process: thousands of flows */
};

/* A pipe from a process, copied to a file of the run's folder. */
struct stream {
	int from;
	int to;
	int input; /* write end of the standard input of a served process; -1 if it has none */
	bool spoke;
};

static struct stream streams[MAX_STREAMS];
static size_t stream_count;
static int served;    /* processes that are served and have not ended */
static int exit_code; /* of `exec`, or the first that is not 0 of the served processes */
static pid_t foreground;
static int clock_file = -1;
static int heartbeat = -1;
static int home = -1; /* the first network namespace */
static struct stream collected = {.from = -1};
static char chunk[CHUNK];

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

/* Not dprintf: it seeks, which /dev/kmsg refuses. */
static void say(const char *format, ...)
{
	char text[2048];
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (write(2, text, length < (int)sizeof(text) ? (size_t)length : sizeof(text) - 1) < 0)
		return; /* nobody is left to be told */
}

/* The end -------------------------------------------------------------------------------------------------------- */

static void put(const char *path, const char *text)
{
	int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text))
		say("lab: %s: %s\n", path, strerror(errno));
	if (file >= 0)
		close(file);
}

static _Noreturn void leave(const char *status)
{
	put(RUN "/status", status);
	sync();
	reboot(RB_POWER_OFF);
	_exit(1);
}

static _Noreturn void fail(const char *format, ...)
{
	char status[2048] = "failed: ";
	size_t used = strlen(status);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(status + used, sizeof(status) - used, format, arguments);
	va_end(arguments);
	say("lab: %s\n", status);
	leave(status);
}

/* The system ----------------------------------------------------------------------------------------------------- */

static void mount_or_fail(const char *what, const char *where, const char *type, unsigned long flags, const char *data)
{
	if (mkdir(where, 0755) && errno != EEXIST && errno != EROFS)
		fail("cannot make %s: %s", where, strerror(errno));
	if (mount(what, where, type, flags, data))
		fail("cannot mount %s on %s: %s", data ? data : type, where, strerror(errno));
}

static void loopback_up(void)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int socket_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (socket_ < 0 || ioctl(socket_, SIOCSIFFLAGS, &request))
		fail("cannot set lo up: %s", strerror(errno));
	close(socket_);
}

/* Standard files: nothing in, messages to `path`. */
static void open_standard_files(const char *path)
{
	int null = open("/dev/null", O_RDWR);
	int log = open(path, O_WRONLY | O_CREAT | O_APPEND, 0644);

	dup2(null, 0);
	dup2(log, 1);
	dup2(log, 2);
	for (int file = 3; file < 16; file++)
		close(file);
}

static void prepare(const char *folder)
{
	struct rlimit files = {.rlim_cur = FILES, .rlim_max = FILES};

	mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	mount("dev", "/dev", "devtmpfs", MS_NOSUID, NULL);
	open_standard_files("/dev/kmsg");
	mount_or_fail("run", "/run", "tmpfs", MS_NOSUID | MS_NODEV, NULL);
	mount_or_fail("weir", RUN, "hostfs", MS_NOSUID | MS_NODEV, folder);
	open_standard_files(RUN "/log");
	mount_or_fail("sys", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	mount_or_fail("pts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, NULL);
	mount_or_fail("shm", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, NULL);
	mkdir("/run/netns", 0755);
	mkdir("/run/tmp", 01777);
	setenv("TMPDIR", "/run/tmp", 1);
	setenv("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", 1);
	unsetenv("WEIR_LAB");
	if (setrlimit(RLIMIT_NOFILE, &files))
		fail("cannot allow %d open files: %s", FILES, strerror(errno));
	loopback_up();
	sethostname("lab", 3);
	home = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
}

/* Time, for whoever watches from outside ------------------------------------------------------------------------- */

static void push(int file)
{
	sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE);
}

static void tell_time(void)
{
	char text[32];
	int length = snprintf(text, sizeof(text), "%020" PRIu64 "\n", now_ns());

	if (pwrite(clock_file, text, (size_t)length, 0) != length)
		fail("cannot write the clock: %s", strerror(errno));
	push(clock_file);
}

static void begin_clock(void)
{
	struct itimerspec beat = {.it_interval.tv_nsec = BEAT_NS, .it_value.tv_nsec = BEAT_NS};

	clock_file = open(RUN "/clock", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	heartbeat = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	if (clock_file < 0 || heartbeat < 0 || timerfd_settime(heartbeat, 0, &beat, NULL))
		fail("cannot begin the clock: %s", strerror(errno));
	tell_time();
}

/* Processes ------------------------------------------------------------------------------------------------------ */

static _Noreturn void become(char **arguments)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvp(arguments[0], arguments);
	say("lab: %s: %s\n", arguments[0], strerror(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

static pid_t fork_or_fail(void)
{
	pid_t child = fork();

	if (child < 0)
		fail("cannot start a process: %s", strerror(errno));
	return child;
}

static int code_of(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void call(char **arguments)
{
	pid_t child = fork_or_fail();
	int status;

	if (!child)
		become(arguments);
	while (waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	if (code_of(status))
		fail("%s ended with %d", arguments[0], code_of(status));
}

/* A pipe whose other end is copied to FILE of the run's folder; the end to write to. */
static int open_stream(const char *name, int input)
{
	char path[256];
	int ends[2];

	snprintf(path, sizeof(path), RUN "/%s.out", name);
	if (stream_count == MAX_STREAMS)
		fail("more than %d processes to serve", MAX_STREAMS);
	streams[stream_count] = (struct stream){
		.to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644),
		.input = input,
	};
	if (streams[stream_count].to < 0 || pipe2(ends, O_CLOEXEC))
		fail("cannot open %s: %s", path, strerror(errno));
	fcntl(ends[1], F_SETPIPE_SZ, CHUNK);
	streams[stream_count++].from = ends[0];
	return ends[1];
}

/* Writes the whole file NAME.in; the pipe is made large enough to take it at once. */
static void feed(int input, const char *name)
{
	char path[256];
	struct stat about;
	ssize_t length;
	int file;

	snprintf(path, sizeof(path), RUN "/%s.in", name);
	file = open(path, O_RDONLY | O_CLOEXEC);
	if (file < 0 || fstat(file, &about))
		fail("cannot read %s: %s", path, strerror(errno));
	fcntl(input, F_SETPIPE_SZ, (int)about.st_size + 4096);
	while ((length = read(file, chunk, sizeof(chunk))) > 0)
		if (write(input, chunk, (size_t)length) != length)
			fail("cannot hand %s over: %s", path, strerror(errno));
	close(file);
}

static void serve(const char *name, char **arguments)
{
	int ends[2], out;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC))
		fail("cannot make a pipe: %s", strerror(errno));
	out = open_stream(name, ends[1]);
	child = fork_or_fail();
	if (!child) {
		dup2(ends[0], 0);
		dup2(out, 1);
		become(arguments);
	}
	close(ends[0]);
	close(out);
	served++;
	feed(ends[1], name);
}

static void start_command(char **arguments)
{
	int out = open_stream("stdout", -1);
	int error = open_stream("stderr", -1);
	int input = open(RUN "/stdin", O_RDONLY | O_CLOEXEC);

	foreground = fork_or_fail();
	if (!foreground) {
		if (input >= 0)
			dup2(input, 0);
		dup2(out, 1);
		dup2(error, 2);
		become(arguments);
	}
	close(out);
	close(error);
	if (input >= 0)
		close(input);
}

static void start_shell(char **arguments)
{
	foreground = fork_or_fail();
	if (!foreground) {
		int terminal;

		setsid();
		terminal = open("/dev/tty1", O_RDWR);
		if (terminal < 0)
			fail("cannot open the terminal: %s", strerror(errno));
		ioctl(terminal, TIOCSCTTY, 0);
		dup2(terminal, 0);
		dup2(terminal, 1);
		dup2(terminal, 2);
		become(arguments);
	}
}

/* Notes every process that has ended. */
static void reap(void)
{
	int status;
	pid_t child;

	while ((child = waitpid(-1, &status, WNOHANG)) > 0) {
		if (child == foreground) {
			foreground = 0;
			exit_code = code_of(status);
		} else if (served) {
			served--;
			exit_code = exit_code ? exit_code : code_of(status);
		}
	}
}

/* The pump ------------------------------------------------------------------------------------------------------- */

static void copy(struct stream *stream)
{
	ssize_t length = read(stream->from, chunk, sizeof(chunk));

	if (length <= 0) {
		close(stream->from);
		stream->from = -1;
		return;
	}
	if (write(stream->to, chunk, (size_t)length) != length)
		fail("cannot write a result: %s", strerror(errno));
	push(stream->to);
	stream->spoke = true;
}

static void collect(void);

/* Waits for something to happen, and deals with it. */
static void turn(int signals)
{
	struct pollfd polled[MAX_STREAMS + 2] = {{.fd = heartbeat, .events = POLLIN},
						 {.fd = signals, .events = POLLIN}};

	for (size_t i = 0; i < stream_count; i++)
		polled[i + 2] = (struct pollfd){.fd = streams[i].from, .events = POLLIN};
	if (poll(polled, stream_count + 2, -1) < 0 && errno != EINTR)
		fail("poll: %s", strerror(errno));
	if (polled[0].revents & POLLIN) {
		uint64_t expirations;

		if (read(heartbeat, &expirations, sizeof(expirations)) > 0)
			tell_time();
		collect();
	}
	for (size_t i = 0; i < stream_count; i++)
		if (polled[i + 2].revents)
			copy(&streams[i]);
	if (polled[1].revents & POLLIN) {
		if (read(signals, chunk, sizeof(chunk)) > 0)
			reap();
	}
}

/* Copies what there is of the file that is collected. */
static void collect(void)
{
	ssize_t length;

	while (collected.from >= 0 && (length = read(collected.from, chunk, sizeof(chunk))) > 0)
		if (write(collected.to, chunk, (size_t)length) != length)
			fail("cannot write a result: %s", strerror(errno));
	if (collected.to > 0)
		push(collected.to);
}

static void begin_collecting(const char *from, const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), RUN "/%s.out", name);
	collected.from = open(from, O_RDONLY | O_CLOEXEC);
	collected.to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (collected.from < 0 || collected.to < 0)
		fail("cannot copy %s to %s: %s", from, path, strerror(errno));
}

static bool all_spoke(void)
{
	for (size_t i = 0; i < stream_count; i++)
		if (streams[i].input >= 0 && !streams[i].spoke)
			return false;
	return true;
}

/* The end of the script, or of a process that should not have ended yet. */
static _Noreturn void finish(void)
{
	char status[64];

	snprintf(status, sizeof(status), "exit %d", exit_code);
	leave(status);
}

static void write_value(const char *path, const char *text);

/* Has the plan begin: `fields` are the lead, and optionally a file and a text for it. */
static void start_served(char **fields, size_t count, int signals)
{
	uint64_t epoch;
	char line[256];
	int length, all = served;

	while (!all_spoke() && served == all)
		turn(signals);
	if (served < all)
		finish();
	epoch = now_ns() + strtoull(fields[0], NULL, 10);
	if (count == 3) {
		snprintf(line, sizeof(line), "start %" PRIu64 " %s", epoch, fields[2]);
		write_value(fields[1], line);
	}
	length = snprintf(line, sizeof(line), "{\"command\":\"start\",\"epoch_ns\":%" PRIu64 "}\n", epoch);
	for (size_t i = 0; i < stream_count; i++)
		if (streams[i].input >= 0 && write(streams[i].input, line, (size_t)length) != length)
			return;
	while (served && !exit_code)
		turn(signals);
	collect();
}

static void enter_namespace(const char *path)
{
	int file = *path ? open(path, O_RDONLY | O_CLOEXEC) : home;

	if (file < 0 || setns(file, CLONE_NEWNET))
		fail("cannot enter the network namespace %s: %s", path, strerror(errno));
	if (file != home)
		close(file);
}

/* The script ----------------------------------------------------------------------------------------------------- */

static void load_module(const char *path, const char *parameters)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);

	if (file < 0 || syscall(SYS_finit_module, file, parameters, 0))
		fail("cannot load %s: %s", path, strerror(errno));
	close(file);
}

static void write_value(const char *path, const char *text)
{
	int file = open(path, O_WRONLY | O_CLOEXEC);

	if (file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text))
		fail("cannot write %s to %s: %s", text, path, strerror(errno));
	close(file);
}

static void carry_out(char **field, size_t count, int signals)
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
		start_served(field + 1, count - 1, signals);
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

static void run_script(int signals)
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
			carry_out(field, count, signals);
			count = 0;
		}
	}
}

int main(void)
{
	const char *folder = getenv("WEIR_LAB");
	sigset_t child;
	int signals;

	if (getpid() != 1 || !folder) {
		fprintf(stderr, "this is the first process of a lab: weir starts it\n");
		return 2;
	}
	prepare(folder);
	begin_clock();
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	signals = (int)syscall(SYS_signalfd4, -1, &child, 8, O_CLOEXEC | O_NONBLOCK);
	if (signals < 0)
		fail("cannot watch processes: %s", strerror(errno));
	run_script(signals);
	while (foreground)
		turn(signals);
	finish();
}
