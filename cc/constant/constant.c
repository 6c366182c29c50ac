// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * TCP without congestion control: the window is constant. There is no slow start, and neither losses nor congestion
 * marks nor timeouts reduce it. Something else must limit the rate: pacing, the application, or a path of its own.
 *
 * R. Guillier, S. Soudan, P. Vicat-Blanc Primet, "UDT and TCP without congestion control for profile pursuit", INRIA
 * RR-6874, 2009, section 2.3.
 */
#include "weir_cc.h"

#define CONSTANT_OPTIONS(OPTION) OPTION(window, 30000, 1, 1000000000, "congestion window, packets")
WEIR_CC_OPTIONS(CONSTANT_OPTIONS)

struct constant {
	u32 unused;
};

/* Every operation sets the window, because the transport changes it in recovery and after a timeout. */
static void constant_hold(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->snd_cwnd = min(OPT(sk, window), tp->snd_cwnd_clamp);
	tp->snd_cwnd_cnt = 0;
	tp->snd_ssthresh = max(tp->snd_cwnd, 2U);
}

static void constant_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	(void)ack;
	(void)acked;
	constant_hold(sk);
}

static void constant_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	(void)sample;
	constant_hold(sk);
}

static u32 constant_ssthresh(struct sock *sk)
{
	return max(min(OPT(sk, window), tcp_sk(sk)->snd_cwnd_clamp), 2U);
}

static void constant_set_state(struct sock *sk, u8 new_state)
{
	(void)new_state;
	constant_hold(sk);
}

static void constant_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	(void)event;
	constant_hold(sk);
}

#define CONSTANT_OPS(OP)                    \
	OP(init, constant_hold)             \
	OP(ssthresh, constant_ssthresh)     \
	OP(cong_avoid, constant_cong_avoid) \
	OP(pkts_acked, constant_pkts_acked) \
	OP(set_state, constant_set_state)   \
	OP(cwnd_event, constant_cwnd_event) \
	OP(undo_cwnd, constant_ssthresh)

WEIR_CC_ABOUT("TCP without congestion control", 2009,
	      "R. Guillier, S. Soudan, P. Vicat-Blanc Primet, INRIA RR-6874, 2009, section 2.3")
WEIR_CC_REGISTER(constant, "constant", 0, struct constant, CONSTANT_OPS)
