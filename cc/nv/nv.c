// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * TCP-NV: Vegas for data centres. Once a round trip it predicts from the largest rate and the shortest round-trip time
 * which window the path carries, allows ten packets more, and shrinks by a share of what exceeds that.
 *
 * L. Brakmo, "TCP-NV: an update to TCP-Vegas", 2010, and his implementation in Linux 4.8, whose constants these are.
 * With as_linux=1 growth waits and rounds like Linux' in all cases: see the README.
 */
#include "weir_cc.h"

#define NV_OPTIONS(OPTION)                                                                                    \
	OPTION(pad, 10, 0, 1000000, "packets that may queue")                                                 \
	OPTION(pad_buffer, 2, 0, 1000000, "the window does not grow this close to pad, packets")              \
	OPTION(reset_period, 5, 1, 3600, "time after which the shortest round-trip time is measured anew, s") \
	OPTION(cong_dec, 38, 1, 128, "share of the excess that is taken off, in 1/128")                       \
	OPTION(loss_dec, 819, 512, 1023, "share of the window that a loss keeps, in 1/1024")                  \
	OPTION(base_rtt, 0, 0, 10000000, "known round-trip time of the empty path, microseconds; 0: none")    \
	OPTION(as_linux, 0, 0, 1, "as Linux 6.12; the options above but base_rtt are without effect")         \
	WEIR_SLOW_START_OPTIONS(OPTION, 0)
WEIR_CC_OPTIONS(NV_OPTIONS)

#include "weir_slow_start.h"

enum {
	NV_RTT_NEW = 128,       /* weight of a round-trip time in the mean, in 1/256 */
	NV_DECREASE_AFTER = 60, /* measurements before the window shrinks */
	NV_INCREASE_AFTER = 20, /* and grows */
	NV_LEAVE_AFTER = 30,    /* and slow start ends */
	NV_STOP_AFTER = 10,     /* round trips of congestion with few measurements, after which growth stops */
	NV_DECIDE_AFTER = 2,    /* round trips before the window shrinks */
	NV_GROW_AFTER = 8,      /* round trips without congestion before growth doubles after a timeout */
	NV_LEAST_GROWTH = -8,
	NV_LEAST_CWND = 2,
	NV_FEW_CWND = 4, /* windows that a round trip says little about */
	NV_FEW_GROW = 2,
	NV_FEW_MOST = 81, /* as many packets as segmentation offload bundles, and one */
	NV_FIRST_RESET = 2,
	NV_NONE = 0x7fffffff,

	NV_LINUX_PAD = 10,
	NV_LINUX_PAD_BUFFER = 2,
	NV_LINUX_RESET = 5,
	NV_LINUX_CONG_DEC = 38,
	NV_LINUX_LOSS_DEC = 819,
};

struct nv {
	struct weir_slow_start ss;
	u32 reset_at;  /* jiffies at which the shortest round-trip time becomes `next_rtt` */
	u32 mean;      /* round-trip time, microseconds; 0 is none */
	u32 min_rtt;   /* shortest mean, microseconds */
	u32 next_rtt;  /* the same since the last reset */
	u32 base_rtt;  /* bound of both, microseconds; 0 is none */
	u32 max_rate;  /* in the round trip, 100 bit/s */
	u32 round_end; /* the round trip ends when this sequence number is acknowledged */
	u32 last_una;
	u32 calm;  /* decisions without congestion in a row */
	s8 growth; /* below 0: a packet in 2^-growth round trips */
	u8 samples;
	u8 few;    /* window that needs larger round trips: acknowledgements come in one piece */
	u8 rounds; /* without a decision */
	u8 may_grow;
	u8 must_restart;
};

static u32 nv_pad(const struct sock *sk)
{
	return OPT(sk, as_linux) ? NV_LINUX_PAD : OPT(sk, pad);
}

static u32 nv_pad_buffer(const struct sock *sk)
{
	return OPT(sk, as_linux) ? NV_LINUX_PAD_BUFFER : OPT(sk, pad_buffer);
}

static u32 nv_period(const struct sock *sk)
{
	return OPT(sk, as_linux) ? NV_LINUX_RESET : OPT(sk, reset_period);
}

static void nv_restart(const struct sock *sk, struct nv *ca)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	ca->must_restart = 0;
	ca->calm = 0;
	ca->rounds = 0;
	ca->mean = 0;
	ca->max_rate = 0;
	ca->round_end = tp->snd_una;
	ca->samples = 0;
	ca->last_una = tp->snd_una;
}

static void nv_init(struct sock *sk)
{
	struct nv *ca = inet_csk_ca(sk);

	weir_ss_start(sk, &ca->ss);
	nv_restart(sk, ca);
	ca->base_rtt = OPT(sk, base_rtt);
	ca->may_grow = 1;
	ca->reset_at = tcp_jiffies32 + NV_FIRST_RESET * HZ;
	ca->min_rtt = ~0U;
	ca->next_rtt = ~0U;
	ca->few = NV_FEW_CWND;
	ca->growth = 0;
}

/* A known path bounds the measurement from both sides: flows that begin in a queue do not take it for the path. */
static u32 nv_bounded(const struct nv *ca, u32 rtt)
{
	u32 least = (u32)((u64)ca->base_rtt * 205 >> 8);

	if (!ca->base_rtt)
		return rtt;
	return min(max(rtt, least), ca->base_rtt);
}

static void nv_grow(struct sock *sk, const struct nv *ca, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 per = max(tp->snd_cwnd, 4U);

	if (ca->growth < 0)
		per = OPT(sk, as_linux) ? tp->snd_cwnd << -ca->growth
					: min_t(u64, (u64)tp->snd_cwnd << -ca->growth, ~0U);
	tcp_cong_avoid_ai(tp, per, acked);
}

/* After a loss growth waits for a decision. A few packets give none, and slow start after a timeout needs none. */
static bool nv_may_grow(const struct sock *sk, const struct nv *ca)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	bool is_small =
		tp->snd_cwnd < NV_FEW_CWND || (tcp_in_slow_start(tp) && tp->snd_ssthresh < TCP_INFINITE_SSTHRESH);

	return ca->may_grow || (!OPT(sk, as_linux) && is_small);
}

static void nv_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct nv *ca = inet_csk_ca(sk);

	(void)ack;
	if (!tcp_is_cwnd_limited(sk) || !nv_may_grow(sk, ca))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = weir_ss_acked(sk, &ca->ss, acked);
		if (!acked)
			return;
	}
	nv_grow(sk, ca, acked);
}

static u32 nv_ssthresh(struct sock *sk)
{
	u32 kept = OPT(sk, as_linux) ? NV_LINUX_LOSS_DEC : OPT(sk, loss_dec);

	return max((u32)((u64)tcp_sk(sk)->snd_cwnd * kept >> 10), 2U);
}

static void nv_set_state(struct sock *sk, u8 new_state)
{
	struct nv *ca = inet_csk_ca(sk);

	if (new_state == TCP_CA_Open && ca->must_restart)
		nv_restart(sk, ca);
	if (new_state != TCP_CA_Loss && new_state != TCP_CA_CWR && new_state != TCP_CA_Recovery)
		return;
	ca->must_restart = 1;
	ca->may_grow = 0;
	if (new_state != TCP_CA_Loss)
		return;
	weir_ss_start(sk, &ca->ss);
	ca->growth = min(ca->growth, (s8)0);
	if (ca->growth > NV_LEAST_GROWTH)
		ca->growth--;
}

/* The mean, its minima, and the largest rate. */
static void nv_measure(struct nv *ca, const struct ack_sample *sample)
{
	u32 mean = max(sample->rtt_us, 1), rate;

	if (ca->mean)
		mean = ((u64)mean * NV_RTT_NEW + (u64)ca->mean * (256 - NV_RTT_NEW)) >> 8;
	else
		ca->min_rtt = mean << 1;
	ca->mean = mean;
	rate = (u32)div64_u64((u64)sample->in_flight * 80000, (u64)max(mean, 1U));
	ca->max_rate = max(ca->max_rate, rate);
	if (ca->samples < 255)
		ca->samples++;
	mean = nv_bounded(ca, mean);
	ca->min_rtt = min(ca->min_rtt, mean);
	ca->next_rtt = min(ca->next_rtt, mean);
}

/* Every five seconds, a quarter more or less, the shortest round-trip time is that of the period. */
static void nv_reset_if_due(struct sock *sk, struct nv *ca)
{
	u32 now = tcp_jiffies32;

	if (before(now, ca->reset_at))
		return;
	ca->min_rtt = ca->next_rtt;
	ca->next_rtt = ~0U;
	ca->reset_at = now + (u32)((u64)nv_period(sk) * (384 + weir_random_byte(sk)) * HZ >> 9);
	ca->few = max(ca->few / 2, NV_FEW_CWND);
}

/* One acknowledgement a round trip: the window is too small for what bundles them, and grows. */
static bool nv_is_bundled(struct sock *sk, struct nv *ca, u32 bytes)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (ca->samples != 1 || bytes < (ca->few - 1U) * tp->mss_cache || ca->few >= NV_FEW_MOST)
		return false;
	ca->few = min(ca->few + NV_FEW_GROW, NV_FEW_MOST);
	ca->round_end = tp->snd_nxt + ca->few * tp->mss_cache;
	ca->samples = 0;
	ca->may_grow = 1;
	return true;
}

/* Whether there are enough measurements to shrink the window. */
static bool nv_is_sure(const struct tcp_sock *tp, struct nv *ca)
{
	if (ca->rounds < NV_DECIDE_AFTER)
		return false;
	if (tp->snd_ssthresh == TCP_INFINITE_SSTHRESH)
		return ca->samples >= NV_LEAVE_AFTER;
	if (ca->samples >= NV_DECREASE_AFTER)
		return true;
	if (ca->rounds > NV_STOP_AFTER)
		ca->may_grow = 0;
	return false;
}

static void nv_shrink(struct sock *sk, struct nv *ca, u32 most)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 dec = OPT(sk, as_linux) ? NV_LINUX_CONG_DEC : OPT(sk, cong_dec), excess = tp->snd_cwnd - most;

	ca->may_grow = 0;
	tp->snd_ssthresh = max(most, 1U);
	if (excess > 2)
		tp->snd_cwnd -= max((u32)((u64)excess * dec >> 7), 2U);
	else
		tp->snd_cwnd = max(most, 1U);
	ca->growth = min(ca->growth, (s8)0);
	ca->calm = 0;
}

static void nv_allow_growth(struct nv *ca)
{
	ca->may_grow = 1;
	ca->calm++;
	if (ca->growth < 0 && ca->calm > NV_GROW_AFTER) {
		ca->growth++;
		ca->calm = 0;
	}
}

/* The window of the largest rate on an empty path, and pad; below it the window grows, above it shrinks. */
static void nv_decide(struct sock *sk, struct nv *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 path = div64_u64((u64)ca->max_rate * ca->min_rtt, (u64)max(80000 * tp->mss_cache, 1U));
	u32 most = min_t(u64, path, NV_NONE) + nv_pad(sk);

	if (tp->snd_cwnd > most) {
		if (!nv_is_sure(tp, ca))
			return;
		nv_shrink(sk, ca, most);
	} else if (tp->snd_cwnd + nv_pad_buffer(sk) <= most) {
		if (ca->samples < NV_INCREASE_AFTER)
			return;
		nv_allow_growth(ca);
	} else {
		return;
	}
	ca->samples = 0;
	ca->rounds = 0;
	ca->max_rate = 0;
	tp->snd_cwnd = min(max(tp->snd_cwnd, (u32)NV_LEAST_CWND), tp->snd_cwnd_clamp);
}

static void nv_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct nv *ca = inet_csk_ca(sk);
	u32 bytes;

	weir_ss_sample(sk, &ca->ss, sample->rtt_us);
	if (sample->rtt_us < 0 || weir_ca_state(sk) > TCP_CA_Disorder)
		return;
	bytes = tp->snd_una - ca->last_una;
	ca->last_una = tp->snd_una;
	if (!sample->in_flight)
		return;
	nv_measure(ca, sample);
	nv_reset_if_due(sk, ca);
	if (!before(ca->round_end, tp->snd_una))
		return;
	ca->round_end = tp->snd_nxt;
	if (ca->rounds < 255)
		ca->rounds++;
	if (!nv_is_bundled(sk, ca, bytes))
		nv_decide(sk, ca);
}

#define NV_OPS(OP)                    \
	OP(init, nv_init)             \
	OP(ssthresh, nv_ssthresh)     \
	OP(cong_avoid, nv_cong_avoid) \
	OP(pkts_acked, nv_pkts_acked) \
	OP(set_state, nv_set_state)   \
	OP(undo_cwnd, tcp_reno_undo_cwnd)

WEIR_CC_ABOUT("TCP-NV", 2010, "L. Brakmo, TCP-NV: an update to TCP-Vegas, 2010; Linux 4.8")
WEIR_CC_REGISTER(nv, "nv", TCP_CONG_NEEDS_SAMPLES, struct nv, NV_OPS)
