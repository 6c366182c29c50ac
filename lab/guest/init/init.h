/* SPDX-License-Identifier: MIT OR Apache-2.0 */
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
 * Data go out through the page cache of hostfs and are pushed to the host at once, so that nothing here ever waits for
 * the host: a wait would let virtual time pass by an amount that depends on the machine.
 *
 *   main.c      in which order
 *   system.c    file systems, network namespaces, modules
 *   script.c    the script and its records
 *   process.c   the processes that it starts
 *   pump.c      waits for what they write and hands it out; tells the time
 *   end.c       the end of a lab, and what is said until then
 */
#ifndef WEIR_INIT_H
#define WEIR_INIT_H

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define RUN "/run/weir"

enum {
	MAX_STREAMS = 16,
	CHUNK = 1 << 18
};

/* A pipe from a process, copied to a file of the run's folder. */
struct stream {
	int from;
	int to;
	int input; /* write end of the standard input of a served process; -1 if it has none */
	bool spoke;
};

extern struct stream streams[MAX_STREAMS];
extern size_t stream_count;
extern int served;       /* processes that are served and have not ended */
extern int exit_code;    /* of `exec`, or the first that is not 0 of the served processes */
extern pid_t foreground; /* of `exec` or `shell`; 0 when it has ended */
extern int signals;      /* becomes readable when a process has ended */
extern char chunk[CHUNK];

/* end.c */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void leave(const char *status);
_Noreturn void finish(void);
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* system.c */
void mount_or_fail(const char *what, const char *where, const char *type, unsigned long flags, const char *data);
void prepare(const char *folder);
void enter_namespace(const char *path);
void load_module(const char *path, const char *parameters);
void write_value(const char *path, const char *text);

/* process.c */
void watch_processes(void);
void call(char **arguments);
void serve(const char *name, char **arguments);
void start_command(char **arguments);
void start_shell(char **arguments);
void reap(void);

/* pump.c */
uint64_t now_ns(void);
void begin_clock(void);
int open_stream(const char *name, int input);
void begin_collecting(const char *from, const char *name);
void collect(void);
void drain(void);
void turn(void);

/* script.c */
void run_script(void);

#endif
