// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * HighSpeed TCP: increase and decrease depend on the window, so that a loss rate of 1e-7 gives 83 000 packets.
 *
 * RFC 3649. The windows at which the increase a(w) gains a packet are those of its appendix B; the decrease b(w) is
 * the RFC's formula with High_Decrease 0.1, Low_Window 38, High_Window 83000, in 1/65536.
 */
#include "weir_cc.h"

#define HIGHSPEED_OPTIONS(OPTION)                                                                                 \
	OPTION(as_linux, 0, 0, 1, "as Linux 6.12: rows rounded up, growth by acknowledgements, a row found late") \
	OPTION(keeps_row, 0, 0, 1, "with as_linux: the row never falls, the error of Linux up to 2.6.17")         \
	WEIR_SLOW_START_OPTIONS(OPTION, 0)
WEIR_CC_OPTIONS(HIGHSPEED_OPTIONS)

#include "weir_slow_start.h"
#include "weir_window.h"

/* Row i holds from window w on: the increase is i + 1 packets per round trip, the decrease b / 65536 of the window. */
static const struct highspeed_row {
	u32 w;
	u32 b;
} highspeed_rows[] = {
	{38, 32768},    {118, 28905},   {221, 26766},   {347, 25227},   {495, 24016},   {663, 23020},   {851, 22169},
	{1058, 21427},  {1284, 20767},  {1529, 20171},  {1793, 19628},  {2076, 19129},  {2378, 18666},  {2699, 18234},
	{3039, 17829},  {3399, 17448},  {3778, 17087},  {4177, 16745},  {4596, 16419},  {5036, 16107},  {5497, 15809},
	{5979, 15522},  {6483, 15246},  {7009, 14980},  {7558, 14723},  {8130, 14474},  {8726, 14233},  {9346, 13999},
	{9991, 13772},  {10661, 13550}, {11358, 13334}, {12082, 13124}, {12834, 12918}, {13614, 12717}, {14424, 12520},
	{15265, 12327}, {16137, 12137}, {17042, 11951}, {17981, 11768}, {18955, 11588}, {19965, 11411}, {21013, 11237},
	{22101, 11065}, {23230, 10895}, {24402, 10727}, {25618, 10561}, {26881, 10397}, {28193, 10235}, {29557, 10074},
	{30975, 9914},  {32450, 9755},  {33986, 9598},  {35586, 9441},  {37253, 9285},  {38992, 9129},  {40808, 8974},
	{42707, 8819},  {44694, 8664},  {46776, 8509},  {48961, 8353},  {51258, 8197},  {53677, 8040},  {56230, 7881},
	{58932, 7721},  {61799, 7559},  {64851, 7395},  {68113, 7228},  {71617, 7057},  {75401, 6881},  {79517, 6700},
	{84035, 6511},  {89053, 6314},  {94717, 6103},
};

#define HIGHSPEED_ROWS (sizeof(highspeed_rows) / sizeof(highspeed_rows[0]))
#define HIGHSPEED_SEARCH_STEPS 7 /* 2^7 > 73 rows */
#define HIGHSPEED_LINUX_LAST 71  /* Linux' table lacks the last row */

struct highspeed {
	struct weir_slow_start ss;
	u64 credit; /* of weir_increase */
	u32 row;    /* of the last increase: nearly always also the next one's; Linux also decreases by it */
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

/*
 * Linux: row i holds up to window w, so a(w) is rounded up; and an acknowledgement counts once, however many packets it
 * covers, which is RFC 3649's w + a(w) / w taken literally. Up to 2.6.17 the loop that should lower the row compared
 * the wrong way and never ran ("tcp_highspeed: Fix AI updates"): keeps_row.
 */
static __always_inline void highspeed_linux_increase(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct highspeed *ca = inet_csk_ca(sk);
	u32 row = highspeed_row(tp->snd_cwnd);

	if (tp->snd_cwnd > highspeed_rows[row].w)
		row++;
	row = min_t(u32, row, HIGHSPEED_LINUX_LAST);
	if (OPT(sk, keeps_row))
		row = max_t(u32, row, ca->row);
	ca->row = row;
	if (tp->snd_cwnd >= tp->snd_cwnd_clamp)
		return;
	tp->snd_cwnd_cnt += ca->row + 1;
	if (tp->snd_cwnd_cnt < tp->snd_cwnd)
		return;
	tp->snd_cwnd_cnt -= tp->snd_cwnd;
	tp->snd_cwnd++;
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
		if (!acked || OPT(sk, as_linux))
			return;
	}
	if (OPT(sk, as_linux)) {
		highspeed_linux_increase(sk);
		return;
	}
	if (!highspeed_row_holds(ca->row, tp->snd_cwnd))
		ca->row = highspeed_row(tp->snd_cwnd);
	weir_increase(tp, &ca->credit, (ca->row + 1) * WEIR_ONE, acked);
}

/*
 * Linux: the share in the row of the last increase, so a half if slow start overshoots first, cut to eight bits; the
 * reduction is rounded down.
 */
static __always_inline u32 highspeed_linux_decrease(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct highspeed *ca = inet_csk_ca(sk);
	u32 row = min_t(u32, ca->row, HIGHSPEED_LINUX_LAST);
	u64 given_up = (u64)tp->snd_cwnd * (highspeed_rows[row].b >> 8) >> 8;

	return max_t(u32, tp->snd_cwnd - (u32)given_up, 2);
}

static u32 highspeed_ssthresh(struct sock *sk)
{
	const struct tcp_sock *tp = tcp_sk(sk);

	if (OPT(sk, as_linux))
		return highspeed_linux_decrease(sk);
	return weir_decrease(tp, WEIR_ONE - ((highspeed_rows[highspeed_row(tp->snd_cwnd)].b + 32) >> 6));
}

static void highspeed_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct highspeed *ca = inet_csk_ca(sk);

	weir_ss_sample(sk, &ca->ss, sample->rtt_us);
}

static void highspeed_set_state(struct sock *sk, u8 new_state)
{
	if (new_state == TCP_CA_Loss && !OPT(sk, as_linux))
		highspeed_init(sk);
}

#define HIGHSPEED_OPS(OP)                    \
	OP(init, highspeed_init)             \
	OP(ssthresh, highspeed_ssthresh)     \
	OP(cong_avoid, highspeed_cong_avoid) \
	OP(pkts_acked, highspeed_pkts_acked) \
	OP(set_state, highspeed_set_state)   \
	OP(undo_cwnd, tcp_reno_undo_cwnd)    \
	OP(min_cwnd, tcp_reno_min_cwnd)

WEIR_CC_ABOUT("HighSpeed TCP", 2003, "RFC 3649")
WEIR_CC_REGISTER(highspeed, "highspeed", 0, struct highspeed, HIGHSPEED_OPS)
