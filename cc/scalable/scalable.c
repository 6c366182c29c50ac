// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Scalable TCP: the window grows by a fixed share each round trip and shrinks by a fixed share on loss, so the time
 * between losses does not depend on it.
 *
 * T. Kelly, "Scalable TCP: improving performance in highspeed wide area networks", ACM CCR 33(2), 2003: a = 0.01 packet
 * for each packet acknowledged, b = 0.125 of the window on loss, standard TCP up to a legacy window of 16 packets.
 */
#include "weir_cc.h"

#define SCALABLE_OPTIONS(OPTION)                                                                          \
	OPTION(acks_per_packet, 100, 1, 1000000, "packets acknowledged for one packet of growth (1 / a)") \
	OPTION(decrease, 128, 1, 1023, "share of the window given up on loss (b), in 1/1024")             \
	OPTION(legacy_window, 16, 0, 1000000000, "standard TCP up to this window, packets")               \
	OPTION(as_linux, 0, 0, 1, "as Linux 6.12: never slower than standard TCP, and b at any window")   \
	WEIR_SLOW_START_OPTIONS(OPTION, 0)
WEIR_CC_OPTIONS(SCALABLE_OPTIONS)

#include "weir_slow_start.h"
#include "weir_window.h"

struct scalable {
	struct weir_slow_start ss;
};

static void scalable_init(struct sock *sk)
{
	struct scalable *ca = inet_csk_ca(sk);

	weir_ss_start(sk, &ca->ss);
}

static bool scalable_is_legacy(const struct sock *sk)
{
	return tcp_sk(sk)->snd_cwnd <= OPT(sk, legacy_window);
}

/* Packets acknowledged for one packet of growth. */
static u32 scalable_pace(const struct sock *sk)
{
	u32 cwnd = tcp_sk(sk)->snd_cwnd;

	if (OPT(sk, as_linux))
		return min(cwnd, OPT(sk, acks_per_packet));
	return scalable_is_legacy(sk) ? cwnd : OPT(sk, acks_per_packet);
}

static void scalable_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct scalable *ca = inet_csk_ca(sk);

	(void)ack;
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = weir_ss_acked(sk, &ca->ss, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, scalable_pace(sk), acked);
}

/* Linux rounds the reduction down, not the kept share. */
static u32 scalable_linux_ssthresh(struct sock *sk)
{
	u32 cwnd = tcp_sk(sk)->snd_cwnd;
	u32 given_up = (u64)cwnd * OPT(sk, decrease) / WEIR_ONE;

	return max_t(u32, cwnd - given_up, 2);
}

static u32 scalable_ssthresh(struct sock *sk)
{
	if (OPT(sk, as_linux))
		return scalable_linux_ssthresh(sk);
	if (scalable_is_legacy(sk))
		return tcp_reno_ssthresh(sk);
	return weir_decrease(tcp_sk(sk), WEIR_ONE - OPT(sk, decrease));
}

static void scalable_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct scalable *ca = inet_csk_ca(sk);

	weir_ss_sample(sk, &ca->ss, sample->rtt_us);
}

static void scalable_set_state(struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Loss)
		scalable_init(sk);
}

#define SCALABLE_OPS(OP)                    \
	OP(init, scalable_init)             \
	OP(ssthresh, scalable_ssthresh)     \
	OP(cong_avoid, scalable_cong_avoid) \
	OP(pkts_acked, scalable_pkts_acked) \
	OP(set_state, scalable_set_state)   \
	OP(undo_cwnd, tcp_reno_undo_cwnd)   \
	OP(min_cwnd, tcp_reno_min_cwnd)

WEIR_CC_ABOUT("Scalable TCP", 2003, "T. Kelly, Scalable TCP, ACM CCR 33(2), 2003")
WEIR_CC_REGISTER(scalable, "scalable", 0, struct scalable, SCALABLE_OPS)
