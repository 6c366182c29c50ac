/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the parts of the guard know of each other. */
#ifndef WEIR_GUARD_H
#define WEIR_GUARD_H

#include <sys/types.h>

/* remove.c: removes a folder and all that is in it; whether it is gone. */
int remove_all(const char *path);

/* processes.c */
void end_descendants(void);          /* ends and reaps all descendants of this process */
long count_namespace(pid_t first);   /* processes in the namespace of processes that FIRST is in */
void limit_processes(long most);     /* this user's, from now on, for who is not root: MOST more than there are */
void join_group(const char *group);  /* a control group */
void leave_group(const char *group); /* removes it */
void each_group(const char *groups, void (*act)(const char *group)); /* of GROUPS, one a line; "-" is none */

/*
 * inside.c: starts COMMAND as become() does, in namespaces of its own of processes and mounts, where that is permitted:
 * when their first process ends, all of them do at once. It writes the status of COMMAND's end to TELL and ends.
 * Returns its number; -1 where namespaces are not permitted.
 */
pid_t start_inside(int tell, char **command);

/* main.c: bounds the processes of this process; becomes COMMAND. */
void settle(void);
void become(char **command);

#endif
