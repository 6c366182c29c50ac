// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Names the function of a module that divides by zero, before the processor stops the kernel without a message.
 *
 * Built into the module of a user's congestion control, which is compiled with -fsanitize=integer-divide-by-zero: the
 * compiler then calls this function instead of dividing.
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
