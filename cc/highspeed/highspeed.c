// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * HighSpeed TCP: increase and decrease depend on the window, so that a loss rate of 1e-7 gives 83 000 packets.
 *
 * RFC 3649. The windows at which the increase a(w) gains a packet are those of its appendix B; the decrease b(w) is
 * section 5's formula with High_Decrease 0.1, Low_Window 38, High_Window 83000, in 1/1024.
 */
#include "weir_cc.h"

#define HIGHSPEED_OPTIONS(OPTION) WEIR_SLOW_START_OPTIONS(OPTION, 0)
WEIR_CC_OPTIONS(HIGHSPEED_OPTIONS)

#include "weir_slow_start.h"
#include "weir_window.h"

/* Row i holds from window w on: the increase is i + 1 packets a round trip, the decrease b / 1024 of the window. */
static const struct highspeed_row {
	u32 w;
	u32 b;
} highspeed_rows[] = {
	{38, 512},    {118, 452},   {221, 418},   {347, 394},   {495, 375},   {663, 360},   {851, 346},   {1058, 335},
	{1284, 324},  {1529, 315},  {1793, 307},  {2076, 299},  {2378, 292},  {2699, 285},  {3039, 279},  {3399, 273},
	{3778, 267},  {4177, 262},  {4596, 257},  {5036, 252},  {5497, 247},  {5979, 243},  {6483, 238},  {7009, 234},
	{7558, 230},  {8130, 226},  {8726, 222},  {9346, 219},  {9991, 215},  {10661, 212}, {11358, 208}, {12082, 205},
	{12834, 202}, {13614, 199}, {14424, 196}, {15265, 193}, {16137, 190}, {17042, 187}, {17981, 184}, {18955, 181},
	{19965, 178}, {21013, 176}, {22101, 173}, {23230, 170}, {24402, 168}, {25618, 165}, {26881, 162}, {28193, 160},
	{29557, 157}, {30975, 155}, {32450, 152}, {33986, 150}, {35586, 148}, {37253, 145}, {38992, 143}, {40808, 140},
	{42707, 138}, {44694, 135}, {46776, 133}, {48961, 131}, {51258, 128}, {53677, 126}, {56230, 123}, {58932, 121},
	{61799, 118}, {64851, 116}, {68113, 113}, {71617, 110}, {75401, 108}, {79517, 105}, {84035, 102}, {89053, 99},
	{94717, 95},
};

#define HIGHSPEED_ROWS (sizeof(highspeed_rows) / sizeof(highspeed_rows[0]))
#define HIGHSPEED_SEARCH_STEPS 7 /* 2^7 > 73 rows */

struct highspeed {
	struct weir_slow_start ss;
	u64 credit; /* of weir_increase */
	u32 row;    /* of the last increase: nearly always that of the next one */
};

static void highspeed_init(struct sock *sk)
{
	struct highspeed *ca = inet_csk_ca(sk);

	ca->credit = 0;
	ca->row = 0;
	weir_ss_start(sk, &ca->ss);
}

/* The last row whose window is at most w; the first one below Low_Window, where it is standard TCP. */
static __always_inline u32 highspeed_row(u32 w)
{
	u32 low = 0, high = HIGHSPEED_ROWS, step, middle;

	for (step = 0; step < HIGHSPEED_SEARCH_STEPS; step++) {
		middle = (low + high) / 2;
		if (middle >= HIGHSPEED_ROWS)
			break;
		if (highspeed_rows[middle].w <= w)
			low = middle;
		else
			high = middle;
	}
	return min_t(u32, low, HIGHSPEED_ROWS - 1);
}

static __always_inline bool highspeed_row_holds(u32 row, u32 w)
{
	if (row >= HIGHSPEED_ROWS - 1)
		return false;
	return highspeed_rows[row].w <= w && w < highspeed_rows[row + 1].w;
}

static void highspeed_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct highspeed *ca = inet_csk_ca(sk);

	(void)ack;
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		acked = weir_ss_acked(sk, &ca->ss, acked);
		if (!acked)
			return;
	}
	if (!highspeed_row_holds(ca->row, tp->snd_cwnd))
		ca->row = highspeed_row(tp->snd_cwnd);
	weir_increase(tp, &ca->credit, (ca->row + 1) * WEIR_ONE, acked);
}

static u32 highspeed_ssthresh(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	return weir_decrease(tp, WEIR_ONE - highspeed_rows[highspeed_row(tp->snd_cwnd)].b);
}

static void highspeed_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct highspeed *ca = inet_csk_ca(sk);

	weir_ss_sample(sk, &ca->ss, sample->rtt_us);
}

static void highspeed_set_state(struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Loss)
		highspeed_init(sk);
}

#define HIGHSPEED_OPS(OP)                    \
	OP(init, highspeed_init)             \
	OP(ssthresh, highspeed_ssthresh)     \
	OP(cong_avoid, highspeed_cong_avoid) \
	OP(pkts_acked, highspeed_pkts_acked) \
	OP(set_state, highspeed_set_state)   \
	OP(undo_cwnd, tcp_reno_undo_cwnd)

WEIR_CC_ABOUT("HighSpeed TCP", 2003, "RFC 3649")
WEIR_CC_REGISTER(highspeed, "highspeed", 0, struct highspeed, HIGHSPEED_OPS)
