// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Compound TCP: the window is the sum of Reno's and of a second one that follows the delay. The second one grows fast
 * on an empty path and retreats when packets queue, so that the sum is never smaller than Reno's window.
 *
 * K. Tan, J. Song, Q. Zhang, M. Sridharan, "A compound TCP approach for high-speed and long distance networks", INFOCOM
 * 2006; draft-sridharan-tcpm-ctcp-02.
 */
#include "weir_cc.h"

#define COMPOUND_OPTIONS(OPTION)                                                                               \
	OPTION(alpha, 128, 1, 1024, "growth of the delay window a round trip: alpha x window^0.75, in 1/1024") \
	OPTION(beta, 512, 1, 1023, "share given up on loss, in 1/1024")                                        \
	OPTION(gamma, 30, 1, 1000000, "packets in the queue from which on the path is congested")              \
	OPTION(zeta, 1024, 1, 1048576, "share of the queue that the delay window retreats by, in 1/1024")      \
	OPTION(low_window, 38, 0, 1000000000, "standard TCP below this window, packets")                       \
	WEIR_SLOW_START_OPTIONS(OPTION, 0)
WEIR_CC_OPTIONS(COMPOUND_OPTIONS)

#include "weir_slow_start.h"
#include "weir_vegas.h"

/* Unrolled for the BPF verifier. */
#ifdef __bpf__
#define COMPOUND_UNROLL _Pragma("unroll")
#else
#define COMPOUND_UNROLL
#endif

enum {
	COMPOUND_ROOT_STEPS = 22, /* digits of the root */
};

struct compound {
	struct weir_slow_start ss;
	struct weir_vegas v;
	u64 credit;       /* of weir_increase, for Reno's window */
	u64 delay_credit; /* for the delay window */
	u32 delay;        /* delay window (dwnd), packets: part of snd_cwnd */
	u32 gain;         /* growth of the delay window in this round trip, 1/1024 packet */
};

/*
 * The integer square root of a number below 2^44: one binary digit a step, from the top. The sign of the rest decides
 * without a branch, because the BPF verifier would follow both outcomes of each step.
 */
static u32 compound_root(u64 x)
{
	u64 root = 0, next;
	s64 rest;
	u32 step;

	COMPOUND_UNROLL
	for (step = 1; step <= COMPOUND_ROOT_STEPS; step++) {
		next = root | 1ULL << (COMPOUND_ROOT_STEPS - step);
		rest = (s64)(x - next * next) >> 63;
		/* Hides what the sign was from the compiler, which would make a branch of it. */
		__asm__ __volatile__("" : "+r"(rest));
		root |= next & ~(u64)rest;
	}
	return root;
}

/* alpha x window^0.75 - 1 packets, 1/1024: the square root times its own square root. */
static u32 compound_gain(const struct sock *sk, u32 window)
{
	u64 bounded = min_t(u32, window, WEIR_VEGAS_MAX_WINDOW - 1);
	u64 root = compound_root(bounded << 20);      /* 1/1024 */
	u64 power = root * compound_root(root << 10); /* 1/1024 each */
	u64 gain = power / WEIR_ONE * OPT(sk, alpha) / WEIR_ONE;

	return gain > WEIR_ONE ? gain - WEIR_ONE : 0;
}

static void compound_restart(struct sock *sk, struct compound *ca)
{
	weir_vegas_restart(sk, &ca->v);
	ca->delay = 0;
	ca->gain = 0;
	ca->delay_credit = 0;
}

static void compound_init(struct sock *sk)
{
	struct compound *ca = inet_csk_ca(sk);

	weir_ss_start(sk, &ca->ss);
	ca->credit = 0;
	compound_restart(sk, ca);
}

static void compound_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct compound *ca = inet_csk_ca(sk);

	weir_ss_sample(sk, &ca->ss, sample->rtt_us);
	weir_vegas_sample(&ca->v, sample->rtt_us);
}

/* The delay window leaves the path by zeta times the queue. */
static void compound_retreat(struct sock *sk, struct compound *ca, u64 queue_q10)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 retreat = queue_q10 * OPT(sk, zeta) / (WEIR_ONE * WEIR_ONE);
	u32 gone = min_t(u64, retreat, ca->delay);

	ca->gain = 0;
	ca->delay -= gone;
	tp->snd_cwnd = max(tp->snd_cwnd > gone ? tp->snd_cwnd - gone : 0, 2U);
}

/* Once a round trip: the delay window's growth in the next one, or its retreat. */
static void compound_decide(struct sock *sk, struct compound *ca)
{
	u64 queue = weir_vegas_queue_q10(tcp_sk(sk), &ca->v);

	if (tcp_sk(sk)->snd_cwnd < OPT(sk, low_window))
		ca->gain = 0;
	else if (queue < (u64)OPT(sk, gamma) * WEIR_ONE)
		ca->gain = compound_gain(sk, tcp_sk(sk)->snd_cwnd);
	else
		compound_retreat(sk, ca, queue);
}

/* Both windows grow; together no faster than slow start. */
static void compound_increase(struct tcp_sock *tp, struct compound *ca, u32 acked)
{
	u64 most = (u64)(max(tp->snd_cwnd, 2U) - 1) * WEIR_ONE;
	u32 before;

	weir_increase(tp, &ca->credit, WEIR_ONE, acked);
	if (!ca->gain)
		return;
	before = tp->snd_cwnd;
	weir_increase(tp, &ca->delay_credit, min_t(u64, ca->gain, most), acked);
	ca->delay += tp->snd_cwnd - before;
}

static void compound_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct compound *ca = inet_csk_ca(sk);

	if (weir_vegas_is_over(&ca->v, ack)) {
		if (!tcp_in_slow_start(tp) && weir_vegas_is_measured(&ca->v) && !ca->v.is_paused)
			compound_decide(sk, ca);
		weir_vegas_round(sk, &ca->v);
	}
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = weir_ss_acked(sk, &ca->ss, acked);
		if (!acked)
			return;
	}
	compound_increase(tp, ca, acked);
}

/* Reno's window loses half; the delay window keeps what remains of the sum's share. */
static u32 compound_ssthresh(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct compound *ca = inet_csk_ca(sk);
	u32 kept = weir_decrease(tp, WEIR_ONE - OPT(sk, beta));
	u32 reno = (tp->snd_cwnd - min(ca->delay, tp->snd_cwnd)) / 2;

	ca->delay = kept > reno ? kept - reno : 0;
	ca->gain = 0;
	return kept;
}

static void compound_set_state(struct sock *sk, u8 new_state)
{
	struct compound *ca = inet_csk_ca(sk);

	if (new_state == TCP_CA_Loss) {
		weir_ss_start(sk, &ca->ss);
		ca->delay = 0;
		ca->gain = 0;
	}
	weir_vegas_state(sk, &ca->v, new_state);
}

static void compound_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct compound *ca = inet_csk_ca(sk);

	if (event == CA_EVENT_CWND_RESTART)
		compound_restart(sk, ca);
	if (event == CA_EVENT_TX_START)
		weir_vegas_restart(sk, &ca->v);
}

#define COMPOUND_OPS(OP)                    \
	OP(init, compound_init)             \
	OP(ssthresh, compound_ssthresh)     \
	OP(cong_avoid, compound_cong_avoid) \
	OP(pkts_acked, compound_pkts_acked) \
	OP(set_state, compound_set_state)   \
	OP(cwnd_event, compound_cwnd_event) \
	OP(undo_cwnd, tcp_reno_undo_cwnd)

WEIR_CC_ABOUT("Compound TCP", 2006,
	      "K. Tan, J. Song, Q. Zhang, M. Sridharan, INFOCOM 2006; draft-sridharan-tcpm-ctcp-02")
WEIR_CC_REGISTER(compound, "compound", 0, struct compound, COMPOUND_OPS)
