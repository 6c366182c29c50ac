// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * DCTCP: gives up a share of the window in proportion to the share of packets that were marked. It is for networks
 * whose queues mark every packet above a low threshold, and whose receivers echo each mark.
 *
 * M. Alizadeh et al., "Data center TCP (DCTCP)", SIGCOMM 2010; RFC 8257. Counts and rounds like Linux.
 */
#include "weir_cc.h"

#define DCTCP_OPTIONS(OPTION)                                                                              \
	OPTION(shift_g, 4, 0, 10, "weight of a window in the estimate of the marked share: 1 / 2^shift_g") \
	OPTION(alpha, 1024, 0, 1024, "first estimate of the marked share, in 1/1024")                      \
	WEIR_SLOW_START_OPTIONS(OPTION, 0)
WEIR_CC_OPTIONS(DCTCP_OPTIONS)

#include "weir_slow_start.h"

enum {
	DCTCP_ONE = 1024,
};

struct dctcp {
	struct weir_slow_start ss;
	u32 alpha;        /* marked share, 1/1024 */
	u32 window_end;   /* the estimate is renewed when this sequence number is acknowledged */
	u32 delivered;    /* packets, when the window began */
	u32 delivered_ce; /* of those, marked */
	u32 loss_cwnd;    /* window before the last reduction, packets */
	struct weir_echo echo;
};

static void dctcp_window(const struct sock *sk, struct dctcp *ca)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	ca->window_end = tp->snd_nxt;
	ca->delivered = tp->delivered;
	ca->delivered_ce = tp->delivered_ce;
	WEIR_PROBE(sk, "alpha", ca->alpha);
}

static void dctcp_init(struct sock *sk)
{
	struct dctcp *ca = inet_csk_ca(sk);

	weir_ss_start(sk, &ca->ss);
	/* Without ECN no share is ever measured; half of the window is then the standard's reduction. */
	ca->alpha = tcp_sk(sk)->ecn_flags & TCP_ECN_OK ? OPT(sk, alpha) : DCTCP_ONE;
	ca->loss_cwnd = 0;
	ca->echo.rcv_nxt = 0;
	ca->echo.is_marked = 0;
	dctcp_window(sk, ca);
}

static void dctcp_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct dctcp *ca = inet_csk_ca(sk);

	weir_ss_sample(sk, &ca->ss, sample->rtt_us);
}

/* alpha <- (1 - g) alpha + g F, once a window; F is the share of its packets that were marked (RFC 8257 section 3.3).
 */
static void dctcp_in_ack_event(struct sock *sk, u32 flags)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *ca = inet_csk_ca(sk);
	u32 shift = OPT(sk, shift_g), delivered, marked, decay;

	(void)flags;
	if (before(tp->snd_una, ca->window_end) || !(tp->ecn_flags & TCP_ECN_OK))
		return;
	delivered = tp->delivered - ca->delivered;
	marked = tp->delivered_ce - ca->delivered_ce;
	decay = ca->alpha >> shift;
	ca->alpha -= decay ? decay : ca->alpha;
	if (marked) {
		marked = (marked << (10 - shift)) / max(delivered, 1U);
		ca->alpha = min(ca->alpha + marked, (u32)DCTCP_ONE);
	}
	dctcp_window(sk, ca);
}

static void dctcp_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *ca = inet_csk_ca(sk);

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

/* cwnd (1 - alpha / 2) (section 3.3). */
static u32 dctcp_ssthresh(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct dctcp *ca = inet_csk_ca(sk);

	ca->loss_cwnd = tp->snd_cwnd;
	return max(tp->snd_cwnd - (u32)((u64)tp->snd_cwnd * ca->alpha >> 11), 2U);
}

/* A loss takes half, whatever is marked (section 3.5). */
static void dctcp_lose(struct sock *sk, struct dctcp *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);

	ca->loss_cwnd = tp->snd_cwnd;
	tp->snd_ssthresh = max(tp->snd_cwnd >> 1, 2U);
}

static void dctcp_set_state(struct sock *sk, u8 new_state)
{
	struct dctcp *ca = inet_csk_ca(sk);

	if (new_state == TCP_CA_Loss)
		weir_ss_start(sk, &ca->ss);
	if (new_state == TCP_CA_Recovery && weir_ca_state(sk) != TCP_CA_Recovery)
		dctcp_lose(sk, ca);
}

/* As the receiver, echoes each change of the mark at once (section 3.2). */
static void dctcp_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct dctcp *ca = inet_csk_ca(sk);

	if (event == CA_EVENT_ECN_IS_CE || event == CA_EVENT_ECN_NO_CE)
		weir_echo_mark(sk, &ca->echo, event == CA_EVENT_ECN_IS_CE);
	if (event == CA_EVENT_LOSS)
		dctcp_lose(sk, ca);
}

static u32 dctcp_undo_cwnd(struct sock *sk)
{
	const struct dctcp *ca = inet_csk_ca(sk);

	return max(tcp_sk(sk)->snd_cwnd, ca->loss_cwnd);
}

#define DCTCP_OPS(OP)                        \
	OP(init, dctcp_init)                 \
	OP(ssthresh, dctcp_ssthresh)         \
	OP(cong_avoid, dctcp_cong_avoid)     \
	OP(pkts_acked, dctcp_pkts_acked)     \
	OP(in_ack_event, dctcp_in_ack_event) \
	OP(set_state, dctcp_set_state)       \
	OP(cwnd_event, dctcp_cwnd_event)     \
	OP(undo_cwnd, dctcp_undo_cwnd)

WEIR_CC_ABOUT("DCTCP", 2010, "M. Alizadeh et al., Data center TCP, SIGCOMM 2010; RFC 8257")
WEIR_CC_REGISTER(dctcp, "dctcp", TCP_CONG_NEEDS_ECN, struct dctcp, DCTCP_OPS)
