// SPDX-License-Identifier: MIT OR Apache-2.0
/* Forwards the output of processes; tells the time. */
#include "init.h"

#include <poll.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <time.h>

enum {
	BEAT_NS = 100000000
};

struct stream streams[MAX_STREAMS];
size_t stream_count;
char chunk[CHUNK];
static int clock_file = -1;
static int heartbeat = -1;
static struct stream collected = {.from = -1};

uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000U + (uint64_t)now.tv_nsec;
}

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

void begin_clock(void)
{
	struct itimerspec beat = {.it_interval.tv_nsec = BEAT_NS, .it_value.tv_nsec = BEAT_NS};

	clock_file = open(RUN "/clock", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	heartbeat = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	if (clock_file < 0 || heartbeat < 0 || timerfd_settime(heartbeat, 0, &beat, NULL))
		fail("cannot begin the clock: %s", strerror(errno));
	tell_time();
}

/* Opens a pipe whose other end is copied to FILE of the run's folder; returns the end for writing. */
int open_stream(const char *name, int input)
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

/* Copies the available bytes, at most a chunk; returns their number, 0 at the end. */
static ssize_t copy(struct stream *stream)
{
	ssize_t length = read(stream->from, chunk, sizeof(chunk));

	if (length <= 0) {
		close(stream->from);
		stream->from = -1;
		return 0;
	}
	if (write(stream->to, chunk, (size_t)length) != length)
		fail("cannot write a result: %s", strerror(errno));
	push(stream->to);
	stream->spoke = true;
	return length;
}

/*
 * Copies the rest in the pipes of ended processes, which may be more than is copied at once. Does not wait for a
 * process that still holds the other end, and does not copy its later output.
 */
void drain(void)
{
	for (size_t i = 0; i < stream_count; i++) {
		ssize_t left = fcntl(streams[i].from, F_GETPIPE_SZ);

		fcntl(streams[i].from, F_SETFL, O_NONBLOCK);
		while (streams[i].from >= 0 && left > 0)
			left -= copy(&streams[i]);
	}
}

/* Copies the new content of the collected file. */
void collect(void)
{
	ssize_t length;

	while (collected.from >= 0 && (length = read(collected.from, chunk, sizeof(chunk))) > 0)
		if (write(collected.to, chunk, (size_t)length) != length)
			fail("cannot write a result: %s", strerror(errno));
	if (collected.to > 0)
		push(collected.to);
}

void begin_collecting(const char *from, const char *name)
{
	char path[256];

	snprintf(path, sizeof(path), RUN "/%s.out", name);
	collected.from = open(from, O_RDONLY | O_CLOEXEC);
	collected.to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (collected.from < 0 || collected.to < 0)
		fail("cannot copy %s to %s: %s", from, path, strerror(errno));
}

/* Waits for an event, and handles it. */
void turn(void)
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
