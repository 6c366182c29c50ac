// SPDX-License-Identifier: MIT OR Apache-2.0
/* The system: file systems, network namespaces, modules. */
#include "init.h"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum {
	FILES = 1 << 16 /* open files of a process: thousands of flows */
};

static int home = -1; /* the first network namespace */

void mount_or_fail(const char *what, const char *where, const char *type, unsigned long flags, const char *data)
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

/* Standard files: empty input, messages to `path`. */
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

void prepare(const char *folder)
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

void enter_namespace(const char *path)
{
	int file = *path ? open(path, O_RDONLY | O_CLOEXEC) : home;

	if (file < 0 || setns(file, CLONE_NEWNET))
		fail("cannot enter the network namespace %s: %s", path, strerror(errno));
	if (file != home)
		close(file);
}

/* Writes each module's address for tools that examine the kernel from outside; starts no process. */
static void tell_modules(void)
{
	int from = open("/proc/modules", O_RDONLY | O_CLOEXEC);
	int to = open(RUN "/modules", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	ssize_t length;

	while ((length = read(from, chunk, sizeof(chunk))) > 0)
		if (write(to, chunk, (size_t)length) != length)
			fail("cannot write %s: %s", RUN "/modules", strerror(errno));
	close(from);
	if (to >= 0 && close(to))
		say("lab: %s: %s\n", RUN "/modules", strerror(errno));
}

void load_module(const char *path, const char *parameters)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);

	if (file < 0 || syscall(SYS_finit_module, file, parameters, 0))
		fail("cannot load %s: %s", path, strerror(errno));
	close(file);
	tell_modules();
}

void write_value(const char *path, const char *text)
{
	int file = open(path, O_WRONLY | O_CLOEXEC);

	if (file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text))
		fail("cannot write %s to %s: %s", text, path, strerror(errno));
	close(file);
}
