// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * TCP Westwood+: grows as Reno, and shrinks to what the path has carried lately: the rate at which packets arrived,
 * times the shortest round-trip time.
 *
 * L. A. Grieco, S. Mascolo, "Performance evaluation and comparison of Westwood+, New Reno, and Vegas TCP congestion
 * control", ACM CCR 34(2), 2004. With as_linux=1 it measures like Linux: see the README.
 */
#include "weir_cc.h"

#define WESTWOOD_OPTIONS(OPTION)                                                                          \
	OPTION(filter, 922, 0, 1023, "weight of the past in the estimate of the rate (alpha), in 1/1024") \
	OPTION(min_interval, 50, 1, 10000, "shortest interval over which the rate is measured, ms")       \
	OPTION(as_linux, 0, 0, 1, "as Linux 6.12; the options above are without effect")                  \
	WEIR_SLOW_START_OPTIONS(OPTION, 0)
WEIR_CC_OPTIONS(WESTWOOD_OPTIONS)

#include "weir_slow_start.h"
#include "weir_window.h"

enum {
	WESTWOOD_MAX_RTT = (1 << 24) - 1, /* us: the products below fit 64 bits */
};
#define WESTWOOD_MAX_RATE ((1ULL << 40) - 1)

struct westwood {
	struct weir_slow_start ss;
	u32 rtt;     /* the last; microseconds, as Linux jiffies */
	u32 rtt_min; /* 0 is none */
	u32 start;   /* of the interval: the clock in microseconds, as Linux in jiffies */
	union {
		struct {
			u64 rate;      /* estimate, 1/1024 packet a second */
			u32 delivered; /* at the start of the interval */
			u8 is_known;
		};
		struct {                /* as Linux */
			u32 first_rate; /* filtered once, bytes a jiffy */
			u32 linux_rate; /* filtered twice */
			u32 bytes;      /* acknowledged in the interval */
			u32 una;
			u32 accounted; /* bytes that duplicate acknowledgements stood for */
			u8 is_first;
			u8 is_forgetting; /* the next round-trip time is the shortest */
		};
	};
};

static void westwood_init(struct sock *sk)
{
	struct westwood *ca = inet_csk_ca(sk);

	weir_ss_start(sk, &ca->ss);
	if (OPT(sk, as_linux)) {
		ca->first_rate = 0;
		ca->linux_rate = 0;
		ca->bytes = 0;
		ca->una = tcp_sk(sk)->snd_una;
		ca->accounted = 0;
		ca->is_first = 1;
		ca->is_forgetting = 1;
		ca->rtt = 20 * HZ;
		ca->rtt_min = ca->rtt;
		ca->start = tcp_jiffies32;
		return;
	}
	ca->rtt = 0;
	ca->rtt_min = 0;
	ca->start = weir_clock(sk);
	ca->rate = 0;
	ca->delivered = tcp_sk(sk)->delivered;
	ca->is_known = 0;
}

/* Jiffies of a duration, rounded up as Linux does. */
static u32 westwood_jiffies(const struct sock *sk, u32 us)
{
	return div64_u64((u64)us * HZ + USEC_PER_SEC - 1, USEC_PER_SEC);
}

static void westwood_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct westwood *ca = inet_csk_ca(sk);
	u32 rtt = sample->rtt_us;

	weir_ss_sample(sk, &ca->ss, sample->rtt_us);
	if (sample->rtt_us <= 0)
		return;
	if (OPT(sk, as_linux)) {
		ca->rtt = westwood_jiffies(sk, rtt);
		return;
	}
	ca->rtt = min_t(u32, rtt, WESTWOOD_MAX_RTT);
	if (!ca->rtt_min || ca->rtt < ca->rtt_min)
		ca->rtt_min = ca->rtt;
}

/* Once a round trip: what arrived in it, divided by its length, filtered. */
static void westwood_measure(struct sock *sk, struct westwood *ca)
{
	u32 elapsed = weir_clock(sk) - ca->start;
	u64 packets, sample;

	if (!ca->rtt || elapsed < max(ca->rtt, OPT(sk, min_interval) * (u32)USEC_PER_MSEC))
		return;
	packets = tcp_sk(sk)->delivered - ca->delivered;
	sample = min_t(u64, div64_u64(packets * WEIR_ONE * USEC_PER_SEC, max(elapsed, 1U)), WESTWOOD_MAX_RATE);
	if (ca->is_known)
		sample = (ca->rate * OPT(sk, filter) + sample * (WEIR_ONE - OPT(sk, filter))) / WEIR_ONE;
	ca->rate = sample;
	ca->is_known = 1;
	ca->start = weir_clock(sk);
	ca->delivered = tcp_sk(sk)->delivered;
}

/* As Linux: an eighth of each sample, twice. */
static void westwood_linux_measure(struct sock *sk, struct westwood *ca)
{
	u32 elapsed = tcp_jiffies32 - ca->start, sample;

	if (ca->is_first) {
		ca->una = tcp_sk(sk)->snd_una;
		ca->is_first = 0;
	}
	if (!ca->rtt || (s32)elapsed < 0 || elapsed <= max(ca->rtt, (u32)HZ / 20))
		return;
	sample = ca->bytes / max(elapsed, 1U);
	if (!ca->first_rate && !ca->linux_rate) {
		ca->first_rate = sample;
		ca->linux_rate = sample;
	} else {
		ca->first_rate = (7 * ca->first_rate + sample) >> 3;
		ca->linux_rate = (7 * ca->linux_rate + ca->first_rate) >> 3;
	}
	ca->bytes = 0;
	ca->start = tcp_jiffies32;
}

/*
 * As Linux: the bytes that this acknowledgement stands for. A duplicate stands for a packet; the cumulative one that
 * covers those packets later counts only what it adds.
 */
static u32 westwood_linux_bytes(const struct tcp_sock *tp, struct westwood *ca)
{
	u32 bytes = tp->snd_una - ca->una, mss = tp->mss_cache;

	ca->una = tp->snd_una;
	if (!bytes) {
		ca->accounted += mss;
		return mss;
	}
	if (bytes <= mss)
		return bytes;
	if (ca->accounted >= bytes) {
		ca->accounted -= bytes;
		return mss;
	}
	bytes -= ca->accounted;
	ca->accounted = 0;
	return bytes;
}

static void westwood_in_ack_event(struct sock *sk, u32 flags)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct westwood *ca = inet_csk_ca(sk);

	if (!OPT(sk, as_linux)) {
		westwood_measure(sk, ca);
		return;
	}
	westwood_linux_measure(sk, ca);
	if (flags & CA_ACK_SLOWPATH) {
		ca->bytes += westwood_linux_bytes(tp, ca);
	} else {
		ca->bytes += tp->snd_una - ca->una;
		ca->una = tp->snd_una;
	}
	if (ca->is_forgetting || ca->rtt < ca->rtt_min)
		ca->rtt_min = ca->rtt;
	ca->is_forgetting = 0;
}

static void westwood_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct westwood *ca = inet_csk_ca(sk);

	(void)ack;
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = weir_ss_acked(sk, &ca->ss, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

/* The window that the measured rate fills on a path without a queue. */
static u32 westwood_window(const struct sock *sk, const struct westwood *ca)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (OPT(sk, as_linux))
		return max(ca->linux_rate * ca->rtt_min / max(tp->mss_cache, 1U), 2U);
	return max_t(u64, min_t(u64, ca->rate * ca->rtt_min / ((u64)USEC_PER_SEC * WEIR_ONE), ~0U), 2);
}

static u32 westwood_ssthresh(struct sock *sk)
{
	struct westwood *ca = inet_csk_ca(sk);

	if (OPT(sk, as_linux) || !ca->is_known)
		return tcp_reno_ssthresh(sk);
	return min(westwood_window(sk, ca), max(tcp_sk(sk)->snd_cwnd, 2U));
}

static void westwood_set_state(struct sock *sk, u8 new_state)
{
	struct westwood *ca = inet_csk_ca(sk);

	if (new_state == TCP_CA_Loss)
		weir_ss_start(sk, &ca->ss);
}

/* A pause is no measurement; as Linux, the window follows the measured rate when recovery ends. */
static void westwood_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct westwood *ca = inet_csk_ca(sk);

	if (!OPT(sk, as_linux)) {
		if (event == CA_EVENT_TX_START) {
			ca->start = weir_clock(sk);
			ca->delivered = tp->delivered;
		}
		return;
	}
	if (event != CA_EVENT_COMPLETE_CWR && event != CA_EVENT_LOSS)
		return;
	tp->snd_ssthresh = westwood_window(sk, ca);
	if (event == CA_EVENT_COMPLETE_CWR)
		tp->snd_cwnd = min(tp->snd_ssthresh, tp->snd_cwnd_clamp);
	else
		ca->is_forgetting = 1;
}

#define WESTWOOD_OPS(OP)                        \
	OP(init, westwood_init)                 \
	OP(ssthresh, westwood_ssthresh)         \
	OP(cong_avoid, westwood_cong_avoid)     \
	OP(pkts_acked, westwood_pkts_acked)     \
	OP(in_ack_event, westwood_in_ack_event) \
	OP(set_state, westwood_set_state)       \
	OP(cwnd_event, westwood_cwnd_event)     \
	OP(undo_cwnd, tcp_reno_undo_cwnd)

WEIR_CC_ABOUT("TCP Westwood+", 2004, "L. A. Grieco, S. Mascolo, Westwood+, New Reno, and Vegas, ACM CCR 34(2), 2004")
WEIR_CC_REGISTER(westwood, "westwood", 0, struct westwood, WESTWOOD_OPS)
