// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * FAST TCP: moves the window towards the one that keeps alpha packets of the flow in the queue, by an equation in the
 * mean round-trip time. The farther it is from there, the larger the step.
 *
 * C. Jin, D. X. Wei, S. H. Low, "FAST TCP: motivation, architecture, algorithms, performance", INFOCOM 2004.
 */
#include "weir_cc.h"

#define FAST_OPTIONS(OPTION)                                                                             \
	OPTION(alpha, 200, 1, 1000000, "packets of the flow in the queue at equilibrium")                \
	OPTION(gamma, 512, 1, 1024, "weight of the equation in an update, in 1/1024")                    \
	OPTION(period, 2, 1, 100, "round trips between updates")                                         \
	OPTION(start_delay, 750, 1, 10000000, "slow start ends above this queueing delay, microseconds") \
	WEIR_SLOW_START_OPTIONS(OPTION, 0)
WEIR_CC_OPTIONS(FAST_OPTIONS)

#include "weir_slow_start.h"
#include "weir_window.h"

enum {
	FAST_MAX_WINDOW = 1 << 22, /* packets for which the equation does not overflow */
	FAST_MAX_RTT = 1 << 24,    /* microseconds */
	FAST_RTT_ONE = 256,
};

struct fast {
	struct weir_slow_start ss;
	u64 mean;      /* round-trip time, 1/256 microsecond; 0 is none */
	u32 base;      /* shortest round-trip time, microseconds */
	u32 round_end; /* the round trip ends when this sequence number is acknowledged */
	u32 target;    /* the window grows up to here, packets */
	u8 rounds;     /* since the last update */
	u8 is_paused;  /* outside of normal operation */
};

static void fast_restart(struct sock *sk, struct fast *ca)
{
	ca->mean = 0;
	ca->base = ~0U;
	ca->target = 0;
	ca->rounds = 0;
	ca->round_end = tcp_sk(sk)->snd_nxt;
}

static void fast_init(struct sock *sk)
{
	struct fast *ca = inet_csk_ca(sk);

	weir_ss_start(sk, &ca->ss);
	fast_restart(sk, ca);
	ca->is_paused = 0;
}

/* The mean moves by min(3 / cwnd, 1/4) of the difference. */
static void fast_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct fast *ca = inet_csk_ca(sk);
	u64 rtt = (u64)clamp(sample->rtt_us, 1, (s32)FAST_MAX_RTT) * FAST_RTT_ONE;
	u32 cwnd = max(tcp_sk(sk)->snd_cwnd, 12U);

	weir_ss_sample(sk, &ca->ss, sample->rtt_us);
	if (sample->rtt_us < 0)
		return;
	ca->base = min_t(u64, ca->base, rtt / FAST_RTT_ONE);
	if (!ca->mean)
		ca->mean = rtt;
	else if (rtt > ca->mean)
		ca->mean += (rtt - ca->mean) * 3 / cwnd;
	else
		ca->mean -= (ca->mean - rtt) * 3 / cwnd;
}

/* (1 - gamma) w + gamma (base / mean w + alpha), rounded, at most 2 w. */
static u32 fast_equation(const struct sock *sk, const struct fast *ca)
{
	u64 window = min_t(u32, tcp_sk(sk)->snd_cwnd, FAST_MAX_WINDOW);
	u64 base = (u64)ca->base * FAST_RTT_ONE;
	u64 filled = div64_u64(window * WEIR_ONE * base, max(ca->mean, (u64)1));
	u64 aim = filled + (u64)OPT(sk, alpha) * WEIR_ONE;
	u64 next = (window * WEIR_ONE * (WEIR_ONE - OPT(sk, gamma)) + aim * OPT(sk, gamma)) / WEIR_ONE;

	return max_t(u64, min_t(u64, (next + WEIR_ONE / 2) / WEIR_ONE, 2 * window), 2);
}

/* Once in some round trips. A smaller window is taken at once, a larger one packet by packet. */
static void fast_update(struct sock *sk, struct fast *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!ca->mean || ca->is_paused || tp->snd_cwnd > FAST_MAX_WINDOW)
		return;
	if (tcp_in_slow_start(tp)) {
		if (ca->mean > ((u64)ca->base + OPT(sk, start_delay)) * FAST_RTT_ONE)
			tp->snd_ssthresh = max(tp->snd_cwnd, 2U);
		return;
	}
	ca->target = fast_equation(sk, ca);
	tp->snd_cwnd = min(tp->snd_cwnd, ca->target);
	tp->snd_ssthresh = min(tp->snd_ssthresh, tp->snd_cwnd);
}

static void fast_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fast *ca = inet_csk_ca(sk);

	if (after(ack, ca->round_end)) {
		ca->round_end = tp->snd_nxt;
		if (++ca->rounds >= OPT(sk, period) || tcp_in_slow_start(tp)) {
			ca->rounds = 0;
			fast_update(sk, ca);
		}
	}
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		weir_ss_acked(sk, &ca->ss, acked);
		return;
	}
	if (!ca->target || tp->snd_cwnd > FAST_MAX_WINDOW)
		tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
	else if (tp->snd_cwnd < ca->target)
		tp->snd_cwnd = min(tp->snd_cwnd + min(acked, ca->target - tp->snd_cwnd), tp->snd_cwnd_clamp);
}

static void fast_set_state(struct sock *sk, u8 new_state)
{
	struct fast *ca = inet_csk_ca(sk);

	if (new_state == TCP_CA_Loss)
		weir_ss_start(sk, &ca->ss);
	ca->is_paused = new_state != TCP_CA_Open;
	ca->round_end = tcp_sk(sk)->snd_nxt;
	ca->rounds = 0;
	ca->target = 0;
}

/* The path may have changed while nothing was sent. */
static void fast_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct fast *ca = inet_csk_ca(sk);

	if (event == CA_EVENT_CWND_RESTART || event == CA_EVENT_TX_START)
		fast_restart(sk, ca);
}

#define FAST_OPS(OP)                    \
	OP(init, fast_init)             \
	OP(ssthresh, tcp_reno_ssthresh) \
	OP(cong_avoid, fast_cong_avoid) \
	OP(pkts_acked, fast_pkts_acked) \
	OP(set_state, fast_set_state)   \
	OP(cwnd_event, fast_cwnd_event) \
	OP(undo_cwnd, tcp_reno_undo_cwnd)

WEIR_CC_ABOUT("FAST TCP", 2004, "C. Jin, D. X. Wei, S. H. Low, FAST TCP, INFOCOM 2004")
WEIR_CC_REGISTER(fast, "fast", 0, struct fast, FAST_OPS)
