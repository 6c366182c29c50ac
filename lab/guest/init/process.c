// SPDX-License-Identifier: MIT OR Apache-2.0
/* The processes that the script starts. */
#include "init.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

int served;
int exit_code;
pid_t foreground;
int signals = -1;

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

void call(char **arguments)
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

void serve(const char *name, char **arguments)
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

void start_command(char **arguments)
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

void start_shell(char **arguments)
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

/* Records every process that has ended. */
void reap(void)
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

void watch_processes(void)
{
	sigset_t child;

	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	signals = (int)syscall(SYS_signalfd4, -1, &child, 8, O_CLOEXEC | O_NONBLOCK);
	if (signals < 0)
		fail("cannot watch processes: %s", strerror(errno));
}
