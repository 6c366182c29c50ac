/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * SEARCH, "slow start exit at right chokepoint": leaves the first slow start when a round trip no longer delivers twice
 * what the one before did (draft-chung-ccwg-search, version 3 of the algorithm; Kachooei, Chung, Li, Peters, Claypool,
 * "SEARCH: Robust TCP slow start performance over satellite networks", LCN 2024).
 *
 * A source that lists WEIR_SLOW_START_OPTIONS_SEARCH includes this file after weir_slow_start.h, keeps a struct
 * weir_search, and calls weir_search_start at init, weir_search_sample with each round-trip time, and weir_search_end
 * at a loss.
 */
#ifndef WEIR_SEARCH_H
#define WEIR_SEARCH_H

enum {
	WEIR_SEARCH_WINDOW = 10,            /* bins that are compared (W) */
	WEIR_SEARCH_SHIFTS = 15,            /* longest round trip that can be looked back, bins (EXTRA_BINS) */
	WEIR_SEARCH_BINS = 26,              /* both, and a bin of which the window of a round trip ago has a part */
	WEIR_SEARCH_BIN_PERCENT = 35,       /* length of a bin, of the first round trip: a window lasts 3.5 of them */
	WEIR_SEARCH_THRESHOLD_PERCENT = 35, /* THRESH */
	WEIR_SEARCH_PART = 256,             /* parts of a bin */
	WEIR_SEARCH_LATE_BINS = 5,          /* the chokepoint was two round trips ago: 2 / 0.35 whole bins */
};

struct weir_search {
	u32 bin_us;                /* length of a bin, microseconds; 0 before the first round-trip time */
	u32 bin_end;               /* clock at the end of the bin that is open */
	u32 bin_start;             /* snd_una at its beginning */
	u16 bins;                  /* bins that are closed; stays at the most that count */
	u16 scale;                 /* bins are in units of 2^scale bytes */
	u16 bin[WEIR_SEARCH_BINS]; /* bytes acknowledged in each closed bin, the newest first */
};

/* The connection begins. */
static __always_inline void weir_search_start(struct sock *sk, struct weir_slow_start *ss, struct weir_search *search)
{
	ss->searching = OPT(sk, hystart) == WEIR_SEARCH;
	if (ss->searching)
		search->bin_start = tcp_sk(sk)->snd_una;
}

/* The first slow start is over: clears the memory, which the source may use for other things from now on. */
static __always_inline void weir_search_end(struct weir_slow_start *ss, struct weir_search *search)
{
	u32 i;

	if (!ss->searching)
		return;
	ss->searching = 0;
	search->bin_us = 0;
	search->bin_end = 0;
	search->bin_start = 0;
	search->bins = 0;
	search->scale = 0;
	WEIR_UNROLL
	for (i = 0; i < WEIR_SEARCH_BINS; i++)
		search->bin[i] = 0;
}

/* Room in 16 bits for `bytes`, by a coarser unit for all bins. */
static __always_inline u16 weir_search_fit(struct weir_search *search, u32 bytes)
{
	u32 value = bytes >> search->scale;
	u32 coarser = 0;
	u32 i;

	WEIR_UNROLL
	for (i = 0; i < 16; i++)
		coarser += value >> i > 0xffff;
	search->scale += coarser;
	WEIR_UNROLL
	for (i = 0; i < WEIR_SEARCH_BINS; i++)
		search->bin[i] >>= coarser;
	return (u16)(value >> coarser);
}

/* Closes the open bin, and those that passed without an acknowledgement; the bytes belong to the newest. */
static __always_inline void weir_search_close(struct sock *sk, struct weir_search *search)
{
	u32 now = weir_clock(sk);
	u32 passed = (now - search->bin_end) / search->bin_us + 1;
	u32 many = min(passed, (u32)WEIR_SEARCH_BINS);
	u32 i, turn;
	u16 value = weir_search_fit(search, tcp_sk(sk)->snd_una - search->bin_start);

	for (turn = 0; turn < many; turn++) {
		WEIR_UNROLL
		for (i = WEIR_SEARCH_BINS - 1; i > 0; i--)
			search->bin[i] = search->bin[i - 1];
		search->bin[0] = 0;
	}
	search->bin[0] = value;
	search->bins = (u16)min(search->bins + many, (u32)WEIR_SEARCH_BINS);
	search->bin_end += passed * search->bin_us;
	search->bin_start = tcp_sk(sk)->snd_una;
}

/*
 * Parts of bin `i` in the window that ends `shift` bins and `part` parts ago: whole bins within, and a share of the
 * bins at both ends.
 */
static __always_inline u32 weir_search_share(u32 i, u32 shift, u32 part)
{
	if (i == shift)
		return WEIR_SEARCH_PART - part;
	if (i == shift + WEIR_SEARCH_WINDOW)
		return part;
	return i > shift && i < shift + WEIR_SEARCH_WINDOW ? WEIR_SEARCH_PART : 0;
}

/* Whether the last window delivered less than 2 (1 - THRESH) times what the window a round trip earlier did. */
static __always_inline bool weir_search_flat(const struct weir_search *search, u32 rtt_us)
{
	u32 shift = rtt_us / search->bin_us;
	u32 part = (u32)((u64)(rtt_us % search->bin_us) * WEIR_SEARCH_PART / search->bin_us);
	u64 now = 0;
	u64 before = 0;
	u32 i;

	if (shift > WEIR_SEARCH_SHIFTS || search->bins < shift + WEIR_SEARCH_WINDOW + 1)
		return false;
	WEIR_UNROLL
	for (i = 0; i < WEIR_SEARCH_BINS; i++) {
		now += i < WEIR_SEARCH_WINDOW ? search->bin[i] * WEIR_SEARCH_PART : 0;
		before += search->bin[i] * weir_search_share(i, shift, part);
	}
	return before && now * 100 <= 2 * before * (100 - WEIR_SEARCH_THRESHOLD_PERCENT);
}

/* Takes back what the window grew since the chokepoint, and ends slow start. */
static __always_inline void weir_search_leave(struct sock *sk, struct weir_search *search)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 late = 0;
	u32 packets;
	u32 i;

	WEIR_UNROLL
	for (i = 0; i < WEIR_SEARCH_LATE_BINS; i++)
		late += search->bin[i];
	packets = (u32)min_t(u64, div64_u64(late << search->scale, max(tp->mss_cache, 1U)), tp->snd_cwnd);
	tp->snd_cwnd = max(tp->snd_cwnd - packets, min_t(u32, tp->snd_cwnd, TCP_INIT_CWND));
	tp->snd_ssthresh = tp->snd_cwnd;
}

/* Processes a round-trip time, and what has been acknowledged; may end slow start. */
static __always_inline void weir_search_sample(struct sock *sk, struct weir_slow_start *ss, struct weir_search *search,
					       s32 rtt_us)
{
	u32 rtt = max(rtt_us, 1);

	if (!ss->searching || rtt_us < 0)
		return;
	if (!search->bin_us) {
		search->bin_us = (u32)div64_u64((u64)rtt * WEIR_SEARCH_BIN_PERCENT, 100) + 1;
		search->bin_end = weir_clock(sk) + search->bin_us;
	} else if ((s32)(weir_clock(sk) - search->bin_end) > 0) {
		weir_search_close(sk, search);
		if (weir_search_flat(search, rtt)) {
			weir_search_leave(sk, search);
			weir_search_end(ss, search);
		}
	}
}

#endif
