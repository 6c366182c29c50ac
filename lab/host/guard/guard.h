/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The interfaces between the parts of the guard. */
#ifndef WEIR_GUARD_H
#define WEIR_GUARD_H

#include <sys/types.h>

/* remove.c: removes a folder and everything in it; returns whether it is gone. */
int remove_all(const char *path);

/* processes.c */
void end_descendants(void);          /* ends and reaps all descendants of this process */
long count_namespace(pid_t first);   /* processes in FIRST's pid namespace */
void limit_processes(long most);     /* of this user, from now on, unless root: MAX more than there are */
void join_group(const char *group);  /* a control group */
void leave_group(const char *group); /* removes it */
void each_group(const char *groups, void (*act)(const char *group)); /* for each of GROUPS, one per line; "-" is none */

/*
 * inside.c: starts COMMAND as become() does, in its own pid and mount namespaces, if permitted: when their first
 * process ends, all end at once. It writes the status of COMMAND's end to TELL and ends. Returns its id; -1 if
 * namespaces are not permitted.
 */
pid_t start_inside(int tell, char **command);

/* main.c: limits the processes of this process; becomes COMMAND. */
void settle(void);
void become(char **command);

#endif
