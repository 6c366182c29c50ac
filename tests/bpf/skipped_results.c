// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * No congestion control to use: Reno on a kernel that skips every other call of ssthresh, so that its caller takes what
 * the stack held.
 */
#include "weir_cc.h"

#define SKIPPED_OPTIONS(OPTION) OPTION(stale, 0, 0, 4294967295, "what the caller takes as the result")
WEIR_CC_OPTIONS(SKIPPED_OPTIONS)

struct skipped {
	u32 calls;
};

static u32 skipped_ssthresh(struct sock *sk)
{
	struct skipped *ca = inet_csk_ca(sk);

	return ca->calls++ % 2 ? tcp_reno_ssthresh(sk) : OPT(sk, stale);
}

static void skipped_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp))
		acked = tcp_slow_start(tp, acked);
	if (acked)
		tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

static void skipped_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
}

#define SKIPPED_OPS(OP)                    \
	OP(ssthresh, skipped_ssthresh)     \
	OP(cong_avoid, skipped_cong_avoid) \
	OP(pkts_acked, skipped_pkts_acked) \
	OP(undo_cwnd, tcp_reno_undo_cwnd)

WEIR_CC_ABOUT("skipped calls", 2026, "tests/bpf")
WEIR_CC_REGISTER(skipped, "skipped", 0, struct skipped, SKIPPED_OPS)
