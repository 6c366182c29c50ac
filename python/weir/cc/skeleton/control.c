// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * @name@: additive increase, multiplicative decrease. Describe your algorithm here: what it measures, when the window
 * grows and shrinks, and the paper or RFC that defines it.
 *
 *   pytest @test@          tests it in the simulator
 *   weir cc build @file@ --bpf     compiles it for the simulator and for a kernel
 *
 * The same file is compiled for the simulator, as BPF for a running kernel, and as a kernel module. It therefore uses
 * integers only and writes only what Linux lets BPF write. docs/congestion-controls.md lists operations and fields.
 */
#include "weir_cc.h"

/* name, default, smallest, largest, what it does. A value is read with OPT(sk, name). */
#define @ID@_OPTIONS(OPTION)                                                            \
	OPTION(increase, 1024, 1, 1048576, "increase a round trip, in 1/1024 packet") \
	OPTION(keep, 512, 1, 1023, "share of the window kept on a loss, in 1/1024")     \
	WEIR_SLOW_START_OPTIONS_SEARCH(OPTION, 0)
WEIR_CC_OPTIONS(@ID@_OPTIONS)

#include "weir_slow_start.h"
#include "weir_search.h"
#include "weir_window.h"

/*
 * What one flow remembers between calls: at most 104 bytes, all zero before init. What the first slow start needs
 * stands outside of the union, because SEARCH (hystart=3) has that memory until then.
 */
struct @id@ {
	struct weir_slow_start ss;
	union {
		struct weir_search search; /* in the first slow start; all zero when it ends */
		struct {
			u64 credit; /* fractions of a packet, of weir_increase */
		};
	};
};

/* All begins again: the connection, or slow start after a timeout. */
static void @id@_reset(struct sock *sk, struct @id@ *ca)
{
	weir_search_end(&ca->ss, &ca->search);
	ca->credit = 0;
	weir_ss_start(sk, &ca->ss);
}

/* The connection begins. */
static void @id@_init(struct sock *sk)
{
	struct @id@ *ca = inet_csk_ca(sk);

	@id@_reset(sk, ca);
	weir_search_start(sk, &ca->ss, &ca->search);
}

/* An acknowledgement of `acked` packets outside of recovery: lets the window grow. */
static void @id@_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct @id@ *ca = inet_csk_ca(sk);

	(void)ack;
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = weir_ss_acked(sk, &ca->ss, acked);
		if (!acked)
			return;
	}
	weir_search_end(&ca->ss, &ca->search);
	weir_increase(tp, &ca->credit, OPT(sk, increase), acked);
}

/* A loss or a mark: returns the threshold, packets, to which the transport reduces the window. */
static u32 @id@_ssthresh(struct sock *sk)
{
	struct @id@ *ca = inet_csk_ca(sk);

	weir_search_end(&ca->ss, &ca->search);
	return weir_decrease(tcp_sk(sk), OPT(sk, keep));
}

/* A round-trip time, before cong_avoid. It is negative if the acknowledgement gives none. */
static void @id@_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct @id@ *ca = inet_csk_ca(sk);

	weir_ss_sample(sk, &ca->ss, sample->rtt_us);
	weir_search_sample(sk, &ca->ss, &ca->search, sample->rtt_us);
}

/* The state of recovery changes; after a timeout the connection begins again. */
static void @id@_set_state(struct sock *sk, u8 new_state)
{
	struct @id@ *ca = inet_csk_ca(sk);

	if (new_state == TCP_CA_Loss)
		@id@_reset(sk, ca);
}

#define @ID@_OPS(OP)                    \
	OP(init, @id@_init)             \
	OP(ssthresh, @id@_ssthresh)     \
	OP(cong_avoid, @id@_cong_avoid) \
	OP(pkts_acked, @id@_pkts_acked) \
	OP(set_state, @id@_set_state)   \
	OP(undo_cwnd, tcp_reno_undo_cwnd)

WEIR_CC_ABOUT("@name@", @year@, "unpublished")
WEIR_CC_REGISTER(@id@, "@name@", 0, struct @id@, @ID@_OPS)
