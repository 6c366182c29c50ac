/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The one header a congestion control includes.
 *
 * A congestion control is one C file written against Linux' tcp_congestion_ops: the kernel's field names, the kernel's
 * types, integers only. This header picks the shim that makes the same file build
 *
 *   - into weir's simulator            cc ...                       shim/native.h
 *   - as BPF struct_ops                clang -target bpf ...        shim/bpf.h
 *   - as a kernel module               make -C /lib/modules/...     shim/kmod.h
 *
 * What a file contains, in this order:
 *
 *   #include "weir_cc.h"
 *   #define MY_OPTIONS(OPTION) OPTION(name, default, min, max, "doc") ...    u32 values
 *   WEIR_CC_OPTIONS(MY_OPTIONS)
 *   struct my_state { ... };                                                at most ICSK_CA_PRIV_SIZE bytes
 *   static void my_cong_avoid(struct sock *sk, u32 ack, u32 acked) { ... }
 *   #define MY_OPS(OP) OP(ssthresh, my_ssthresh) OP(cong_avoid, my_cong_avoid) ...
 *   WEIR_CC_ABOUT("title", year, "source")
 *   WEIR_CC_REGISTER(identifier, "name", flags, struct my_state, MY_OPS)
 *
 * An option's value is read with OPT(sk, name). HZ and tcp_jiffies32 need a variable named sk in scope, because every
 * flow of a simulation may have its own.
 *
 * Rules of the common subset: no floating point, no signed 64-bit division, loops with a constant bound, at most 512
 * bytes of stack, no libc. Fields that BPF may not write are const in every shim that can say so.
 */
#ifndef WEIR_CC_H
#define WEIR_CC_H

#if defined(__bpf__)
#include "../shim/bpf.h"
#elif defined(__KERNEL__)
#include "../shim/kmod.h"
#else
#include "../shim/native.h"
#endif

/*
 * Before a loop, which BPF then unrolls: its verifier follows both outcomes of each step of a loop, and lets no
 * variable index the private state.
 */
#ifdef __bpf__
#define WEIR_UNROLL _Pragma("unroll")
#else
#define WEIR_UNROLL
#endif

/* The options of weir_slow_start.h, spliced into a source's own list. */
#define WEIR_SLOW_START_OPTIONS(OPTION, hystart_default) \
	WEIR_SLOW_START_OPTIONS_OF(OPTION, hystart_default, 2, "0 never, 1 HyStart, 2 HyStart++ (RFC 9406)")

/* The same for a source that also has a struct weir_search. */
#define WEIR_SLOW_START_OPTIONS_SEARCH(OPTION, hystart_default) \
	WEIR_SLOW_START_OPTIONS_OF(OPTION, hystart_default, 3,  \
				   "0 never, 1 HyStart, 2 HyStart++ (RFC 9406), 3 SEARCH (draft-chung-ccwg-search)")

#define WEIR_SLOW_START_OPTIONS_OF(OPTION, hystart_default, most, modes)                                             \
	OPTION(max_ssthresh, 0, 0, 1000000000, "limited slow start above this window, packets (RFC 3742); 0 is off") \
	OPTION(hystart, hystart_default, 0, most, "leave slow start early: " modes)                                  \
	OPTION(hystart_detect, 3, 0, 3, "HyStart's signals: 1 ACK train, 2 delay increase, 3 both")                  \
	OPTION(hystart_low_window, 16, 0, 1000000000, "HyStart is silent below this window, packets")                \
	OPTION(hystart_ack_delta, 2000, 0, 1000000, "largest gap between the ACKs of a train, microseconds")

#endif
