// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * CUBIC as first published: the cubic curve, a bound on its slope, and a TCP mode in real time.
 *
 * I. Rhee, L. Xu, "CUBIC: a new TCP-friendly high-speed TCP variant", PFLDnet 2005. The window falls by a fifth on
 * loss; there is no HyStart, and fast convergence (added to CUBIC later) is off.
 */
#include "weir_cc.h"

#define CUBIC_2005_OPTIONS(OPTION)                                                                                   \
	OPTION(c, 400, 1, 2000, "C, 1/1000 packet / s^3")                                                            \
	OPTION(beta, 819, 1, 1023, "share of the window kept on loss, in 1/1024")                                    \
	OPTION(s_max, 160, 0, 1000000000, "steepest increase, packets a second; 0 is unbounded")                     \
	OPTION(tcp_friendliness, 1, 0, 1, "never slower than standard TCP would be (TCP mode)")                      \
	OPTION(fast_convergence, 0, 0, 1, "leave room for others when the maximum has fallen; added to CUBIC later") \
	WEIR_SLOW_START_OPTIONS(OPTION, 0)
WEIR_CC_OPTIONS(CUBIC_2005_OPTIONS)

#include "weir_cubic.h"
#include "weir_slow_start.h"
#include "weir_window.h"

struct cubic_2005 {
	struct weir_slow_start ss;
	u32 k;         /* ticks */
	u64 epoch;     /* time of the last reduction's end, microseconds; 0 is none */
	u64 credit;    /* of weir_increase */
	u32 w_max;     /* window at the last loss, packets; 0 is none */
	u32 origin;    /* of the curve, packets */
	u32 start;     /* window at the epoch, packets */
	u32 gain_q10;  /* increase of the window over the next round trip, 1/1024 packet */
	u32 gain_cwnd; /* window and tick of the gain */
	u32 gain_tick;
	u32 saved_w_max; /* for undo */
	u32 saved_origin;
	u32 saved_start;
	u32 saved_k;
	u64 saved_epoch;
};

static void cubic_2005_init(struct sock *sk)
{
	struct cubic_2005 *ca = inet_csk_ca(sk);

	ca->epoch = 0;
	ca->credit = 0;
	ca->w_max = 0;
	weir_ss_start(sk, &ca->ss);
}

static __always_inline void cubic_2005_begin_epoch(struct sock *sk, struct cubic_2005 *ca)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	ca->epoch = max_t(u64, tp->tcp_mstamp, 1);
	ca->start = tp->snd_cwnd;
	ca->origin = max(ca->w_max, tp->snd_cwnd);
	ca->k = weir_cubic_k(ca->origin - tp->snd_cwnd, OPT(sk, c));
	ca->credit = 0;
	ca->gain_cwnd = 0;
}

/*
 * TCP mode: the window of an AIMD flow with this decrease and standard TCP's throughput, t after the reduction:
 * start + alpha t / RTT, alpha = 3 (1 - beta) / (1 + beta). In 1/1024 packet.
 */
static __always_inline u64 cubic_2005_tcp_q10(struct sock *sk, const struct cubic_2005 *ca, u64 elapsed)
{
	u32 rtt = tcp_sk(sk)->srtt_us >> 3;
	u32 beta = OPT(sk, beta);
	u64 alpha_q10 = 3ULL * (WEIR_ONE - beta) * WEIR_ONE / (WEIR_ONE + beta);

	if (!rtt)
		return 0;
	return ((u64)ca->start << 10) + div64_u64(alpha_q10 * min_t(u64, elapsed, 1ULL << 40), rtt);
}

/* The window's increase over the next round trip, 1/1024 packet. */
static __always_inline u32 cubic_2005_gain(struct sock *sk, struct cubic_2005 *ca, u64 elapsed)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 rtt = tp->srtt_us >> 3;
	u64 cwnd_q10 = (u64)tp->snd_cwnd << 10;
	u64 target = weir_cubic_window_q10(weir_ticks(elapsed + rtt), ca->k, ca->origin, OPT(sk, c));
	u64 gain = target > cwnd_q10 ? target - cwnd_q10 : 0;
	u64 tcp;

	if (OPT(sk, s_max) && rtt)
		gain = min_t(u64, gain, weir_ticks((u64)OPT(sk, s_max) * rtt));
	if (OPT(sk, tcp_friendliness)) {
		tcp = cubic_2005_tcp_q10(sk, ca, elapsed + rtt);
		if (tcp > cwnd_q10)
			gain = max(gain, tcp - cwnd_q10);
	}
	return min_t(u64, min(gain, cwnd_q10 / 2), ~0U);
}

static void cubic_2005_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubic_2005 *ca = inet_csk_ca(sk);
	u64 elapsed;
	u32 tick;

	(void)ack;
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = weir_ss_acked(sk, &ca->ss, acked);
		if (!acked)
			return;
	}
	if (!ca->epoch)
		cubic_2005_begin_epoch(sk, ca);
	elapsed = tp->tcp_mstamp > ca->epoch ? tp->tcp_mstamp - ca->epoch : 0;
	tick = weir_ticks(elapsed);
	if (ca->gain_cwnd != tp->snd_cwnd || ca->gain_tick != tick) {
		ca->gain_cwnd = tp->snd_cwnd;
		ca->gain_tick = tick;
		ca->gain_q10 = cubic_2005_gain(sk, ca, elapsed);
	}
	weir_increase(tp, &ca->credit, ca->gain_q10, acked);
}

static u32 cubic_2005_ssthresh(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct cubic_2005 *ca = inet_csk_ca(sk);
	u32 beta = OPT(sk, beta);

	ca->saved_w_max = ca->w_max;
	ca->saved_origin = ca->origin;
	ca->saved_start = ca->start;
	ca->saved_k = ca->k;
	ca->saved_epoch = ca->epoch;
	ca->epoch = 0;
	if (OPT(sk, fast_convergence) && tp->snd_cwnd < ca->w_max)
		ca->w_max = (u64)tp->snd_cwnd * (WEIR_ONE + beta) / (2 * WEIR_ONE);
	else
		ca->w_max = tp->snd_cwnd;
	return weir_decrease(tp, beta);
}

static u32 cubic_2005_undo_cwnd(struct sock *sk)
{
	struct cubic_2005 *ca = inet_csk_ca(sk);

	ca->w_max = ca->saved_w_max;
	ca->origin = ca->saved_origin;
	ca->start = ca->saved_start;
	ca->k = ca->saved_k;
	ca->epoch = ca->saved_epoch;
	ca->gain_cwnd = 0;
	return tcp_reno_undo_cwnd(sk);
}

static void cubic_2005_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct cubic_2005 *ca = inet_csk_ca(sk);

	weir_ss_sample(sk, &ca->ss, sample->rtt_us);
}

static void cubic_2005_set_state(struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Loss)
		cubic_2005_init(sk);
}

#define CUBIC_2005_OPS(OP)                    \
	OP(init, cubic_2005_init)             \
	OP(ssthresh, cubic_2005_ssthresh)     \
	OP(cong_avoid, cubic_2005_cong_avoid) \
	OP(pkts_acked, cubic_2005_pkts_acked) \
	OP(set_state, cubic_2005_set_state)   \
	OP(undo_cwnd, cubic_2005_undo_cwnd)

WEIR_CC_ABOUT("CUBIC, first version", 2005,
	      "I. Rhee, L. Xu, CUBIC: a new TCP-friendly high-speed TCP variant, PFLDnet 2005")
WEIR_CC_REGISTER(cubic_2005, "cubic-2005", 0, struct cubic_2005, CUBIC_2005_OPS)
