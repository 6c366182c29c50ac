// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Starts a lab and sees to it that nothing of it is left, however it and whoever wanted it end.
 *
 *   guard LIFELINE FOLDER... -- COMMAND ARGUMENT...
 *
 * LIFELINE is the number of a file: the reading end of a pipe whose other end the caller holds. When that is closed, by
 * its will or by its death, the lab ends and every FOLDER is removed. When COMMAND, which becomes the kernel, ends
 * before, "ended" in the first FOLDER says so, with its exit code, 128 + N if signal N ended it; the folders stay until
 * the caller has read its results and lets go. Standard output and error become the kernel's.
 *
 * COMMAND confines the kernel; this process is outside, and trusts nothing in the folders.
 *
 * A User-Mode Linux is several processes: the kernel, one for each program that runs in it, and helpers. All of them
 * are descendants of this process, which makes itself their reaper, so that it can end and await every one.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static pid_t kernel;  /* 0 when it has ended */
static pid_t session; /* of the kernel and most of its processes */
static int kernel_status;

/* The number in field INDEX (from 3, the first after the name) of /proc/PID/stat. */
static long stat_field(const char *pid, int index)
{
	char path[64], text[1024], *at;
	FILE *file;
	size_t length;

	snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return -1;
	length = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[length] = 0;
	at = strrchr(text, ')');
	for (int field = 2; at && field < index; field++)
		at = strchr(at + 1, ' ');
	return at ? strtol(at + 1, NULL, 10) : -1;
}

/* Kills our children and whatever is in the kernel's session. What forks meanwhile is met in the next round. */
static void kill_all(void)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;

	if (kernel)
		kill(kernel, SIGKILL);
	while (proc && (entry = readdir(proc))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (pid <= 0 || pid == getpid())
			continue;
		if (stat_field(entry->d_name, 4) == getpid() || stat_field(entry->d_name, 6) == session)
			kill(pid, SIGKILL);
	}
	if (proc)
		closedir(proc);
}

/* Whether there are children left. */
static int reap(void)
{
	int status;
	pid_t child;

	while ((child = waitpid(-1, &status, WNOHANG | __WALL)) > 0)
		if (child == kernel) {
			kernel_status = status;
			kernel = 0;
		}
	return child == 0;
}

/* Orphans become our children, so that nothing gets away, however fast it forks. */
static void end_all(void)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	for (;;) {
		kill_all();
		if (!reap())
			return;
		nanosleep(&pause, NULL);
	}
}

static int remove_entry(const char *path, const struct stat *about, int type, struct FTW *walk)
{
	(void)about;
	(void)type;
	(void)walk;
	remove(path);
	return 0;
}

/* Randomised addresses would make two labs differ; a new program keeps both settings. */
static void become(char **arguments, pid_t parent)
{
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	personality(PER_LINUX | ADDR_NO_RANDOMIZE);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execv(arguments[0], arguments);
	fprintf(stderr, "%s: %s\n", arguments[0], strerror(errno));
	_exit(127);
}

static int watch_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void say_ended(const char *folder)
{
	char path[4096];
	FILE *file;
	int number;

	snprintf(path, sizeof(path), "%s/ended", folder);
	/* The kernel may have put a link there, which must not lead us to a file of the host. */
	unlink(path);
	number = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	file = number < 0 ? NULL : fdopen(number, "w");
	if (!file)
		return;
	fprintf(file, "%d\n", WIFSIGNALED(kernel_status) ? 128 + WTERMSIG(kernel_status) : WEXITSTATUS(kernel_status));
	fclose(file);
}

/* Returns when the kernel has ended, or nobody wants it any more. */
static void wait_for_the_end(int lifeline, int signals)
{
	struct pollfd polled[2] = {{.fd = lifeline}, {.fd = signals, .events = POLLIN}};
	struct signalfd_siginfo signal_;

	while (kernel) {
		if (poll(polled, 2, -1) < 0 && errno != EINTR)
			return;
		while (read(signals, &signal_, sizeof(signal_)) == sizeof(signal_))
			if (signal_.ssi_signo != SIGCHLD)
				return;
		reap();
		if (polled[0].revents)
			return;
	}
}

int main(int count, char **arguments)
{
	int lifeline, signals;
	char **command = arguments;
	pid_t self = getpid();

	(void)count;
	while (*command && strcmp(*command, "--"))
		command++;
	if (command < arguments + 3 || !*command || !command[1]) {
		fprintf(stderr, "usage: guard LIFELINE FOLDER... -- COMMAND ARGUMENT...\n");
		return 2;
	}
	lifeline = atoi(arguments[1]);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	signals = watch_signals();
	kernel = session = fork();
	if (kernel < 0) {
		perror("guard: fork");
		return 1;
	}
	if (!kernel) {
		close(lifeline);
		become(command + 1, self);
	}
	wait_for_the_end(lifeline, signals);
	end_all();
	say_ended(arguments[2]);
	while (read(lifeline, &(char){0}, 1) > 0)
		;
	for (char **folder = arguments + 2; folder < command; folder++)
		nftw(*folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
	return 0;
}
