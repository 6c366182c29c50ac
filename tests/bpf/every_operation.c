// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * No congestion control to use: one that has every operation of the interface, each of which reads what it is given and
 * leaves a trace in the state, so that a test sees that both builds give it the same.
 */
#include "weir_cc.h"

#define EVERY_OPTIONS(OPTION) OPTION(share, 512, 1, 1024, "of the packets delivered in a round trip, in 1/1024")
WEIR_CC_OPTIONS(EVERY_OPTIONS)

struct every {
	u64 seen; /* a checksum of what the operations were given */
	u64 rate;
	u32 rounds;
	u32 marks;
};

static __always_inline void every_saw(struct sock *sk, u64 value)
{
	struct every *ca = inet_csk_ca(sk);

	ca->seen = (ca->seen << 7 | ca->seen >> 57) ^ value;
}

static void every_init(struct sock *sk)
{
	sk->sk_pacing_status = SK_PACING_NEEDED;
	every_saw(sk, tcp_sk(sk)->mss_cache);
}

static void every_release(struct sock *sk)
{
	every_saw(sk, 1);
}

static u32 every_ssthresh(struct sock *sk)
{
	every_saw(sk, weir_ca_state(sk));
	return tcp_reno_ssthresh(sk);
}

static void every_set_state(struct sock *sk, u8 new_state)
{
	every_saw(sk, new_state);
}

static void every_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	every_saw(sk, (u64)event << 32 | (u32)(tcp_jiffies32 - tcp_sk(sk)->lsndtime));
	tcp_sk(sk)->app_limited = event;
}

static void every_in_ack_event(struct sock *sk, u32 flags)
{
	struct every *ca = inet_csk_ca(sk);

	if (flags & CA_ACK_ECE)
		ca->marks++;
	every_saw(sk, flags);
}

static void every_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	every_saw(sk, (u64)sample->pkts_acked << 40 ^ (u64)(u32)sample->rtt_us << 20 ^ sample->in_flight);
}

static void every_cong_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct every *ca = inet_csk_ca(sk);
	u64 rate;

	every_saw(sk, (u64)ack << 32 | (u32)flag);
	every_saw(sk, rs->prior_mstamp ^ (u64)rs->prior_in_flight << 32 ^ rs->acked_sacked);
	every_saw(sk,
		  (u64)rs->losses << 48 ^ (u64)rs->is_app_limited << 8 ^ (u64)rs->is_retrans << 4 ^ rs->is_ack_delayed);
	if (rs->delivered <= 0 || rs->interval_us <= 0)
		return;
	rate = div64_u64((u64)rs->delivered * tp->mss_cache * USEC_PER_SEC, (u64)rs->interval_us);
	ca->rate = max(ca->rate - (ca->rate >> 4), rate);
	ca->rounds++;
	sk->sk_pacing_rate = min_t(u64, ca->rate + (ca->rate >> 2), sk->sk_max_pacing_rate);
	tp->snd_cwnd =
		clamp(tp->snd_cwnd + rs->acked_sacked * OPT(sk, share) / 1024, 4U, min(tp->snd_cwnd_clamp, 1000U));
}

static u32 every_min_tso_segs(struct sock *sk)
{
	every_saw(sk, 2);
	return tcp_sk(sk)->snd_cwnd > 20 ? 2 : 1;
}

static u32 every_sndbuf_expand(struct sock *sk)
{
	every_saw(sk, 3);
	return 3;
}

#define EVERY_OPS(OP)                        \
	OP(init, every_init)                 \
	OP(release, every_release)           \
	OP(ssthresh, every_ssthresh)         \
	OP(set_state, every_set_state)       \
	OP(cwnd_event, every_cwnd_event)     \
	OP(in_ack_event, every_in_ack_event) \
	OP(pkts_acked, every_pkts_acked)     \
	OP(cong_control, every_cong_control) \
	OP(undo_cwnd, tcp_reno_undo_cwnd)    \
	OP(min_tso_segs, every_min_tso_segs) \
	OP(sndbuf_expand, every_sndbuf_expand)

WEIR_CC_ABOUT("every operation", 2026, "tests/bpf")
WEIR_CC_REGISTER(every, "every", 0, struct every, EVERY_OPS)
