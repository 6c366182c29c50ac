// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Prague: a scalable control for the Internet. Like DCTCP it gives up a share of the window in proportion to the share
 * of packets that were marked, but it keeps fractions of a packet, grows while it is marked, paces, and grows over
 * short paths as slowly as over a path of 25 ms.
 *
 * draft-briscoe-iccrg-prague-congestion-control-04; RFC 9331, section 4.
 */
#include "weir_cc.h"

#define PRAGUE_OPTIONS(OPTION)                                                                                   \
	OPTION(shift_g, 4, 0, 10, "weight of a window in the estimate of the marked share: 1 / 2^shift_g")       \
	OPTION(alpha, 1024, 0, 1024, "first estimate of the marked share, in 1/1024")                            \
	OPTION(rtt_target, 25000, 0, 100000, "grows over shorter paths as over one of this round-trip time, us") \
	OPTION(rtt_rounds, 4, 0, 60000, "round trips after slow start until it does so")                         \
	WEIR_SLOW_START_OPTIONS(OPTION, 0)
WEIR_CC_OPTIONS(PRAGUE_OPTIONS)

#include "weir_slow_start.h"

enum {
	PRAGUE_BITS = 20,      /* of fractions: windows and shares are in 1/2^20 */
	PRAGUE_LEAST_CWND = 2, /* packets */
	PRAGUE_MOST_ACKED = 1 << 16,
	PRAGUE_HEADERS = 52,     /* bytes: IP, TCP, timestamps */
	PRAGUE_TRAIN_SHIFT = 12, /* a train takes at most 1/2^12 s, a quarter of a millisecond */
};
#define PRAGUE_ONE (1ULL << PRAGUE_BITS)

struct prague {
	struct weir_slow_start ss;
	u64 cwnd;         /* packets << 20 */
	u32 shown;        /* snd_cwnd as this control set it last; another value is the transport's */
	u32 alpha;        /* marked share << 20, times 2^shift_g */
	u32 round_end;    /* the estimate is renewed when this sequence number is acknowledged, ... */
	u32 round_start;  /* ... and rtt_target after this instant, microseconds */
	u32 reduced_at;   /* instant of the last reduction for a mark, microseconds */
	u32 delivered;    /* packets, when the round began */
	u32 delivered_ce; /* of those, marked */
	u32 seen;         /* the same at the last acknowledgement */
	u32 seen_ce;
	u32 loss_cwnd; /* window before the last reduction, packets */
	u16 rounds;    /* since slow start */
	u8 saw_mark;
	u8 has_reduced;
	struct weir_echo echo;
};

static bool prague_has_ecn(const struct sock *sk)
{
	return tcp_sk(sk)->ecn_flags & TCP_ECN_OK;
}

/* Whether it grows independently of a short round-trip time (section 2.4.4). */
static bool prague_is_independent(const struct sock *sk, const struct prague *ca)
{
	return prague_has_ecn(sk) && !tcp_in_slow_start(tcp_sk(sk)) && ca->rounds >= OPT(sk, rtt_rounds);
}

/* The window with its fraction; the transport's own if it has changed it. */
static u64 prague_window(const struct sock *sk, const struct prague *ca)
{
	u32 cwnd = tcp_sk(sk)->snd_cwnd;

	return cwnd == ca->shown ? ca->cwnd : (u64)cwnd << PRAGUE_BITS;
}

static u32 prague_packets(u64 cwnd)
{
	return (cwnd + PRAGUE_ONE - 1) >> PRAGUE_BITS;
}

static void prague_show(struct sock *sk, struct prague *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);

	ca->cwnd = min_t(u64, ca->cwnd, (u64)tp->snd_cwnd_clamp << PRAGUE_BITS);
	tp->snd_cwnd = max(prague_packets(ca->cwnd), 1U);
	ca->shown = tp->snd_cwnd;
}

static void prague_start_round(const struct sock *sk, struct prague *ca)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	ca->round_end = tp->snd_nxt;
	ca->round_start = weir_clock(sk);
	ca->delivered = tp->delivered;
	ca->delivered_ce = tp->delivered_ce;
}

static void prague_init(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);
	const struct tcp_sock *tp = tcp_sk(sk);
	/* Without ECN no share is ever measured; half of the window is then the standard's reduction. */
	u32 alpha = prague_has_ecn(sk) ? OPT(sk, alpha) : 1024;

	weir_ss_start(sk, &ca->ss);
	ca->cwnd = (u64)tp->snd_cwnd << PRAGUE_BITS;
	ca->shown = tp->snd_cwnd;
	ca->alpha = (alpha << (PRAGUE_BITS - 10)) << OPT(sk, shift_g);
	ca->seen = tp->delivered;
	ca->seen_ce = tp->delivered_ce;
	ca->loss_cwnd = 0;
	ca->rounds = 0;
	ca->saw_mark = 0;
	ca->has_reduced = 0;
	ca->echo.rcv_nxt = 0;
	ca->echo.is_marked = 0;
	prague_start_round(sk, ca);
	if (sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
}

static void prague_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct prague *ca = inet_csk_ca(sk);

	weir_ss_sample(sk, &ca->ss, sample->rtt_us);
}

/* alpha <- (1 - g) alpha + g F, once a round trip, at least rtt_target long; from the first mark on (section 2.4.1). */
static void prague_round(struct sock *sk, struct prague *ca)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u32 delivered = tp->delivered - ca->delivered, marked = tp->delivered_ce - ca->delivered_ce;

	if (before(tp->snd_una, ca->round_end))
		return;
	if (prague_is_independent(sk, ca) && weir_clock(sk) - ca->round_start < OPT(sk, rtt_target))
		return;
	if (marked)
		ca->saw_mark = 1;
	if (ca->saw_mark && prague_has_ecn(sk)) {
		marked = min(marked, delivered);
		ca->alpha -= ca->alpha >> OPT(sk, shift_g);
		ca->alpha += (u32)div64_u64((u64)marked << PRAGUE_BITS, max(delivered, 1U));
	}
	if (tcp_in_slow_start(tp))
		ca->rounds = 0;
	else if (ca->rounds < 60000)
		ca->rounds++;
	prague_start_round(sk, ca);
}

/* Packets that a round trip adds, << 20: one, or (RTT / rtt_target)^2 over a short path (section 2.4.4). */
static u64 prague_increase(const struct sock *sk, const struct prague *ca)
{
	u64 rtt = tcp_sk(sk)->srtt_us >> 3, target = OPT(sk, rtt_target);

	if (!prague_is_independent(sk, ca) || !rtt || rtt >= target)
		return PRAGUE_ONE;
	return div64_u64(rtt * rtt * PRAGUE_ONE, target * target);
}

/* Packets that were not marked let the window grow, also while it is reduced. */
static void prague_grow(struct sock *sk, struct prague *ca, u32 acked, u32 marked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 cwnd = tp->snd_cwnd;

	if (tcp_in_slow_start(tp)) {
		acked = weir_ss_acked(sk, &ca->ss, acked);
		if (tp->snd_cwnd != cwnd)
			ca->cwnd = (u64)tp->snd_cwnd << PRAGUE_BITS;
	}
	if (acked <= marked)
		return;
	acked = min(acked - marked, (u32)PRAGUE_MOST_ACKED);
	ca->cwnd += div64_u64((prague_increase(sk, ca) * acked) << PRAGUE_BITS, max_t(u64, ca->cwnd, PRAGUE_ONE));
}

/* The window in a round-trip time; twice that in slow start. Packets count with their headers, where the pacer counts
 * payload: a window of them therefore leaves in a little less than a round trip, or the pacer would hold a packet of
 * the window back for ever, and a window that is never full does not grow. */
static void prague_pace(struct sock *sk, const struct prague *ca)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u64 cwnd = min_t(u64, ca->cwnd, PRAGUE_ONE << 20) >> 14, rate;

	if (!(tp->srtt_us >> 3))
		return;
	rate = div64_u64(cwnd * (tp->mss_cache + PRAGUE_HEADERS) * USEC_PER_SEC, (u64)(tp->srtt_us >> 3) << 6);
	if (tcp_in_slow_start(tp))
		rate *= 2;
	sk->sk_pacing_rate = min_t(u64, rate, sk->sk_max_pacing_rate);
}

static void prague_cong_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct prague *ca = inet_csk_ca(sk);
	u32 acked = tp->delivered - ca->seen, marked = tp->delivered_ce - ca->seen_ce;

	(void)ack;
	(void)flag;
	(void)rs;
	ca->seen = tp->delivered;
	ca->seen_ce = tp->delivered_ce;
	ca->cwnd = prague_window(sk, ca);
	prague_round(sk, ca);
	if (weir_ca_state(sk) != TCP_CA_Recovery && tcp_is_cwnd_limited(sk))
		prague_grow(sk, ca, acked, marked);
	prague_show(sk, ca);
	prague_pace(sk, ca);
}

/* cwnd (1 - alpha / 2), once a round trip, which is at least rtt_target long (section 2.4.2). */
static u64 prague_reduced(const struct sock *sk, const struct prague *ca)
{
	u64 cwnd = prague_window(sk, ca), alpha = ca->alpha >> OPT(sk, shift_g), kept;

	if (prague_is_independent(sk, ca) && ca->has_reduced && weir_clock(sk) - ca->reduced_at < OPT(sk, rtt_target))
		return max_t(u64, cwnd, PRAGUE_LEAST_CWND * PRAGUE_ONE);
	kept = cwnd - ((cwnd >> 10) * alpha >> (PRAGUE_BITS - 10 + 1));
	return max_t(u64, kept, PRAGUE_LEAST_CWND * PRAGUE_ONE);
}

static u32 prague_ssthresh(struct sock *sk)
{
	struct prague *ca = inet_csk_ca(sk);

	ca->loss_cwnd = tcp_sk(sk)->snd_cwnd;
	return prague_packets(prague_reduced(sk, ca));
}

/* A mark was echoed. */
static void prague_reduce(struct sock *sk, struct prague *ca)
{
	u64 cwnd = prague_window(sk, ca), reduced = prague_reduced(sk, ca);

	ca->saw_mark = 1;
	if (reduced >= cwnd)
		return;
	ca->reduced_at = weir_clock(sk);
	ca->has_reduced = 1;
	ca->cwnd = reduced;
	prague_show(sk, ca);
}

/* A loss takes half, whatever is marked. */
static void prague_lose(struct sock *sk, struct prague *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);

	ca->loss_cwnd = tp->snd_cwnd;
	tp->snd_ssthresh = max(tp->snd_cwnd >> 1, (u32)PRAGUE_LEAST_CWND);
}

static void prague_set_state(struct sock *sk, u8 new_state)
{
	struct prague *ca = inet_csk_ca(sk);
	u8 state = weir_ca_state(sk);

	if (new_state == TCP_CA_CWR && state < TCP_CA_CWR)
		prague_reduce(sk, ca);
	if (new_state == TCP_CA_Recovery && state != TCP_CA_Recovery) {
		prague_lose(sk, ca);
		ca->cwnd = (u64)min(tcp_sk(sk)->snd_ssthresh, tcp_sk(sk)->snd_cwnd) << PRAGUE_BITS;
		prague_show(sk, ca);
	}
	if (new_state == TCP_CA_Loss)
		weir_ss_start(sk, &ca->ss);
}

/* As the receiver of a sender without the counter of marks, echoes each change of the mark at once, like DCTCP. */
static void prague_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct prague *ca = inet_csk_ca(sk);

	if (event == CA_EVENT_ECN_IS_CE || event == CA_EVENT_ECN_NO_CE)
		weir_echo_mark(sk, &ca->echo, event == CA_EVENT_ECN_IS_CE);
	if (event == CA_EVENT_LOSS)
		prague_lose(sk, ca);
}

static u32 prague_min_tso_segs(struct sock *sk)
{
	u64 train = sk->sk_pacing_rate >> PRAGUE_TRAIN_SHIFT;

	return (u32)clamp(div64_u64(train, max(tcp_sk(sk)->mss_cache, 1U)), 1ULL, 127ULL);
}

static u32 prague_undo_cwnd(struct sock *sk)
{
	const struct prague *ca = inet_csk_ca(sk);

	return max(tcp_sk(sk)->snd_cwnd, ca->loss_cwnd);
}

#define PRAGUE_OPS(OP)                        \
	OP(init, prague_init)                 \
	OP(ssthresh, prague_ssthresh)         \
	OP(cong_control, prague_cong_control) \
	OP(pkts_acked, prague_pkts_acked)     \
	OP(set_state, prague_set_state)       \
	OP(cwnd_event, prague_cwnd_event)     \
	OP(min_tso_segs, prague_min_tso_segs) \
	OP(undo_cwnd, prague_undo_cwnd)

WEIR_CC_ABOUT("Prague", 2024,
	      "K. De Schepper, O. Tilmans, B. Briscoe, V. Goel, draft-briscoe-iccrg-prague-congestion-control-04")
WEIR_CC_REGISTER(prague, "prague", TCP_CONG_NEEDS_ECN | TCP_CONG_NEEDS_ACCECN | TCP_CONG_ECT_1_NEGOTIATION,
		 struct prague, PRAGUE_OPS)
