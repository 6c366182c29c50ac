/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The random numbers of crates/weir-units (random.rs), so that a link of the lab loses the same packets as in the
 * simulator and in the emulator: xoshiro256++ of D. Blackman and S. Vigna, its state filled by SplitMix64 of S. Vigna.
 * Its test also compiles it outside the kernel.
 */
#ifndef WEIR_RANDOM_H
#define WEIR_RANDOM_H

#ifdef __KERNEL__
#include <linux/types.h>
#else
#include <stdint.h>
typedef uint64_t u64;
#endif

struct random {
	u64 state[4];
};

static inline struct random random_of(u64 seed)
{
	struct random random;

	for (int i = 0; i < 4; i++) {
		u64 z = seed += 0x9e3779b97f4a7c15ULL;

		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
		random.state[i] = z ^ (z >> 31);
	}
	return random;
}

static inline u64 rotated(u64 x, int bits)
{
	return x << bits | x >> (64 - bits);
}

/* 64 bits. */
static inline u64 random_next(struct random *random)
{
	u64 *s = random->state, result = rotated(s[0] + s[3], 23) + s[0], shifted = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= shifted;
	s[3] = rotated(s[3], 45);
	return result;
}

/* True with a probability of `chance` / 2^63. */
static inline int random_happens(struct random *random, u64 chance)
{
	return random_next(random) >> 1 < chance;
}

#endif
