// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * TCP-LP: low priority. It takes what others leave: when the delay rises above a share of its range, the window is
 * halved and stays for three round trips; if the delay is still high then, others are there, and one packet remains.
 *
 * A. Kuzmanovic, E. W. Knightly, "TCP-LP: a distributed algorithm for low priority data transfer", INFOCOM 2003. With
 * as_linux=1 it measures and counts like Linux: see the README.
 */
#include "weir_cc.h"

#define LP_OPTIONS(OPTION)                                                                                  \
	OPTION(threshold, 154, 1, 1023, "share of the delay's range that is congestion, in 1/1024 (delta)") \
	OPTION(inference, 3, 1, 100, "round trips without growth after a reduction")                        \
	OPTION(noise, 1000, 0, 1000000, "rise of the delay that is never congestion, microseconds")         \
	OPTION(as_linux, 0, 0, 1, "as Linux 6.12; the options above are without effect")                    \
	WEIR_SLOW_START_OPTIONS(OPTION, 0)
WEIR_CC_OPTIONS(LP_OPTIONS)

#include "weir_slow_start.h"

enum {
	LP_ONE = 1024,
	LP_RESOLUTION = 1000, /* of one-way delays, as Linux: in a second */
	LP_STAMP_HZ = 1000,   /* of Linux' timestamps */
	LP_LINUX_PERCENT = 15,
	LP_LINUX_INFERENCE = 3,
};

struct lp {
	struct weir_slow_start ss;
	u32 smoothed; /* delay times 8: of the round trip, microseconds; as Linux one-way, ms */
	u32 least;
	u32 most;
	union {
		struct {
			u32 until;     /* end of the inference, microseconds */
			u32 round_end; /* earlier packets do not know of the last reduction */
			u8 is_waiting; /* for one of these */
		};
		struct { /* as Linux */
			u32 second_most;
			u32 remote_hz; /* estimated; 0 is none */
			u32 remote_stamp;
			u32 local_stamp;
			u32 last_drop; /* ms; 0 is none */
			u32 duration;  /* of the inference, ms */
		};
	};
	u8 is_inferring;
};

static void lp_init(struct sock *sk)
{
	struct lp *ca = inet_csk_ca(sk);

	weir_ss_start(sk, &ca->ss);
	ca->smoothed = 0;
	ca->least = ~0U;
	ca->most = 0;
	ca->is_inferring = 0;
	if (OPT(sk, as_linux)) {
		ca->second_most = 0;
		ca->remote_hz = 0;
		ca->remote_stamp = 0;
		ca->local_stamp = 0;
		ca->last_drop = 0;
		ca->duration = 0;
	} else {
		ca->round_end = tcp_sk(sk)->snd_una;
		ca->is_waiting = 0;
	}
}

static void lp_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct lp *ca = inet_csk_ca(sk);

	(void)ack;
	if (ca->is_inferring || !tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = weir_ss_acked(sk, &ca->ss, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

/* d <- 7/8 d + 1/8 sample */
static void lp_smooth(struct lp *ca, u32 delay)
{
	ca->smoothed = ca->smoothed ? ca->smoothed - (ca->smoothed >> 3) + delay : delay << 3;
}

/* d > d_min + (d_max - d_min) delta: a share of the queue is filled. */
static bool lp_is_congested(const struct sock *sk, const struct lp *ca)
{
	u32 share = (u32)((u64)(ca->most - ca->least) * OPT(sk, threshold) / LP_ONE);

	return ca->smoothed >> 3 > ca->least + max(share, OPT(sk, noise));
}

/* Half of the window, and then one packet, if the delay has not fallen (section III-B). */
static void lp_reduce(struct sock *sk, struct lp *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tp->snd_cwnd = ca->is_inferring ? 1 : max(tp->snd_cwnd >> 1, 1U);
	tp->snd_cwnd_cnt = 0;
	tp->snd_ssthresh = max(tp->snd_cwnd, 2U);
	ca->until = weir_clock(sk) + OPT(sk, inference) * max(tp->srtt_us >> 3, 1U);
	ca->is_inferring = 1;
	ca->is_waiting = 1;
	ca->round_end = tp->snd_nxt;
}

/* The acknowledgement of the only packet in flight was probably delayed: its time says nothing about a queue. */
static bool lp_is_alone(const struct sock *sk, const struct ack_sample *sample)
{
	return sample->pkts_acked <= 1 && !tcp_packets_in_flight(tcp_sk(sk));
}

static void lp_measure(struct sock *sk, struct lp *ca, const struct ack_sample *sample)
{
	u32 rtt = min_t(u32, sample->rtt_us, ~0U >> 4);

	if (ca->is_inferring && !before(weir_clock(sk), ca->until))
		ca->is_inferring = 0;
	if (sample->rtt_us <= 0 || lp_is_alone(sk, sample))
		return;
	ca->least = min(ca->least, rtt);
	ca->most = max(ca->most, rtt);
	lp_smooth(ca, rtt);
	if (ca->is_waiting && before(tcp_sk(sk)->snd_una, ca->round_end))
		return;
	if (ca->is_waiting) {
		/* The first delay that knows of the reduction; those before it are not smoothed into what follows. */
		ca->is_waiting = 0;
		ca->smoothed = rtt << 3;
	}
	/* The first slow start finds the range of the delay: the threshold is that of the first loss. */
	if (tcp_sk(sk)->snd_ssthresh < TCP_INFINITE_SSTHRESH && weir_ca_state(sk) <= TCP_CA_Disorder &&
	    lp_is_congested(sk, ca))
		lp_reduce(sk, ca);
}

/* As Linux: the rate of the receiver's clock from two of its timestamps. */
static void lp_linux_estimate(struct lp *ca, struct weir_stamps stamps)
{
	s64 scaled = (u32)(ca->remote_hz << 6), rate;

	if (ca->remote_stamp && ca->local_stamp && stamps.remote != ca->remote_stamp &&
	    stamps.echo != ca->local_stamp) {
		rate = LP_STAMP_HZ * (stamps.remote - ca->remote_stamp) / max(stamps.echo - ca->local_stamp, 1U);
		if (scaled > 0)
			scaled += rate - (scaled >> 6);
		else
			scaled = rate << 6;
	}
	ca->remote_stamp = stamps.remote;
	ca->local_stamp = stamps.echo;
	ca->remote_hz = (u32)(scaled >> 6);
}

/* As Linux: the one-way delay by both clocks, whose difference stays in it; its extremes, and its mean. */
static void lp_linux_sample(struct lp *ca, struct weir_stamps stamps)
{
	u32 delay, before;

	lp_linux_estimate(ca, stamps);
	if (!ca->remote_hz)
		return;
	delay = stamps.remote * (LP_RESOLUTION / max(ca->remote_hz, 1U)) - stamps.echo * (LP_RESOLUTION / LP_STAMP_HZ);
	if (!delay)
		return;
	ca->least = min(ca->least, delay);
	if (delay > ca->most) {
		before = ca->second_most;
		ca->most = delay > before && before ? before : delay;
		ca->second_most = max(before, delay);
	}
	lp_smooth(ca, delay);
}

static void lp_linux_acked(struct sock *sk, struct lp *ca, s32 rtt_us)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct weir_stamps stamps = weir_stamps(sk, rtt_us);
	u32 elapsed = stamps.now - stamps.echo;

	if (rtt_us > 0)
		lp_linux_sample(ca, stamps);
	if ((s32)elapsed > 0)
		ca->duration = LP_LINUX_INFERENCE * elapsed;
	ca->is_inferring = ca->last_drop && stamps.now - ca->last_drop < ca->duration;
	if (ca->smoothed >> 3 < ca->least + LP_LINUX_PERCENT * (ca->most - ca->least) / 100)
		return;
	ca->least = ca->smoothed >> 3;
	ca->most = ca->smoothed >> 2;
	ca->second_most = ca->smoothed >> 2;
	tp->snd_cwnd = ca->is_inferring ? 1 : max(tp->snd_cwnd >> 1, 1U);
	ca->last_drop = stamps.now;
}

static void lp_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct lp *ca = inet_csk_ca(sk);

	weir_ss_sample(sk, &ca->ss, sample->rtt_us);
	if (OPT(sk, as_linux))
		lp_linux_acked(sk, ca, sample->rtt_us);
	else
		lp_measure(sk, ca, sample);
}

static void lp_set_state(struct sock *sk, u8 new_state)
{
	struct lp *ca = inet_csk_ca(sk);

	if (new_state == TCP_CA_Loss)
		weir_ss_start(sk, &ca->ss);
}

#define LP_OPS(OP)                      \
	OP(init, lp_init)               \
	OP(ssthresh, tcp_reno_ssthresh) \
	OP(cong_avoid, lp_cong_avoid)   \
	OP(pkts_acked, lp_pkts_acked)   \
	OP(set_state, lp_set_state)     \
	OP(undo_cwnd, tcp_reno_undo_cwnd)

WEIR_CC_ABOUT("TCP-LP", 2003, "A. Kuzmanovic, E. W. Knightly, TCP-LP, INFOCOM 2003")
WEIR_CC_REGISTER(lp, "lp", 0, struct lp, LP_OPS)
