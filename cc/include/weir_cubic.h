/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The cubic curve W(t) = C (t - K)^3 + origin in integers, for both variants of CUBIC. Time is in ticks of 1/1024 s,
 * windows are in packets or, where named _q10, in 1/1024 packet, and C is in 1/1000 packet / s^3.
 */
#ifndef WEIR_CUBIC_H
#define WEIR_CUBIC_H

enum {
	WEIR_CUBIC_MAX_C = 2000,
	WEIR_CUBIC_MAX_OFFSET = 1 << 21, /* ticks from K that count: 34 minutes, 3.4e9 packets at C = 0.4 */
	WEIR_CUBE_ROOT_STEPS = 22,       /* digits of the root of a 64-bit number */
};

/* The largest integer whose cube is at most x: one binary digit a step, from the top. */
static __always_inline u32 weir_cube_root(u64 x)
{
	u64 root = 0, next;
	u32 step, shift;

	WEIR_UNROLL
	for (step = 0; step < WEIR_CUBE_ROOT_STEPS; step++) {
		shift = 3 * (WEIR_CUBE_ROOT_STEPS - 1 - step);
		/* (2 root + 1)^3 - (2 root)^3 */
		root *= 2;
		next = 3 * root * (root + 1) + 1;
		if (x >> shift >= next) {
			x -= next << shift;
			root++;
		}
	}
	return root;
}

/* K, ticks: how long the curve takes to gain `distance` packets up to its origin, cbrt(distance / C). */
static __always_inline u32 weir_cubic_k(u32 distance, u32 c)
{
	/* Ticks cubed for one packet; the product stays below 2^64 for distance < 2^24 at the smallest C. */
	u64 per_packet = ((u64)1000 << 30) / max(c, 1U);
	u64 bounded = min_t(u64, distance, ~0ULL / per_packet);

	return min_t(u32, weir_cube_root(bounded * per_packet), WEIR_CUBIC_MAX_OFFSET);
}

/* W(t), 1/1024 packet, never below zero. */
static __always_inline u64 weir_cubic_window_q10(u64 t, u32 k, u32 origin, u32 c)
{
	u64 offset = min_t(u64, t > k ? t - k : k - t, WEIR_CUBIC_MAX_OFFSET);
	u64 cube = (offset * offset * offset) >> 10;
	u64 delta = (cube * c / 1000) >> 10;
	u64 origin_q10 = (u64)origin << 10;

	if (t > k)
		return origin_q10 + delta;
	return origin_q10 - min(delta, origin_q10);
}

#endif
