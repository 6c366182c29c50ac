// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * CDG: backs off when round-trip times rise, with a probability that grows with their gradient. It needs no threshold
 * of the delay, and tells losses of a full queue from others.
 *
 * D. A. Hayes, G. Armitage, "Revisiting TCP congestion control using delay gradients", IFIP Networking 2011. With
 * as_linux=1 it counts and rounds like Linux: see the README.
 */
#include "weir_cc.h"

#define CDG_OPTIONS(OPTION)                                                                                \
	OPTION(scale, 3000, 1, 1000000, "gradient that backs off with a probability of 63 %, us (G)")      \
	OPTION(beta, 717, 512, 1023, "share of the window that a delay backoff keeps, in 1/1024")          \
	OPTION(ineffectual, 5, 0, 100, "backoffs without effect before the gradient is ignored; 0: never") \
	OPTION(shadow, 1, 0, 1, "a loss halves the window that there would be without delay backoffs")     \
	OPTION(tolerance, 1, 0, 1, "losses while the queue is not full do not reduce the window")          \
	OPTION(as_linux, 0, 0, 1, "as Linux 6.12, with its constants and HyStart")                         \
	WEIR_SLOW_START_OPTIONS(OPTION, 0)
WEIR_CC_OPTIONS(CDG_OPTIONS)

#include "weir_slow_start.h"

enum {
	CDG_WINDOW = 8,   /* round trips over which gradients are averaged */
	CDG_UNIT_US = 16, /* of a gradient by the paper */
	CDG_FEW = 32,     /* gradients below, microseconds, show that a backoff had an effect */
	CDG_STILL = 64,   /* gradients that round to none, microseconds */
	CDG_MOST_US = 1 << 26,
	CDG_MOST_DELAYED = 5,

	CDG_LINUX_FACTOR = 42, /* 1000 / (3 ms * 8) */
	CDG_LINUX_BETA = 724,
	CDG_LINUX_INEFFECTUAL = 5,
	CDG_LINUX_TRAIN_US = 3000,
	CDG_LINUX_LEAST_US = 125,
	CDG_LINUX_SAMPLES = 8,
};

enum cdg_queue {
	CDG_UNKNOWN,
	CDG_NOT_FULL,
	CDG_FULL,
	CDG_BACKOFF, /* the window is being reduced because of the delay */
};

struct cdg_range {
	s32 min; /* shortest and longest round-trip time of a round trip, microseconds; 0 is none */
	s32 max;
};

struct cdg_steps {
	s32 min;
	s32 max;
};

struct cdg {
	struct cdg_range rtt;
	struct cdg_range previous;
	u32 round_end;  /* the round trip ends when this sequence number is acknowledged */
	u32 shadow;     /* window without delay backoffs, packets */
	u16 filled : 4; /* gradients known */
	u16 queue : 2;
	u16 delayed : 3; /* delayed acknowledgements that may come */
	u8 backoffs;     /* without effect */
	u8 samples;      /* as Linux */
	union {
		struct {
			struct weir_slow_start ss;
			s16 steps_min[CDG_WINDOW]; /* gradients, the newest first, CDG_UNIT_US */
			s16 steps_max[CDG_WINDOW];
		};
		struct {                           /* as Linux */
			s32 linux_min[CDG_WINDOW]; /* microseconds */
			s32 linux_max[CDG_WINDOW];
			s32 delay_min; /* shortest round-trip time, microseconds; 0 is none */
			u32 last_ack;  /* of the train, microseconds; 0 is none */
			u32 train;
		};
	};
};

static void cdg_forget(const struct sock *sk, struct cdg *ca)
{
	u32 i;

	ca->rtt.min = ca->rtt.max = 0;
	ca->previous.min = ca->previous.max = 0;
	ca->filled = 0;
	ca->queue = CDG_UNKNOWN;
	ca->delayed = 0;
	ca->backoffs = 0;
	ca->samples = 0;
	ca->round_end = tcp_sk(sk)->snd_nxt;
	ca->shadow = tcp_sk(sk)->snd_cwnd;
	WEIR_UNROLL
	for (i = 0; i < CDG_WINDOW; i++) {
		if (OPT(sk, as_linux)) {
			ca->linux_min[i] = 0;
			ca->linux_max[i] = 0;
		} else {
			ca->steps_min[i] = 0;
			ca->steps_max[i] = 0;
		}
	}
	if (OPT(sk, as_linux)) {
		ca->delay_min = 0;
		ca->last_ack = 0;
		ca->train = 0;
	}
}

static void cdg_init(struct sock *sk)
{
	struct cdg *ca = inet_csk_ca(sk);

	if (!OPT(sk, as_linux))
		weir_ss_start(sk, &ca->ss);
	cdg_forget(sk, ca);
	/* Linux' own has measured the handshake by then. */
	if (OPT(sk, as_linux))
		ca->rtt.min = ca->rtt.max = (s32)(tcp_sk(sk)->srtt_us >> 3);
}

/* The smaller of both that is not zero, or zero. */
static s32 cdg_shorter(s32 a, s32 b)
{
	if (!a || !b)
		return a ? a : b;
	return min(a, b);
}

/* Of a delayed acknowledgement a round-trip time is an upper bound: it counts only as the shortest. */
static void cdg_pkts_acked(struct sock *sk, const struct ack_sample *sample)
{
	struct cdg *ca = inet_csk_ca(sk);
	s32 rtt = sample->rtt_us;

	if (!OPT(sk, as_linux))
		weir_ss_sample(sk, &ca->ss, rtt);
	if (rtt <= 0)
		return;
	if (!tcp_sk(sk)->sacked_out) {
		if (sample->pkts_acked == 1 && ca->delayed) {
			ca->rtt.min = min(ca->rtt.min, rtt);
			ca->delayed--;
			return;
		}
		if (sample->pkts_acked > 1 && ca->delayed < CDG_MOST_DELAYED)
			ca->delayed++;
	}
	ca->rtt.min = cdg_shorter(ca->rtt.min, rtt);
	ca->rtt.max = max(ca->rtt.max, rtt);
}

/* e^-x in 1/2^32, for x in 1/10^6: the product of the powers of its binary digits, in 1/2^16 each. */
#define CDG_DIGIT(bit, power)                          \
	do {                                           \
		if (digits >> (bit) & 1)               \
			value = value * (power) >> 16; \
	} while (0)

static u32 cdg_decay(u32 x)
{
	u32 digits = x >> 8;
	u64 value = ~0U - (x & 0xff) * (~0U / 1000000);

	if (digits > 0xffff)
		return 0;
	CDG_DIGIT(0, 65519);
	CDG_DIGIT(1, 65502);
	CDG_DIGIT(2, 65469);
	CDG_DIGIT(3, 65402);
	CDG_DIGIT(4, 65268);
	CDG_DIGIT(5, 65002);
	CDG_DIGIT(6, 64471);
	CDG_DIGIT(7, 63423);
	CDG_DIGIT(8, 61379);
	CDG_DIGIT(9, 57485);
	CDG_DIGIT(10, 50424);
	CDG_DIGIT(11, 38796);
	CDG_DIGIT(12, 22966);
	CDG_DIGIT(13, 8048);
	CDG_DIGIT(14, 988);
	CDG_DIGIT(15, 15);
	return (u32)value;
}

/* A quotient rounded towards zero; BPF has no signed division. */
static s32 cdg_divide(s32 value, u32 divisor)
{
	u32 size = value < 0 ? -(u32)value : (u32)value;
	s32 quotient = (s32)(size / max(divisor, 1U));

	return value < 0 ? -quotient : quotient;
}

static s16 cdg_unit(s32 us)
{
	return (s16)clamp(cdg_divide(us, CDG_UNIT_US), -0x7fff, 0x7fff);
}

/* Enters the gradients of a round trip; their sums over the window, microseconds. */
static struct cdg_steps cdg_add(const struct sock *sk, struct cdg *ca, struct cdg_steps step)
{
	struct cdg_steps sum = step;
	u32 i;

	WEIR_UNROLL
	for (i = CDG_WINDOW - 1; i > 0; i--) {
		if (OPT(sk, as_linux)) {
			ca->linux_min[i] = ca->linux_min[i - 1];
			ca->linux_max[i] = ca->linux_max[i - 1];
			sum.min += ca->linux_min[i];
			sum.max += ca->linux_max[i];
		} else {
			ca->steps_min[i] = ca->steps_min[i - 1];
			ca->steps_max[i] = ca->steps_max[i - 1];
			sum.min += ca->steps_min[i] * CDG_UNIT_US;
			sum.max += ca->steps_max[i] * CDG_UNIT_US;
		}
	}
	if (OPT(sk, as_linux)) {
		ca->linux_min[0] = step.min;
		ca->linux_max[0] = step.max;
	} else {
		ca->steps_min[0] = cdg_unit(step.min);
		ca->steps_max[0] = cdg_unit(step.max);
	}
	return sum;
}

/* Nearest multiple of CDG_STILL, as a count. */
static s32 cdg_round(s32 us)
{
	return cdg_divide(us > 0 ? us + CDG_STILL / 2 : us - CDG_STILL / 2, CDG_STILL);
}

/*
 * The queue is full when the shortest round-trip time still grows and the longest does not; it is not, when both grow
 * or the longest falls.
 */
static void cdg_guess_queue(struct cdg *ca, struct cdg_steps sum)
{
	s32 least = cdg_round(sum.min), most = cdg_round(sum.max);

	if (least > 0 && most <= 0)
		ca->queue = CDG_FULL;
	else if ((least > 0 && most > 0) || most < 0)
		ca->queue = CDG_NOT_FULL;
}

static bool cdg_tolerates(const struct sock *sk)
{
	return !OPT(sk, as_linux) && OPT(sk, tolerance);
}

/* Limited to more than a minute, so that no sum over the window overflows. */
static s32 cdg_step(s32 us)
{
	return clamp(us, -CDG_MOST_US, CDG_MOST_US);
}

/* The gradient over the window, microseconds: of the shortest round-trip times, or of the longest. */
static s32 cdg_gradient(const struct sock *sk, struct cdg *ca)
{
	struct cdg_steps step = {cdg_step(ca->rtt.min - ca->previous.min), cdg_step(ca->rtt.max - ca->previous.max)};
	struct cdg_steps sum = cdg_add(sk, ca, step);
	s32 gradient = sum.min > 0 ? sum.min : sum.max;

	if (ca->filled < CDG_WINDOW)
		ca->filled++;
	/* Extrapolates to the window while fewer are known; |x| * 8 may wrap for absurd times, as in Linux. */
	if (ca->filled < CDG_WINDOW)
		gradient = cdg_divide((s32)((u32)gradient * CDG_WINDOW), ca->filled);
	if (sum.min <= -CDG_FEW || sum.max <= -CDG_FEW)
		ca->backoffs = 0;
	if (cdg_tolerates(sk))
		cdg_guess_queue(ca, sum);
	return gradient;
}

/* P = 1 - e^(-g / G), g the mean gradient. */
static bool cdg_draws(const struct sock *sk, s32 gradient)
{
	u64 x;

	if (OPT(sk, as_linux))
		x = (u32)gradient * CDG_LINUX_FACTOR;
	else
		x = min_t(u64, (u64)(u32)gradient * 1000000 / (CDG_WINDOW * OPT(sk, scale)), ~0U);
	return weir_random_below(sk, ~0U) > cdg_decay((u32)x);
}

static u32 cdg_ineffectual(const struct sock *sk)
{
	return OPT(sk, as_linux) ? CDG_LINUX_INEFFECTUAL : OPT(sk, ineffectual);
}

static u32 cdg_ssthresh(struct sock *sk)
{
	struct cdg *ca = inet_csk_ca(sk);
	u32 cwnd = tcp_sk(sk)->snd_cwnd, beta = OPT(sk, as_linux) ? CDG_LINUX_BETA : OPT(sk, beta);

	if (ca->queue == CDG_BACKOFF)
		return max((u32)((u64)cwnd * beta >> 10), 2U);
	if (ca->queue == CDG_NOT_FULL && cdg_tolerates(sk))
		return max(cwnd, 2U);
	ca->shadow = min(ca->shadow >> 1, cwnd);
	if (OPT(sk, as_linux) || OPT(sk, shadow))
		return max(max(ca->shadow, cwnd >> 1), 2U);
	return max(cwnd >> 1, 2U);
}

static void cdg_complete(const struct sock *sk, struct cdg *ca)
{
	ca->queue = CDG_UNKNOWN;
	ca->round_end = tcp_sk(sk)->snd_nxt;
	ca->previous = ca->rtt;
	ca->rtt.min = ca->rtt.max = 0;
}

/* By the paper the window falls at once, and the next round trip, which the backoff has not reached, says nothing. */
static void cdg_reduce(struct sock *sk, struct cdg *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);

	ca->queue = CDG_BACKOFF;
	if (OPT(sk, as_linux) && weir_enter_cwr(sk))
		return;
	tp->snd_ssthresh = cdg_ssthresh(sk);
	tp->snd_cwnd = min(tp->snd_ssthresh, tp->snd_cwnd_clamp);
	tp->snd_cwnd_cnt = 0;
	cdg_complete(sk, ca);
	ca->previous.min = ca->previous.max = 0;
}

static bool cdg_backs_off(struct sock *sk, struct cdg *ca, s32 gradient)
{
	u32 most = cdg_ineffectual(sk);

	if (gradient <= 0 || !cdg_draws(sk, gradient))
		return false;
	if (most) {
		ca->backoffs = min(ca->backoffs + 1U, 255U);
		if (ca->backoffs > most)
			return false;
	}
	ca->shadow = max(ca->shadow, tcp_sk(sk)->snd_cwnd);
	cdg_reduce(sk, ca);
	return true;
}

/* As Linux: HyStart at any window, of the round trip's shortest time. */
static void cdg_linux_hystart(struct sock *sk, struct cdg *ca)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 now = weir_clock(sk);

	ca->delay_min = cdg_shorter(ca->delay_min, ca->rtt.min);
	if (!ca->delay_min)
		return;
	if (!ca->last_ack || !tcp_is_cwnd_limited(sk)) {
		ca->last_ack = now;
		ca->train = now;
	} else if (before(now, ca->last_ack + CDG_LINUX_TRAIN_US)) {
		ca->last_ack = now;
		if (after(now, ca->train + max((u32)ca->delay_min / 2, (u32)CDG_LINUX_LEAST_US))) {
			tp->snd_ssthresh = tp->snd_cwnd;
			return;
		}
	}
	if (ca->samples < CDG_LINUX_SAMPLES)
		ca->samples++;
	else if (ca->rtt.min > (s32)max((u32)ca->delay_min + (u32)ca->delay_min / 8, (u32)CDG_LINUX_LEAST_US))
		tp->snd_ssthresh = tp->snd_cwnd;
}

/* Once a round trip. Whether the window was reduced. */
static bool cdg_compare(struct sock *sk, struct cdg *ca, u32 ack)
{
	bool is_known = ca->previous.min || ca->previous.max;
	s32 gradient;

	if (!after(ack, ca->round_end) || !(ca->rtt.min || ca->rtt.max))
		return false;
	gradient = is_known ? cdg_gradient(sk, ca) : 0;
	ca->round_end = tcp_sk(sk)->snd_nxt;
	ca->previous = ca->rtt;
	ca->rtt.min = ca->rtt.max = 0;
	if (OPT(sk, as_linux)) {
		ca->last_ack = 0;
		ca->samples = 0;
	}
	return cdg_backs_off(sk, ca, gradient);
}

static void cdg_grow(struct sock *sk, struct cdg *ca, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);

	if (tcp_in_slow_start(tp)) {
		acked = OPT(sk, as_linux) ? tcp_slow_start(tp, acked) : weir_ss_acked(sk, &ca->ss, acked);
		if (!acked)
			return;
	}
	tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

static void cdg_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct cdg *ca = inet_csk_ca(sk);
	u32 before;

	if (OPT(sk, as_linux) && tcp_in_slow_start(tp))
		cdg_linux_hystart(sk, ca);
	if (cdg_compare(sk, ca, ack))
		return;
	if (!tcp_is_cwnd_limited(sk)) {
		ca->shadow = min(ca->shadow, tp->snd_cwnd);
		return;
	}
	before = tp->snd_cwnd;
	cdg_grow(sk, ca, acked);
	ca->shadow = max(ca->shadow, ca->shadow + (tp->snd_cwnd - before));
}

static void cdg_set_state(struct sock *sk, u8 new_state)
{
	struct cdg *ca = inet_csk_ca(sk);

	if (new_state == TCP_CA_Loss && !OPT(sk, as_linux))
		weir_ss_start(sk, &ca->ss);
}

static void cdg_cwnd_event(struct sock *sk, enum tcp_ca_event event)
{
	struct cdg *ca = inet_csk_ca(sk);

	if (event == CA_EVENT_CWND_RESTART)
		cdg_forget(sk, ca);
	else if (event == CA_EVENT_COMPLETE_CWR)
		cdg_complete(sk, ca);
}

#define CDG_OPS(OP)                    \
	OP(init, cdg_init)             \
	OP(ssthresh, cdg_ssthresh)     \
	OP(cong_avoid, cdg_cong_avoid) \
	OP(pkts_acked, cdg_pkts_acked) \
	OP(set_state, cdg_set_state)   \
	OP(cwnd_event, cdg_cwnd_event) \
	OP(undo_cwnd, tcp_reno_undo_cwnd)

WEIR_CC_ABOUT("CDG", 2011, "D. A. Hayes, G. Armitage, Congestion control using delay gradients, IFIP Networking 2011")
WEIR_CC_REGISTER(cdg, "cdg", 0, struct cdg, CDG_OPS)
