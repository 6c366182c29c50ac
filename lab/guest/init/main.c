// SPDX-License-Identifier: MIT OR Apache-2.0
/* The first process of a lab; init.h says what it does. */
#include "init.h"

int main(void)
{
	const char *folder = getenv("WEIR_LAB");

	if (getpid() != 1 || !folder) {
		fprintf(stderr, "this is the first process of a lab: weir starts it\n");
		return 2;
	}
	prepare(folder);
	begin_clock();
	watch_processes();
	run_script();
	while (foreground)
		turn();
	finish();
}
