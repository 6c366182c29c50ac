/* Preloaded (ld.so(8)), it steps the wall clock of a program by the nanoseconds in the file that CLOCK_STEP names. Clocks
 * that count from the boot go on, as they do when a machine's time of day is set.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static const volatile long long *ahead;

__attribute__((constructor)) static void map_file(void)
{
	const char *path = getenv("CLOCK_STEP");
	int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;

	if (file < 0)
		return;
	void *found = mmap(NULL, sizeof(*ahead), PROT_READ, MAP_SHARED, file, 0);
	if (found != MAP_FAILED)
		ahead = found;
	close(file);
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
	int failed = syscall(SYS_clock_gettime, clock, time);

	if (!failed && ahead && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
		long long now = time->tv_sec * SECOND + time->tv_nsec + *ahead;
		time->tv_sec = now / SECOND;
		time->tv_nsec = now % SECOND;
	}
	return failed;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
	struct timespec now;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	time->tv_sec = now.tv_sec;
	time->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *result)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (result)
		*result = now.tv_sec;
	return now.tv_sec;
}
