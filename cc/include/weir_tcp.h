/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Linux' helpers for congestion controls, for the shims that cannot call the kernel's own: native and BPF. Written from
 * the RFCs cited; names and results are the kernel's, so that a source is independent of where it runs.
 */
#ifndef WEIR_TCP_H
#define WEIR_TCP_H

#define min(a, b)                                  \
	({                                         \
		__typeof__(a) _min_a = (a);        \
		__typeof__(b) _min_b = (b);        \
		_min_a < _min_b ? _min_a : _min_b; \
	})
#define max(a, b)                                  \
	({                                         \
		__typeof__(a) _max_a = (a);        \
		__typeof__(b) _max_b = (b);        \
		_max_a > _max_b ? _max_a : _max_b; \
	})
#define min_t(type, a, b) min((type)(a), (type)(b))
#define max_t(type, a, b) max((type)(a), (type)(b))
#define clamp(value, low, high) min(max(value, low), high)

/* Sequence numbers wrap (RFC 9293 section 3.4). */
static __always_inline bool before(u32 seq1, u32 seq2)
{
	return (s32)(seq1 - seq2) < 0;
}
#define after(seq2, seq1) before(seq1, seq2)

/* RFC 6675's pipe, from the transport's counters. */
static __always_inline u32 tcp_packets_in_flight(const struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

static __always_inline bool tcp_in_slow_start(const struct tcp_sock *tp)
{
	return tp->snd_cwnd < tp->snd_ssthresh;
}

/*
 * Whether the congestion window limited the sender (RFC 7661). In slow start half a window in flight suffices for
 * further growth, because the window doubles each round trip.
 */
static __always_inline bool tcp_is_cwnd_limited(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (weir_cwnd_limited_flag(tp))
		return true;
	return tcp_in_slow_start(tp) && tp->snd_cwnd / 2 < tp->max_packets_out;
}

/*
 * Slow start with appropriate byte counting (RFC 5681 section 3.1, RFC 3465): one packet per acknowledged packet, up to
 * the threshold. Returns the number of acknowledged packets left for congestion avoidance.
 */
static __always_inline u32 tcp_slow_start(struct tcp_sock *tp, u32 acked)
{
	u32 room = tp->snd_ssthresh > tp->snd_cwnd ? tp->snd_ssthresh - tp->snd_cwnd : 0;
	u32 used = min(acked, room);

	tp->snd_cwnd = min(tp->snd_cwnd + used, tp->snd_cwnd_clamp);
	return acked - used;
}

/*
 * Additive increase: one packet for every w packets acknowledged. Credit saved under a larger w is worth at most one
 * packet, so a shrinking w causes no burst.
 */
static __always_inline void tcp_cong_avoid_ai(struct tcp_sock *tp, u32 w, u32 acked)
{
	u64 cwnd = tp->snd_cwnd;
	u64 count = tp->snd_cwnd_cnt;

	w = max(w, 1U);
	if (count >= w) {
		count = 0;
		cwnd++;
	}
	count += acked;
	if (count >= w) {
		cwnd += count / w;
		count %= w;
	}
	tp->snd_cwnd_cnt = count;
	tp->snd_cwnd = min_t(u64, cwnd, tp->snd_cwnd_clamp);
}

/* Half the window, at least two packets (RFC 5681 equation 4). */
static __always_inline u32 tcp_reno_ssthresh(struct sock *sk)
{
	return max(tcp_sk(sk)->snd_cwnd >> 1U, 2U);
}

/*
 * The lower bound of rate halving, which reduced the window before proportional rate reduction did, for Reno and its
 * derivatives: half of the threshold.
 */
static __always_inline u32 tcp_reno_min_cwnd(struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh / 2;
}

/* The loss was spurious (RFC 4015, RFC 5682): restores the window before it. */
static __always_inline u32 tcp_reno_undo_cwnd(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return max(tp->snd_cwnd, tp->prior_cwnd);
}

#endif
