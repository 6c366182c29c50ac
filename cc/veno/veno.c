// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * TCP Veno: Reno that uses Vegas' estimate of the queue to tell a random loss from a congested path. With fewer than
 * beta packets in the queue a loss takes a fifth of the window; with more it takes half, and the window grows at half
 * the pace.
 *
 * C. P. Fu, S. C. Liew, "TCP Veno: TCP enhancement for transmission over wireless access networks", IEEE JSAC 21(2),
 * 2003. With as_linux=1 it measures like Linux: see the README.
 */
#include "weir_cc.h"

#define VENO_OPTIONS(OPTION)                                                                      \
	OPTION(beta, 3, 1, 1000000, "packets in the queue from which on the path is congested")   \
	OPTION(random_keep, 819, 512, 1023, "share of the window a random loss keeps, in 1/1024") \
	OPTION(as_linux, 0, 0, 1, "as Linux 6.12; the options above are without effect")          \
	WEIR_SLOW_START_OPTIONS(OPTION, 0)
WEIR_CC_OPTIONS(VENO_OPTIONS)

#include "weir_slow_start.h"
#include "weir_window.h"

enum {
	VENO_MAX_WINDOW = 1 << 22, /* packets for which the queue is computed without overflow */
	VENO_NONE = 0x7fffffff,
	VENO_LINUX_BETA = 6,        /* in half packets */
	VENO_LINUX_FEW_SAMPLES = 2, /* too few to know the queue */
};

struct veno {
	struct weir_slow_start ss;
	u32 base;      /* shortest round-trip time, microseconds */
	u32 shortest;  /* of the current measurement */
	u32 round_end; /* the measurement ends when this sequence number is acknowledged */
	u32 backlog;   /* packets in the queue, 1/1024; as Linux in half packets */
	u16 samples;   /* as Linux: since the connection began, modulo 2^16 */
	u8 is_paused;  /* as Linux: in recovery */
	u8 has_waited; /* as Linux: the growth of a round trip was left out, the next counts */
};

static void veno_restart(struct veno *ca)
{
	ca->base = VENO_NONE;
	ca->shortest = VENO_NONE;
	ca->is_paused = 0;
	ca->has_waited = 1;
}

static void veno_init(struct sock *sk)
{
	struct veno *ca = inet_csk_ca(sk);

	weir_ss_start(sk, &ca->ss);
	veno_restart(ca);
	ca->backlog = 0;
	ca->samples = 0;
	ca->round_end = tcp_sk(sk)->snd_nxt;
}

/* Vegas' estimate of the packets in the queue, in 1/unit packet: the window less what fills the path alone. */
static u32 veno_backlog(const struct sock *sk, const struct veno *ca, u32 unit)
{
	u64 window = min_t(u32, tcp_sk(sk)->snd_cwnd, VENO_MAX_WINDOW) * (u64)unit;

	return window - div64_u64(window * min(ca->base, ca->shortest), max(ca->shortest, 1U));
}

static void veno_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct veno *ca = inet_csk_ca(sk);
	u32 rtt;

	weir_ss_sample(sk, &ca->ss, sample->rtt_us);
	if (sample->rtt_us < 0)
		return;
	rtt = (u32)sample->rtt_us + 1; /* never zero */
	ca->base = min(ca->base, rtt);
	ca->shortest = min(ca->shortest, rtt);
	ca->samples++;
}

/* The queue of a round trip, from its shortest round-trip time, which delayed acknowledgements do not lengthen. */
static void veno_measure(struct sock *sk, struct veno *ca, u32 ack)
{
	if (!after(ack, ca->round_end))
		return;
	ca->round_end = tcp_sk(sk)->snd_nxt;
	if (ca->shortest != VENO_NONE)
		ca->backlog = veno_backlog(sk, ca, WEIR_ONE);
	ca->shortest = VENO_NONE;
}

static bool veno_is_congested(const struct sock *sk, const struct veno *ca)
{
	return ca->backlog >= (u64)OPT(sk, beta) * WEIR_ONE;
}

/* As Linux, congested: a packet for every other window acknowledged. */
static void veno_linux_slow_growth(struct tcp_sock *tp, struct veno *ca, u32 acked)
{
	if (tp->snd_cwnd_cnt < tp->snd_cwnd) {
		tp->snd_cwnd_cnt += acked;
		return;
	}
	tp->snd_cwnd_cnt = 0;
	if (ca->has_waited && tp->snd_cwnd < tp->snd_cwnd_clamp)
		tp->snd_cwnd++;
	else
		ca->has_waited = 0;
	ca->has_waited = !ca->has_waited;
}

/* As Linux: the queue is computed with each acknowledgement, from its own samples. */
static void veno_linux_avoid(struct sock *sk, struct veno *ca, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool is_measured = !ca->is_paused && ca->samples > VENO_LINUX_FEW_SAMPLES;

	if (is_measured)
		ca->backlog = veno_backlog(sk, ca, 2);
	if (tcp_in_slow_start(tp))
		acked = weir_ss_acked(sk, &ca->ss, acked);
	if (acked && is_measured && ca->backlog >= VENO_LINUX_BETA)
		veno_linux_slow_growth(tp, ca, acked);
	else if (acked)
		tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
	if (!ca->is_paused)
		ca->shortest = VENO_NONE;
}

static void veno_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct veno *ca = inet_csk_ca(sk);

	if (!OPT(sk, as_linux))
		veno_measure(sk, ca, ack);
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (OPT(sk, as_linux)) {
		veno_linux_avoid(sk, ca, acked);
		return;
	}
	if (tcp_in_slow_start(tp)) {
		acked = weir_ss_acked(sk, &ca->ss, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, veno_is_congested(sk, ca) ? 2 * min(tp->snd_cwnd, ~0U / 2) : tp->snd_cwnd, acked);
}

static u32 veno_ssthresh(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct veno *ca = inet_csk_ca(sk);

	if (OPT(sk, as_linux) && ca->backlog < VENO_LINUX_BETA)
		return max(tp->snd_cwnd * 4 / 5, 2U);
	if (OPT(sk, as_linux) || veno_is_congested(sk, ca))
		return tcp_reno_ssthresh(sk);
	return weir_decrease(tp, OPT(sk, random_keep));
}

static void veno_set_state(struct sock *sk, u8 new_state)
{
	struct veno *ca = inet_csk_ca(sk);

	if (new_state == TCP_CA_Loss)
		weir_ss_start(sk, &ca->ss);
	if (!OPT(sk, as_linux))
		return;
	ca->is_paused = new_state != TCP_CA_Open;
	if (!ca->is_paused)
		ca->shortest = VENO_NONE;
}

/* The path may have changed while nothing was sent. */
static void veno_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct veno *ca = inet_csk_ca(sk);

	if (event == CA_EVENT_CWND_RESTART || event == CA_EVENT_TX_START)
		veno_restart(ca);
}

#define VENO_OPS(OP)                    \
	OP(init, veno_init)             \
	OP(ssthresh, veno_ssthresh)     \
	OP(cong_avoid, veno_cong_avoid) \
	OP(pkts_acked, veno_pkts_acked) \
	OP(set_state, veno_set_state)   \
	OP(cwnd_event, veno_cwnd_event) \
	OP(undo_cwnd, tcp_reno_undo_cwnd)

WEIR_CC_ABOUT("TCP Veno", 2003, "C. P. Fu, S. C. Liew, TCP Veno, IEEE JSAC 21(2), 2003")
WEIR_CC_REGISTER(veno, "veno", 0, struct veno, VENO_OPS)
