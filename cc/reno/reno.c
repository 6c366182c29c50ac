// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Reno: slow start, one packet a round trip in congestion avoidance, half the window on loss.
 *
 * RFC 5681 section 3.1 (increase) and equation 4 (decrease), counted in packets with appropriate byte counting (RFC
 * 3465). Recovery itself is the transport's.
 */
#include "weir_cc.h"

#define RENO_OPTIONS(OPTION)                                                                         \
	OPTION(max_ssthresh, 0, 0, 1000000, "limited slow start above this window, packets; 0 is off")
WEIR_CC_OPTIONS(RENO_OPTIONS)

struct reno {
	u32 unused;
};

static void reno_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	(void)ack;
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

#define RENO_OPS(OP)                    \
	OP(ssthresh, tcp_reno_ssthresh) \
	OP(cong_avoid, reno_cong_avoid) \
	OP(undo_cwnd, tcp_reno_undo_cwnd)

WEIR_CC_ABOUT("TCP Reno", 2009, "RFC 5681, section 3.1")
WEIR_CC_REGISTER(reno, "reno", TCP_CONG_NON_RESTRICTED, struct reno, RENO_OPS)
