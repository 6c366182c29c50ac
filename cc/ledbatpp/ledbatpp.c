// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * LEDBAT++: background transport. It keeps the queueing delay of its bottleneck near a target, grows more slowly than
 * Reno on short paths, and gives way every few round trips: a slowdown empties its share of the queue, so that it
 * measures the path without one.
 *
 * draft-irtf-iccrg-ledbat-plus-plus-02 (P. Balasubramanian, O. Ertugay, D. Havey, M. Bagnulo), on top of RFC 6817.
 */
#include "weir_cc.h"

#define LEDBATPP_OPTIONS(OPTION)                                                                           \
	OPTION(target, 60, 1, 1000, "queueing delay that the window aims at, ms")                          \
	OPTION(max_divisor, 16, 1, 1024, "the increase is at least 1 / max_divisor packets a round trip")  \
	OPTION(slowdown, 9, 0, 1000, "time between slowdowns, in durations of the last one; 0: never any") \
	OPTION(initial_window, 2, 0, 1000, "first window, packets; 0: the transport's")                    \
	WEIR_SLOW_START_OPTIONS(OPTION, 0)
WEIR_CC_OPTIONS(LEDBATPP_OPTIONS)

#include "weir_slow_start.h"

enum {
	LEDBATPP_MINUTES = 10, /* of the base delay's history (RFC 6817: BASE_HISTORY) */
	LEDBATPP_MINUTE_MS = 60000,
	LEDBATPP_RECENT = 4, /* round-trip times, of which the shortest counts (CURRENT_FILTER) */
	LEDBATPP_LEAST = 2,  /* packets, during a slowdown and after any reduction */
	LEDBATPP_WAIT = 2,   /* round trips from the first slow start to the first slowdown */
	LEDBATPP_HOLD = 2,   /* round trips that a slowdown keeps the smallest window */
	LEDBATPP_NONE = 0x7fffffff,
};

enum ledbatpp_phase {
	LEDBATPP_FIRST, /* the first slow start */
	LEDBATPP_NORMAL,
	LEDBATPP_HOLDING,
	LEDBATPP_RAMPING, /* slow start, back to the window before the slowdown */
};

struct ledbatpp {
	struct weir_slow_start ss;
	u32 base[LEDBATPP_MINUTES];  /* shortest round-trip time of each minute, the present one first, microseconds */
	u32 recent[LEDBATPP_RECENT]; /* the last round-trip times, microseconds */
	u32 minute;                  /* clock at the start of the present minute, ms */
	u32 round_end;               /* the round trip ends when this sequence number is acknowledged */
	u32 began;                   /* of the slowdown, ms */
	u32 due;                     /* the next change of the phase, ms */
	u8 phase;
};

static u32 ledbatpp_now(const struct sock *sk)
{
	return (u32)(tcp_sk(sk)->tcp_mstamp / USEC_PER_MSEC);
}

static u32 ledbatpp_round_trips(const struct sock *sk, u32 count)
{
	return (u32)((u64)count * (tcp_sk(sk)->srtt_us >> 3) / USEC_PER_MSEC) + 1;
}

static void ledbatpp_init(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct ledbatpp *ca = inet_csk_ca(sk);
	u32 i;

	weir_ss_start(sk, &ca->ss);
	WEIR_UNROLL
	for (i = 0; i < LEDBATPP_MINUTES; i++)
		ca->base[i] = LEDBATPP_NONE;
	WEIR_UNROLL
	for (i = 0; i < LEDBATPP_RECENT; i++)
		ca->recent[i] = LEDBATPP_NONE;
	ca->minute = ledbatpp_now(sk);
	ca->round_end = tp->snd_nxt;
	ca->phase = LEDBATPP_FIRST;
	if (OPT(sk, initial_window))
		tp->snd_cwnd = min(OPT(sk, initial_window), tp->snd_cwnd_clamp);
}

/* A minute has passed: the oldest is forgotten. After ten minutes without a sample, all are. */
static void ledbatpp_age(const struct sock *sk, struct ledbatpp *ca)
{
	u32 now = ledbatpp_now(sk), elapsed = now - ca->minute, i;

	if (elapsed < LEDBATPP_MINUTE_MS)
		return;
	WEIR_UNROLL
	for (i = LEDBATPP_MINUTES - 1; i > 0; i--)
		ca->base[i] = elapsed < LEDBATPP_MINUTES * LEDBATPP_MINUTE_MS ? ca->base[i - 1] : LEDBATPP_NONE;
	ca->base[0] = LEDBATPP_NONE;
	ca->minute = elapsed < 2 * LEDBATPP_MINUTE_MS ? ca->minute + LEDBATPP_MINUTE_MS : now;
}

static void ledbatpp_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct ledbatpp *ca = inet_csk_ca(sk);
	u32 rtt = max(sample->rtt_us, 1), i;

	weir_ss_sample(sk, &ca->ss, sample->rtt_us);
	if (sample->rtt_us < 0)
		return;
	ledbatpp_age(sk, ca);
	ca->base[0] = min(ca->base[0], rtt);
	WEIR_UNROLL
	for (i = LEDBATPP_RECENT - 1; i > 0; i--)
		ca->recent[i] = ca->recent[i - 1];
	ca->recent[0] = rtt;
}

static u32 ledbatpp_base(const struct ledbatpp *ca)
{
	u32 base = LEDBATPP_NONE, i;

	WEIR_UNROLL
	for (i = 0; i < LEDBATPP_MINUTES; i++)
		base = min(base, ca->base[i]);
	return base;
}

/* The queueing delay, microseconds: the shortest of the last round-trip times less the base delay. */
static u32 ledbatpp_delay(const struct ledbatpp *ca)
{
	u32 base = ledbatpp_base(ca), recent = LEDBATPP_NONE, i;

	WEIR_UNROLL
	for (i = 0; i < LEDBATPP_RECENT; i++)
		recent = min(recent, ca->recent[i]);
	return recent > base && recent != LEDBATPP_NONE ? recent - base : 0;
}

static u32 ledbatpp_target(const struct sock *sk)
{
	return OPT(sk, target) * (u32)USEC_PER_MSEC;
}

/* 1 / GAIN = min(16, ceil(2 target / base)): a short path grows more slowly than Reno (section 4.1). */
static u32 ledbatpp_divisor(const struct sock *sk, const struct ledbatpp *ca)
{
	u32 base = ledbatpp_base(ca);

	return clamp((2 * ledbatpp_target(sk) + base - 1) / max(base, 1U), 1U, OPT(sk, max_divisor));
}

/* Slow start gains GAIN packets for each acknowledged one (section 4.3). */
static u32 ledbatpp_slow_start(struct sock *sk, struct ledbatpp *ca, u32 divisor, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 sum;

	if (divisor > 1) {
		/* What congestion avoidance counted is not of slow start. */
		sum = (u64)(tp->snd_cwnd_cnt < divisor ? tp->snd_cwnd_cnt : 0) + acked;
		tp->snd_cwnd_cnt = (u32)(sum % divisor);
		acked = (u32)(sum / divisor);
	}
	return weir_ss_acked(sk, &ca->ss, acked);
}

/* W += max(GAIN - W (delay / target - 1), -W / 2), once a round trip above the target (section 4.2). */
static void ledbatpp_decrease(struct sock *sk, u32 delay)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 target = ledbatpp_target(sk);
	u64 excess = (u64)tp->snd_cwnd * min(delay - target, target) / target;
	u32 cut = min_t(u64, excess, tp->snd_cwnd / 2);

	tp->snd_cwnd = min(max(tp->snd_cwnd - cut, (u32)LEDBATPP_LEAST), tp->snd_cwnd_clamp);
	tp->snd_ssthresh = min(tp->snd_ssthresh, tp->snd_cwnd);
}

static void ledbatpp_wait(const struct sock *sk, struct ledbatpp *ca, u32 ms)
{
	ca->phase = LEDBATPP_NORMAL;
	ca->due = ledbatpp_now(sk) + ms;
}

static void ledbatpp_slow_down(struct sock *sk, struct ledbatpp *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->snd_ssthresh = max(tp->snd_cwnd, (u32)LEDBATPP_LEAST);
	tp->snd_cwnd = min((u32)LEDBATPP_LEAST, tp->snd_cwnd_clamp);
	tp->snd_cwnd_cnt = 0;
	ca->began = ledbatpp_now(sk);
	ca->due = ca->began + ledbatpp_round_trips(sk, LEDBATPP_HOLD);
	ca->phase = LEDBATPP_HOLDING;
}

/* Initial and periodic slowdowns (section 4.4): the pause is nine times as long as the slowdown, which costs 10 %. */
static void ledbatpp_advance(struct sock *sk, struct ledbatpp *ca)
{
	bool is_slow = tcp_in_slow_start(tcp_sk(sk));
	u32 now = ledbatpp_now(sk);
	bool is_due = (s32)(now - ca->due) >= 0;
	u64 pause;

	if (!OPT(sk, slowdown)) {
		if (ca->phase == LEDBATPP_FIRST && !is_slow)
			ca->phase = LEDBATPP_NORMAL;
	} else if (ca->phase == LEDBATPP_FIRST && !is_slow) {
		ledbatpp_wait(sk, ca, ledbatpp_round_trips(sk, LEDBATPP_WAIT));
	} else if (ca->phase == LEDBATPP_NORMAL && is_due && !is_slow) {
		ledbatpp_slow_down(sk, ca);
	} else if (ca->phase == LEDBATPP_HOLDING && is_due) {
		ca->phase = LEDBATPP_RAMPING;
	} else if (ca->phase == LEDBATPP_RAMPING && !is_slow) {
		pause = (u64)(now - ca->began) * OPT(sk, slowdown);
		ledbatpp_wait(sk, ca, min_t(u64, pause, LEDBATPP_NONE));
	}
}

static void ledbatpp_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct ledbatpp *ca = inet_csk_ca(sk);
	u32 delay = ledbatpp_delay(ca), divisor;
	bool is_over = after(ack, ca->round_end);

	if (is_over)
		ca->round_end = tp->snd_nxt;
	if (ca->phase == LEDBATPP_FIRST && tcp_in_slow_start(tp) && delay > ledbatpp_target(sk) / 4 * 3)
		tp->snd_ssthresh = max(tp->snd_cwnd, (u32)LEDBATPP_LEAST);
	ledbatpp_advance(sk, ca);
	if (ca->phase == LEDBATPP_HOLDING)
		return;
	if (!tcp_in_slow_start(tp) && delay > ledbatpp_target(sk)) {
		if (is_over)
			ledbatpp_decrease(sk, delay);
		return;
	}
	if (!tcp_is_cwnd_limited(sk))
		return;
	divisor = ledbatpp_divisor(sk, ca);
	if (tcp_in_slow_start(tp)) {
		acked = ledbatpp_slow_start(sk, ca, divisor, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, min_t(u64, (u64)tp->snd_cwnd * divisor, ~0U), acked);
}

static void ledbatpp_set_state(struct sock *sk, u8 new_state)
{
	struct ledbatpp *ca = inet_csk_ca(sk);

	if (new_state != TCP_CA_Loss)
		return;
	weir_ss_start(sk, &ca->ss);
	if (ca->phase == LEDBATPP_HOLDING)
		ca->phase = LEDBATPP_RAMPING;
}

#define LEDBATPP_OPS(OP)                    \
	OP(init, ledbatpp_init)             \
	OP(ssthresh, tcp_reno_ssthresh)     \
	OP(cong_avoid, ledbatpp_cong_avoid) \
	OP(pkts_acked, ledbatpp_pkts_acked) \
	OP(set_state, ledbatpp_set_state)   \
	OP(undo_cwnd, tcp_reno_undo_cwnd)

WEIR_CC_ABOUT("LEDBAT++", 2020, "P. Balasubramanian et al., LEDBAT++, draft-irtf-iccrg-ledbat-plus-plus-02")
WEIR_CC_REGISTER(ledbatpp, "ledbatpp", 0, struct ledbatpp, LEDBATPP_OPS)
