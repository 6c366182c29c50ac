/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * What Linux offers to every congestion control, for the shims that cannot call the kernel's own: native and BPF.
 * Written from the RFCs cited; names and results are the kernel's, so that a source need not know where it runs.
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
 * Did the congestion window limit the sender (RFC 7661)? In slow start half a window in flight is enough to go on
 * growing, because the window doubles each round trip.
 */
static __always_inline bool tcp_is_cwnd_limited(const struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (weir_cwnd_limited_flag(tp))
		return true;
	return tcp_in_slow_start(tp) && tp->snd_cwnd / 2 < tp->max_packets_out;
}

/*
 * Slow start with appropriate byte counting (RFC 5681 section 3.1, RFC 3465): one packet for each packet acknowledged,
 * up to the threshold. Returns how many acknowledged packets are left for congestion avoidance.
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
 * packet, so that a w that shrinks causes no burst.
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
 * How far rate halving, which reduced the window before proportional rate reduction did, may go below the threshold of
 * Reno and what was derived from it: to half of it.
 */
static __always_inline u32 tcp_reno_min_cwnd(struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh / 2;
}

/* Loss recovery was a mistake (RFC 4015, RFC 5682): back to the window before it. */
static __always_inline u32 tcp_reno_undo_cwnd(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return max(tp->snd_cwnd, tp->prior_cwnd);
}

#endif
