// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * BBR, version 1: paces at the largest delivery rate of the last ten round trips, and keeps two of the path's
 * bandwidth-delay products in flight. Losses do not reduce it. Every eight round trips it probes for more bandwidth,
 * every ten seconds for a shorter round-trip time.
 *
 * N. Cardwell, Y. Cheng, C. S. Gunn, S. Hassas Yeganeh, V. Jacobson, "BBR: congestion-based congestion control", ACM
 * Queue 14(5), 2016; draft-cardwell-iccrg-bbr-congestion-control-00. The details that these leave open are Linux':
 * long-term sampling against policers, aggregation of acknowledgements, quantisation. See the README.
 */
#include "weir_cc.h"

#define BBR_OPTIONS(OPTION)                                                                         \
	OPTION(min_rtt_window, 10, 1, 600, "window of the shortest round-trip time, s")             \
	OPTION(probe_rtt, 200, 0, 10000, "duration of ProbeRTT, ms; 0: never")                      \
	OPTION(cwnd_gain, 512, 256, 1023, "window in bandwidth-delay products (ProbeBW), in 1/256") \
	OPTION(policers, 1, 0, 1, "pace at the long-term rate where a policer seems to drop")       \
	OPTION(aggregation, 1, 0, 1, "larger window where acknowledgements come aggregated")
WEIR_CC_OPTIONS(BBR_OPTIONS)

#include "weir_minmax.h"

enum {
	BBR_BW_SHIFT = 24,                         /* bandwidths are in packets a microsecond << 24 */
	BBR_ONE = 256,                             /* gains are in 1/256 */
	BBR_HIGH_GAIN = BBR_ONE * 2885 / 1000 + 1, /* 2 / ln 2: doubles the rate each round trip */
	BBR_DRAIN_GAIN = BBR_ONE * 1000 / 2885,
	BBR_CYCLE = 8,      /* phases of ProbeBW */
	BBR_BW_ROUNDS = 10, /* window of the bandwidth, round trips */
	BBR_LEAST_CWND = 4,
	BBR_FULL_ROUNDS = 3,     /* without growth by a quarter end Startup */
	BBR_MARGIN_PERCENT = 99, /* of the estimate, so that the queue drains */
	BBR_SLOW_RATE = 150000,  /* bytes a second below which a train is one packet */
	BBR_TRAIN_SHIFT = 10,    /* a train takes about a millisecond */
	BBR_TRAIN_BYTES = 65215, /* largest */
	BBR_TRAIN_PACKETS = 127,

	BBR_LT_LEAST_ROUNDS = 4,
	BBR_LT_LOSS = 50,  /* share of lost packets that a policer drops, in 1/256 */
	BBR_LT_NEAR = 500, /* bytes a second by which two intervals may differ, or an eighth */
	BBR_LT_MOST_ROUNDS = 48,

	BBR_EXTRA_ROUNDS = 5,      /* half of the window of the aggregation */
	BBR_EXTRA_US = 100 * 1000, /* most aggregation that counts */
	BBR_EPOCH_RESET = 1 << 20,
};
#define BBR_BW_ONE (1ULL << BBR_BW_SHIFT)

enum bbr_mode {
	BBR_STARTUP,
	BBR_DRAIN,
	BBR_PROBE_BW,
	BBR_PROBE_RTT,
};

struct bbr {
	struct weir_max bw; /* over round trips */
	u64 phase_start;    /* of ProbeBW, microseconds */
	u64 epoch_start;    /* of the aggregation, microseconds */
	u32 min_rtt;        /* microseconds; ~0 is none */
	u32 min_rtt_stamp;  /* jiffies */
	u32 probe_rtt_end;  /* jiffies; 0 is not begun */
	u32 rounds;
	u32 round_end; /* the round trip ends with the acknowledgement of a packet sent when this many were delivered */
	u32 lt_bw;     /* long-term bandwidth */
	u32 lt_delivered; /* at the start of its interval */
	u32 lt_stamp;     /* milliseconds */
	u32 lt_lost;
	u32 prior_cwnd; /* before recovery or ProbeRTT, packets */
	u32 full_bw;    /* bandwidth whose growth is awaited in Startup */
	u16 extra[2];   /* most packets beyond the expected ones, in this half of the window and the last */
	u32 epoch_acked : 20;
	u32 extra_rounds : 5;
	u32 extra_now : 1; /* the present one of `extra` */
	u32 has_rtt : 1;
	u32 lt_is_sampling : 1;
	u32 lt_in_use : 1;
	u32 is_full : 1; /* Startup has found the bandwidth */
	u32 full_rounds : 2;
	u32 mode : 2;
	u32 last_state : 3;
	u32 conserves : 1; /* first round trip of recovery: one packet sent for each delivered */
	u32 is_round_start : 1;
	u32 is_restarting : 1; /* after idling */
	u32 probe_rtt_round : 1;
	u32 lt_rounds : 7;
	u32 phase : 3;
	u32 pacing_gain : 10;
};

static u32 bbr_bw(const struct bbr *ca)
{
	return ca->lt_in_use ? ca->lt_bw : weir_max_get(&ca->bw);
}

/* Time between two stamps, microseconds, never negative. */
static u32 bbr_elapsed(u64 to, u64 from)
{
	return to > from ? (u32)(to - from) : 0;
}

/* A bandwidth times a gain, less the margin, bytes a second. */
static u64 bbr_rate(const struct sock *sk, u64 bw, u32 gain)
{
	u64 rate = bw * tcp_sk(sk)->mss_cache * gain / BBR_ONE;

	return (rate * (USEC_PER_SEC / 100 * BBR_MARGIN_PERCENT)) >> BBR_BW_SHIFT;
}

static void bbr_set_pacing(struct sock *sk, u64 rate)
{
	sk->sk_pacing_rate = min_t(u64, rate, sk->sk_max_pacing_rate);
}

/* Before a bandwidth is known: the window in a round trip, or in a millisecond. */
static void bbr_first_pacing(struct sock *sk, struct bbr *ca)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 rtt = USEC_PER_MSEC;

	if (tp->srtt_us) {
		rtt = max(tp->srtt_us >> 3, 1U);
		ca->has_rtt = 1;
	}
	bbr_set_pacing(sk, bbr_rate(sk, (u32)div64_u64(tp->snd_cwnd * BBR_BW_ONE, rtt), BBR_HIGH_GAIN));
}

/* In Startup the rate only rises. */
static void bbr_pace(struct sock *sk, struct bbr *ca, u32 gain)
{
	u64 rate = min_t(u64, bbr_rate(sk, bbr_bw(ca), gain), sk->sk_max_pacing_rate);

	if (!ca->has_rtt && tcp_sk(sk)->srtt_us)
		bbr_first_pacing(sk, ca);
	if (ca->is_full || rate > sk->sk_pacing_rate)
		sk->sk_pacing_rate = rate;
}

static u32 bbr_min_tso_segs(struct sock *sk)
{
	return sk->sk_pacing_rate < BBR_SLOW_RATE ? 1 : 2;
}

/* Packets of a segmentation-offload train at the pacing rate. */
static u32 bbr_train(struct sock *sk)
{
	u64 bytes = min_t(u64, sk->sk_pacing_rate >> BBR_TRAIN_SHIFT, BBR_TRAIN_BYTES);
	u32 packets = (u32)bytes / max(tcp_sk(sk)->mss_cache, 1U);

	return min(max(packets, bbr_min_tso_segs(sk)), (u32)BBR_TRAIN_PACKETS);
}

/* The bandwidth-delay product times a gain, rounded up, packets. */
static u32 bbr_bdp(const struct bbr *ca, u32 bw, u32 gain)
{
	if (ca->min_rtt == ~0U)
		return TCP_INIT_CWND;
	return (u32)(((((u64)bw * ca->min_rtt * gain) / BBR_ONE) + BBR_BW_ONE - 1) >> BBR_BW_SHIFT);
}

/* Room for the trains at both ends, even, and a little more where ProbeBW must exceed a small product. */
static u32 bbr_with_trains(struct sock *sk, const struct bbr *ca, u32 cwnd)
{
	cwnd += 3 * bbr_train(sk);
	cwnd = (cwnd + 1) & ~1U;
	if (ca->mode == BBR_PROBE_BW && ca->phase == 0)
		cwnd += 2;
	return cwnd;
}

static u32 bbr_inflight(struct sock *sk, const struct bbr *ca, u32 gain)
{
	return bbr_with_trains(sk, ca, bbr_bdp(ca, weir_max_get(&ca->bw), gain));
}

/* The packets that will be in flight when pacing releases the next train. */
static u32 bbr_inflight_at_departure(struct sock *sk, const struct bbr *ca, u32 now)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u64 wait = tp->tcp_wstamp_ns > tp->tcp_clock_cache ? tp->tcp_wstamp_ns - tp->tcp_clock_cache : 0;
	u32 delivered = (u32)((u64)bbr_bw(ca) * (wait / 1000) >> BBR_BW_SHIFT);

	if (ca->pacing_gain > BBR_ONE)
		now += bbr_train(sk);
	return now > delivered ? now - delivered : 0;
}

/* ProbeBW -------------------------------------------------------------------------------------------------------- */

static u32 bbr_phase_gain(const struct bbr *ca)
{
	if (ca->lt_in_use || ca->phase > 1)
		return BBR_ONE;
	return ca->phase == 0 ? BBR_ONE * 5 / 4 : BBR_ONE * 3 / 4;
}

static void bbr_next_phase(const struct sock *sk, struct bbr *ca)
{
	ca->phase = (ca->phase + 1) & (BBR_CYCLE - 1);
	ca->phase_start = tcp_sk(sk)->delivered_mstamp;
}

/* Begins at any phase but the second, so that flows do not probe together. */
static void bbr_enter_probe_bw(struct sock *sk, struct bbr *ca)
{
	ca->mode = BBR_PROBE_BW;
	ca->phase = BBR_CYCLE - 1 - weir_random_below(sk, BBR_CYCLE - 1);
	bbr_next_phase(sk, ca);
}

static bool bbr_phase_is_over(struct sock *sk, const struct bbr *ca, const struct rate_sample *rs)
{
	bool is_long = bbr_elapsed(tcp_sk(sk)->delivered_mstamp, ca->phase_start) > ca->min_rtt;
	u32 inflight;

	if (ca->pacing_gain == BBR_ONE)
		return is_long;
	inflight = bbr_inflight_at_departure(sk, ca, rs->prior_in_flight);
	if (ca->pacing_gain > BBR_ONE)
		return is_long && (rs->losses || inflight >= bbr_inflight(sk, ca, ca->pacing_gain));
	return is_long || inflight <= bbr_inflight(sk, ca, BBR_ONE);
}

/* Long-term bandwidth -------------------------------------------------------------------------------------------- */

static void bbr_lt_begin(const struct sock *sk, struct bbr *ca)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	ca->lt_stamp = (u32)(tp->delivered_mstamp / USEC_PER_MSEC);
	ca->lt_delivered = tp->delivered;
	ca->lt_lost = tp->lost;
	ca->lt_rounds = 0;
}

static void bbr_lt_reset(const struct sock *sk, struct bbr *ca)
{
	ca->lt_bw = 0;
	ca->lt_in_use = 0;
	ca->lt_is_sampling = 0;
	bbr_lt_begin(sk, ca);
}

/* Two intervals in a row with nearly the same rate: a policer. */
static void bbr_lt_end(const struct sock *sk, struct bbr *ca, u32 bw)
{
	u32 difference = bw > ca->lt_bw ? bw - ca->lt_bw : ca->lt_bw - bw;

	if (ca->lt_bw &&
	    (difference * BBR_ONE <= BBR_ONE / 8 * ca->lt_bw || bbr_rate(sk, difference, BBR_ONE) <= BBR_LT_NEAR)) {
		ca->lt_bw = (bw + ca->lt_bw) >> 1;
		ca->lt_in_use = 1;
		ca->pacing_gain = BBR_ONE;
		ca->lt_rounds = 0;
		return;
	}
	ca->lt_bw = bw;
	bbr_lt_begin(sk, ca);
}

/* An interval begins and ends with a loss, takes 4 to 16 round trips, and loses at least a fifth. */
static void bbr_lt_measure(const struct sock *sk, struct bbr *ca)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 lost = tp->lost - ca->lt_lost, delivered = tp->delivered - ca->lt_delivered;
	u32 ms = (u32)(tp->delivered_mstamp / USEC_PER_MSEC) - ca->lt_stamp;

	if (!delivered || lost << 8 < BBR_LT_LOSS * delivered || (s32)ms < 1)
		return;
	if (ms >= ~0U / USEC_PER_MSEC)
		bbr_lt_reset(sk, ca);
	else
		bbr_lt_end(sk, ca, (u32)div64_u64(delivered * BBR_BW_ONE, (u64)ms * USEC_PER_MSEC));
}

static void bbr_lt_sample(struct sock *sk, struct bbr *ca, u32 losses, bool is_app_limited)
{
	if (!OPT(sk, policers))
		return;
	if (ca->lt_in_use) {
		if (ca->mode != BBR_PROBE_BW || !ca->is_round_start)
			return;
		ca->lt_rounds++;
		if (ca->lt_rounds >= BBR_LT_MOST_ROUNDS) {
			bbr_lt_reset(sk, ca);
			bbr_enter_probe_bw(sk, ca);
		}
		return;
	}
	if (!ca->lt_is_sampling) {
		if (!losses)
			return;
		bbr_lt_begin(sk, ca);
		ca->lt_is_sampling = 1;
	}
	if (is_app_limited) {
		bbr_lt_reset(sk, ca);
		return;
	}
	if (ca->is_round_start)
		ca->lt_rounds++;
	if (ca->lt_rounds < BBR_LT_LEAST_ROUNDS)
		return;
	if (ca->lt_rounds > 4 * BBR_LT_LEAST_ROUNDS)
		bbr_lt_reset(sk, ca);
	else if (losses)
		bbr_lt_measure(sk, ca);
}

/* The model ------------------------------------------------------------------------------------------------------ */

static void bbr_update_bw(struct sock *sk, struct bbr *ca, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u64 bw;

	ca->is_round_start = 0;
	if (rs->delivered < 0 || rs->interval_us <= 0)
		return;
	if (!before(rs->prior_delivered, ca->round_end)) {
		ca->round_end = tp->delivered;
		ca->rounds++;
		ca->is_round_start = 1;
		ca->conserves = 0;
	}
	bbr_lt_sample(sk, ca, rs->losses, rs->is_app_limited);
	bw = div64_u64((u64)rs->delivered * BBR_BW_ONE, (u64)rs->interval_us);
	/* What the application limited says little, unless it is more than was known. */
	if (!rs->is_app_limited || bw >= weir_max_get(&ca->bw))
		weir_max_add(&ca->bw, BBR_BW_ROUNDS, ca->rounds, (u32)bw);
}

/* Begins a new half of the window of the aggregation. */
static void bbr_age_extra(struct bbr *ca)
{
	ca->extra_rounds = min(0x1fU, ca->extra_rounds + 1U);
	if (ca->extra_rounds < BBR_EXTRA_ROUNDS)
		return;
	ca->extra_rounds = 0;
	ca->extra_now = !ca->extra_now;
	if (ca->extra_now)
		ca->extra[1] = 0;
	else
		ca->extra[0] = 0;
}

/* How many packets more than expected were acknowledged since acknowledgements were last slower than the bandwidth. */
static void bbr_update_extra(struct sock *sk, struct bbr *ca, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 expected, extra;

	if (!OPT(sk, aggregation) || !rs->acked_sacked || rs->delivered < 0 || rs->interval_us <= 0)
		return;
	if (ca->is_round_start)
		bbr_age_extra(ca);
	expected = (u32)((u64)bbr_bw(ca) * bbr_elapsed(tp->delivered_mstamp, ca->epoch_start) >> BBR_BW_SHIFT);
	if (ca->epoch_acked <= expected || ca->epoch_acked + rs->acked_sacked >= BBR_EPOCH_RESET) {
		ca->epoch_acked = 0;
		ca->epoch_start = tp->delivered_mstamp;
		expected = 0;
	}
	ca->epoch_acked = min(0xfffffU, ca->epoch_acked + rs->acked_sacked);
	extra = min(ca->epoch_acked - expected, tp->snd_cwnd);
	if (ca->extra_now && extra > ca->extra[1])
		ca->extra[1] = (u16)extra;
	if (!ca->extra_now && extra > ca->extra[0])
		ca->extra[0] = (u16)extra;
}

/* Startup ends after three round trips in which the bandwidth did not grow by a quarter. */
static void bbr_check_full(struct bbr *ca, const struct rate_sample *rs)
{
	u32 bw = weir_max_get(&ca->bw);

	if (ca->is_full || !ca->is_round_start || rs->is_app_limited)
		return;
	if (bw >= (u32)((u64)ca->full_bw * 5 / 4)) {
		ca->full_bw = bw;
		ca->full_rounds = 0;
		return;
	}
	ca->full_rounds++;
	ca->is_full = ca->full_rounds >= BBR_FULL_ROUNDS;
}

static void bbr_check_drain(struct sock *sk, struct bbr *ca)
{
	u32 inflight;

	if (ca->mode == BBR_STARTUP && ca->is_full) {
		ca->mode = BBR_DRAIN;
		tcp_sk(sk)->snd_ssthresh = bbr_inflight(sk, ca, BBR_ONE);
	}
	if (ca->mode != BBR_DRAIN)
		return;
	inflight = bbr_inflight_at_departure(sk, ca, tcp_packets_in_flight(tcp_sk(sk)));
	if (inflight <= bbr_inflight(sk, ca, BBR_ONE))
		bbr_enter_probe_bw(sk, ca);
}

static void bbr_save_cwnd(struct sock *sk, struct bbr *ca)
{
	u32 cwnd = tcp_sk(sk)->snd_cwnd;
	bool is_reduced = ca->last_state >= TCP_CA_Recovery || ca->mode == BBR_PROBE_RTT;

	ca->prior_cwnd = is_reduced ? max(ca->prior_cwnd, cwnd) : cwnd;
}

static void bbr_check_probe_rtt_end(struct sock *sk, struct bbr *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!ca->probe_rtt_end || !after(tcp_jiffies32, ca->probe_rtt_end))
		return;
	ca->min_rtt_stamp = tcp_jiffies32;
	tp->snd_cwnd = min(max(tp->snd_cwnd, ca->prior_cwnd), tp->snd_cwnd_clamp);
	if (ca->is_full)
		bbr_enter_probe_bw(sk, ca);
	else
		ca->mode = BBR_STARTUP;
}

/* ProbeRTT: four packets in flight for a while and a round trip. */
static void bbr_probe_rtt(struct sock *sk, struct bbr *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->app_limited = max(tp->delivered + tcp_packets_in_flight(tp), 1U);
	if (!ca->probe_rtt_end && tcp_packets_in_flight(tp) <= BBR_LEAST_CWND) {
		ca->probe_rtt_end = tcp_jiffies32 + (OPT(sk, probe_rtt) * HZ + MSEC_PER_SEC - 1) / MSEC_PER_SEC;
		ca->probe_rtt_round = 0;
		ca->round_end = tp->delivered;
	} else if (ca->probe_rtt_end) {
		if (ca->is_round_start)
			ca->probe_rtt_round = 1;
		if (ca->probe_rtt_round)
			bbr_check_probe_rtt_end(sk, ca);
	}
}

static void bbr_update_min_rtt(struct sock *sk, struct bbr *ca, const struct rate_sample *rs)
{
	bool is_old = after(tcp_jiffies32, ca->min_rtt_stamp + OPT(sk, min_rtt_window) * HZ);

	if (rs->rtt_us >= 0 && ((u64)rs->rtt_us < ca->min_rtt || (is_old && !rs->is_ack_delayed))) {
		ca->min_rtt = (u32)rs->rtt_us;
		ca->min_rtt_stamp = tcp_jiffies32;
	}
	if (OPT(sk, probe_rtt) && is_old && !ca->is_restarting && ca->mode != BBR_PROBE_RTT) {
		ca->mode = BBR_PROBE_RTT;
		bbr_save_cwnd(sk, ca);
		ca->probe_rtt_end = 0;
	}
	if (ca->mode == BBR_PROBE_RTT)
		bbr_probe_rtt(sk, ca);
	if (rs->delivered > 0)
		ca->is_restarting = 0;
}

/* The window's gain of the mode; sets the pacing gain. */
static u32 bbr_set_gains(struct sock *sk, struct bbr *ca)
{
	(void)sk;
	switch (ca->mode) {
	case BBR_STARTUP:
		ca->pacing_gain = BBR_HIGH_GAIN;
		return BBR_HIGH_GAIN;
	case BBR_DRAIN:
		ca->pacing_gain = BBR_DRAIN_GAIN;
		return BBR_HIGH_GAIN;
	case BBR_PROBE_BW:
		ca->pacing_gain = bbr_phase_gain(ca);
		return OPT(sk, cwnd_gain);
	default:
		ca->pacing_gain = BBR_ONE;
		return BBR_ONE;
	}
}

/* The window ----------------------------------------------------------------------------------------------------- */

/* Recovery: less what was lost; in its first round trip a packet for each delivered; at its end what was before. */
static u32 bbr_recover(struct sock *sk, struct bbr *ca, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u8 state = weir_ca_state(sk), last = ca->last_state;
	u32 cwnd = tp->snd_cwnd, losses = max(rs->losses, 0);

	if (losses)
		cwnd = cwnd > losses ? cwnd - losses : 1;
	if (state == TCP_CA_Recovery && last != TCP_CA_Recovery) {
		ca->conserves = 1;
		ca->round_end = tp->delivered;
		cwnd = tcp_packets_in_flight(tp) + rs->acked_sacked;
	} else if (last >= TCP_CA_Recovery && state < TCP_CA_Recovery) {
		cwnd = max(cwnd, ca->prior_cwnd);
		ca->conserves = 0;
	}
	ca->last_state = state;
	return ca->conserves ? max(cwnd, tcp_packets_in_flight(tp) + rs->acked_sacked) : cwnd;
}

static u32 bbr_aggregation(const struct sock *sk, const struct bbr *ca)
{
	u32 most = (u32)((u64)bbr_bw(ca) * BBR_EXTRA_US >> BBR_BW_SHIFT);

	if (!OPT(sk, aggregation) || !ca->is_full)
		return 0;
	return min((u32)max(ca->extra[0], ca->extra[1]), most);
}

static u32 bbr_target(struct sock *sk, const struct bbr *ca, u32 gain)
{
	return bbr_with_trains(sk, ca, bbr_bdp(ca, bbr_bw(ca), gain) + bbr_aggregation(sk, ca));
}

static void bbr_set_cwnd(struct sock *sk, struct bbr *ca, const struct rate_sample *rs, u32 gain)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = tp->snd_cwnd, acked = rs->acked_sacked;

	if (acked) {
		cwnd = bbr_recover(sk, ca, rs);
		if (!ca->conserves) {
			u32 target = bbr_target(sk, ca, gain);

			if (ca->is_full)
				cwnd = min_t(u64, (u64)cwnd + acked, target);
			else if (cwnd < target || tp->delivered < TCP_INIT_CWND)
				cwnd = min_t(u64, (u64)cwnd + acked, ~0U);
			cwnd = max(cwnd, (u32)BBR_LEAST_CWND);
		}
	}
	cwnd = max(min(cwnd, tp->snd_cwnd_clamp), 1U);
	if (ca->mode == BBR_PROBE_RTT)
		cwnd = min(cwnd, (u32)BBR_LEAST_CWND);
	tp->snd_cwnd = cwnd;
}

static void bbr_cong_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct bbr *ca = inet_csk_ca(sk);
	u32 gain;

	(void)ack;
	(void)flag;
	bbr_update_bw(sk, ca, rs);
	bbr_update_extra(sk, ca, rs);
	if (ca->mode == BBR_PROBE_BW && bbr_phase_is_over(sk, ca, rs))
		bbr_next_phase(sk, ca);
	bbr_check_full(ca, rs);
	bbr_check_drain(sk, ca);
	bbr_update_min_rtt(sk, ca, rs);
	gain = bbr_set_gains(sk, ca);
	bbr_pace(sk, ca, ca->pacing_gain);
	bbr_set_cwnd(sk, ca, rs, gain);
}

/* Other operations ----------------------------------------------------------------------------------------------- */

static void bbr_init(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *ca = inet_csk_ca(sk);

	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	ca->round_end = tp->delivered;
	ca->min_rtt = tcp_min_rtt(tp);
	ca->min_rtt_stamp = tcp_jiffies32;
	ca->epoch_start = tp->tcp_mstamp;
	ca->mode = BBR_STARTUP;
	weir_max_reset(&ca->bw, 0, 0);
	bbr_first_pacing(sk, ca);
	bbr_lt_reset(sk, ca);
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

/* Restarts at the bandwidth that is known, not with a burst. */
static void bbr_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *ca = inet_csk_ca(sk);

	if (event != CA_EVENT_TX_START || !tp->app_limited)
		return;
	ca->is_restarting = 1;
	ca->epoch_start = tp->tcp_mstamp;
	ca->epoch_acked = 0;
	if (ca->mode == BBR_PROBE_BW)
		bbr_pace(sk, ca, BBR_ONE);
	else if (ca->mode == BBR_PROBE_RTT)
		bbr_check_probe_rtt_end(sk, ca);
}

/* The threshold does not change; the window before recovery is kept. */
static u32 bbr_ssthresh(struct sock *sk)
{
	bbr_save_cwnd(sk, inet_csk_ca(sk));
	return tcp_sk(sk)->snd_ssthresh;
}

static u32 bbr_undo_cwnd(struct sock *sk)
{
	struct bbr *ca = inet_csk_ca(sk);

	ca->full_bw = 0;
	ca->full_rounds = 0;
	bbr_lt_reset(sk, ca);
	return tcp_sk(sk)->snd_cwnd;
}

/* A timeout counts as the end of a round trip with a loss. */
static void bbr_set_state(struct sock *sk, u8 new_state)
{
	struct bbr *ca = inet_csk_ca(sk);

	if (new_state != TCP_CA_Loss)
		return;
	ca->last_state = TCP_CA_Loss;
	ca->full_bw = 0;
	ca->is_round_start = 1;
	bbr_lt_sample(sk, ca, 1, false);
}

static u32 bbr_sndbuf_expand(struct sock *sk)
{
	(void)sk;
	return 3;
}

#define BBR_OPS(OP)                          \
	OP(init, bbr_init)                   \
	OP(ssthresh, bbr_ssthresh)           \
	OP(cong_control, bbr_cong_control)   \
	OP(set_state, bbr_set_state)         \
	OP(cwnd_event, bbr_cwnd_event)       \
	OP(min_tso_segs, bbr_min_tso_segs)   \
	OP(sndbuf_expand, bbr_sndbuf_expand) \
	OP(undo_cwnd, bbr_undo_cwnd)

WEIR_CC_ABOUT("BBR, version 1", 2016,
	      "N. Cardwell, Y. Cheng, C. S. Gunn, S. H. Yeganeh, V. Jacobson, BBR, ACM Queue 14(5), 2016")
WEIR_CC_REGISTER(bbr, "bbr", TCP_CONG_NON_RESTRICTED, struct bbr, BBR_OPS)
