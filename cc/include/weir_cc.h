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

#endif
