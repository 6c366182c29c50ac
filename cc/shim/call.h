/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * One call of an operation, over struct sock as in sock.h, for the comparison of the native and the BPF build.
 * crates/weir-bpf/src/calls.rs has the layout.
 */
#ifndef WEIR_SHIM_CALL_H
#define WEIR_SHIM_CALL_H

enum weir_op {
	WEIR_OP_init,
	WEIR_OP_release,
	WEIR_OP_ssthresh,
	WEIR_OP_cong_avoid,
	WEIR_OP_set_state,
	WEIR_OP_cwnd_event,
	WEIR_OP_in_ack_event,
	WEIR_OP_undo_cwnd,
	WEIR_OP_pkts_acked,
	WEIR_OP_cong_control,
	WEIR_OP_min_tso_segs,
	WEIR_OP_sndbuf_expand,
};

struct weir_call {
	struct sock sk; /* before the call in a recording; before and after it in a replay */
	u32 op;
	u32 arg1; /* arguments of the operation besides the socket, in that order */
	u32 arg2;
	u32 result;
	struct ack_sample ack;
	u32 reserved;
	struct rate_sample rate;
};

#endif
