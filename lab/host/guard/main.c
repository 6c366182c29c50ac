// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Starts a lab and sees to it that nothing of it is left, however it and whoever wanted it end.
 *
 *   guard LIFELINE FOLDER... -- TELL PROCESSES GROUPS COMMAND ARGUMENT...
 *
 * LIFELINE is the number of a file: the reading end of a pipe whose other end the caller holds. When that is closed, by
 * its will or by its death, the lab ends and every FOLDER is removed. TELL is another's writing end. When COMMAND,
 * which becomes the kernel, ends before, that is told there, with its exit code, 128 + N if signal N ended it, and what
 * the guard ended it for, if it did; the folders stay until the caller has read its results and lets go. Standard
 * output and error become the kernel's. The exit code is 1 if a folder cannot be removed.
 *
 * A lab has PROCESSES processes at most. GROUPS are control groups that see to it, and bound its memory, one a line, or
 * "-"; a limit of the user does, too, where he is not root; and the guard counts, in case neither does.
 *
 * COMMAND confines the kernel; this process is outside, and trusts nothing in the folders.
 *
 * A User-Mode Linux is several processes: the kernel, one for each program that runs in it, and helpers. They are in a
 * namespace of processes (inside.c). Where the host permits none, all of them are descendants of this process, which
 * makes itself their reaper, so that it can end and await every one (processes.c).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guard.h"

#define LOOK_MS 250 /* between two checks of the number of processes */

static pid_t first; /* the kernel, or the first process of its namespace; 0 when it has ended */
static int inside;  /* whether it is in a namespace */
static int kernel_status = SIGKILL;
static char ended_for[128];
static long most;
static const char *groups;

void settle(void)
{
	each_group(groups, join_group);
	limit_processes(most);
}

void become(char **command)
{
	sigset_t none;

	/* Randomised addresses would make two labs differ; a new program keeps the setting. */
	personality(PER_LINUX | ADDR_NO_RANDOMIZE);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execv(command[0], command);
	fprintf(stderr, "%s: %s\n", command[0], strerror(errno));
	_exit(127);
}

/* Records the end of FIRST; in a namespace, TOLD has the kernel's status. */
static void reap(int told)
{
	int status;
	pid_t child;

	while ((child = waitpid(-1, &status, WNOHANG | __WALL)) > 0)
		if (child == first) {
			if (!inside)
				kernel_status = status;
			else if (read(told, &status, sizeof(status)) == sizeof(status))
				kernel_status = status;
			first = 0;
		}
}

static int watch_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGPIPE); /* the reader of the status may have ended */
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void say_ended(int tell)
{
	int code = WIFSIGNALED(kernel_status) ? 128 + WTERMSIG(kernel_status) : WEXITSTATUS(kernel_status);

	dprintf(tell, "%d\n%s", code, ended_for);
	close(tell);
}

/* Number of tasks on this machine: one system call, which suffices for most checks. */
static long tasks(void)
{
	struct sysinfo about;

	return sysinfo(&about) ? 0 : about.procs;
}

/* Returns when the kernel has ended, is no longer wanted, or has too many processes. */
static void wait_for_the_end(int lifeline, int signals, int told)
{
	struct pollfd polled[2] = {{.fd = lifeline}, {.fd = signals, .events = POLLIN}};
	struct signalfd_siginfo signal_;
	long before = tasks();

	while (first) {
		if (poll(polled, 2, inside ? LOOK_MS : -1) < 0 && errno != EINTR)
			return;
		while (read(signals, &signal_, sizeof(signal_)) == sizeof(signal_))
			if (signal_.ssi_signo != SIGCHLD)
				return;
		reap(told);
		if (polled[0].revents)
			return;
		if (inside && first && tasks() - before > most && count_namespace(first) > most) {
			snprintf(ended_for, sizeof(ended_for), "it had more than %ld processes\n", most);
			return;
		}
	}
}

static void start(int told[2], char **command)
{
	pid_t self = getpid();

	first = start_inside(told[1], command);
	inside = first > 0;
	if (inside)
		return;
	first = fork();
	if (!first) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != self)
			_exit(1);
		settle();
		become(command);
	}
}

int main(int count, char **arguments)
{
	int lifeline, tell, signals, left = 0, told[2];
	char **command = arguments;

	while (*command && strcmp(*command, "--"))
		command++;
	if (command < arguments + 3 || !*command || count - (command - arguments) < 5) {
		fprintf(stderr, "usage: guard LIFELINE FOLDER... -- TELL PROCESSES GROUPS COMMAND ARGUMENT...\n");
		return 2;
	}
	lifeline = atoi(arguments[1]);
	tell = atoi(command[1]);
	most = atol(command[2]);
	groups = command[3];
	fcntl(tell, F_SETFD, FD_CLOEXEC);
	fcntl(lifeline, F_SETFD, FD_CLOEXEC);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	signals = watch_signals();
	if (pipe2(told, O_CLOEXEC | O_NONBLOCK)) {
		perror("guard: pipe");
		return 1;
	}
	start(told, command + 4);
	if (first < 0) {
		perror("guard: fork");
		return 1;
	}
	close(told[1]);
	wait_for_the_end(lifeline, signals, told[0]);
	if (inside && first) {
		kill(first, SIGKILL);
		waitpid(first, NULL, __WALL); /* ends when its whole namespace has ended */
	}
	end_descendants();
	say_ended(tell);
	while (read(lifeline, &(char){0}, 1) > 0)
		;
	for (char **folder = arguments + 2; folder < command; folder++)
		left |= !remove_all(*folder);
	each_group(groups, leave_group);
	return left;
}
