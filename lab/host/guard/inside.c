// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Namespaces of the lab's own (namespaces(7)). The kernel and all of its processes are in a namespace of processes,
 * whose first process is ours: it reaps, and its end is everybody's, at once and however fast they fork. They see no
 * process outside, by its own /proc. It takes root: in a user namespace, the guest would see the host's files as
 * nobody's, and what is set-user-ID would become nobody.
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

/* The first process: reaps until the kernel has ended, and tells how that was. */
static void be_first(int tell, char **command)
{
	struct pollfd reader = {.fd = tell};
	pid_t child, kernel;
	int status;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (poll(&reader, 1, 0) > 0) /* the reader is gone already */
		_exit(1);
	settle();
	/* The mount is of these namespaces alone. Where it is not permitted, that of the host stays. */
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
	/* Without a stack, as fork. */
	long child = syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNS | SIGCHLD, NULL, NULL, NULL, NULL);

	if (!child)
		be_first(tell, command);
	return (pid_t)child;
}
