// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Relentless TCP: a loss takes as many packets from the window as were lost, and nothing else. It is for networks that
 * share their capacity by themselves.
 *
 * M. Mathis, "Relentless congestion control", PFLDnet 2009.
 */
#include "weir_cc.h"

#define RELENTLESS_OPTIONS(OPTION) WEIR_SLOW_START_OPTIONS(OPTION, 0)
WEIR_CC_OPTIONS(RELENTLESS_OPTIONS)

#include "weir_slow_start.h"

struct relentless {
	struct weir_slow_start ss;
	u32 window;     /* before the present recovery, packets */
	u32 lost;       /* the connection's count of lost packets that are already taken off */
	u8 is_reducing; /* a loss has set the threshold; recovery goes on */
};

static void relentless_init(struct sock *sk)
{
	struct relentless *ca = inet_csk_ca(sk);

	weir_ss_start(sk, &ca->ss);
	ca->lost = tcp_sk(sk)->lost;
	ca->is_reducing = 0;
}

static void relentless_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct relentless *ca = inet_csk_ca(sk);

	weir_ss_sample(sk, &ca->ss, sample->rtt_us);
}

static void relentless_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct relentless *ca = inet_csk_ca(sk);

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

/* The window less what was lost of it; a congestion mark counts as one lost packet. */
static u32 relentless_window(const struct sock *sk, const struct relentless *ca)
{
	u32 lost = max(tcp_sk(sk)->lost - ca->lost, 1U);

	return ca->window > lost ? max(ca->window - lost, 2U) : 2;
}

static u32 relentless_ssthresh(struct sock *sk)
{
	struct relentless *ca = inet_csk_ca(sk);

	ca->window = tcp_sk(sk)->snd_cwnd;
	ca->is_reducing = 1;
	return relentless_window(sk, ca);
}

/* Losses are also found during recovery; all of them are known at its end. */
static void relentless_complete(struct sock *sk, struct relentless *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (ca->is_reducing) {
		tp->snd_ssthresh = min(relentless_window(sk, ca), max(tp->snd_ssthresh, 2U));
		tp->snd_cwnd = min(min(tp->snd_cwnd, tp->snd_ssthresh), tp->snd_cwnd_clamp);
	}
	ca->is_reducing = 0;
	ca->lost = tp->lost;
}

static void relentless_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct relentless *ca = inet_csk_ca(sk);

	if (event == CA_EVENT_COMPLETE_CWR)
		relentless_complete(sk, ca);
	/* After a timeout nothing is known of the path: standard TCP. */
	if (event == CA_EVENT_LOSS)
		tcp_sk(sk)->snd_ssthresh = max(ca->window / 2, 2U);
}

static void relentless_set_state(struct sock *sk, u8 new_state)
{
	struct relentless *ca = inet_csk_ca(sk);

	if (new_state == TCP_CA_Loss)
		weir_ss_start(sk, &ca->ss);
	if (new_state != TCP_CA_Open)
		return;
	ca->is_reducing = 0;
	ca->lost = tcp_sk(sk)->lost;
}

#define RELENTLESS_OPS(OP)                    \
	OP(init, relentless_init)             \
	OP(ssthresh, relentless_ssthresh)     \
	OP(cong_avoid, relentless_cong_avoid) \
	OP(pkts_acked, relentless_pkts_acked) \
	OP(set_state, relentless_set_state)   \
	OP(cwnd_event, relentless_cwnd_event) \
	OP(undo_cwnd, tcp_reno_undo_cwnd)

WEIR_CC_ABOUT("Relentless TCP", 2009, "M. Mathis, Relentless congestion control, PFLDnet 2009")
WEIR_CC_REGISTER(relentless, "relentless", 0, struct relentless, RELENTLESS_OPS)
