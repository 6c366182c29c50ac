/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Part of bpf.h with WEIR_REPLAY: the operations as programs that the kernel can run once (BPF_PROG_TEST_RUN) on a
 * struct sock as in sock.h, in a map. So the code that clang, the verifier and the JIT produce can be called with any
 * state, and compared with the native build.
 */
#ifndef WEIR_SHIM_REPLAY_H
#define WEIR_SHIM_REPLAY_H

#include "sock.h"

#include "access.h"
#include "call.h"

struct weir_call weir_call;

#define WEIR_BPF_VOID(op, call)                       \
	SEC("syscall") int weir_op_##op(void *unused) \
	{                                             \
		(void)unused;                         \
		call;                                 \
		return 0;                             \
	}
#define WEIR_BPF_U32(op, call) WEIR_BPF_VOID(op, weir_call.result = call)

#define WEIR_BPF_SK (&weir_call.sk)
#define WEIR_BPF_ARG1 weir_call.arg1
#define WEIR_BPF_ARG2 weir_call.arg2
#define WEIR_BPF_ACK (&weir_call.ack)
#define WEIR_BPF_RATE (&weir_call.rate)

/* Not registered: only a name, where a loader expects it. */
struct tcp_congestion_ops {
	char name[TCP_CA_NAME_MAX];
	u32 flags;
};

#define WEIR_BPF_OPERATIONS(id, flags_, OPS) \
	const volatile struct tcp_congestion_ops weir_cc_##id = {WEIR_KERNEL_PREFIX #id, (flags_)};

#endif
