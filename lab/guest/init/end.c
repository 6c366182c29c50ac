// SPDX-License-Identifier: MIT OR Apache-2.0
/* The end of a lab, and its messages. */
#include "init.h"

#include <stdarg.h>
#include <sys/reboot.h>

/* Not dprintf: it seeks, which /dev/kmsg refuses. */
void say(const char *format, ...)
{
	char text[2048];
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (write(2, text, length < (int)sizeof(text) ? (size_t)length : sizeof(text) - 1) < 0)
		return; /* nobody can receive it */
}

static void put(const char *path, const char *text)
{
	int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (file < 0 || write(file, text, strlen(text)) != (ssize_t)strlen(text))
		say("lab: %s: %s\n", path, strerror(errno));
	if (file >= 0)
		close(file);
}

_Noreturn void leave(const char *status)
{
	put(RUN "/status", status);
	sync();
	reboot(RB_POWER_OFF);
	_exit(1);
}

_Noreturn void fail(const char *format, ...)
{
	char status[2048] = "failed: ";
	size_t used = strlen(status);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(status + used, sizeof(status) - used, format, arguments);
	va_end(arguments);
	say("lab: %s\n", status);
	leave(status);
}

/* The end of the script, or of a process that should not have ended yet. */
_Noreturn void finish(void)
{
	char status[64];

	drain();
	snprintf(status, sizeof(status), "exit %d", exit_code);
	leave(status);
}
