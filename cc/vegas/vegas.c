// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * TCP Vegas: keeps between alpha and beta packets of its own in the queue. Once a round trip it compares the window
 * with what the path carries without a queue, and grows or shrinks by one packet.
 *
 * L. S. Brakmo, L. L. Peterson, "TCP Vegas: end to end congestion avoidance on a global Internet", IEEE JSAC 13(8),
 * 1995. With as_linux=1 it measures like Linux: see the README.
 */
#include "weir_cc.h"

#define VEGAS_OPTIONS(OPTION)                                                                  \
	OPTION(alpha, 2, 0, 1000000, "the window grows below this many packets in the queue")  \
	OPTION(beta, 4, 1, 1000000, "the window shrinks above this many packets in the queue") \
	OPTION(gamma, 1, 0, 1000000, "slow start ends above this many packets in the queue")   \
	OPTION(every_other, 1, 0, 1, "slow start doubles the window every other round trip")   \
	OPTION(as_linux, 0, 0, 1, "as Linux 6.12, with its constants")                         \
	WEIR_SLOW_START_OPTIONS(OPTION, 0)
WEIR_CC_OPTIONS(VEGAS_OPTIONS)

#include "weir_slow_start.h"
#include "weir_vegas.h"

enum {
	VEGAS_LINUX_ALPHA = 2,
	VEGAS_LINUX_BETA = 4,
	VEGAS_LINUX_GAMMA = 1,
};

struct vegas {
	struct weir_slow_start ss;
	struct weir_vegas v;
	u8 is_holding; /* slow start keeps the window for this round trip */
};

static void vegas_init(struct sock *sk)
{
	struct vegas *ca = inet_csk_ca(sk);

	weir_ss_start(sk, &ca->ss);
	weir_vegas_restart(sk, &ca->v);
	ca->is_holding = 0;
}

static void vegas_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct vegas *ca = inet_csk_ca(sk);

	weir_ss_sample(sk, &ca->ss, sample->rtt_us);
	weir_vegas_sample(&ca->v, sample->rtt_us);
}

/* Standard TCP, where nothing is measured. */
static void vegas_reno(struct sock *sk, struct vegas *ca, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = weir_ss_acked(sk, &ca->ss, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

/* The window that fills the path alone: expected rate times shortest round-trip time. */
static u32 vegas_target(const struct tcp_sock *tp, const struct vegas *ca)
{
	return div64_u64((u64)tp->snd_cwnd * ca->v.base, max(ca->v.shortest, 1U));
}

/* The window and the threshold follow the path down. */
static void vegas_shrink(struct tcp_sock *tp, u32 cwnd)
{
	tp->snd_cwnd = max(cwnd, 2U);
	tp->snd_ssthresh = min(tp->snd_ssthresh, tp->snd_cwnd);
}

/* The paper's Diff, from the packets in the queue: (Expected - Actual) times BaseRTT. */
static void vegas_adjust(struct sock *sk, struct vegas *ca, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 queued = weir_vegas_queue_q10(tp, &ca->v);
	bool may_grow = tcp_is_cwnd_limited(sk);

	if (tcp_in_slow_start(tp)) {
		if (queued > (u64)OPT(sk, gamma) * WEIR_ONE)
			vegas_shrink(tp, min(tp->snd_cwnd, vegas_target(tp, ca) + 1));
		else if (may_grow)
			weir_ss_acked(sk, &ca->ss, acked);
	} else if (queued > (u64)OPT(sk, beta) * WEIR_ONE) {
		vegas_shrink(tp, tp->snd_cwnd - 1);
	} else if (queued < (u64)OPT(sk, alpha) * WEIR_ONE && may_grow) {
		tp->snd_cwnd = min_t(u64, tp->snd_cwnd + 1ULL, tp->snd_cwnd_clamp);
	}
}

/*
 * Slow start compares only while the window is fixed: what a growing window sent in a round trip is not what it says.
 */
static void vegas_avoid(struct sock *sk, struct vegas *ca, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool is_slow = tcp_in_slow_start(tp), is_measured = weir_vegas_is_measured(&ca->v);
	bool has_grown = is_slow && OPT(sk, every_other) && !ca->is_holding;

	if (!weir_vegas_is_over(&ca->v, ack)) {
		if (is_slow && !ca->is_holding && tcp_is_cwnd_limited(sk))
			weir_ss_acked(sk, &ca->ss, acked);
		return;
	}
	ca->is_holding = has_grown && is_measured;
	if (!is_measured)
		vegas_reno(sk, ca, acked);
	else if (!has_grown)
		vegas_adjust(sk, ca, acked);
	weir_vegas_round(sk, &ca->v);
}

/* As Linux: the queue in packets of the empty path, whole; the threshold is at least three quarters of the window. */
static void vegas_linux_adjust(struct sock *sk, struct vegas *ca, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 queued = tp->snd_cwnd * (ca->v.shortest - ca->v.base) / max(ca->v.base, 1U);
	u32 target = vegas_target(tp, ca);

	if (tcp_in_slow_start(tp)) {
		if (queued > VEGAS_LINUX_GAMMA) {
			tp->snd_cwnd = min(tp->snd_cwnd, target + 1);
			tp->snd_ssthresh = min(tp->snd_ssthresh, tp->snd_cwnd);
		} else {
			weir_ss_acked(sk, &ca->ss, acked);
		}
	} else if (queued > VEGAS_LINUX_BETA) {
		tp->snd_cwnd--;
		tp->snd_ssthresh = min(tp->snd_ssthresh, tp->snd_cwnd);
	} else if (queued < VEGAS_LINUX_ALPHA) {
		tp->snd_cwnd = min_t(u64, tp->snd_cwnd + 1ULL, tp->snd_cwnd_clamp);
	}
	tp->snd_cwnd = min(max(tp->snd_cwnd, 2U), tp->snd_cwnd_clamp);
	tp->snd_ssthresh = max(tp->snd_ssthresh, (tp->snd_cwnd >> 1) + (tp->snd_cwnd >> 2));
}

static void vegas_linux_avoid(struct sock *sk, struct vegas *ca, u32 ack, u32 acked)
{
	if (!weir_vegas_is_over(&ca->v, ack)) {
		if (tcp_in_slow_start(tcp_sk(sk)))
			weir_ss_acked(sk, &ca->ss, acked);
		return;
	}
	if (weir_vegas_is_measured(&ca->v))
		vegas_linux_adjust(sk, ca, acked);
	else
		vegas_reno(sk, ca, acked);
	weir_vegas_round(sk, &ca->v);
}

static void vegas_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct vegas *ca = inet_csk_ca(sk);

	if (ca->v.is_paused)
		vegas_reno(sk, ca, acked);
	else if (OPT(sk, as_linux))
		vegas_linux_avoid(sk, ca, ack, acked);
	else
		vegas_avoid(sk, ca, ack, acked);
}

/* What is measured during recovery says nothing about the window. */
static void vegas_set_state(struct sock *sk, u8 new_state)
{
	struct vegas *ca = inet_csk_ca(sk);

	if (new_state == TCP_CA_Loss) {
		weir_ss_start(sk, &ca->ss);
		ca->is_holding = 0;
	}
	weir_vegas_state(sk, &ca->v, new_state);
}

static void vegas_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct vegas *ca = inet_csk_ca(sk);

	weir_vegas_event(sk, &ca->v, event);
}

#define VEGAS_OPS(OP)                    \
	OP(init, vegas_init)             \
	OP(ssthresh, tcp_reno_ssthresh)  \
	OP(cong_avoid, vegas_cong_avoid) \
	OP(pkts_acked, vegas_pkts_acked) \
	OP(set_state, vegas_set_state)   \
	OP(cwnd_event, vegas_cwnd_event) \
	OP(undo_cwnd, tcp_reno_undo_cwnd)

WEIR_CC_ABOUT("TCP Vegas", 1995, "L. S. Brakmo, L. L. Peterson, TCP Vegas, IEEE JSAC 13(8), 1995")
WEIR_CC_REGISTER(vegas, "vegas", 0, struct vegas, VEGAS_OPS)
