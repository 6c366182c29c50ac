/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Random numbers of the simulator and of recorded calls: a hash of a flow's seed and state (the finaliser of
 * MurmurHash3), so that a call gives the same number wherever it is replayed.
 */
#ifndef WEIR_SHIM_RANDOM_H
#define WEIR_SHIM_RANDOM_H

static __always_inline u32 weir_hash_below(u32 seed, u32 state, u32 n)
{
	u32 x = seed ^ (state * 0x9e3779b1U);

	x = (x ^ (x >> 16)) * 0x85ebca6bU;
	x = (x ^ (x >> 13)) * 0xc2b2ae35U;
	return (u32)(((u64)(x ^ (x >> 16)) * n) >> 32);
}

#endif
