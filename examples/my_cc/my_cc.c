// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * A congestion control of your own: additive increase, multiplicative decrease, with both as options.
 *
 *   transport: {cc: ./my_cc.c}      uses it in a scenario beside it
 *   weir cc build my_cc.c           checks it, and says what the compiler warns of
 *
 * The same file builds as BPF struct_ops for the host kernel and as a kernel module. That is why it is written against
 * Linux' struct sock, with integers only; writing a field that the kernel would not let BPF write does not compile.
 */
#include "weir_cc.h"

/* name, default, smallest, largest, what it does. A value is read with OPT(sk, name). */
#define MY_OPTIONS(OPTION)                                             \
	OPTION(increase, 2, 1, 1000, "packets gained each round trip") \
	OPTION(keep, 70, 10, 99, "percent of the window kept on a loss")
WEIR_CC_OPTIONS(MY_OPTIONS)

/* What one flow remembers between calls: at most 104 bytes, all zero at first. */
struct my_state {
	u32 losses;
};

/* A loss: the slow-start threshold from now on, in packets. The transport brings the window down to it. */
static u32 my_ssthresh(struct sock *sk)
{
	struct my_state *state = inet_csk_ca(sk);

	state->losses++;
	return max(tcp_sk(sk)->snd_cwnd * OPT(sk, keep) / 100, 2U);
}

/* An acknowledgement of `acked` packets: let the window grow. */
static void my_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	(void)ack;
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = tcp_slow_start(tp, acked);
		if (!acked)
			return;
	}
	/* One packet for each cwnd / increase packets acknowledged is `increase` packets a round trip. */
	tcp_cong_avoid_ai(tp, max(tp->snd_cwnd / OPT(sk, increase), 1U), acked);
}

/* ssthresh, undo_cwnd and cong_avoid (or cong_control) are mandatory; docs/congestion-controls.md has all. */
#define MY_OPS(OP)                    \
	OP(ssthresh, my_ssthresh)     \
	OP(cong_avoid, my_cong_avoid) \
	OP(undo_cwnd, tcp_reno_undo_cwnd)

WEIR_CC_ABOUT("My AIMD", 2026, "examples/my_cc")
WEIR_CC_REGISTER(my_cc, "my_cc", 0, struct my_state, MY_OPS)
