// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The lab's own namespaces (namespaces(7)). The kernel and all of its processes are in a pid namespace, whose first
 * process belongs to the guard: it reaps, and its end ends all of them at once, however fast they fork. With their own
 * /proc, they see no process outside. This needs root: in a user namespace, the guest would see the host's files as
 * nobody's, and set-user-ID files would become nobody's.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guard.h"

/* The first process: reaps until the kernel has ended, and reports its status. */
static void be_first(int tell, char **command)
{
	struct pollfd reader = {.fd = tell};
	pid_t child, kernel;
	int status;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (poll(&reader, 1, 0) > 0) /* the reader is gone already */
		_exit(1);
	settle();
	/* The mount belongs to these namespaces alone. If it is not permitted, the host's stays. */
	if (!mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL))
		(void)!mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
	kernel = fork();
	if (!kernel) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		become(command);
	}
	if (kernel < 0)
		_exit(1);
	for (;;) {
		child = waitpid(-1, &status, __WALL);
		if (child == kernel || (child < 0 && errno != EINTR)) {
			(void)!write(tell, &status, sizeof(status));
			_exit(0);
		}
	}
}

pid_t start_inside(int tell, char **command)
{
	/* Without a stack it acts like fork. */
	long child = syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNS | SIGCHLD, NULL, NULL, NULL, NULL);

	if (!child)
		be_first(tell, command);
	return (pid_t)child;
}
