// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * TCP-Illinois: losses decide when the window changes direction, the queueing delay decides by how much. Far from
 * congestion the window gains ten packets a round trip and gives up an eighth on loss; near it, a third of a packet and
 * half of the window.
 *
 * S. Liu, T. Basar, R. Srikant, "TCP-Illinois: a loss- and delay-based congestion control algorithm for high-speed
 * networks", Performance Evaluation 65(6-7), 2008. With as_linux=1 it counts and rounds like Linux: see the README.
 */
#include "weir_cc.h"

#define ILLINOIS_OPTIONS(OPTION)                                                                   \
	OPTION(alpha_max, 10240, 1024, 1048576, "largest increase a round trip, in 1/1024 packet") \
	OPTION(alpha_min, 307, 1, 1024, "smallest increase a round trip, in 1/1024 packet")        \
	OPTION(beta_min, 128, 1, 512, "smallest share given up on loss, in 1/1024")                \
	OPTION(beta_max, 512, 512, 1023, "largest share given up on loss, in 1/1024")              \
	OPTION(window_threshold, 10, 0, 1000000000, "standard TCP below this window, packets")     \
	OPTION(theta, 5, 1, 250, "round trips of low delay before the largest increase returns")   \
	OPTION(as_linux, 0, 0, 1, "as Linux 6.12; the options above are without effect")           \
	WEIR_SLOW_START_OPTIONS(OPTION, 0)
WEIR_CC_OPTIONS(ILLINOIS_OPTIONS)

#include "weir_slow_start.h"
#include "weir_window.h"

enum {
	ILLINOIS_LOW_DELAY = 100, /* d1 = dm / 100, up to which the increase is the largest */
	ILLINOIS_BETA_LOW = 10,   /* d2 = dm / 10, up to which the decrease is the smallest */
	ILLINOIS_BETA_HIGH = 8,   /* d3 = 8 dm / 10, from which it is the largest */

	ILLINOIS_LINUX_ALPHA_ONE = 128,
	ILLINOIS_LINUX_BETA_ONE = 64,
	ILLINOIS_LINUX_WINDOW = 15,
	ILLINOIS_LINUX_THETA = 5,
	ILLINOIS_LINUX_RTT_MAX = 3355443, /* us: ten packets times this fit 32 bits there */
};

struct illinois {
	struct weir_slow_start ss;
	u64 rtt_sum; /* of the round trip, microseconds */
	u32 rtt_count;
	u32 rtt_min; /* of the connection, microseconds; ~0 is none */
	u32 rtt_max;
	u32 round_end; /* the round trip ends when this sequence number is acknowledged */
	u32 alpha;     /* increase a round trip, 1/1024 packet; as Linux 1/128 */
	u32 beta;      /* share given up on loss, 1/1024; as Linux 1/64 */
	union {
		u64 credit;      /* of weir_increase */
		u32 ack_packets; /* as Linux: that the present acknowledgement covers */
	};
	u8 was_high; /* the delay has been above d1 since the increase was the largest */
	u8 low;      /* round trips of low delay since then */
};

static u32 illinois_alpha_one(const struct sock *sk)
{
	return OPT(sk, as_linux) ? ILLINOIS_LINUX_ALPHA_ONE : WEIR_ONE;
}

static u32 illinois_alpha_max(const struct sock *sk)
{
	return OPT(sk, as_linux) ? 10 * ILLINOIS_LINUX_ALPHA_ONE : OPT(sk, alpha_max);
}

static u32 illinois_alpha_min(const struct sock *sk)
{
	return OPT(sk, as_linux) ? 3 * ILLINOIS_LINUX_ALPHA_ONE / 10 : OPT(sk, alpha_min);
}

static u32 illinois_beta_max(const struct sock *sk)
{
	return OPT(sk, as_linux) ? ILLINOIS_LINUX_BETA_ONE / 2 : OPT(sk, beta_max);
}

static u32 illinois_beta_min(const struct sock *sk)
{
	return OPT(sk, as_linux) ? ILLINOIS_LINUX_BETA_ONE / 8 : OPT(sk, beta_min);
}

static u32 illinois_beta_standard(const struct sock *sk)
{
	return OPT(sk, as_linux) ? ILLINOIS_LINUX_BETA_ONE / 2 : WEIR_ONE / 2;
}

static void illinois_round(struct sock *sk, struct illinois *ca)
{
	WEIR_PROBE(sk, "alpha", ca->alpha);
	WEIR_PROBE(sk, "beta", ca->beta);
	ca->round_end = tcp_sk(sk)->snd_nxt;
	ca->rtt_sum = 0;
	ca->rtt_count = 0;
}

static void illinois_init(struct sock *sk)
{
	struct illinois *ca = inet_csk_ca(sk);

	weir_ss_start(sk, &ca->ss);
	ca->rtt_min = ~0U;
	ca->rtt_max = 0;
	ca->alpha = illinois_alpha_max(sk);
	ca->beta = illinois_beta_standard(sk);
	ca->credit = 0;
	ca->was_high = 0;
	ca->low = 0;
	illinois_round(sk, ca);
}

static void illinois_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct illinois *ca = inet_csk_ca(sk);
	u32 rtt = sample->rtt_us;

	weir_ss_sample(sk, &ca->ss, sample->rtt_us);
	if (OPT(sk, as_linux)) {
		ca->ack_packets = sample->pkts_acked & 0xffff;
		rtt = min_t(u32, rtt, ILLINOIS_LINUX_RTT_MAX);
	}
	if (sample->rtt_us < 0)
		return;
	ca->rtt_min = min(ca->rtt_min, rtt);
	ca->rtt_max = max(ca->rtt_max, rtt);
	ca->rtt_sum += rtt;
	ca->rtt_count++;
}

/*
 * The paper's f1: alpha_max up to the delay d1, then k1 / (k2 + delay), which is alpha_min at the largest delay dm. A
 * single round trip of low delay is no reason for the largest increase; theta of them are.
 */
static u32 illinois_alpha(struct sock *sk, struct illinois *ca, u32 delay, u32 delay_max)
{
	u32 most = illinois_alpha_max(sk), least = max(illinois_alpha_min(sk), 1U);
	u32 low = delay_max / ILLINOIS_LOW_DELAY;
	u32 theta = OPT(sk, as_linux) ? ILLINOIS_LINUX_THETA : OPT(sk, theta);
	u64 range = delay_max - low;

	if (delay > low) {
		ca->was_high = 1;
		return range * most / max_t(u64, range + (u64)(delay - low) * (most - least) / least, 1);
	}
	if (ca->was_high) {
		if (++ca->low < theta)
			return ca->alpha;
		ca->low = 0;
		ca->was_high = 0;
	}
	return most;
}

/* The paper's f2: a straight line from beta_min at the delay d2 to beta_max at d3. */
static u32 illinois_beta(struct sock *sk, u32 delay, u32 delay_max)
{
	u32 least = illinois_beta_min(sk), most = illinois_beta_max(sk);
	u32 low = delay_max / ILLINOIS_BETA_LOW;
	u32 high = (u64)delay_max * ILLINOIS_BETA_HIGH / 10;

	if (delay <= low)
		return least;
	if (delay >= high || high <= low)
		return most;
	return least + (u64)(most - least) * (delay - low) / (high - low);
}

/* Once a round trip, from its mean delay. */
static void illinois_update(struct sock *sk, struct illinois *ca)
{
	u32 threshold = OPT(sk, as_linux) ? ILLINOIS_LINUX_WINDOW : OPT(sk, window_threshold);
	u32 delay, delay_max;

	if (tcp_sk(sk)->snd_cwnd < threshold) {
		ca->alpha = illinois_alpha_one(sk);
		ca->beta = illinois_beta_standard(sk);
	} else if (ca->rtt_count) {
		delay = div64_u64(ca->rtt_sum, ca->rtt_count) - ca->rtt_min;
		delay_max = ca->rtt_max - ca->rtt_min;
		ca->alpha = illinois_alpha(sk, ca, delay, delay_max);
		ca->beta = illinois_beta(sk, delay, delay_max);
	}
	illinois_round(sk, ca);
}

/*
 * As Linux: the packets acknowledged since the window grew, times alpha; what is beyond whole windows is dropped. An
 * acknowledgement that fills a hole counts all packets that it covers, also those selectively acknowledged before.
 */
static void illinois_linux_increase(struct tcp_sock *tp, struct illinois *ca)
{
	u32 cwnd = max(tp->snd_cwnd, 1U), gain;

	tp->snd_cwnd_cnt += ca->ack_packets;
	ca->ack_packets = 1;
	gain = (tp->snd_cwnd_cnt * ca->alpha) / ILLINOIS_LINUX_ALPHA_ONE;
	if (gain < cwnd)
		return;
	tp->snd_cwnd = min_t(u64, (u64)cwnd + gain / cwnd, tp->snd_cwnd_clamp);
	tp->snd_cwnd_cnt = 0;
}

static void illinois_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct illinois *ca = inet_csk_ca(sk);

	if (after(ack, ca->round_end))
		illinois_update(sk, ca);
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = weir_ss_acked(sk, &ca->ss, acked);
		if (!acked || OPT(sk, as_linux))
			return;
	}
	if (OPT(sk, as_linux))
		illinois_linux_increase(tp, ca);
	else
		weir_increase(tp, &ca->credit, ca->alpha, acked);
}

static u32 illinois_ssthresh(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct illinois *ca = inet_csk_ca(sk);

	if (!OPT(sk, as_linux))
		return weir_decrease(tp, WEIR_ONE - min(ca->beta, WEIR_ONE));
	return max(tp->snd_cwnd - (u32)((u64)tp->snd_cwnd * ca->beta / ILLINOIS_LINUX_BETA_ONE), 2U);
}

/* After a timeout it is standard TCP until the next round trip is measured. */
static void illinois_set_state(struct sock *sk, u8 new_state)
{
	struct illinois *ca = inet_csk_ca(sk);

	if (new_state != TCP_CA_Loss)
		return;
	weir_ss_start(sk, &ca->ss);
	ca->alpha = illinois_alpha_one(sk);
	ca->beta = illinois_beta_standard(sk);
	ca->was_high = 0;
	ca->low = 0;
	illinois_round(sk, ca);
}

#define ILLINOIS_OPS(OP)                    \
	OP(init, illinois_init)             \
	OP(ssthresh, illinois_ssthresh)     \
	OP(cong_avoid, illinois_cong_avoid) \
	OP(pkts_acked, illinois_pkts_acked) \
	OP(set_state, illinois_set_state)   \
	OP(undo_cwnd, tcp_reno_undo_cwnd)

WEIR_CC_ABOUT("TCP-Illinois", 2008, "S. Liu, T. Basar, R. Srikant, TCP-Illinois, Performance Evaluation 65, 2008")
WEIR_CC_REGISTER(illinois, "illinois", 0, struct illinois, ILLINOIS_OPS)
