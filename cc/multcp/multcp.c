// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * MulTCP: one flow that takes the share of n standard TCPs. It gains n packets a round trip, and a loss takes half of
 * the window of one of them.
 *
 * J. Crowcroft, P. Oechslin, "Differentiated end-to-end Internet services using a weighted proportional fair sharing
 * TCP", ACM CCR 28(3), 1998.
 */
#include "weir_cc.h"

#define MULTCP_OPTIONS(OPTION)                                                                                  \
	OPTION(n, 2, 1, 1000, "number of standard TCPs that the flow is worth")                                 \
	OPTION(fast_start, 1, 0, 1, "triple the window a round trip until n flows in slow start would have it") \
	WEIR_SLOW_START_OPTIONS(OPTION, 0)
WEIR_CC_OPTIONS(MULTCP_OPTIONS)

#include "weir_slow_start.h"
#include "weir_window.h"

enum {
	MULTCP_ROUNDS = 18, /* 3^k = n 2^k: k is 17.04 for n = 1000 */
};

struct multcp {
	struct weir_slow_start ss;
	u64 credit;     /* of weir_increase */
	u32 fast_until; /* slow start triples the window a round trip up to here, packets */
};

/*
 * n flows in slow start have n 2^k packets after k round trips, one that triples has 3^k. The window at which both are
 * equal, rounded up to a whole round trip.
 */
static u32 multcp_fast_until(u32 n)
{
	u64 one = 1, all = n;
	u32 round;

	for (round = 0; round < MULTCP_ROUNDS; round++) {
		if (one >= all)
			break;
		one *= 3;
		all *= 2;
	}
	return one;
}

static void multcp_init(struct sock *sk)
{
	struct multcp *ca = inet_csk_ca(sk);

	weir_ss_start(sk, &ca->ss);
	ca->credit = 0;
	ca->fast_until = OPT(sk, fast_start) ? multcp_fast_until(OPT(sk, n)) : 0;
}

static void multcp_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct multcp *ca = inet_csk_ca(sk);

	weir_ss_sample(sk, &ca->ss, sample->rtt_us);
}

/* Two packets for each acknowledged one, which leave three in its place. Returns the acknowledged packets left. */
static u32 multcp_fast_start(struct tcp_sock *tp, u32 until, u32 acked)
{
	u32 room = min(min(until, tp->snd_ssthresh), tp->snd_cwnd_clamp) - tp->snd_cwnd;
	u32 used = min(acked, room / 2 + room % 2);

	tp->snd_cwnd += min(2 * used, room);
	return acked - used;
}

static void multcp_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct multcp *ca = inet_csk_ca(sk);

	(void)ack;
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		if (tp->snd_cwnd < min(ca->fast_until, tp->snd_cwnd_clamp))
			acked = multcp_fast_start(tp, ca->fast_until, acked);
		if (tcp_in_slow_start(tp))
			acked = weir_ss_acked(sk, &ca->ss, acked);
		if (!acked)
			return;
	}
	weir_increase(tp, &ca->credit, OPT(sk, n) * WEIR_ONE, acked);
}

static u32 multcp_ssthresh(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 n = max(OPT(sk, n), 1U);

	return max_t(u64, (u64)tp->snd_cwnd * (2 * n - 1) / (2 * n), 2);
}

static void multcp_set_state(struct sock *sk, u8 new_state)
{
	struct multcp *ca = inet_csk_ca(sk);

	if (new_state == TCP_CA_Loss)
		weir_ss_start(sk, &ca->ss);
}

#define MULTCP_OPS(OP)                    \
	OP(init, multcp_init)             \
	OP(ssthresh, multcp_ssthresh)     \
	OP(cong_avoid, multcp_cong_avoid) \
	OP(pkts_acked, multcp_pkts_acked) \
	OP(set_state, multcp_set_state)   \
	OP(undo_cwnd, tcp_reno_undo_cwnd)

WEIR_CC_ABOUT("MulTCP", 1998,
	      "J. Crowcroft, P. Oechslin, Differentiated end-to-end Internet services, ACM CCR 28(3), 1998")
WEIR_CC_REGISTER(multcp, "multcp", 0, struct multcp, MULTCP_OPS)
