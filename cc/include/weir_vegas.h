/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Vegas' measurement of the queue (Brakmo, Peterson, IEEE JSAC 13(8), 1995), for the controls that use it: the shortest
 * round-trip time of a round trip, because acknowledgements may be delayed, compared with the shortest of all.
 *
 * A source keeps a struct weir_vegas in its state, calls weir_vegas_restart at init, weir_vegas_sample with each
 * round-trip time, weir_vegas_state and weir_vegas_event from its operations of those names, and asks
 * weir_vegas_is_over with each acknowledgement. Then it decides, and calls weir_vegas_round.
 */
#ifndef WEIR_VEGAS_H
#define WEIR_VEGAS_H

#include "weir_window.h"

enum {
	WEIR_VEGAS_NONE = 0x7fffffff,
	WEIR_VEGAS_FEW = 2,              /* samples of a round trip: all of them may be of delayed acknowledgements */
	WEIR_VEGAS_MAX_WINDOW = 1 << 22, /* packets for which the queue is computed without overflow */
};

struct weir_vegas {
	u32 base;      /* shortest round-trip time, microseconds */
	u32 shortest;  /* of the round trip */
	u32 round_end; /* the round trip ends when this sequence number is acknowledged */
	u16 samples;   /* of the round trip */
	u8 is_paused;  /* outside of normal operation, where round-trip times say nothing about the window */
	u8 reserved;
};

static __always_inline void weir_vegas_round(const struct sock *sk, struct weir_vegas *v)
{
	v->round_end = tcp_sk(sk)->snd_nxt;
	v->samples = 0;
	v->shortest = WEIR_VEGAS_NONE;
}

static __always_inline void weir_vegas_restart(const struct sock *sk, struct weir_vegas *v)
{
	v->base = WEIR_VEGAS_NONE;
	v->is_paused = 0;
	weir_vegas_round(sk, v);
}

/* A round-trip time, which counts a microsecond more, so that it is never zero. */
static __always_inline void weir_vegas_sample(struct weir_vegas *v, s32 rtt_us)
{
	u32 rtt = (u32)rtt_us + 1;

	if (rtt_us < 0)
		return;
	v->base = min(v->base, rtt);
	v->shortest = min(v->shortest, rtt);
	v->samples++;
}

static __always_inline void weir_vegas_state(const struct sock *sk, struct weir_vegas *v, u8 new_state)
{
	v->is_paused = new_state != TCP_CA_Open;
	if (!v->is_paused)
		weir_vegas_round(sk, v);
}

/* The path may have changed while nothing was sent. */
static __always_inline void weir_vegas_event(const struct sock *sk, struct weir_vegas *v, enum tcp_ca_event event)
{
	if (event == CA_EVENT_CWND_RESTART || event == CA_EVENT_TX_START)
		weir_vegas_restart(sk, v);
}

static __always_inline bool weir_vegas_is_over(const struct weir_vegas *v, u32 ack)
{
	return after(ack, v->round_end);
}

static __always_inline bool weir_vegas_is_measured(const struct weir_vegas *v)
{
	return v->samples > WEIR_VEGAS_FEW;
}

/* The packets in the queue, 1/1024: the window less what fills the path alone, cwnd (1 - base / shortest). */
static __always_inline u64 weir_vegas_queue_q10(const struct tcp_sock *tp, const struct weir_vegas *v)
{
	u64 window = min_t(u32, tp->snd_cwnd, WEIR_VEGAS_MAX_WINDOW) * (u64)WEIR_ONE;

	return window - div64_u64(window * min(v->base, v->shortest), max(v->shortest, 1U));
}

#endif
