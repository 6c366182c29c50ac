/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Fixed-point windows. WEIR_ONE is one packet; a quantity named _q10 is in units of 1/1024.
 */
#ifndef WEIR_WINDOW_H
#define WEIR_WINDOW_H

#define WEIR_ONE 1024U

/*
 * Grows the window by gain_q10 / 1024 packets for each window of packets acknowledged, exactly: fractions of a packet
 * stay in *credit, which is in units of 1/1024 packet times the window and always below one packet's worth. Never
 * faster than slow start: at most one packet per acknowledged one.
 */
static __always_inline void weir_increase(struct tcp_sock *tp, u64 *credit, u32 gain_q10, u32 acked)
{
	u64 packet = (u64)max(tp->snd_cwnd, 1U) * WEIR_ONE;
	u64 sum = min(*credit, packet) + min_t(u64, gain_q10, packet) * acked;
	u64 grown;

	if (sum >= packet) {
		grown = div64_u64(sum, packet);
		sum -= grown * packet;
		tp->snd_cwnd = min_t(u64, tp->snd_cwnd + grown, tp->snd_cwnd_clamp);
	}
	*credit = sum;
}

/* The window kept after a loss: the share keep_q10 / 1024, and at least two packets (RFC 5681 equation 4). */
static __always_inline u32 weir_decrease(const struct tcp_sock *tp, u32 keep_q10)
{
	u64 kept = (u64)tp->snd_cwnd * keep_q10 / WEIR_ONE;

	return max_t(u64, kept, 2);
}

/* Microseconds as 1/1024 of a second. */
static __always_inline u64 weir_ticks(u64 us)
{
	return (us << 10) / USEC_PER_SEC;
}

#endif
