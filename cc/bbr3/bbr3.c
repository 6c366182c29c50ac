// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * BBR, version 3: models the path by its bandwidth, its shortest round-trip time, and two bounds of the data in flight
 * that losses teach. It paces at the bandwidth, probes for more every few seconds, and gives way to losses.
 *
 * N. Cardwell, I. Swett, J. Beshay, "BBR congestion control", draft-ietf-ccwg-bbr-06. What the samples of Linux lack is
 * estimated: see the README.
 */
#include "weir_cc.h"

#define BBR3_OPTIONS(OPTION)                                                                                   \
	OPTION(min_rtt_window, 10, 1, 600, "window of the shortest round-trip time, s")                        \
	OPTION(probe_rtt, 200, 0, 10000, "duration of ProbeRTT, ms; 0: never")                                 \
	OPTION(loss_thresh, 20, 1, 500, "loss rate of a round trip that bounds the data in flight, per mille") \
	OPTION(beta, 717, 512, 1023, "share of the bounds that a round trip with losses keeps, in 1/1024")     \
	OPTION(headroom, 154, 0, 512, "share of the long-term bound left to other flows, in 1/1024")           \
	OPTION(aggregation, 1, 0, 1, "larger window where acknowledgements come aggregated")
WEIR_CC_OPTIONS(BBR3_OPTIONS)

enum {
	BBR3_BW_SHIFT = 24,        /* bandwidths are in packets a microsecond << 24 */
	BBR3_ONE = 256,            /* gains are in 1/256 */
	BBR3_STARTUP_PACING = 709, /* 4 ln 2 = 2.77 */
	BBR3_DRAIN_PACING = 128,   /* 0.5 */
	BBR3_DOWN_PACING = 230,    /* 0.90 */
	BBR3_UP_PACING = 320,      /* 1.25 */
	BBR3_CWND = 512,           /* 2 */
	BBR3_UP_CWND = 576,        /* 2.25 */
	BBR3_PROBE_RTT_CWND = 128, /* 0.5 */
	BBR3_SHARE = 1024,         /* beta and headroom are in 1/1024 */
	BBR3_LEAST_CWND = 4,       /* MinPipeCwnd */
	BBR3_FULL_ROUNDS = 3,
	BBR3_FULL_LOSSES = 6, /* StartupFullLossCnt */
	BBR3_MOST_LOSSES = 15,
	BBR3_DRAIN_ROUNDS = 3,
	BBR3_RENO_ROUNDS = 63, /* most round trips between probes for bandwidth */
	BBR3_MOST_ROUNDS = 127,
	BBR3_PROBE_MS = 2000, /* least time between probes; up to a second more */
	BBR3_PROBE_RANDOM_MS = 1000,
	BBR3_MOST_UP_ROUNDS = 30,
	BBR3_MARGIN_PERCENT = 99, /* of the bandwidth, so that the queue drains */
	BBR3_TRAIN_SHIFT = 10,    /* the send quantum takes about a millisecond */
	BBR3_TRAIN_BYTES = 65536,
	BBR3_EXTRA_ROUNDS = 5, /* half of the window of the aggregation */
	BBR3_EPOCH_RESET = 1 << 20,
};
#define BBR3_BW_ONE (1ULL << BBR3_BW_SHIFT)

/*
 * Between steps the compiler keeps no field in a register. BPF's verifier follows every combination of values that it
 * knows of, which are too many for all steps together.
 */
#ifdef __bpf__
#define BBR3_STEP __asm__ volatile("" ::: "memory")
#else
#define BBR3_STEP ((void)0)
#endif
#define BBR3_INFINITE (~0U)

enum bbr3_state {
	BBR3_STARTUP,
	BBR3_DRAIN,
	BBR3_DOWN,
	BBR3_CRUISE,
	BBR3_REFILL,
	BBR3_UP,
	BBR3_PROBE_RTT,
};

enum bbr3_acks {
	BBR3_ACKS_INIT,
	BBR3_ACKS_REFILLING,
	BBR3_ACKS_STARTING, /* not yet of packets sent while probing */
	BBR3_ACKS_FEEDBACK,
	BBR3_ACKS_STOPPING, /* of the last packets sent while probing */
};

enum bbr3_undo {
	BBR3_UNDO_NONE,
	BBR3_UNDO_STARTUP,
	BBR3_UNDO_UP,
};

struct bbr3 {
	u32 bw_now;         /* largest bandwidth of this cycle of ProbeBW */
	u32 bw_before;      /* and of the last one */
	u32 bw_latest;      /* largest of the round trip */
	u32 bw_short;       /* bound by losses since the last probe (bw_shortterm) */
	u32 latest;         /* most packets delivered in the round trip (inflight_latest) */
	u32 inflight_short; /* bounds of the packets in flight, until the next probe */
	u32 inflight_long;  /* and until more turns out to be safe */
	u32 min_rtt;        /* microseconds; ~0 is none */
	u32 min_rtt_stamp;  /* jiffies */
	u32 probe_rtt_end;  /* jiffies; 0 is not begun */
	u32 probe_rtt_cwnd; /* packets */
	u32 round_end; /* the round trip ends with the acknowledgement of a packet sent when this many were delivered */
	u32 loss_round_end; /* the same of the round trip that began with a loss */
	u32 lost;           /* the connection's losses when the present round trip began */
	u32 prior_cwnd;     /* before recovery or ProbeRTT, packets */
	u32 full_bw;        /* bandwidth whose growth is awaited */
	u32 cycle_stamp;    /* clock when ProbeBW_DOWN began, microseconds */
	u32 up_acked;       /* packets delivered towards the next increase of the long-term bound */
	u32 up_needed;      /* for an increase by a packet */
	u32 undo_bw;        /* bw_short and inflight_long before the losses */
	u32 undo_inflight;
	u32 epoch_start; /* of the aggregation, microseconds */
	u16 extra[2];    /* most packets beyond the expected ones, in this half of the window and the last */
	u32 epoch_acked : 20;
	u32 probe_wait : 12; /* time from ProbeBW_DOWN to the next probe, ms */
	u32 state : 3;
	u32 acks : 3;
	u32 undo : 2;
	u32 last_state : 3;
	u32 full_rounds : 2;
	u32 up_rounds : 5;
	u32 rounds_since_probe : 7;
	u32 drain_rounds : 3;
	u32 loss_events : 4; /* acknowledgements that found losses in the round trip */
	u32 has_rtt : 1;
	u32 is_full : 1; /* the bandwidth has been reached at least once */
	u32 is_full_now : 1;
	u32 is_probe_sample : 1; /* acknowledgements are of packets sent while probing */
	u32 was_too_high : 1;    /* the last probe ended with losses */
	u32 was_cautious : 1;    /* the last probe ended at the bound, before losses */
	u32 is_round_start : 1;
	u32 is_loss_round_start : 1;
	u32 has_lost : 1;       /* in the round trip */
	u32 was_recovering : 1; /* for a whole round trip */
	u32 is_restarting : 1;
	u32 is_rtt_old : 1;
	u32 probe_rtt_round : 1;
	u32 extra_rounds : 4;
	u32 extra_now : 1;
};

/* The model's quantities ----------------------------------------------------------------------------------------- */

static u32 bbr3_max_bw(const struct bbr3 *ca)
{
	return max(ca->bw_now, ca->bw_before);
}

static bool bbr3_is_probing(const struct bbr3 *ca)
{
	return ca->state == BBR3_STARTUP || ca->state == BBR3_REFILL || ca->state == BBR3_UP;
}

static bool bbr3_in_probe_bw(const struct bbr3 *ca)
{
	return ca->state >= BBR3_DOWN && ca->state <= BBR3_UP;
}

/* BoundBWForModel: min(max_bw, bw_shortterm). */
static u32 bbr3_bw(const struct bbr3 *ca)
{
	return min(bbr3_max_bw(ca), ca->bw_short);
}

static u32 bbr3_pacing_gain(const struct bbr3 *ca)
{
	switch (ca->state) {
	case BBR3_STARTUP:
		return BBR3_STARTUP_PACING;
	case BBR3_DRAIN:
		return BBR3_DRAIN_PACING;
	case BBR3_DOWN:
		return BBR3_DOWN_PACING;
	case BBR3_UP:
		return BBR3_UP_PACING;
	default:
		return BBR3_ONE;
	}
}

static u32 bbr3_cwnd_gain(const struct bbr3 *ca)
{
	if (ca->state == BBR3_UP)
		return BBR3_UP_CWND;
	return ca->state == BBR3_PROBE_RTT ? BBR3_PROBE_RTT_CWND : BBR3_CWND;
}

/* A bandwidth times a gain, less the margin, bytes a second. */
static u64 bbr3_rate(const struct sock *sk, u64 bw, u32 gain)
{
	u64 rate = bw * tcp_sk(sk)->mss_cache * gain / BBR3_ONE;

	return (rate * (USEC_PER_SEC / 100 * BBR3_MARGIN_PERCENT)) >> BBR3_BW_SHIFT;
}

/* Packets of the send quantum: a millisecond at the pacing rate, at least two. */
static u32 bbr3_quantum(const struct sock *sk)
{
	u64 bytes = min_t(u64, sk->sk_pacing_rate >> BBR3_TRAIN_SHIFT, BBR3_TRAIN_BYTES);

	return max((u32)bytes / max(tcp_sk(sk)->mss_cache, 1U), 2U);
}

/* The bandwidth-delay product times a gain, rounded up, packets. */
static u32 bbr3_bdp(const struct bbr3 *ca, u32 bw, u32 gain)
{
	if (ca->min_rtt == ~0U)
		return TCP_INIT_CWND;
	return min_t(u64, ((u64)bw * ca->min_rtt / BBR3_ONE * gain + BBR3_BW_ONE - 1) >> BBR3_BW_SHIFT, ~0U >> 2);
}

/* QuantizationBudget: room for three quanta. */
static u32 bbr3_with_quanta(const struct sock *sk, const struct bbr3 *ca, u32 cwnd)
{
	cwnd = max(max(cwnd, 3 * bbr3_quantum(sk)), (u32)BBR3_LEAST_CWND);
	return ca->state == BBR3_UP ? cwnd + 2 : cwnd;
}

static u32 bbr3_inflight(const struct sock *sk, const struct bbr3 *ca, u32 bw, u32 gain)
{
	return bbr3_with_quanta(sk, ca, bbr3_bdp(ca, bw, gain));
}

/* TargetInflight: the product, unless congestion cut the window. */
static u32 bbr3_target(const struct sock *sk, const struct bbr3 *ca)
{
	return min(bbr3_bdp(ca, bbr3_bw(ca), BBR3_ONE), tcp_sk(sk)->snd_cwnd);
}

/* InflightWithHeadroom: leaves a share of the long-term bound to other flows. */
static u32 bbr3_with_headroom(const struct sock *sk, const struct bbr3 *ca)
{
	u32 headroom;

	if (ca->inflight_long == BBR3_INFINITE)
		return BBR3_INFINITE;
	headroom = max((u32)((u64)ca->inflight_long * OPT(sk, headroom) / BBR3_SHARE), 1U);
	return ca->inflight_long > headroom + BBR3_LEAST_CWND ? ca->inflight_long - headroom : BBR3_LEAST_CWND;
}

static u32 bbr3_kept(const struct sock *sk, u32 value)
{
	return (u32)((u64)value * OPT(sk, beta) / BBR3_SHARE);
}

static u32 bbr3_clock(const struct sock *sk)
{
	return (u32)tcp_sk(sk)->tcp_mstamp;
}

/* Pacing --------------------------------------------------------------------------------------------------------- */

/* Before a bandwidth is known: the window in a round trip, or in a millisecond. */
static void bbr3_first_pacing(struct sock *sk, struct bbr3 *ca)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 rtt = USEC_PER_MSEC, bw;

	if (tp->srtt_us) {
		rtt = max(tp->srtt_us >> 3, 1U);
		ca->has_rtt = 1;
	}
	bw = (u32)div64_u64(tp->snd_cwnd * BBR3_BW_ONE, rtt);
	sk->sk_pacing_rate = min_t(u64, bbr3_rate(sk, bw, BBR3_STARTUP_PACING), sk->sk_max_pacing_rate);
}

/* Until the bandwidth has been reached, the rate only rises. */
static void bbr3_pace(struct sock *sk, struct bbr3 *ca, u32 gain)
{
	u64 rate = min_t(u64, bbr3_rate(sk, bbr3_bw(ca), gain), sk->sk_max_pacing_rate);

	if (!ca->has_rtt && tcp_sk(sk)->srtt_us)
		bbr3_first_pacing(sk, ca);
	if (ca->is_full || rate > sk->sk_pacing_rate)
		sk->sk_pacing_rate = rate;
}

static u32 bbr3_min_tso_segs(struct sock *sk)
{
	(void)sk;
	return 2;
}

/* The state machine ---------------------------------------------------------------------------------------------- */

static void bbr3_reset_full(struct bbr3 *ca, u32 bw)
{
	ca->full_bw = bw;
	ca->full_rounds = 0;
	ca->is_full_now = 0;
}

static void bbr3_reset_short(struct bbr3 *ca)
{
	ca->bw_short = BBR3_INFINITE;
	ca->inflight_short = BBR3_INFINITE;
}

static void bbr3_start_round(const struct sock *sk, struct bbr3 *ca)
{
	ca->round_end = tcp_sk(sk)->delivered;
}

static void bbr3_start_down(struct sock *sk, struct bbr3 *ca)
{
	ca->has_lost = 0;
	ca->loss_events = 0;
	ca->bw_latest = 0;
	ca->latest = 0;
	ca->up_needed = BBR3_INFINITE;
	ca->rounds_since_probe = weir_random_below(sk, 2);
	ca->probe_wait = BBR3_PROBE_MS + weir_random_below(sk, BBR3_PROBE_RANDOM_MS);
	ca->cycle_stamp = bbr3_clock(sk);
	ca->acks = BBR3_ACKS_STOPPING;
	bbr3_start_round(sk, ca);
	ca->state = BBR3_DOWN;
}

static void bbr3_start_refill(struct sock *sk, struct bbr3 *ca)
{
	bbr3_reset_short(ca);
	ca->up_rounds = 0;
	ca->up_acked = 0;
	ca->was_cautious = 0;
	ca->acks = BBR3_ACKS_REFILLING;
	bbr3_start_round(sk, ca);
	ca->state = BBR3_REFILL;
}

/* RaiseInflightLongtermSlope: the bound grows by 1, 2, 4 ... packets a round trip. */
static void bbr3_raise_slope(const struct sock *sk, struct bbr3 *ca)
{
	u32 growth = 1U << ca->up_rounds;

	ca->up_rounds = min(ca->up_rounds + 1U, (u32)BBR3_MOST_UP_ROUNDS);
	ca->up_needed = max(tcp_sk(sk)->snd_cwnd / growth, 1U);
}

static void bbr3_start_up(struct sock *sk, struct bbr3 *ca, u32 bw)
{
	ca->acks = BBR3_ACKS_STARTING;
	bbr3_start_round(sk, ca);
	bbr3_reset_full(ca, bw);
	ca->state = BBR3_UP;
	bbr3_raise_slope(sk, ca);
}

/* The wall clock, or as many round trips as Reno would need for this window (section 5.3.3.5.3). */
static bool bbr3_probe_if_due(struct sock *sk, struct bbr3 *ca)
{
	u32 rounds = min(bbr3_target(sk, ca), (u32)BBR3_RENO_ROUNDS);

	if (bbr3_clock(sk) - ca->cycle_stamp <= ca->probe_wait * (u32)USEC_PER_MSEC && ca->rounds_since_probe < rounds)
		return false;
	bbr3_start_refill(sk, ca);
	return true;
}

static bool bbr3_may_cruise(const struct sock *sk, const struct bbr3 *ca)
{
	u32 inflight = tcp_packets_in_flight(tcp_sk(sk));

	return inflight <= bbr3_with_headroom(sk, ca) && inflight <= bbr3_inflight(sk, ca, bbr3_max_bw(ca), BBR3_ONE);
}

/* IsTimeToGoDown: at the bound that the last probe found too high, or when the bandwidth no longer grows. */
static bool bbr3_must_go_down(const struct sock *sk, struct bbr3 *ca, u32 bw)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (ca->was_too_high && tcp_packets_in_flight(tp) >= ca->inflight_long) {
		ca->was_cautious = 1;
		return true;
	}
	if (weir_cwnd_limited_flag(tp) && tp->snd_cwnd >= ca->inflight_long) {
		bbr3_reset_full(ca, bw);
		return false;
	}
	return ca->is_full_now;
}

/* Losses ----------------------------------------------------------------------------------------------------------- */

static void bbr3_save_cwnd(struct sock *sk, struct bbr3 *ca)
{
	u32 cwnd = tcp_sk(sk)->snd_cwnd;
	bool is_reduced = ca->last_state >= TCP_CA_Recovery || ca->state == BBR3_PROBE_RTT;

	ca->prior_cwnd = is_reduced ? max(ca->prior_cwnd, cwnd) : cwnd;
}

static void bbr3_note_loss(struct sock *sk, struct bbr3 *ca)
{
	if (!ca->has_lost) {
		ca->loss_round_end = tcp_sk(sk)->delivered;
		bbr3_save_cwnd(sk, ca);
		ca->undo = BBR3_UNDO_NONE;
		ca->undo_bw = ca->bw_short;
		ca->undo_inflight = ca->inflight_long;
	}
	ca->has_lost = 1;
	ca->loss_events = min(ca->loss_events + 1U, (u32)BBR3_MOST_LOSSES);
}

/*
 * The packets that were in flight when the newest acknowledged one was sent. Linux' samples do not say. All of them
 * have been delivered since, or are lost.
 */
static u32 bbr3_sent_inflight(const struct sock *sk, const struct bbr3 *ca, const struct rate_sample *rs)
{
	return (u32)max(rs->delivered, 0) + (tcp_sk(sk)->lost - ca->lost);
}

static bool bbr3_is_too_high(const struct sock *sk, u32 lost, u32 inflight)
{
	return (u64)lost * 1000 > (u64)inflight * OPT(sk, loss_thresh);
}

/* InflightAtLoss: how much was in flight when losses crossed the threshold, within the packets lost now. */
static u32 bbr3_inflight_at_loss(const struct sock *sk, u32 inflight, u32 lost, u32 newly)
{
	u64 before = inflight > newly ? inflight - newly : 0;
	u64 share = before * OPT(sk, loss_thresh), lost_before = (u64)(lost > newly ? lost - newly : 0) * 1000;
	u64 prefix = share > lost_before ? (share - lost_before) / (1000 - OPT(sk, loss_thresh)) : 0;

	return min_t(u64, before + prefix, BBR3_INFINITE - 1);
}

/* HandleInflightTooHigh: bounds the packets in flight, once a probe. */
static void bbr3_bound(struct sock *sk, struct bbr3 *ca, const struct rate_sample *rs, u32 inflight)
{
	ca->was_too_high = 1;
	ca->is_probe_sample = 0;
	if (!rs->is_app_limited)
		ca->inflight_long = max(inflight, bbr3_kept(sk, bbr3_target(sk, ca)));
	if (ca->state == BBR3_UP) {
		ca->undo = BBR3_UNDO_UP;
		bbr3_start_down(sk, ca);
	}
}

static void bbr3_handle_losses(struct sock *sk, struct bbr3 *ca, const struct rate_sample *rs)
{
	u32 newly = max(rs->losses, 0), lost = tcp_sk(sk)->lost - ca->lost;
	u32 inflight = bbr3_sent_inflight(sk, ca, rs);

	if (!newly)
		return;
	bbr3_note_loss(sk, ca);
	if (ca->is_probe_sample && bbr3_is_too_high(sk, lost, inflight))
		bbr3_bound(sk, ca, rs, bbr3_inflight_at_loss(sk, inflight, lost, newly));
}

/* AdaptLowerBoundsFromCongestion: once a round trip with losses, unless it probes. */
static void bbr3_adapt_short(struct sock *sk, struct bbr3 *ca)
{
	if (bbr3_is_probing(ca) || !ca->has_lost)
		return;
	if (ca->bw_short == BBR3_INFINITE)
		ca->bw_short = bbr3_max_bw(ca);
	if (ca->inflight_short == BBR3_INFINITE)
		ca->inflight_short = tcp_sk(sk)->snd_cwnd;
	ca->bw_short = max(ca->bw_latest, bbr3_kept(sk, ca->bw_short));
	ca->inflight_short = max(ca->latest, bbr3_kept(sk, ca->inflight_short));
}

/* The model ------------------------------------------------------------------------------------------------------ */

static u32 bbr3_sampled_bw(const struct rate_sample *rs)
{
	if (rs->delivered < 0 || rs->interval_us <= 0)
		return 0;
	return min_t(u64, div64_u64((u64)rs->delivered * BBR3_BW_ONE, (u64)rs->interval_us), BBR3_INFINITE - 1);
}

static void bbr3_update_round(struct sock *sk, struct bbr3 *ca, const struct rate_sample *rs)
{
	ca->is_round_start = rs->delivered > 0 && !before(rs->prior_delivered, ca->round_end);
	if (!ca->is_round_start)
		return;
	bbr3_start_round(sk, ca);
	ca->rounds_since_probe = min(ca->rounds_since_probe + 1U, (u32)BBR3_MOST_ROUNDS);
	if (ca->drain_rounds < 7)
		ca->drain_rounds++;
}

/* UpdateLatestDeliverySignals and UpdateCongestionSignals. */
static void bbr3_update_signals(struct sock *sk, struct bbr3 *ca, const struct rate_sample *rs, u32 bw)
{
	ca->is_loss_round_start = 0;
	if (rs->delivered > 0 && rs->interval_us > 0) {
		ca->bw_latest = max(ca->bw_latest, bw);
		ca->latest = max(ca->latest, (u32)rs->delivered);
		if (!before(rs->prior_delivered, ca->loss_round_end)) {
			ca->loss_round_end = tcp_sk(sk)->delivered;
			ca->is_loss_round_start = 1;
		}
	}
	bbr3_update_round(sk, ca, rs);
	if (bw && (bw >= bbr3_max_bw(ca) || !rs->is_app_limited))
		ca->bw_now = max(ca->bw_now, bw);
	if (ca->is_loss_round_start)
		bbr3_adapt_short(sk, ca);
}

static u32 bbr3_extra_window(const struct bbr3 *ca)
{
	return ca->is_full ? BBR3_EXTRA_ROUNDS : 1;
}

/* Begins a new half of the window of the aggregation. */
static void bbr3_age_extra(struct bbr3 *ca)
{
	ca->extra_rounds = min(ca->extra_rounds + 1U, 15U);
	if (ca->extra_rounds < bbr3_extra_window(ca))
		return;
	ca->extra_rounds = 0;
	ca->extra_now = !ca->extra_now;
	if (ca->extra_now)
		ca->extra[1] = 0;
	else
		ca->extra[0] = 0;
}

/* UpdateACKAggregation: packets acknowledged beyond the expected ones. */
static void bbr3_update_extra(struct sock *sk, struct bbr3 *ca, const struct rate_sample *rs)
{
	u32 elapsed = bbr3_clock(sk) - ca->epoch_start, expected, extra;

	if (!OPT(sk, aggregation) || !rs->acked_sacked || rs->delivered < 0 || rs->interval_us <= 0)
		return;
	if (ca->is_round_start)
		bbr3_age_extra(ca);
	expected = (u32)min_t(u64, (u64)bbr3_bw(ca) * elapsed >> BBR3_BW_SHIFT, BBR3_INFINITE);
	if (ca->epoch_acked <= expected || ca->epoch_acked + (u64)rs->acked_sacked >= BBR3_EPOCH_RESET) {
		ca->epoch_acked = 0;
		ca->epoch_start = bbr3_clock(sk);
		expected = 0;
	}
	ca->epoch_acked = min_t(u64, ca->epoch_acked + (u64)rs->acked_sacked, BBR3_EPOCH_RESET - 1);
	extra = min(min(ca->epoch_acked - expected, tcp_sk(sk)->snd_cwnd), 0xffffU);
	if (ca->extra_now)
		ca->extra[1] = max((u32)ca->extra[1], extra);
	else
		ca->extra[0] = max((u32)ca->extra[0], extra);
}

/* Three round trips in which the bandwidth did not grow by a quarter. */
static void bbr3_check_full(struct bbr3 *ca, const struct rate_sample *rs, u32 bw)
{
	if (ca->is_full_now || !ca->is_round_start || rs->is_app_limited || !bw)
		return;
	if ((u64)bw * 4 >= (u64)ca->full_bw * 5) {
		bbr3_reset_full(ca, bw);
		return;
	}
	ca->full_rounds++;
	ca->is_full_now = ca->full_rounds >= BBR3_FULL_ROUNDS;
	ca->is_full |= ca->is_full_now;
}

/* Losses end Startup: a round trip of recovery, with six acknowledgements that found losses, above the threshold. */
static void bbr3_check_losses(struct sock *sk, struct bbr3 *ca, const struct rate_sample *rs)
{
	bool is_recovering = weir_ca_state(sk) == TCP_CA_Recovery;
	u32 lost = tcp_sk(sk)->lost - ca->lost;

	if (ca->state == BBR3_STARTUP && ca->is_loss_round_start && ca->was_recovering && is_recovering &&
	    ca->loss_events >= BBR3_FULL_LOSSES && bbr3_is_too_high(sk, lost, bbr3_sent_inflight(sk, ca, rs))) {
		ca->undo = BBR3_UNDO_STARTUP;
		ca->is_full = 1;
		ca->inflight_long = max(bbr3_bdp(ca, bbr3_max_bw(ca), BBR3_ONE), ca->latest);
	}
	if (ca->is_loss_round_start)
		ca->was_recovering = is_recovering;
}

static void bbr3_check_startup(struct sock *sk, struct bbr3 *ca, const struct rate_sample *rs)
{
	bbr3_check_losses(sk, ca, rs);
	if (ca->state == BBR3_STARTUP && ca->is_full) {
		ca->state = BBR3_DRAIN;
		ca->drain_rounds = 0;
		tcp_sk(sk)->snd_ssthresh = bbr3_inflight(sk, ca, bbr3_max_bw(ca), BBR3_ONE);
	}
	if (ca->state == BBR3_DRAIN &&
	    (ca->drain_rounds > BBR3_DRAIN_ROUNDS ||
	     tcp_packets_in_flight(tcp_sk(sk)) <= bbr3_inflight(sk, ca, bbr3_bw(ca), BBR3_ONE)))
		bbr3_start_down(sk, ca);
}

/* ProbeInflightLongtermUpward. */
static void bbr3_raise_long(struct sock *sk, struct bbr3 *ca, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 delta;

	if (!weir_cwnd_limited_flag(tp) || tp->snd_cwnd < ca->inflight_long)
		return;
	ca->up_acked += rs->acked_sacked;
	if (ca->up_acked >= ca->up_needed) {
		delta = ca->up_acked / max(ca->up_needed, 1U);
		ca->up_acked -= delta * ca->up_needed;
		ca->inflight_long = min_t(u64, (u64)ca->inflight_long + delta, BBR3_INFINITE - 1);
	}
	if (ca->is_round_start)
		bbr3_raise_slope(sk, ca);
}

/* AdaptLongTermModel: which acknowledgements are of a probe, and what they allow. Whether it has changed the state. */
static bool bbr3_adapt_long(struct sock *sk, struct bbr3 *ca, const struct rate_sample *rs)
{
	u32 inflight = bbr3_sent_inflight(sk, ca, rs);

	if (ca->acks == BBR3_ACKS_STARTING && ca->is_round_start)
		ca->acks = BBR3_ACKS_FEEDBACK;
	if (ca->acks == BBR3_ACKS_STOPPING && ca->is_round_start) {
		ca->is_probe_sample = 0;
		ca->acks = BBR3_ACKS_INIT;
		if (bbr3_in_probe_bw(ca) && !rs->is_app_limited) {
			ca->bw_before = ca->bw_now;
			ca->bw_now = 0;
		}
		if (bbr3_in_probe_bw(ca) && ca->was_cautious && !ca->was_too_high) {
			bbr3_start_refill(sk, ca);
			return true;
		}
	}
	if (ca->inflight_long == BBR3_INFINITE || bbr3_is_too_high(sk, tcp_sk(sk)->lost - ca->lost, inflight))
		return false;
	ca->inflight_long = max(ca->inflight_long, inflight);
	if (ca->state == BBR3_UP)
		bbr3_raise_long(sk, ca, rs);
	return false;
}

static void bbr3_update_cycle(struct sock *sk, struct bbr3 *ca, const struct rate_sample *rs, u32 bw)
{
	if (!ca->is_full || bbr3_adapt_long(sk, ca, rs))
		return;
	switch (ca->state) {
	case BBR3_DOWN:
		if (!bbr3_probe_if_due(sk, ca) && bbr3_may_cruise(sk, ca))
			ca->state = BBR3_CRUISE;
		break;
	case BBR3_CRUISE:
		bbr3_probe_if_due(sk, ca);
		break;
	case BBR3_REFILL:
		if (ca->is_round_start) {
			ca->is_probe_sample = 1;
			bbr3_start_up(sk, ca, bw);
		}
		break;
	case BBR3_UP:
		if (bbr3_must_go_down(sk, ca, bw)) {
			ca->was_too_high = 0;
			bbr3_start_down(sk, ca);
		}
		break;
	default:
		break;
	}
}

/* ProbeRTT ------------------------------------------------------------------------------------------------------- */

static void bbr3_update_min_rtt(struct sock *sk, struct bbr3 *ca, const struct rate_sample *rs)
{
	ca->is_rtt_old = after(tcp_jiffies32, ca->min_rtt_stamp + OPT(sk, min_rtt_window) * HZ);
	/* Of the shortest round-trip time before it is replaced by one of a full queue. */
	if (ca->is_rtt_old && ca->state != BBR3_PROBE_RTT)
		ca->probe_rtt_cwnd = max(bbr3_bdp(ca, bbr3_bw(ca), BBR3_PROBE_RTT_CWND), (u32)BBR3_LEAST_CWND);
	if (rs->rtt_us >= 0 && ((u64)rs->rtt_us < ca->min_rtt || ca->is_rtt_old)) {
		ca->min_rtt = max((u32)rs->rtt_us, 1U);
		ca->min_rtt_stamp = tcp_jiffies32;
	}
}

static void bbr3_end_probe_rtt(struct sock *sk, struct bbr3 *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!ca->probe_rtt_end || !after(tcp_jiffies32, ca->probe_rtt_end))
		return;
	ca->min_rtt_stamp = tcp_jiffies32;
	tp->snd_cwnd = min(max(tp->snd_cwnd, ca->prior_cwnd), tp->snd_cwnd_clamp);
	bbr3_reset_short(ca);
	if (ca->is_full) {
		bbr3_start_down(sk, ca);
		ca->state = BBR3_CRUISE;
	} else {
		ca->state = BBR3_STARTUP;
	}
}

static void bbr3_handle_probe_rtt(struct sock *sk, struct bbr3 *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->app_limited = max(tp->delivered + tcp_packets_in_flight(tp), 1U);
	if (!ca->probe_rtt_end && tcp_packets_in_flight(tp) <= ca->probe_rtt_cwnd) {
		ca->probe_rtt_end = tcp_jiffies32 + (OPT(sk, probe_rtt) * HZ + MSEC_PER_SEC - 1) / MSEC_PER_SEC;
		ca->probe_rtt_round = 0;
		bbr3_start_round(sk, ca);
	} else if (ca->probe_rtt_end) {
		if (ca->is_round_start)
			ca->probe_rtt_round = 1;
		if (ca->probe_rtt_round)
			bbr3_end_probe_rtt(sk, ca);
	}
}

static void bbr3_check_probe_rtt(struct sock *sk, struct bbr3 *ca, const struct rate_sample *rs)
{
	if (OPT(sk, probe_rtt) && ca->state != BBR3_PROBE_RTT && ca->is_rtt_old && !ca->is_restarting) {
		bbr3_save_cwnd(sk, ca);
		ca->state = BBR3_PROBE_RTT;
		ca->probe_rtt_end = 0;
		ca->acks = BBR3_ACKS_STOPPING;
		bbr3_start_round(sk, ca);
	}
	if (ca->state == BBR3_PROBE_RTT)
		bbr3_handle_probe_rtt(sk, ca);
	if (rs->delivered > 0)
		ca->is_restarting = 0;
}

/* The window ----------------------------------------------------------------------------------------------------- */

/* BoundCwndForModel. */
static u32 bbr3_cap(const struct sock *sk, const struct bbr3 *ca)
{
	u32 cap = BBR3_INFINITE;

	if (ca->state == BBR3_CRUISE || ca->state == BBR3_PROBE_RTT)
		cap = bbr3_with_headroom(sk, ca);
	else if (bbr3_in_probe_bw(ca))
		cap = ca->inflight_long;
	return max(min(cap, ca->inflight_short), (u32)BBR3_LEAST_CWND);
}

static u32 bbr3_max_inflight(const struct sock *sk, const struct bbr3 *ca)
{
	u32 extra = OPT(sk, aggregation) ? max(ca->extra[0], ca->extra[1]) : 0;

	return bbr3_with_quanta(sk, ca, bbr3_bdp(ca, bbr3_bw(ca), bbr3_cwnd_gain(ca)) + extra);
}

static void bbr3_set_cwnd(struct sock *sk, struct bbr3 *ca, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = tp->snd_cwnd, most = bbr3_max_inflight(sk, ca);
	u8 state = weir_ca_state(sk);

	if (ca->last_state >= TCP_CA_Recovery && state < TCP_CA_Recovery)
		cwnd = max(cwnd, ca->prior_cwnd);
	ca->last_state = state;
	if (ca->is_full)
		cwnd = min_t(u64, (u64)cwnd + rs->acked_sacked, most);
	else if (cwnd < most || tp->delivered < TCP_INIT_CWND)
		cwnd = min_t(u64, (u64)cwnd + rs->acked_sacked, ~0U);
	cwnd = max(cwnd, (u32)BBR3_LEAST_CWND);
	if (ca->state == BBR3_PROBE_RTT)
		cwnd = min(cwnd, ca->probe_rtt_cwnd);
	tp->snd_cwnd = max(min(min(cwnd, bbr3_cap(sk, ca)), tp->snd_cwnd_clamp), 1U);
}

/* AdvanceLatestDeliverySignals, and a new round trip of losses. */
static void bbr3_advance_signals(const struct sock *sk, struct bbr3 *ca, const struct rate_sample *rs, u32 bw)
{
	if (!ca->is_loss_round_start)
		return;
	ca->bw_latest = bw;
	ca->latest = max(rs->delivered, 0);
	ca->has_lost = 0;
	ca->loss_events = 0;
	ca->lost = tcp_sk(sk)->lost;
}

static void bbr3_cong_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct bbr3 *ca = inet_csk_ca(sk);
	u32 bw = bbr3_sampled_bw(rs);

	(void)ack;
	(void)flag;
	bbr3_handle_losses(sk, ca, rs);
	BBR3_STEP;
	bbr3_update_signals(sk, ca, rs, bw);
	BBR3_STEP;
	bbr3_update_extra(sk, ca, rs);
	BBR3_STEP;
	bbr3_check_full(ca, rs, bw);
	BBR3_STEP;
	bbr3_check_startup(sk, ca, rs);
	BBR3_STEP;
	bbr3_update_cycle(sk, ca, rs, bw);
	BBR3_STEP;
	bbr3_update_min_rtt(sk, ca, rs);
	BBR3_STEP;
	bbr3_check_probe_rtt(sk, ca, rs);
	BBR3_STEP;
	bbr3_advance_signals(sk, ca, rs, bw);
	BBR3_STEP;
	bbr3_pace(sk, ca, bbr3_pacing_gain(ca));
	BBR3_STEP;
	bbr3_set_cwnd(sk, ca, rs);
}

/* Other operations ----------------------------------------------------------------------------------------------- */

static void bbr3_init(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr3 *ca = inet_csk_ca(sk);

	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	bbr3_reset_short(ca);
	ca->inflight_long = BBR3_INFINITE;
	ca->up_needed = BBR3_INFINITE;
	ca->undo_bw = BBR3_INFINITE;
	ca->undo_inflight = BBR3_INFINITE;
	ca->min_rtt = tcp_min_rtt(tp);
	ca->min_rtt_stamp = tcp_jiffies32;
	ca->probe_rtt_cwnd = TCP_INIT_CWND;
	ca->round_end = tp->delivered;
	ca->loss_round_end = tp->delivered;
	ca->lost = tp->lost;
	ca->epoch_start = bbr3_clock(sk);
	ca->state = BBR3_STARTUP;
	bbr3_first_pacing(sk, ca);
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

/* HandleRestartFromIdle: at the bandwidth that is known, not with a burst. */
static void bbr3_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct bbr3 *ca = inet_csk_ca(sk);

	if (event != CA_EVENT_TX_START || !tcp_sk(sk)->app_limited)
		return;
	ca->is_restarting = 1;
	ca->epoch_start = bbr3_clock(sk);
	ca->epoch_acked = 0;
	if (bbr3_in_probe_bw(ca))
		bbr3_pace(sk, ca, BBR3_ONE);
	else if (ca->state == BBR3_PROBE_RTT)
		bbr3_end_probe_rtt(sk, ca);
}

/* The threshold does not change; the window before recovery is kept. */
static u32 bbr3_ssthresh(struct sock *sk)
{
	bbr3_save_cwnd(sk, inet_csk_ca(sk));
	return tcp_sk(sk)->snd_ssthresh;
}

/* HandleSpuriousLossDetection. */
static u32 bbr3_undo_cwnd(struct sock *sk)
{
	struct bbr3 *ca = inet_csk_ca(sk);

	ca->has_lost = 0;
	bbr3_reset_full(ca, 0);
	/* A window before the losses was within its bound. */
	ca->inflight_short = ca->undo_bw == BBR3_INFINITE ? BBR3_INFINITE : max(ca->inflight_short, ca->prior_cwnd);
	ca->bw_short = max(ca->bw_short, ca->undo_bw);
	ca->inflight_long = max(ca->inflight_long, ca->undo_inflight);
	if (ca->undo == BBR3_UNDO_STARTUP) {
		ca->is_full = 0;
		if (ca->state != BBR3_PROBE_RTT)
			ca->state = BBR3_STARTUP;
	} else if (ca->undo == BBR3_UNDO_UP && ca->state != BBR3_UP && ca->state != BBR3_PROBE_RTT) {
		bbr3_start_refill(sk, ca);
	}
	ca->undo = BBR3_UNDO_NONE;
	return max(tcp_sk(sk)->snd_cwnd, ca->prior_cwnd);
}

/* A timeout is a loss as well. */
static void bbr3_set_state(struct sock *sk, u8 new_state)
{
	struct bbr3 *ca = inet_csk_ca(sk);

	if (new_state != TCP_CA_Loss)
		return;
	bbr3_note_loss(sk, ca);
	ca->last_state = TCP_CA_Loss;
}

static u32 bbr3_sndbuf_expand(struct sock *sk)
{
	(void)sk;
	return 3;
}

#define BBR3_OPS(OP)                          \
	OP(init, bbr3_init)                   \
	OP(ssthresh, bbr3_ssthresh)           \
	OP(cong_control, bbr3_cong_control)   \
	OP(set_state, bbr3_set_state)         \
	OP(cwnd_event, bbr3_cwnd_event)       \
	OP(min_tso_segs, bbr3_min_tso_segs)   \
	OP(sndbuf_expand, bbr3_sndbuf_expand) \
	OP(undo_cwnd, bbr3_undo_cwnd)

WEIR_CC_ABOUT("BBR, version 3", 2026,
	      "N. Cardwell, I. Swett, J. Beshay, BBR congestion control, draft-ietf-ccwg-bbr-06")
WEIR_CC_REGISTER(bbr3, "bbr3", TCP_CONG_NON_RESTRICTED, struct bbr3, BBR3_OPS)
