/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Slow start with its two refinements, for every congestion control:
 *
 *   max_ssthresh   limited slow start (RFC 3742)
 *   hystart        1: leave slow start on long ACK trains or growing delay (Ha and Rhee, "Taming the elephants: new TCP
 *                     slow start", Computer Networks 55, 2011, with the thresholds Linux uses today)
 *                  2: HyStart++ (RFC 9406)
 *                  3: SEARCH, in the controls that have room for it (weir_search.h)
 *
 * A source lists WEIR_SLOW_START_OPTIONS among its options, includes this file after WEIR_CC_OPTIONS, keeps a struct
 * weir_slow_start in its state, and calls weir_ss_start at init and after a timeout, weir_ss_sample with each
 * round-trip time, weir_ss_acked while the window is below the threshold.
 */
#ifndef WEIR_SLOW_START_H
#define WEIR_SLOW_START_H

enum {
	WEIR_HYSTART_OFF = 0,
	WEIR_HYSTART = 1,
	WEIR_HYSTART_PP = 2,
	WEIR_SEARCH = 3,

	WEIR_DETECT_TRAIN = 1,
	WEIR_DETECT_DELAY = 2,

	WEIR_MIN_SAMPLES = 8,         /* round-trip times before the delay of a round counts (RFC 9406: N_RTT_SAMPLE) */
	WEIR_MIN_THRESHOLD_US = 4000, /* smallest delay increase that counts (MIN_RTT_THRESH) */
	WEIR_MAX_THRESHOLD_US = 16000, /* largest (MAX_RTT_THRESH) */
	WEIR_THRESHOLD_SHIFT = 3,      /* otherwise this share of the delay (MIN_RTT_DIVISOR) */
	WEIR_CSS_DIVISOR = 4,          /* growth in conservative slow start (CSS_GROWTH_DIVISOR) */
	WEIR_CSS_ROUNDS = 5,           /* its length */
	WEIR_BURST_LIMIT = 8,          /* packets one ACK of an unpaced sender may add (L) */
	WEIR_BURST_BYTES = 65536,      /* largest segmentation-offload burst */
	WEIR_LIMITED_BANDS = 64,       /* growth rates that one ACK may cross; acknowledged packets beyond are unused */
};

enum weir_ss_phase {
	WEIR_SS_SEARCHING = 0,
	WEIR_SS_CONSERVATIVE,
	WEIR_SS_DONE,
};

struct weir_slow_start {
	u32 delay_min; /* shortest round-trip time since the start, microseconds; 0 is none */
	u32 round_end; /* the round ends when this sequence number is acknowledged */
	u32 round_rtt; /* shortest round-trip time of the round */
	union {
		struct {                 /* HyStart */
			u32 round_start; /* clock, microseconds */
			u32 train_end;   /* clock of the train's last ACK */
		};
		struct {                  /* HyStart++ */
			u32 last_rtt;     /* round_rtt of the previous round */
			u32 baseline_rtt; /* round_rtt at the start of conservative slow start */
		};
	};
	u8 samples;
	u8 phase;
	u8 rounds;    /* of conservative slow start */
	u8 searching; /* weir_search.h is at work */
};

static __always_inline u32 weir_clock(const struct sock *sk)
{
	return (u32)tcp_sk(sk)->tcp_mstamp;
}

static __always_inline void weir_ss_round(struct sock *sk, struct weir_slow_start *ss)
{
	ss->round_end = tcp_sk(sk)->snd_nxt;
	ss->samples = 0;
	if (OPT(sk, hystart) == WEIR_HYSTART_PP) {
		ss->last_rtt = ss->round_rtt;
	} else {
		ss->round_start = weir_clock(sk);
		ss->train_end = ss->round_start;
	}
	ss->round_rtt = ~0U;
}

/* The connection begins, or restarts after a timeout. */
static __always_inline void weir_ss_start(struct sock *sk, struct weir_slow_start *ss)
{
	ss->delay_min = 0;
	ss->round_rtt = ~0U;
	ss->phase = WEIR_SS_SEARCHING;
	ss->rounds = 0;
	weir_ss_round(sk, ss);
}

static __always_inline void weir_ss_leave(struct sock *sk, struct weir_slow_start *ss)
{
	ss->phase = WEIR_SS_DONE;
	tcp_sk(sk)->snd_ssthresh = tcp_sk(sk)->snd_cwnd;
}

static __always_inline u32 weir_ss_threshold(u32 rtt)
{
	return clamp(rtt >> WEIR_THRESHOLD_SHIFT, (u32)WEIR_MIN_THRESHOLD_US, (u32)WEIR_MAX_THRESHOLD_US);
}

/*
 * Detects a window that fills the path: a train of closely spaced ACKs as long as the path's forward delay, taken as
 * half the shortest round trip. Bursts of segmentation offload lengthen both, by the duration of four of them at the
 * rate of the window, at most a millisecond. A paced sender spreads its window over the round trip, so its train is
 * compared with the whole of it.
 */
static __always_inline bool weir_ss_long_train(struct sock *sk, struct weir_slow_start *ss)
{
	u32 now = weir_clock(sk);
	u32 limit = ss->delay_min;

	if (now - ss->train_end > OPT(sk, hystart_ack_delta))
		return false;
	ss->train_end = now;
	if (sk->sk_pacing_rate)
		limit += min_t(u64, USEC_PER_MSEC, div64_u64(4 * WEIR_BURST_BYTES * USEC_PER_SEC, sk->sk_pacing_rate));
	if (sk->sk_pacing_status == SK_PACING_NONE)
		limit >>= 1;
	return now - ss->round_start > limit;
}

static __always_inline void weir_ss_count(struct weir_slow_start *ss, u32 rtt_us)
{
	ss->round_rtt = min(ss->round_rtt, rtt_us);
	if (ss->samples < WEIR_MIN_SAMPLES)
		ss->samples++;
}

/* Whether the shortest of more than WEIR_MIN_SAMPLES round-trip times of the round exceeds the path's own. */
static __always_inline bool weir_ss_longer_delay(struct weir_slow_start *ss, u32 rtt_us)
{
	bool enough = ss->samples >= WEIR_MIN_SAMPLES;

	weir_ss_count(ss, rtt_us);
	return enough && ss->round_rtt > ss->delay_min + weir_ss_threshold(ss->delay_min);
}

static __always_inline void weir_ss_classic(struct sock *sk, struct weir_slow_start *ss, u32 rtt_us)
{
	bool leave = false;

	if (after(tcp_sk(sk)->snd_una, ss->round_end))
		weir_ss_round(sk, ss);
	if (tcp_sk(sk)->snd_cwnd < OPT(sk, hystart_low_window))
		return;
	if (OPT(sk, hystart_detect) & WEIR_DETECT_TRAIN)
		leave = weir_ss_long_train(sk, ss);
	if (OPT(sk, hystart_detect) & WEIR_DETECT_DELAY)
		leave |= weir_ss_longer_delay(ss, rtt_us);
	if (leave)
		weir_ss_leave(sk, ss);
}

/* RFC 9406 section 4.2; only for the first slow start, while no threshold is known. */
static __always_inline void weir_ss_plus_plus(struct sock *sk, struct weir_slow_start *ss, u32 rtt_us)
{
	if (tcp_sk(sk)->snd_ssthresh < TCP_INFINITE_SSTHRESH)
		return;
	if (after(tcp_sk(sk)->snd_una, ss->round_end)) {
		if (ss->phase == WEIR_SS_CONSERVATIVE && ++ss->rounds >= WEIR_CSS_ROUNDS) {
			weir_ss_leave(sk, ss);
			return;
		}
		weir_ss_round(sk, ss);
	}
	weir_ss_count(ss, rtt_us);
	if (ss->samples < WEIR_MIN_SAMPLES)
		return;
	if (ss->phase == WEIR_SS_CONSERVATIVE) {
		if (ss->round_rtt < ss->baseline_rtt)
			ss->phase = WEIR_SS_SEARCHING;
	} else if (ss->last_rtt != ~0U && ss->round_rtt >= ss->last_rtt + weir_ss_threshold(ss->last_rtt)) {
		ss->phase = WEIR_SS_CONSERVATIVE;
		ss->baseline_rtt = ss->round_rtt;
		ss->rounds = 0;
	}
}

/* Processes a round-trip time; may end slow start by lowering the threshold to the window. */
static __always_inline void weir_ss_sample(struct sock *sk, struct weir_slow_start *ss, s32 rtt_us)
{
	u32 rtt = max(rtt_us, 1);

	if (rtt_us < 0)
		return;
	if (!ss->delay_min || rtt < ss->delay_min)
		ss->delay_min = rtt;
	if (!OPT(sk, hystart) || ss->phase == WEIR_SS_DONE || !tcp_in_slow_start(tcp_sk(sk)))
		return;
	if (OPT(sk, hystart) == WEIR_HYSTART_PP)
		weir_ss_plus_plus(sk, ss, rtt);
	else if (OPT(sk, hystart) == WEIR_HYSTART)
		weir_ss_classic(sk, ss, rtt);
}

/* Grows up to `edge` by one packet per k acknowledged; returns the acknowledged packets left. */
static __always_inline u32 weir_ss_step(struct tcp_sock *tp, u32 k, u32 edge, u32 acked)
{
	u32 count = tp->snd_cwnd_cnt < k ? tp->snd_cwnd_cnt : 0;
	u64 needed = (u64)(edge - tp->snd_cwnd) * k - count;
	u32 used = min_t(u64, acked, needed);
	u64 sum = (u64)count + used;

	tp->snd_cwnd += (u32)(sum / k);
	tp->snd_cwnd_cnt = (u32)(sum % k);
	return acked - used;
}

/*
 * Limited slow start (RFC 3742 section 2): above max_ssthresh one packet for each K acknowledged, K = cwnd / (0.5
 * max_ssthresh). K is constant between multiples of half of max_ssthresh; each step takes one such band, so the result
 * does not depend on how acknowledgements are batched.
 */
static __always_inline u32 weir_ss_limited(struct sock *sk, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 ssthresh = min(tp->snd_ssthresh, tp->snd_cwnd_clamp);
	u64 limit = OPT(sk, max_ssthresh);
	u32 band, k, edge;

	for (band = 0; band < WEIR_LIMITED_BANDS; band++) {
		if (!acked || tp->snd_cwnd >= ssthresh)
			return acked;
		k = 1;
		edge = min_t(u64, ssthresh, limit + 1);
		if (tp->snd_cwnd > limit) {
			k = (u32)(2ULL * tp->snd_cwnd / (u32)limit);
			edge = min_t(u64, ssthresh, ((k + 1ULL) * limit + 1) / 2);
		}
		acked = weir_ss_step(tp, k, edge, acked);
	}
	return 0;
}

/*
 * Processes acknowledged packets while the window is below the threshold; returns those left for congestion avoidance.
 */
static __always_inline u32 weir_ss_acked(struct sock *sk, struct weir_slow_start *ss, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (OPT(sk, hystart) == WEIR_HYSTART_PP && tp->snd_ssthresh >= TCP_INFINITE_SSTHRESH) {
		if (sk->sk_pacing_status == SK_PACING_NONE)
			acked = min(acked, (u32)WEIR_BURST_LIMIT);
		if (ss->phase == WEIR_SS_CONSERVATIVE) {
			tcp_cong_avoid_ai(tp, WEIR_CSS_DIVISOR, acked);
			return 0;
		}
	}
	if (OPT(sk, max_ssthresh))
		return weir_ss_limited(sk, acked);
	return tcp_slow_start(tp, acked);
}

#endif
