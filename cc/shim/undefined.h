/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * What UBSan calls where the behaviour of C is undefined, without its library: it stops the process, with the kind of
 * what is undefined and the place of the call in registers. weir's handler of SIGILL reads both (watch.rs).
 *
 * It is assembly, because a compiler that sees functions ignore their arguments merges the calls of different lines.
 */
#ifndef WEIR_SHIM_UNDEFINED_H
#define WEIR_SHIM_UNDEFINED_H

/* The kind is below a mark, 0x776569727542, so that no other invalid instruction looks like one of these. */
#if defined(__x86_64__)
#define WEIR_STOP(kind_)                                   \
	"movq (%rsp), %rdx\n"                              \
	"movabsq $0x7765697275420000 + " #kind_ ", %rax\n" \
	"ud2\n"
#elif defined(__aarch64__)
#define WEIR_STOP(kind_)              \
	"mov x1, x30\n"               \
	"movz x0, #" #kind_ "\n"      \
	"movk x0, #0x7542, lsl #16\n" \
	"movk x0, #0x6972, lsl #32\n" \
	"movk x0, #0x7765, lsl #48\n" \
	"udf #0\n"
#else
#error "no build with --sanitize on this processor includes this header"
#endif

/* clang-format off */
#define WEIR_UNDEFINED_IS(kind_, what_)                                 \
	__asm__(".pushsection .text\n"                                  \
		".globl __ubsan_handle_" #what_ "\n"                    \
		".hidden __ubsan_handle_" #what_ "\n"                   \
		".type __ubsan_handle_" #what_ ", %function\n"          \
		"__ubsan_handle_" #what_ ":\n"                          \
		WEIR_STOP(kind_)                                        \
		".size __ubsan_handle_" #what_ ", . - __ubsan_handle_" #what_ "\n" \
		".popsection");
/* clang-format on */

/* The numbers are the places in UNDEFINED of watch.rs. */
WEIR_UNDEFINED_IS(0, add_overflow_abort)
WEIR_UNDEFINED_IS(1, sub_overflow_abort)
WEIR_UNDEFINED_IS(2, mul_overflow_abort)
WEIR_UNDEFINED_IS(3, negate_overflow_abort)
WEIR_UNDEFINED_IS(4, divrem_overflow_abort)
WEIR_UNDEFINED_IS(5, shift_out_of_bounds_abort)
WEIR_UNDEFINED_IS(6, out_of_bounds_abort)
WEIR_UNDEFINED_IS(6, local_out_of_bounds_abort)
WEIR_UNDEFINED_IS(7, type_mismatch_v1_abort)
WEIR_UNDEFINED_IS(7, alignment_assumption_abort)
WEIR_UNDEFINED_IS(8, pointer_overflow_abort)
WEIR_UNDEFINED_IS(9, load_invalid_value_abort)
WEIR_UNDEFINED_IS(10, vla_bound_not_positive_abort)
WEIR_UNDEFINED_IS(11, nonnull_arg_abort)
WEIR_UNDEFINED_IS(11, nonnull_return_v1_abort)
WEIR_UNDEFINED_IS(12, invalid_builtin_abort)
WEIR_UNDEFINED_IS(13, function_type_mismatch_abort)
WEIR_UNDEFINED_IS(14, builtin_unreachable)
WEIR_UNDEFINED_IS(14, missing_return)

#endif
