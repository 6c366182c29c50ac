// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Reno: one packet per round trip in congestion avoidance, half the window on loss (RFC 5681, with appropriate byte
 * counting). The transport itself recovers losses.
 */
#include "weir_cc.h"

#define RENO_OPTIONS(OPTION) WEIR_SLOW_START_OPTIONS_SEARCH(OPTION, 0)
WEIR_CC_OPTIONS(RENO_OPTIONS)

#include "weir_slow_start.h"
#include "weir_search.h"

struct reno {
	struct weir_slow_start ss;
	struct weir_search search;
};

static void reno_init(struct sock *sk)
{
	struct reno *ca = inet_csk_ca(sk);

	weir_ss_start(sk, &ca->ss);
	weir_search_start(sk, &ca->ss, &ca->search);
}

static u32 reno_ssthresh(struct sock *sk)
{
	struct reno *ca = inet_csk_ca(sk);

	weir_search_end(&ca->ss, &ca->search);
	return tcp_reno_ssthresh(sk);
}

static void reno_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct reno *ca = inet_csk_ca(sk);

	(void)ack;
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = weir_ss_acked(sk, &ca->ss, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

static void reno_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct reno *ca = inet_csk_ca(sk);

	weir_ss_sample(sk, &ca->ss, sample->rtt_us);
	weir_search_sample(sk, &ca->ss, &ca->search, sample->rtt_us);
}

static void reno_set_state(struct sock *sk, u8 new_state)
{
	struct reno *ca = inet_csk_ca(sk);

	if (new_state != TCP_CA_Loss)
		return;
	weir_search_end(&ca->ss, &ca->search);
	weir_ss_start(sk, &ca->ss);
}

#define RENO_OPS(OP)                      \
	OP(init, reno_init)               \
	OP(ssthresh, reno_ssthresh)       \
	OP(cong_avoid, reno_cong_avoid)   \
	OP(pkts_acked, reno_pkts_acked)   \
	OP(set_state, reno_set_state)     \
	OP(undo_cwnd, tcp_reno_undo_cwnd) \
	OP(min_cwnd, tcp_reno_min_cwnd)

WEIR_CC_ABOUT("TCP Reno", 2009, "RFC 5681, section 3.1")
WEIR_CC_REGISTER(reno, "reno", TCP_CONG_NON_RESTRICTED, struct reno, RENO_OPS)
