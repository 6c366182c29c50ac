// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * TCP Hybla: a long path takes the share that Reno takes on a path of rtt0. With rho = RTT / rtt0, slow start gains
 * 2^rho - 1 packets for each acknowledged one, and congestion avoidance rho^2 packets each round trip.
 *
 * C. Caini, R. Firrincieli, "TCP Hybla: a TCP enhancement for heterogeneous networks", International Journal of
 * Satellite Communications and Networking 22(5), 2004. With as_linux=1 it counts and rounds like Linux: see the README.
 */
#include "weir_cc.h"

#define HYBLA_OPTIONS(OPTION)                                                                         \
	OPTION(rtt0, 25, 1, 1000, "round-trip time of the reference path, ms")                        \
	OPTION(as_linux, 0, 0, 1, "as Linux 6.12, with its rounding; rtt0 and hystart apply as well") \
	WEIR_SLOW_START_OPTIONS(OPTION, 0)
WEIR_CC_OPTIONS(HYBLA_OPTIONS)

#include "weir_slow_start.h"
#include "weir_window.h"

enum {
	HYBLA_MAX_RHO = 16, /* a quarter of an hour of 25 ms is no path; products fit 64 bits */

	HYBLA_LINUX_ONE = 128,
	HYBLA_LINUX_CLAMP = 65535,
};

struct hybla {
	struct weir_slow_start ss;
	u64 credit;    /* of hybla_grow */
	u32 rho;       /* 1/1024; as Linux 1/8 */
	u32 least_rtt; /* as Linux: smallest smoothed round-trip time so far, times 8 */
	u32 cents;     /* as Linux: fractions of a packet, 1/128 */
	u8 is_off;     /* as Linux: outside of normal operation */
};

/* RTT / rtt0, at least 1, from the shortest round-trip time: a queue must not make a flow faster. */
static u32 hybla_rho(const struct sock *sk)
{
	u32 rtt = tcp_min_rtt(tcp_sk(sk));
	u64 rho;

	if (rtt == ~0U)
		rtt = tcp_sk(sk)->srtt_us >> 3;
	rho = (u64)rtt * WEIR_ONE / (OPT(sk, rtt0) * (u32)USEC_PER_MSEC);
	return min_t(u64, max_t(u64, rho, WEIR_ONE), HYBLA_MAX_RHO * WEIR_ONE);
}

static u32 hybla_linux_rho(const struct sock *sk)
{
	return max(tcp_sk(sk)->srtt_us / (OPT(sk, rtt0) * (u32)USEC_PER_MSEC), 8U);
}

/* 2^rho, 1/1024: a shift, and for the fraction f the parabola through 2^0, 2^(1/2) and 2^1, at most 0.3 % off. */
static u64 hybla_power(u32 rho)
{
	u64 f = rho % WEIR_ONE;
	u64 fraction = WEIR_ONE + f * (672 * WEIR_ONE + 352 * f) / (WEIR_ONE * WEIR_ONE);

	return fraction << min(rho / WEIR_ONE, (u32)HYBLA_MAX_RHO);
}

static void hybla_init(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct hybla *ca = inet_csk_ca(sk);

	weir_ss_start(sk, &ca->ss);
	ca->credit = 0;
	ca->rho = 0;
	ca->cents = 0;
	ca->is_off = 0;
	if (!OPT(sk, as_linux))
		return;
	ca->rho = hybla_linux_rho(sk);
	ca->least_rtt = tp->srtt_us;
	tp->snd_cwnd = min(ca->rho >> 3, tp->snd_cwnd_clamp);
}

static void hybla_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct hybla *ca = inet_csk_ca(sk);

	weir_ss_sample(sk, &ca->ss, sample->rtt_us);
}

/* Grows by gain_q10 / 1024 packets for each `per` acknowledged, up to `limit`. */
static void hybla_grow(struct tcp_sock *tp, struct hybla *ca, u64 gain_q10, u32 per, u32 limit, u32 acked)
{
	u64 packet = (u64)max(per, 1U) * WEIR_ONE;
	u64 sum = min(ca->credit, packet) + gain_q10 * acked;
	u64 grown = div64_u64(sum, packet);

	ca->credit = sum - grown * packet;
	tp->snd_cwnd = max_t(u64, tp->snd_cwnd, min_t(u64, tp->snd_cwnd + grown, limit));
}

static void hybla_reno(struct sock *sk, struct hybla *ca, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (tcp_in_slow_start(tp)) {
		acked = weir_ss_acked(sk, &ca->ss, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

/* Slow start of the paper, unless an option asks for a slower one. */
static bool hybla_is_fast(const struct sock *sk, const struct hybla *ca)
{
	return ca->rho > WEIR_ONE && !OPT(sk, max_ssthresh) && OPT(sk, hystart) != WEIR_HYSTART_PP;
}

static void hybla_avoid(struct sock *sk, struct hybla *ca, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 squared;

	ca->rho = hybla_rho(sk);
	squared = (u64)ca->rho * ca->rho / WEIR_ONE;
	if (tcp_in_slow_start(tp)) {
		if (hybla_is_fast(sk, ca)) {
			hybla_grow(tp, ca, hybla_power(ca->rho) - WEIR_ONE, 1,
				   min(tp->snd_ssthresh, tp->snd_cwnd_clamp), acked);
			return;
		}
		acked = weir_ss_acked(sk, &ca->ss, acked);
		if (!acked)
			return;
	}
	hybla_grow(tp, ca, squared, tp->snd_cwnd, tp->snd_cwnd_clamp, acked);
}

/* As Linux: 2^(k/8), 1/128; a byte for each k, because a loader finds no table that is static. */
static u32 hybla_linux_fraction(u32 eighths)
{
	return (0xead7c5b5a5988b80ULL >> (eighths & 7) * 8) & 0xff;
}

/* As Linux: for each acknowledgement, whatever it covers; fractions of a packet are kept in 1/128. */
static void hybla_linux_avoid(struct sock *sk, struct hybla *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);
	bool is_slow = tcp_in_slow_start(tp);
	u32 clamp = min(tp->snd_cwnd_clamp, (u32)HYBLA_LINUX_CLAMP);
	u32 gain, cwnd = tp->snd_cwnd;

	if (is_slow) {
		gain = (1U << min(ca->rho >> 3, 16U)) * hybla_linux_fraction(ca->rho) - HYBLA_LINUX_ONE;
	} else {
		gain = ca->rho * ca->rho * 2 / max(cwnd, 1U);
		if (gain < HYBLA_LINUX_ONE)
			tp->snd_cwnd_cnt++;
	}
	cwnd += gain / HYBLA_LINUX_ONE;
	ca->cents += gain % HYBLA_LINUX_ONE;
	if (ca->cents >= HYBLA_LINUX_ONE) {
		cwnd++;
		ca->cents -= HYBLA_LINUX_ONE;
		tp->snd_cwnd_cnt = 0;
	}
	if (!gain && tp->snd_cwnd_cnt >= cwnd) {
		cwnd++;
		tp->snd_cwnd_cnt = 0;
	}
	if (is_slow)
		cwnd = min(cwnd, tp->snd_ssthresh);
	tp->snd_cwnd = max(min(cwnd, clamp), 1U);
}

static void hybla_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct hybla *ca = inet_csk_ca(sk);

	(void)ack;
	if (OPT(sk, as_linux) && tp->srtt_us < ca->least_rtt) {
		ca->rho = hybla_linux_rho(sk);
		ca->least_rtt = tp->srtt_us;
	}
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (!OPT(sk, as_linux))
		hybla_avoid(sk, ca, acked);
	else if (ca->is_off)
		hybla_reno(sk, ca, acked);
	else
		hybla_linux_avoid(sk, ca);
}

static void hybla_set_state(struct sock *sk, u8 new_state)
{
	struct hybla *ca = inet_csk_ca(sk);

	if (new_state == TCP_CA_Loss)
		weir_ss_start(sk, &ca->ss);
	ca->is_off = new_state != TCP_CA_Open;
}

#define HYBLA_OPS(OP)                    \
	OP(init, hybla_init)             \
	OP(ssthresh, tcp_reno_ssthresh)  \
	OP(cong_avoid, hybla_cong_avoid) \
	OP(pkts_acked, hybla_pkts_acked) \
	OP(set_state, hybla_set_state)   \
	OP(undo_cwnd, tcp_reno_undo_cwnd)

WEIR_CC_ABOUT("TCP Hybla", 2004, "C. Caini, R. Firrincieli, TCP Hybla, Int. J. Satell. Commun. Network. 22, 2004")
WEIR_CC_REGISTER(hybla, "hybla", 0, struct hybla, HYBLA_OPS)
