// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * H-TCP: the increase is a function of the time since the last congestion event, the decrease a function of the queue
 * that built up.
 *
 * D. Leith, R. Shorten, "H-TCP: TCP for high-speed and long-distance networks", PFLDnet 2004, and
 * draft-leith-tcp-htcp-06, 2008. With as_linux=1 it measures, increases and backs off like Linux: see the README.
 */
#include "weir_cc.h"

#define HTCP_OPTIONS(OPTION)                                                                              \
	OPTION(delta_l, 1000, 0, 1000000, "standard increase for this long after a congestion event, ms") \
	OPTION(adaptive_backoff, 1, 0, 1, "keep the share RTTmin / RTTmax of the window instead of half") \
	OPTION(bandwidth_switch, 1, 0, 1, "keep half when the throughput changed by more than a fifth")   \
	OPTION(rtt_scaling, 0, 0, 1, "scale the increase by RTTmin / 100 ms")                             \
	OPTION(as_linux, 0, 0, 1, "as Linux 6.12; the options above are without effect")                  \
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

/* As Linux: times are in jiffies, shares and rates of increase in 1/128. */
enum {
	HTCP_LINUX_ONE = 128,
	HTCP_LINUX_BETA_MIN = 64,
	HTCP_LINUX_BETA_MAX = 102,
	HTCP_LINUX_RTT_STEP_MS = 20,  /* RTTmax grows by at most this per sample */
	HTCP_LINUX_LEAST_RTT_MS = 10, /* the adaptive backoff is for longer round-trip times */
	HTCP_LINUX_RTTMAX_KEPT = 95,  /* share of the queueing time that a loss leaves, percent */
	HTCP_LINUX_SETTLING = 3,      /* round trips after a loss whose throughput is taken unsmoothed */
};

struct htcp_linux {
	u32 alpha; /* increase per round trip */
	u32 beta;  /* share of the window kept */
	u32 rtt_min;
	u32 rtt_max;
	u32 congestion; /* end of the last congestion event */
	u32 packets;    /* acknowledged since `interval` */
	u32 interval;
	u32 rate;             /* smoothed throughput, packets a second */
	u32 rate_max;         /* highest of the epoch */
	u32 last_rate_max;    /* of the previous epoch */
	u32 saved_congestion; /* for undo; 0 outside of congestion events */
	u32 saved_rtt_max;
	u32 saved_last_rate_max;
	u32 ack_packets;  /* covered by the present acknowledgement */
	bool is_adaptive; /* throughput was steady at the last loss */
};

struct htcp {
	struct weir_slow_start ss;
	union {
		struct {
			u32 rtt_max;          /* longest round-trip time of the epoch, microseconds; 0 is none */
			u64 credit;           /* of weir_increase */
			u64 congestion;       /* time of the last congestion event, microseconds */
			u64 saved_congestion; /* for undo */
			u32 interval;         /* start of the throughput measurement, low half of the clock */
			u32 packets;          /* acknowledged since then */
			u32 rate;             /* highest throughput since the last congestion event, packets a second */
			u32 last_rate;        /* the same of the previous epoch; 0 is none */
			u32 saved_last_rate;
			u16 beta; /* share of the window kept, 1/1024 */
			u16 saved_beta;
		};
		struct htcp_linux as_linux;
	};
};

static __always_inline void htcp_linux_init(struct sock *sk, struct htcp_linux *ca)
{
	ca->alpha = HTCP_LINUX_ONE;
	ca->beta = HTCP_LINUX_BETA_MIN;
	ca->rtt_min = 0;
	ca->rtt_max = 0;
	ca->congestion = tcp_jiffies32;
	ca->packets = 0;
	ca->interval = 0;
	ca->rate = 0;
	ca->rate_max = 0;
	ca->last_rate_max = 0;
	ca->saved_congestion = 0;
	ca->saved_rtt_max = 0;
	ca->saved_last_rate_max = 0;
	ca->ack_packets = 1;
	ca->is_adaptive = false;
}

static void htcp_init(struct sock *sk)
{
	struct htcp *ca = inet_csk_ca(sk);

	weir_ss_start(sk, &ca->ss);
	if (OPT(sk, as_linux)) {
		htcp_linux_init(sk, &ca->as_linux);
		return;
	}
	ca->rtt_max = 0;
	ca->credit = 0;
	ca->congestion = tcp_sk(sk)->tcp_mstamp;
	ca->interval = weir_clock(sk);
	ca->packets = 0;
	ca->rate = 0;
	ca->last_rate = 0;
	ca->beta = HTCP_BETA_MIN;
}

/*
 * The draft's alpha(Delta), 1/1024 packet per round trip: 1 + 10 (Delta - Delta_L) + ((Delta - Delta_L) / 2)^2 beyond
 * Delta_L, times 2 (1 - beta), so that a flow that gives up less also gains less.
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

/* Linux: alpha in whole packets before it is scaled by 100 ms / RTTmin, between a half and ten. */
static __always_inline void htcp_linux_update_alpha(struct sock *sk, struct htcp_linux *ca)
{
	u32 hz = max_t(u32, HZ, 1), since = tcp_jiffies32 - ca->congestion;
	u32 beyond = since > hz ? since - hz : 0, half = min_t(u32, beyond / 2, 0xffff);
	u32 f = 1 + (beyond ? (10 * beyond + half * half / hz) / hz : 0);
	u32 scale;

	if (ca->rtt_min) {
		scale = 8 * hz / (10 * ca->rtt_min);
		f = max_t(u32, 8 * f / clamp(scale, 4U, 80U), 1);
	}
	ca->alpha = 2 * f * (HTCP_LINUX_ONE - ca->beta);
}

/* Linux counts the packets of an acknowledgement, except of the one that completes a packet of growth. */
static __always_inline void htcp_linux_increase(struct sock *sk, struct htcp_linux *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if ((tp->snd_cwnd_cnt * ca->alpha) >> 7 >= tp->snd_cwnd) {
		tp->snd_cwnd = min(tp->snd_cwnd + 1, tp->snd_cwnd_clamp);
		tp->snd_cwnd_cnt = 0;
		htcp_linux_update_alpha(sk, ca);
	} else {
		tp->snd_cwnd_cnt += ca->ack_packets;
	}
	ca->ack_packets = 1;
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
		if (!acked || OPT(sk, as_linux))
			return;
	}
	if (OPT(sk, as_linux)) {
		htcp_linux_increase(sk, &ca->as_linux);
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

static __always_inline void htcp_linux_sample_rtt(struct sock *sk, struct htcp_linux *ca, u32 rtt_us)
{
	u32 rtt = ((u64)rtt_us * HZ + USEC_PER_SEC - 1) / USEC_PER_SEC;

	if (!ca->rtt_min || rtt < ca->rtt_min)
		ca->rtt_min = rtt;
	if (weir_ca_state(sk) != TCP_CA_Open)
		return;
	ca->rtt_max = max(ca->rtt_max, ca->rtt_min);
	if (rtt > ca->rtt_max && rtt <= ca->rtt_max + HTCP_LINUX_RTT_STEP_MS * HZ / MSEC_PER_SEC)
		ca->rtt_max = rtt;
}

/* Linux: throughput over at least a window and a round trip; after a loss, each new value counts a quarter. */
static __always_inline void htcp_linux_measure(struct sock *sk, struct htcp_linux *ca, u32 acked)
{
	u32 now = tcp_jiffies32, cwnd = tcp_sk(sk)->snd_cwnd, gain = max(ca->alpha >> 7, 1U);
	u32 elapsed = now - ca->interval, rate;

	if (weir_ca_state(sk) > TCP_CA_Disorder) {
		ca->packets = 0;
		ca->interval = now;
		return;
	}
	ca->packets += acked;
	if (gain > cwnd || ca->packets < cwnd - gain || !ca->rtt_min || elapsed < ca->rtt_min)
		return;
	rate = ca->packets * HZ / elapsed;
	if ((now - ca->congestion) / ca->rtt_min <= HTCP_LINUX_SETTLING) {
		ca->rate = rate;
		ca->rate_max = rate;
	} else {
		ca->rate = (3 * ca->rate + rate) / 4;
		ca->rate_max = max(ca->rate_max, ca->rate);
	}
	ca->packets = 0;
	ca->interval = now;
}

static __always_inline void htcp_linux_sample(struct sock *sk, struct htcp_linux *ca, const struct ack_sample *sample)
{
	if (weir_ca_state(sk) == TCP_CA_Open)
		ca->ack_packets = sample->pkts_acked;
	if (sample->rtt_us > 0)
		htcp_linux_sample_rtt(sk, ca, sample->rtt_us);
	htcp_linux_measure(sk, ca, sample->pkts_acked);
}

static void htcp_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct htcp *ca = inet_csk_ca(sk);

	weir_ss_sample(sk, &ca->ss, sample->rtt_us);
	if (OPT(sk, as_linux)) {
		htcp_linux_sample(sk, &ca->as_linux, sample);
		return;
	}
	/* Samples during loss recovery reflect retransmissions, not the queue. */
	if (weir_ca_state(sk) != TCP_CA_Open)
		return;
	if (sample->rtt_us > 0)
		ca->rtt_max = max(ca->rtt_max, (u32)sample->rtt_us);
	htcp_measure(sk, ca, sample->pkts_acked);
}

/* Whether the throughput changed by more than a fifth from one epoch to the next. */
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

/* Linux: half after a change of throughput, and once more; then RTTmin / RTTmax. */
static __always_inline void htcp_linux_update_beta(struct sock *sk, struct htcp_linux *ca)
{
	u32 last = ca->last_rate_max, rate = 5 * ca->rate_max;
	bool is_steady = rate - 4 * last <= 2 * last;
	bool is_long = ca->rtt_min > HTCP_LINUX_LEAST_RTT_MS * HZ / MSEC_PER_SEC && ca->rtt_max;

	ca->last_rate_max = ca->rate_max;
	ca->beta = HTCP_LINUX_BETA_MIN;
	if (!is_steady)
		ca->is_adaptive = false;
	else if (!ca->is_adaptive || !is_long)
		ca->is_adaptive = true;
	else
		ca->beta = clamp(ca->rtt_min * HTCP_LINUX_ONE / ca->rtt_max, (u32)HTCP_LINUX_BETA_MIN,
				 (u32)HTCP_LINUX_BETA_MAX);
}

static __always_inline u32 htcp_linux_ssthresh(struct sock *sk, struct htcp_linux *ca)
{
	u32 queueing = ca->rtt_max > ca->rtt_min ? ca->rtt_max - ca->rtt_min : 0;

	htcp_linux_update_beta(sk, ca);
	htcp_linux_update_alpha(sk, ca);
	if (ca->rtt_min && queueing)
		ca->rtt_max = ca->rtt_min + queueing * HTCP_LINUX_RTTMAX_KEPT / 100;
	return max_t(u32, tcp_sk(sk)->snd_cwnd * ca->beta / HTCP_LINUX_ONE, 2);
}

/* The time since the congestion event counts from the event's end. */
static __always_inline void htcp_linux_set_state(struct sock *sk, struct htcp_linux *ca, u8 new_state)
{
	if (new_state >= TCP_CA_CWR) {
		ca->saved_congestion = ca->congestion;
		ca->saved_rtt_max = ca->rtt_max;
		ca->saved_last_rate_max = ca->last_rate_max;
		ca->congestion = tcp_jiffies32;
	} else if (new_state == TCP_CA_Open && ca->saved_congestion) {
		ca->congestion = tcp_jiffies32;
		ca->saved_congestion = 0;
	}
}

static __always_inline void htcp_linux_undo(struct htcp_linux *ca)
{
	if (!ca->saved_congestion)
		return;
	ca->congestion = ca->saved_congestion;
	ca->rtt_max = ca->saved_rtt_max;
	ca->last_rate_max = ca->saved_last_rate_max;
	ca->saved_congestion = 0;
}

static u32 htcp_ssthresh(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct htcp *ca = inet_csk_ca(sk);

	if (OPT(sk, as_linux))
		return htcp_linux_ssthresh(sk, &ca->as_linux);
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

	if (OPT(sk, as_linux)) {
		htcp_linux_undo(&ca->as_linux);
		return tcp_reno_undo_cwnd(sk);
	}
	ca->congestion = ca->saved_congestion;
	ca->rate = max(ca->rate, ca->last_rate);
	ca->last_rate = ca->saved_last_rate;
	ca->beta = ca->saved_beta;
	return tcp_reno_undo_cwnd(sk);
}

/* After a timeout, slow start measures the path's round-trip time again; the throughput history is invalid. */
static void htcp_set_state(struct sock *sk, u8 new_state)
{
	struct htcp *ca = inet_csk_ca(sk);

	if (OPT(sk, as_linux))
		htcp_linux_set_state(sk, &ca->as_linux, new_state);
	else if (new_state == TCP_CA_Loss)
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
