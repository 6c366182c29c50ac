// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Says which function of a module divides by zero, before the processor ends the kernel for it without a word.
 *
 * Built into the module of a congestion control of a user, which is compiled with -fsanitize=integer-divide-by-zero:
 * the compiler then has this function called instead of the division.
 */
#include <linux/kernel.h>
#include <linux/module.h>

void __ubsan_handle_divrem_overflow(void *where, void *dividend, void *divisor);

void __ubsan_handle_divrem_overflow(void *where, void *dividend, void *divisor)
{
	(void)where;
	(void)dividend;
	(void)divisor;
	panic("weir: %s: %ps divides by zero", KBUILD_MODNAME, __builtin_return_address(0));
}
