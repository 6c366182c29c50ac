// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * BIC: after a loss, a binary search for the window between the one that lost and the one kept, with bounded steps;
 * beyond it, slow start away from it.
 *
 * L. Xu, K. Harfoush, I. Rhee, "Binary increase congestion control (BIC) for fast long-distance networks", INFOCOM
 * 2004, section III. Windows are in 1/1024 packet, fine enough for the smallest step (0.01 packet).
 *
 * With as_linux=1 it takes Linux' steps: see the README.
 */
#include "weir_cc.h"

#define BIC_OPTIONS(OPTION)                                                                                 \
	OPTION(s_max, 32, 1, 1000000, "largest increase a round trip, packets")                             \
	OPTION(s_min, 10, 1, 1024, "smallest step of the search, 1/1024 packet")                            \
	OPTION(keep, 896, 1, 1023, "share of the window kept on loss (1 - beta), in 1/1024")                \
	OPTION(low_window, 14, 0, 1000000000, "standard TCP below this window, packets")                    \
	OPTION(divisor, 2, 2, 16, "a step is the distance to the maximum divided by this; 2 is binary")     \
	OPTION(fast_convergence, 1, 0, 1, "leave room for others when the maximum has fallen")              \
	OPTION(as_linux, 0, 0, 1, "as Linux 6.12, with its constants; of the above, only fast_convergence") \
	WEIR_SLOW_START_OPTIONS(OPTION, 0)
WEIR_CC_OPTIONS(BIC_OPTIONS)

#include "weir_slow_start.h"
#include "weir_window.h"

/* Linux' constants, windows in packets. */
enum {
	BIC_LINUX_LOW_WINDOW = 14, /* standard TCP up to this window */
	BIC_LINUX_KEEP = 819,      /* share kept on loss, 1/1024 */
	BIC_LINUX_S_MAX = 16,      /* largest step */
	BIC_LINUX_DIVISOR = 4,     /* a step is the distance to the maximum divided by this */
	BIC_LINUX_SMOOTH = 20,     /* round trips that the last packets before and the first beyond the maximum take */
	BIC_LINUX_FIRST = 20,      /* before any loss: one packet for at most this many acknowledged */
	BIC_LINUX_NO_DELAY = 16,   /* one packet per acknowledgement */
	BIC_LINUX_STALE = 32,      /* the pace of a window is recomputed after 1/32 s */
};

/* With as_linux. */
struct bic_linux {
	u32 pace;      /* packets acknowledged for one packet of growth */
	u32 pace_cwnd; /* window and jiffy of the pace */
	u32 pace_time;
	u32 ack_packets; /* packets per acknowledgement, smoothed, 1/16 packet */
};

struct bic {
	struct weir_slow_start ss;
	u32 loss_window;       /* window at the last loss; 0 is none */
	u64 credit;            /* of weir_increase */
	u32 target;            /* maximum being searched for; 0 without one, above it */
	u32 probe;             /* increase per round trip beyond the maximum, packets */
	u32 probe_end;         /* window at which it doubles */
	u32 saved_loss_window; /* for undo */
	u32 saved_target;
	u32 saved_probe;
	u32 saved_probe_end;
	struct bic_linux as_linux;
};

static void bic_init(struct sock *sk)
{
	struct bic *ca = inet_csk_ca(sk);

	ca->loss_window = 0;
	ca->credit = 0;
	ca->target = 0;
	ca->probe = OPT(sk, s_max);
	ca->probe_end = 0;
	ca->as_linux.pace = 0;
	ca->as_linux.pace_cwnd = 0;
	ca->as_linux.pace_time = 0;
	ca->as_linux.ack_packets = 2 * BIC_LINUX_NO_DELAY;
	weir_ss_start(sk, &ca->ss);
}

/*
 * Beyond the maximum: one packet per round trip, then twice as fast each time that much has been gained, up to s_max.
 */
static u32 bic_probe(struct sock *sk, struct bic *ca)
{
	u32 cwnd = tcp_sk(sk)->snd_cwnd;
	u32 s_max = OPT(sk, s_max);

	if (ca->target) {
		ca->target = 0;
		ca->probe = 1;
		ca->probe_end = cwnd + 1;
	}
	if (ca->probe < s_max && cwnd >= ca->probe_end) {
		ca->probe = min(2 * ca->probe, s_max);
		ca->probe_end = cwnd + ca->probe;
	}
	return ca->probe * WEIR_ONE;
}

/* The window's increase for the next round trip, in 1/1024 packet. */
static u32 bic_gain(struct sock *sk, struct bic *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 largest = (u64)OPT(sk, s_max) * WEIR_ONE;
	u64 distance;

	if (tp->snd_cwnd < OPT(sk, low_window))
		return WEIR_ONE;
	if (!ca->target || tp->snd_cwnd >= ca->target)
		return bic_probe(sk, ca);
	distance = (u64)(ca->target - tp->snd_cwnd) * WEIR_ONE;
	if (distance > largest * OPT(sk, divisor))
		return largest;
	distance -= min(distance, div64_u64(ca->credit, max(tp->snd_cwnd, 1U)));
	return max_t(u64, distance / OPT(sk, divisor), OPT(sk, s_min));
}

/*
 * Linux' search: each round trip a step of a quarter of the distance, in whole packets. The last packets before the
 * maximum and the first beyond it take 20 round trips; further on the step is a third of the gain so far.
 */
static __always_inline u32 bic_linux_search(u32 cwnd, u32 target)
{
	u32 gained = cwnd - target, step;
	u32 smooth = cwnd * BIC_LINUX_SMOOTH / BIC_LINUX_DIVISOR;

	if (cwnd < target) {
		step = min_t(u32, (target - cwnd) / BIC_LINUX_DIVISOR, BIC_LINUX_S_MAX);
		return step <= 1 ? smooth : cwnd / step;
	}
	if (gained < BIC_LINUX_DIVISOR)
		return smooth;
	if (gained < BIC_LINUX_S_MAX * (BIC_LINUX_DIVISOR - 1))
		return cwnd * (BIC_LINUX_DIVISOR - 1) / gained;
	return cwnd / BIC_LINUX_S_MAX;
}

/*
 * The pace of the search is divided by the packets per acknowledgement, although these are counted as well: with
 * delayed acknowledgements, growth is twice as fast as the constants say.
 */
static __always_inline u32 bic_linux_pace(const struct bic *ca, u32 cwnd)
{
	u32 pace;

	if (cwnd <= BIC_LINUX_LOW_WINDOW)
		return cwnd;
	pace = bic_linux_search(cwnd, ca->target);
	if (!ca->target)
		pace = min_t(u32, pace, BIC_LINUX_FIRST);
	return max_t(u32, pace * BIC_LINUX_NO_DELAY / max(ca->as_linux.ack_packets, 1U), 1);
}

static __always_inline void bic_linux_increase(struct sock *sk, struct bic *ca, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bic_linux *found = &ca->as_linux;
	u32 now = tcp_jiffies32;

	if (found->pace_cwnd != tp->snd_cwnd || (s32)(now - found->pace_time) > (s32)(HZ / BIC_LINUX_STALE)) {
		found->pace = bic_linux_pace(ca, tp->snd_cwnd);
		found->pace_cwnd = tp->snd_cwnd;
		found->pace_time = now;
	}
	tcp_cong_avoid_ai(tp, found->pace, acked);
}

/* A maximum has fallen if it is below the one last searched for, whether or not that was reduced. */
static __always_inline u32 bic_linux_ssthresh(struct sock *sk, struct bic *ca)
{
	u32 cwnd = tcp_sk(sk)->snd_cwnd;
	u64 kept = (u64)cwnd * BIC_LINUX_KEEP / WEIR_ONE;

	if (OPT(sk, fast_convergence) && cwnd < ca->target)
		ca->target = (u64)cwnd * (WEIR_ONE + BIC_LINUX_KEEP) / (2 * WEIR_ONE);
	else
		ca->target = cwnd;
	return cwnd <= BIC_LINUX_LOW_WINDOW ? tcp_reno_ssthresh(sk) : (u32)kept;
}

static void bic_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bic *ca = inet_csk_ca(sk);

	(void)ack;
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = weir_ss_acked(sk, &ca->ss, acked);
		if (!acked)
			return;
	}
	if (OPT(sk, as_linux))
		bic_linux_increase(sk, ca, acked);
	else
		weir_increase(tp, &ca->credit, bic_gain(sk, ca), acked);
}

static u32 bic_ssthresh(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct bic *ca = inet_csk_ca(sk);
	u32 last = ca->loss_window, kept;

	if (OPT(sk, as_linux))
		return bic_linux_ssthresh(sk, ca);
	ca->saved_loss_window = last;
	ca->saved_target = ca->target;
	ca->saved_probe = ca->probe;
	ca->saved_probe_end = ca->probe_end;
	ca->credit = 0;
	if (tp->snd_cwnd < OPT(sk, low_window))
		return tcp_reno_ssthresh(sk);
	kept = weir_decrease(tp, OPT(sk, keep));
	ca->loss_window = tp->snd_cwnd;
	ca->target = tp->snd_cwnd;
	if (OPT(sk, fast_convergence) && tp->snd_cwnd < last)
		ca->target = kept + (tp->snd_cwnd - min(kept, tp->snd_cwnd)) / 2;
	return kept;
}

static u32 bic_undo_cwnd(struct sock *sk)
{
	struct bic *ca = inet_csk_ca(sk);

	if (OPT(sk, as_linux))
		return tcp_reno_undo_cwnd(sk);
	ca->loss_window = ca->saved_loss_window;
	ca->target = ca->saved_target;
	ca->probe = ca->saved_probe;
	ca->probe_end = ca->saved_probe_end;
	return tcp_reno_undo_cwnd(sk);
}

static void bic_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct bic *ca = inet_csk_ca(sk);
	u32 *ack_packets = &ca->as_linux.ack_packets;

	weir_ss_sample(sk, &ca->ss, sample->rtt_us);
	if (OPT(sk, as_linux) && weir_ca_state(sk) == TCP_CA_Open)
		*ack_packets += sample->pkts_acked - *ack_packets / 16;
}

static void bic_set_state(struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Loss)
		bic_init(sk);
}

#define BIC_OPS(OP)                    \
	OP(init, bic_init)             \
	OP(ssthresh, bic_ssthresh)     \
	OP(cong_avoid, bic_cong_avoid) \
	OP(pkts_acked, bic_pkts_acked) \
	OP(set_state, bic_set_state)   \
	OP(undo_cwnd, bic_undo_cwnd)

WEIR_CC_ABOUT("BIC-TCP", 2004, "L. Xu, K. Harfoush, I. Rhee, Binary increase congestion control, INFOCOM 2004")
WEIR_CC_REGISTER(bic, "bic", 0, struct bic, BIC_OPS)
