// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * YeAH-TCP: as fast as Scalable TCP while the queue is short, as slow as Reno while it is long. A queue longer than
 * qmax packets is removed before it overflows, unless flows of standard TCP seem to share it.
 *
 * A. Baiocchi, A. P. Castellani, F. Vacirca, "YeAH-TCP: yet another highspeed TCP", PFLDnet 2007. Counts and rounds
 * like Linux, whose control is an author's.
 */
#include "weir_cc.h"

#define YEAH_OPTIONS(OPTION)                                                                                \
	OPTION(qmax, 80, 1, 1000000, "packets in the queue that start slow mode and decongestion (Q_max)")  \
	OPTION(phi, 8, 1, 1000, "slow mode where the queue adds more than 1/phi to the delay")              \
	OPTION(rho, 16, 0, 1000000, "round trips in slow mode after which a loss takes half")               \
	OPTION(zeta, 50, 0, 1000000, "round trips in fast mode that end the competition with standard TCP") \
	OPTION(fast_acks, 100, 1, 1000000, "fast mode: packets acknowledged for one packet of growth")      \
	WEIR_SLOW_START_OPTIONS(OPTION, 0)
WEIR_CC_OPTIONS(YEAH_OPTIONS)

#include "weir_slow_start.h"
#include "weir_vegas.h"

enum {
	YEAH_LEAST_SHIFT = 3,  /* a loss takes at least 1/8 (delta) */
	YEAH_REMOVE_SHIFT = 1, /* a decongestion removes at most half (epsilon) */
	YEAH_MOST_ROUNDS = 0xffffff,
};

struct yeah {
	struct weir_slow_start ss;
	struct weir_vegas v;
	u32 queue;       /* packets, at the last round trip's end */
	u32 slow_rounds; /* in a row; 0 is fast mode */
	u32 fast_rounds; /* since the last loss */
	u32 reno;        /* window that a standard TCP would have in its place (cwnd_reno), packets */
};

static void yeah_forget(struct sock *sk, struct yeah *ca)
{
	ca->queue = 0;
	ca->slow_rounds = 0;
	ca->fast_rounds = 0;
	ca->reno = 2;
	weir_vegas_restart(sk, &ca->v);
}

static void yeah_init(struct sock *sk)
{
	struct yeah *ca = inet_csk_ca(sk);

	weir_ss_start(sk, &ca->ss);
	yeah_forget(sk, ca);
}

static void yeah_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct yeah *ca = inet_csk_ca(sk);

	weir_ss_sample(sk, &ca->ss, sample->rtt_us);
	weir_vegas_sample(&ca->v, sample->rtt_us);
}

/* Removes the queue, but leaves the window that a standard TCP would have. */
static void yeah_decongest(struct tcp_sock *tp, const struct yeah *ca)
{
	u32 removed = min(ca->queue, tp->snd_cwnd >> YEAH_REMOVE_SHIFT);

	tp->snd_cwnd = max(tp->snd_cwnd - removed, ca->reno);
	tp->snd_ssthresh = tp->snd_cwnd;
}

/* The modes, once a round trip. */
static void yeah_decide(struct sock *sk, struct yeah *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 qmax = OPT(sk, qmax);
	u32 delay = ca->v.shortest - min(ca->v.base, ca->v.shortest);

	ca->queue = (u32)div64_u64((u64)tp->snd_cwnd * delay, max(ca->v.shortest, 1U));
	if (ca->queue <= qmax && delay <= ca->v.base / max(OPT(sk, phi), 1U)) {
		ca->slow_rounds = 0;
		ca->fast_rounds++;
		if (ca->fast_rounds > OPT(sk, zeta)) {
			ca->reno = 2;
			ca->fast_rounds = 0;
		}
		return;
	}
	if (ca->queue > qmax && tp->snd_cwnd > ca->reno)
		yeah_decongest(tp, ca);
	ca->reno = ca->reno <= 2 ? max(tp->snd_cwnd >> 1, 2U) : ca->reno + 1;
	ca->slow_rounds = min(ca->slow_rounds + 1, (u32)YEAH_MOST_ROUNDS);
}

static void yeah_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct yeah *ca = inet_csk_ca(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp))
		acked = weir_ss_acked(sk, &ca->ss, acked);
	if (acked) {
		u32 fast = min(tp->snd_cwnd, OPT(sk, fast_acks));

		tcp_cong_avoid_ai(tp, ca->slow_rounds ? tp->snd_cwnd : fast, acked);
	}
	if (!weir_vegas_is_over(&ca->v, ack))
		return;
	if (weir_vegas_is_measured(&ca->v))
		yeah_decide(sk, ca);
	weir_vegas_round(sk, &ca->v);
}

static u32 yeah_ssthresh(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct yeah *ca = inet_csk_ca(sk);
	u32 half = max(tp->snd_cwnd >> 1, 2U), lost = half;

	if (ca->slow_rounds < OPT(sk, rho))
		lost = max(min(ca->queue, half), tp->snd_cwnd >> YEAH_LEAST_SHIFT);
	ca->fast_rounds = 0;
	ca->reno = max(ca->reno >> 1, 2U);
	return tp->snd_cwnd > lost + 2 ? tp->snd_cwnd - lost : 2;
}

static void yeah_set_state(struct sock *sk, u8 new_state)
{
	struct yeah *ca = inet_csk_ca(sk);

	if (new_state == TCP_CA_Loss)
		weir_ss_start(sk, &ca->ss);
	weir_vegas_state(sk, &ca->v, new_state);
}

static void yeah_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct yeah *ca = inet_csk_ca(sk);

	weir_vegas_event(sk, &ca->v, event);
}

#define YEAH_OPS(OP)                    \
	OP(init, yeah_init)             \
	OP(ssthresh, yeah_ssthresh)     \
	OP(cong_avoid, yeah_cong_avoid) \
	OP(pkts_acked, yeah_pkts_acked) \
	OP(set_state, yeah_set_state)   \
	OP(cwnd_event, yeah_cwnd_event) \
	OP(undo_cwnd, tcp_reno_undo_cwnd)

WEIR_CC_ABOUT("YeAH-TCP", 2007, "A. Baiocchi, A. P. Castellani, F. Vacirca, YeAH-TCP, PFLDnet 2007")
WEIR_CC_REGISTER(yeah, "yeah", 0, struct yeah, YEAH_OPS)
