// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * H-TCP: the increase is a function of the time since the last congestion event, the decrease of the queue that built
 * up.
 *
 * D. Leith, R. Shorten, "H-TCP: TCP for high-speed and long-distance networks", PFLDnet 2004, and
 * draft-leith-tcp-htcp-06, 2008.
 */
#include "weir_cc.h"

#define HTCP_OPTIONS(OPTION)                                                                              \
	OPTION(delta_l, 1000, 0, 1000000, "standard increase for this long after a congestion event, ms") \
	OPTION(adaptive_backoff, 1, 0, 1, "keep the share RTTmin / RTTmax of the window instead of half") \
	OPTION(bandwidth_switch, 1, 0, 1, "keep half when the throughput changed by more than a fifth")   \
	OPTION(rtt_scaling, 0, 0, 1, "scale the increase by RTTmin / 100 ms")                             \
	WEIR_SLOW_START_OPTIONS(OPTION, 0)
WEIR_CC_OPTIONS(HTCP_OPTIONS)

#include "weir_slow_start.h"
#include "weir_window.h"

enum {
	HTCP_BETA_MIN = WEIR_ONE / 2, /* shares of the window kept, 1/1024 */
	HTCP_BETA_MAX = WEIR_ONE * 4 / 5,
	HTCP_MAX_TICKS = 1 << 22,       /* more than an hour without loss counts as an hour */
	HTCP_REFERENCE_RTT_US = 100000, /* round-trip time whose increase is not scaled */
};

struct htcp {
	struct weir_slow_start ss;
	u32 rtt_max;          /* longest round-trip time since the last congestion event, microseconds; 0 is none */
	u64 credit;           /* of weir_increase */
	u64 congestion;       /* time of the last congestion event, microseconds */
	u64 saved_congestion; /* for undo */
	u32 interval;         /* start of the throughput measurement, low half of the clock */
	u32 packets;          /* acknowledged since then */
	u32 rate;             /* highest throughput since the last congestion event, packets a second */
	u32 last_rate;        /* the same of the epoch before; 0 is none */
	u32 saved_last_rate;
	u16 beta; /* share of the window kept, 1/1024 */
	u16 saved_beta;
};

static void htcp_init(struct sock *sk)
{
	struct htcp *ca = inet_csk_ca(sk);

	ca->rtt_max = 0;
	ca->credit = 0;
	ca->congestion = tcp_sk(sk)->tcp_mstamp;
	ca->interval = weir_clock(sk);
	ca->packets = 0;
	ca->rate = 0;
	ca->last_rate = 0;
	ca->beta = HTCP_BETA_MIN;
	weir_ss_start(sk, &ca->ss);
}

/*
 * The draft's alpha(Delta), 1/1024 packet a round trip: 1 + 10 (Delta - Delta_L) + ((Delta - Delta_L) / 2)^2 beyond
 * Delta_L, times 2 (1 - beta) so that a flow that gives up less also gains less.
 */
static __always_inline u32 htcp_alpha_q10(struct sock *sk, const struct htcp *ca)
{
	u64 now = tcp_sk(sk)->tcp_mstamp;
	u64 since = weir_ticks(now > ca->congestion ? now - ca->congestion : 0);
	u64 low = weir_ticks((u64)OPT(sk, delta_l) * USEC_PER_MSEC);
	u64 d = since > low ? min_t(u64, since - low, HTCP_MAX_TICKS) : 0;
	u64 f = WEIR_ONE + 10 * d + ((d * d) >> 12);

	if (OPT(sk, rtt_scaling) && ca->ss.delay_min)
		f = max_t(u64, WEIR_ONE, f * ca->ss.delay_min / HTCP_REFERENCE_RTT_US);
	return min_t(u64, 2 * f * (WEIR_ONE - ca->beta) / WEIR_ONE, ~0U);
}

static void htcp_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct htcp *ca = inet_csk_ca(sk);

	(void)ack;
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = weir_ss_acked(sk, &ca->ss, acked);
		if (!acked)
			return;
	}
	weir_increase(tp, &ca->credit, htcp_alpha_q10(sk, ca), acked);
}

/* Highest throughput of the epoch, each measurement over one round trip. */
static __always_inline void htcp_measure(struct sock *sk, struct htcp *ca, u32 acked)
{
	u32 now = weir_clock(sk);
	u32 elapsed = now - ca->interval;
	u64 rate;

	ca->packets += acked;
	if (!elapsed || elapsed < tcp_sk(sk)->srtt_us >> 3)
		return;
	rate = (u64)ca->packets * USEC_PER_SEC / elapsed;
	ca->rate = max_t(u64, ca->rate, min_t(u64, rate, ~0U));
	ca->packets = 0;
	ca->interval = now;
}

static void htcp_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct htcp *ca = inet_csk_ca(sk);

	weir_ss_sample(sk, &ca->ss, sample->rtt_us);
	/* Samples of loss recovery tell of retransmissions, not of the queue. */
	if (weir_ca_state(sk) != TCP_CA_Open)
		return;
	if (sample->rtt_us > 0)
		ca->rtt_max = max(ca->rtt_max, (u32)sample->rtt_us);
	htcp_measure(sk, ca, sample->pkts_acked);
}

/* Did the throughput change by more than a fifth from one epoch to the next? */
static __always_inline bool htcp_rate_changed(const struct htcp *ca)
{
	u64 difference = ca->rate > ca->last_rate ? ca->rate - ca->last_rate : ca->last_rate - ca->rate;

	return !ca->last_rate || 5 * difference > ca->last_rate;
}

static __always_inline u32 htcp_beta(struct sock *sk, const struct htcp *ca)
{
	u64 beta;

	if (!OPT(sk, adaptive_backoff) || !ca->rtt_max)
		return HTCP_BETA_MIN;
	if (OPT(sk, bandwidth_switch) && htcp_rate_changed(ca))
		return HTCP_BETA_MIN;
	beta = (u64)ca->ss.delay_min * WEIR_ONE / ca->rtt_max;
	return clamp(beta, (u64)HTCP_BETA_MIN, (u64)HTCP_BETA_MAX);
}

static u32 htcp_ssthresh(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct htcp *ca = inet_csk_ca(sk);

	ca->saved_congestion = ca->congestion;
	ca->saved_last_rate = ca->last_rate;
	ca->saved_beta = ca->beta;
	ca->beta = htcp_beta(sk, ca);
	ca->last_rate = ca->rate;
	ca->rate = 0;
	ca->packets = 0;
	ca->interval = weir_clock(sk);
	ca->rtt_max = 0;
	ca->credit = 0;
	ca->congestion = tp->tcp_mstamp;
	return weir_decrease(tp, ca->beta);
}

static u32 htcp_undo_cwnd(struct sock *sk)
{
	struct htcp *ca = inet_csk_ca(sk);

	ca->congestion = ca->saved_congestion;
	ca->rate = max(ca->rate, ca->last_rate);
	ca->last_rate = ca->saved_last_rate;
	ca->beta = ca->saved_beta;
	return tcp_reno_undo_cwnd(sk);
}

/* A timeout: slow start looks for the path's round-trip time again, the throughput history no longer holds. */
static void htcp_set_state(struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Loss)
		htcp_init(sk);
}

#define HTCP_OPS(OP)                    \
	OP(init, htcp_init)             \
	OP(ssthresh, htcp_ssthresh)     \
	OP(cong_avoid, htcp_cong_avoid) \
	OP(pkts_acked, htcp_pkts_acked) \
	OP(set_state, htcp_set_state)   \
	OP(undo_cwnd, htcp_undo_cwnd)

WEIR_CC_ABOUT("H-TCP", 2004, "D. Leith, R. Shorten, H-TCP, PFLDnet 2004; draft-leith-tcp-htcp-06")
WEIR_CC_REGISTER(htcp, "htcp", 0, struct htcp, HTCP_OPS)
