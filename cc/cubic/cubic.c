// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * CUBIC: the window follows a cubic function of the time since the last loss, flat around the window that lost.
 *
 * RFC 9438; section numbers refer to it. The README lists the one addition (growth before the first loss) and the
 * differences of Linux, which as_linux=1 adopts.
 */
#include "weir_cc.h"

#define CUBIC_OPTIONS(OPTION)                                                                                   \
	OPTION(c, 400, 1, 2000, "C, 1/1000 packet / s^3 (section 4.1)")                                         \
	OPTION(beta, 717, 1, 1023, "share of the window kept on loss, in 1/1024 (section 4.6)")                 \
	OPTION(tcp_friendliness, 1, 0, 1, "never slower than Reno would be (section 4.3)")                      \
	OPTION(fast_convergence, 1, 0, 1, "leave room for others when W_max has fallen (section 4.7)")          \
	OPTION(first_growth, 20, 0, 1000000,                                                                    \
	       "until a loss is known, one packet for at most this many acknowledged, as Linux; 0 is RFC 9438") \
	OPTION(as_linux, 0, 0, 1, "as Linux 6.12: the curve in whole packets and jiffies, alpha never 1")       \
	WEIR_SLOW_START_OPTIONS_SEARCH(OPTION, 1)
WEIR_CC_OPTIONS(CUBIC_OPTIONS)

#include "weir_cubic.h"
#include "weir_slow_start.h"
#include "weir_search.h"
#include "weir_window.h"

enum {
	CUBIC_LINUX_STALE = 32,           /* the pace of a window is recomputed after 1/32 s */
	CUBIC_LINUX_MAX_OFFSET = 1 << 17, /* ticks from K that count: two minutes; the product stays below 2^64 */
	CUBIC_LINUX_FIRST_LEAD = 8,
	CUBIC_LINUX_LAST_LEAD = 63,
	CUBIC_LINUX_MAX_DIGITS = 20, /* of a 64-bit number's root, below its leading ones */
};

/* Cube roots of 8 to 63 in 1/64, as Linux rounds them: its one step of Newton's method leaves that visible. */
static const u16 cubic_linux_roots[] = {
	133, 139, 144, 148, 153, 157, 161, 166, 167, 171, 174, 178, 180, 183, 186, 189, 191, 195, 197,
	200, 202, 204, 207, 209, 210, 212, 214, 216, 219, 221, 223, 225, 227, 229, 231, 232, 234, 235,
	237, 239, 241, 242, 244, 246, 247, 249, 250, 252, 254, 255, 256, 258, 260, 261, 262, 264,
};

struct cubic {
	struct weir_slow_start ss;
	union {
		struct weir_search search; /* in the first slow start; all zero when it ends */
		struct {
			u32 k;         /* ticks from the epoch to the curve's flat point */
			u64 epoch;     /* start of the avoidance stage, microseconds (as_linux: jiffies); 0 is none */
			u64 credit;    /* of weir_increase */
			u32 w_max;     /* packets; 0 before the first loss */
			u32 origin;    /* of the curve, packets */
			u32 w_est;     /* window of an AIMD flow in the same place (section 4.3), packets */
			u32 est_acked; /* acknowledged packets not yet turned into w_est */
			union {
				u32 gain_q10; /* increase of the window over the next round trip, 1/1024 packet */
				u32 pace;     /* as_linux: packets acknowledged for one packet of growth */
			};
			u32 gain_cwnd; /* the window and the tick (as_linux: jiffy) it was computed for */
			u32 gain_tick;
			u32 saved_w_max; /* for undo (section 4.9) */
			u32 saved_origin;
			u32 saved_k;
			u32 saved_w_est;
			u64 saved_epoch;
		};
	};
};

static void cubic_reset(struct sock *sk, struct cubic *ca)
{
	weir_search_end(&ca->ss, &ca->search);
	ca->epoch = 0;
	ca->credit = 0;
	ca->w_max = 0;
	ca->gain_cwnd = 0;
	weir_ss_start(sk, &ca->ss);
}

static void cubic_init(struct sock *sk)
{
	struct cubic *ca = inet_csk_ca(sk);

	cubic_reset(sk, ca);
	weir_search_start(sk, &ca->ss, &ca->search);
}

/* Section 4.2: the stage begins at the present window and aims at W_max, or upwards if it is there already. */
static __always_inline void cubic_begin_epoch(struct sock *sk, struct cubic *ca)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	ca->epoch = max_t(u64, tp->tcp_mstamp, 1);
	ca->origin = max(ca->w_max, tp->snd_cwnd);
	ca->k = weir_cubic_k(ca->origin - tp->snd_cwnd, OPT(sk, c));
	ca->credit = 0;
	ca->w_est = tp->snd_cwnd;
	ca->est_acked = 0;
	ca->gain_cwnd = 0;
}

/*
 * Section 4.3: W_est grows by alpha packets for each W acknowledged, alpha = 3 (1 - beta) / (1 + beta), and by one once
 * it has regained the window before the loss.
 */
static __always_inline void cubic_estimate_reno(struct sock *sk, struct cubic *ca, u32 acked)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 beta = OPT(sk, beta);
	u64 numerator = 3 * (WEIR_ONE - beta);
	u64 denominator = WEIR_ONE + beta;
	u64 have, packet, grown;

	if (ca->w_est >= tp->prior_cwnd)
		numerator = denominator = 1;
	ca->est_acked += acked;
	have = ca->est_acked * numerator;
	packet = max(tp->snd_cwnd, 1U) * denominator;
	if (have < packet)
		return;
	grown = div64_u64(have, packet);
	ca->w_est = min_t(u64, ca->w_est + grown, tp->snd_cwnd_clamp);
	ca->est_acked = div64_u64(have - grown * packet, numerator);
}

/* Sections 4.2, 4.4, 4.5: towards W(t + RTT), at most half a window per round trip. */
static __always_inline void cubic_aim(struct sock *sk, struct cubic *ca, u64 elapsed)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u64 cwnd_q10 = (u64)tp->snd_cwnd << 10;
	u64 t = weir_ticks(elapsed + (tp->srtt_us >> 3));
	u64 target = weir_cubic_window_q10(t, ca->k, ca->origin, OPT(sk, c));
	u64 gain = target > cwnd_q10 ? target - cwnd_q10 : 0;

	if (!ca->w_max && OPT(sk, first_growth))
		gain = max_t(u64, gain, cwnd_q10 / OPT(sk, first_growth));
	ca->gain_q10 = min_t(u64, min(gain, cwnd_q10 / 2), ~0U);
}

/* In the Reno-friendly region the window is W_est, approached by at most half a packet per acknowledged one. */
static __always_inline void cubic_follow_reno(struct sock *sk, struct cubic *ca, u64 elapsed, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 curve;
	u32 step;

	if (ca->w_est <= tp->snd_cwnd)
		return;
	curve = weir_cubic_window_q10(weir_ticks(elapsed), ca->k, ca->origin, OPT(sk, c));
	if (curve >= (u64)ca->w_est << 10)
		return;
	step = min(ca->w_est - tp->snd_cwnd, max(acked / 2, 1U));
	tp->snd_cwnd = min_t(u64, (u64)tp->snd_cwnd + step, tp->snd_cwnd_clamp);
	ca->credit = 0;
}

/*
 * Linux: packets acknowledged for one packet of growth, towards W(t + shortest round-trip time). The target and the
 * pace are whole numbers, which makes growth up to twice as fast if it is near a packet per acknowledged one.
 */
static __always_inline u32 cubic_linux_pace(struct sock *sk, const struct cubic *ca, u32 now)
{
	u32 cwnd = tcp_sk(sk)->snd_cwnd, c = (OPT(sk, c) * 1024 + 500) / 1000;
	u64 rtt = ((u64)ca->ss.delay_min * HZ + USEC_PER_SEC - 1) / USEC_PER_SEC;
	u64 t = ((now - (u32)ca->epoch + rtt) << 10) / max_t(u32, HZ, 1);
	u64 offset = min_t(u64, t < ca->k ? ca->k - t : t - ca->k, CUBIC_LINUX_MAX_OFFSET);
	u32 delta = (c * offset * offset * offset) >> 40;
	u32 target = t < ca->k ? ca->origin - min(delta, ca->origin) : ca->origin + delta;
	u32 pace = target > cwnd ? cwnd / (target - cwnd) : 100 * cwnd;

	if (!ca->w_max && OPT(sk, first_growth))
		pace = min(pace, OPT(sk, first_growth));
	return pace;
}

/*
 * Linux: the cube root from four to six leading binary digits and one step of Newton's method, 0.2 % off on average. Of
 * nothing, or of 2^29 and more: the factor of C makes a packet so much.
 */
static __always_inline u32 cubic_linux_root(u64 x)
{
	u32 digits = 0, lead;
	u64 guess;

	if (!x)
		return 0;
	while (digits < CUBIC_LINUX_MAX_DIGITS && x >> 3 * digits > CUBIC_LINUX_LAST_LEAD)
		digits++;
	lead = clamp((u32)(x >> 3 * digits), (u32)CUBIC_LINUX_FIRST_LEAD, (u32)CUBIC_LINUX_LAST_LEAD);
	guess = (u64)cubic_linux_roots[lead - CUBIC_LINUX_FIRST_LEAD] << digits >> 6;
	return (2 * guess + div64_u64(x, guess * (guess - 1))) * 341 >> 10;
}

static __always_inline void cubic_linux_begin_epoch(struct sock *sk, struct cubic *ca, u32 now, u32 acked)
{
	u32 cwnd = tcp_sk(sk)->snd_cwnd, c = (OPT(sk, c) * 1024 + 500) / 1000;

	ca->epoch = max(now, 1U);
	ca->origin = max(ca->w_max, cwnd);
	ca->k = cubic_linux_root((1ULL << 40) / max(c, 1U) * (ca->origin - cwnd));
	ca->w_est = cwnd;
	ca->est_acked = acked;
}

/* Linux: W_est gains a packet for each 15/8 window acknowledged, and bounds the pace instead of the window. */
static __always_inline void cubic_linux_estimate_reno(struct sock *sk, struct cubic *ca)
{
	u32 beta = OPT(sk, beta), cwnd = tcp_sk(sk)->snd_cwnd;
	u32 eighths = 8 * (WEIR_ONE + beta) / 3 / (WEIR_ONE - beta);
	u32 packet = max(cwnd * eighths >> 3, 1U), grown;

	if (ca->est_acked > packet) {
		grown = (ca->est_acked - 1) / packet;
		ca->est_acked -= grown * packet;
		ca->w_est += grown;
	}
	if (ca->w_est > cwnd)
		ca->pace = min(ca->pace, cwnd / (ca->w_est - cwnd));
}

static __always_inline void cubic_linux_increase(struct sock *sk, struct cubic *ca, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 now = tcp_jiffies32;

	ca->est_acked += acked;
	if (ca->gain_cwnd != tp->snd_cwnd || (s32)(now - ca->gain_tick) > (s32)(HZ / CUBIC_LINUX_STALE)) {
		if (!ca->epoch || now != ca->gain_tick) {
			if (!ca->epoch)
				cubic_linux_begin_epoch(sk, ca, now, acked);
			ca->gain_cwnd = tp->snd_cwnd;
			ca->gain_tick = now;
			ca->pace = cubic_linux_pace(sk, ca, now);
		}
		if (OPT(sk, tcp_friendliness))
			cubic_linux_estimate_reno(sk, ca);
		ca->pace = max(ca->pace, 2U);
	}
	tcp_cong_avoid_ai(tp, ca->pace, acked);
}

static void cubic_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *ca = inet_csk_ca(sk);
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
	weir_search_end(&ca->ss, &ca->search);
	if (OPT(sk, as_linux)) {
		cubic_linux_increase(sk, ca, acked);
		return;
	}
	if (!ca->epoch)
		cubic_begin_epoch(sk, ca);
	elapsed = tp->tcp_mstamp > ca->epoch ? tp->tcp_mstamp - ca->epoch : 0;
	tick = weir_ticks(elapsed);
	if (ca->gain_cwnd != tp->snd_cwnd || ca->gain_tick != tick) {
		ca->gain_cwnd = tp->snd_cwnd;
		ca->gain_tick = tick;
		cubic_aim(sk, ca, elapsed);
	}
	weir_increase(tp, &ca->credit, ca->gain_q10, acked);
	if (OPT(sk, tcp_friendliness)) {
		cubic_estimate_reno(sk, ca, acked);
		cubic_follow_reno(sk, ca, elapsed, acked);
	}
}

/* Sections 4.6 and 4.7. */
static u32 cubic_ssthresh(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *ca = inet_csk_ca(sk);
	u32 beta = OPT(sk, beta);

	weir_search_end(&ca->ss, &ca->search);
	ca->saved_w_max = ca->w_max;
	ca->saved_origin = ca->origin;
	ca->saved_k = ca->k;
	ca->saved_w_est = ca->w_est;
	ca->saved_epoch = ca->epoch;
	ca->epoch = 0;
	if (OPT(sk, fast_convergence) && tp->snd_cwnd < ca->w_max)
		ca->w_max = (u64)tp->snd_cwnd * (WEIR_ONE + beta) / (2 * WEIR_ONE);
	else
		ca->w_max = tp->snd_cwnd;
	return weir_decrease(tp, beta);
}

/* Section 4.9: the loss was spurious; the stage before it continues. */
static u32 cubic_undo_cwnd(struct sock *sk)
{
	struct cubic *ca = inet_csk_ca(sk);

	if (OPT(sk, as_linux))
		return tcp_reno_undo_cwnd(sk);
	ca->w_max = ca->saved_w_max;
	ca->origin = ca->saved_origin;
	ca->k = ca->saved_k;
	ca->w_est = ca->saved_w_est;
	ca->est_acked = 0;
	ca->epoch = ca->saved_epoch;
	ca->gain_cwnd = 0;
	return tcp_reno_undo_cwnd(sk);
}

/* Section 5.8: idle time does not count on the curve. */
static void cubic_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct cubic *ca = inet_csk_ca(sk);
	s32 idle;

	if (event != CA_EVENT_TX_START || ca->ss.searching || !ca->epoch)
		return;
	idle = (s32)(tcp_jiffies32 - tp->lsndtime);
	if (idle <= 0)
		return;
	if (OPT(sk, as_linux)) {
		ca->epoch = min_t(u64, ca->epoch + idle, tcp_jiffies32);
		return;
	}
	ca->epoch = min_t(u64, ca->epoch + (u64)idle * USEC_PER_SEC / max_t(u32, HZ, 1), tp->tcp_mstamp);
	ca->gain_cwnd = 0;
}

/* Age of the stage, microseconds. */
static __always_inline u64 cubic_age(struct sock *sk, const struct cubic *ca)
{
	if (OPT(sk, as_linux))
		return (u64)(tcp_jiffies32 - (u32)ca->epoch) * USEC_PER_SEC / max_t(u32, HZ, 1);
	return tcp_sk(sk)->tcp_mstamp - ca->epoch;
}

/* Ignores samples of the first second of a stage: loss recovery stretches them. */
static void cubic_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct cubic *ca = inet_csk_ca(sk);

	if (ca->ss.searching)
		weir_search_sample(sk, &ca->ss, &ca->search, sample->rtt_us);
	else if (ca->epoch && cubic_age(sk, ca) < USEC_PER_SEC)
		return;
	weir_ss_sample(sk, &ca->ss, sample->rtt_us);
}

/* Section 4.8: after a timeout W_max is the window that slow start reaches, and K is zero. */
static void cubic_set_state(struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Loss)
		cubic_reset(sk, inet_csk_ca(sk));
}

#define CUBIC_OPS(OP)                    \
	OP(init, cubic_init)             \
	OP(ssthresh, cubic_ssthresh)     \
	OP(cong_avoid, cubic_cong_avoid) \
	OP(cwnd_event, cubic_cwnd_event) \
	OP(pkts_acked, cubic_pkts_acked) \
	OP(set_state, cubic_set_state)   \
	OP(undo_cwnd, cubic_undo_cwnd)

WEIR_CC_ABOUT("CUBIC", 2023, "RFC 9438")
WEIR_CC_REGISTER(cubic, "cubic", 0, struct cubic, CUBIC_OPS)
