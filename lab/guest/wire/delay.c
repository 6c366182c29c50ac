// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * One-way delay and jitter of each flow: tables `delays` and `delay_bins`. Equivalent to crates/weir-links (delays.rs)
 * and the histogram of crates/weir-units, which document the definitions.
 */
#include <linux/log2.h>
#include <linux/slab.h>

#include "wire.h"

enum {
	STEP_BITS = 7,
	STEPS = 1 << STEP_BITS, /* bins per power of two */
	OCTAVES = 64 - STEP_BITS + 1
};

struct population {
	u64 count, sum, least, most;
	u64 used; /* the octaves with a nonzero count */
	u64 *octave[OCTAVES];
};

struct delays {
	struct population delay, jitter;
	u64 last; /* delay of the packet that arrived last, NEVER before the first */
};

u64 delay_interval;
static u64 interval_end;
static struct hrtimer tick;

/*
 * Stamps a packet that the host's stack hands to the queue of its device. Its own time it keeps if it has one: TCP's
 * packets have their departure if the queue paces. Called to make a header of no bytes.
 */
static int stamp(struct sk_buff *skb, struct net_device *dev, unsigned short type, const void *to, const void *from,
		 unsigned int length)
{
	unsigned long flags;

	local_irq_save(flags); /* reading the clock costs a program time; this is no program */
	place_of(skb)->entered = ktime_get_ns();
	local_irq_restore(flags);
	if ((delay_interval || tracing) && !skb->tstamp)
		skb->tstamp = ns_to_ktime(place_of(skb)->entered);
	return 0;
}

const struct header_ops stamping = {.create = stamp};

static void count(struct population *population, u64 ns)
{
	u32 octave = ilog2(ns | STEPS / 2) + 1 - STEP_BITS;
	u32 step = ns >> (octave ? octave - 1 : 0) & (STEPS - 1);
	u64 **counts = &population->octave[octave];

	if (!*counts)
		*counts = kcalloc(STEPS, sizeof(**counts), GFP_ATOMIC);
	if (!*counts)
		panic("weir: no memory for the delays of packets");
	(*counts)[step]++;
	population->used |= 1ULL << octave;
	population->least = population->count ? min(population->least, ns) : ns;
	population->most = max(population->most, ns);
	population->sum += ns;
	population->count++;
}

static u64 mean(const struct population *population)
{
	return population->count ? div64_u64(population->sum, population->count) : NEVER;
}

static void clear(struct population *population)
{
	for (u32 octave = 0; octave < OCTAVES; octave++)
		if (population->used >> octave & 1)
			memset(population->octave[octave], 0, STEPS * sizeof(u64));
	population->count = population->sum = population->least = population->most = population->used = 0;
}

static u64 counted(const struct population *population, u32 octave, u32 step)
{
	return population->used >> octave & 1 ? population->octave[octave][step] : 0;
}

static void write_bins(u64 time, u32 flow, const struct delays *delays)
{
	u64 used = delays->delay.used | delays->jitter.used;

	for (u32 octave = 0; octave < OCTAVES; octave++) {
		if (!(used >> octave & 1))
			continue;
		for (u32 step = 0; step < STEPS; step++) {
			u64 delay = counted(&delays->delay, octave, step), low = octave ? STEPS + step : step;
			u64 jitter = counted(&delays->jitter, octave, step);
			u32 shift = octave ? octave - 1 : 0;

			if (delay || jitter)
				add_row(time, flow, ROW_DELAY_BIN, low << shift, (low << shift) + (1ULL << shift) - 1,
					delay, jitter);
		}
	}
}

static void close_flow(u64 time, u32 flow, struct delays *delays)
{
	const struct population *delay = &delays->delay, *jitter = &delays->jitter;

	if (!delay->count)
		return;
	add_row(time, flow, ROW_DELAY, delay->count, mean(delay), delay->least, delay->most, jitter->count,
		mean(jitter), jitter->count ? jitter->most : NEVER);
	write_bins(time, flow, delays);
	clear(&delays->delay);
	clear(&delays->jitter);
}

/* Closes the interval if it ends by `now`: a packet that arrives then is the first of the next one. */
static void roll(u64 now)
{
	if (now < interval_end)
		return;
	for (u32 flow = 0; flow < flow_count; flow++)
		if (flows[flow].delays)
			close_flow(interval_end - epoch, flow, flows[flow].delays);
	interval_end = epoch + (div64_u64(now - epoch, delay_interval) + 1) * delay_interval;
}

/* Counts data packets of a flow that were handed to their host's queue at `sent` and arrive now. */
void count_delay(u32 flow, u64 sent, u64 now, u32 packets)
{
	struct delays *delays = flows[flow].delays;
	u64 delay = now - sent;

	roll(now);
	if (!delays) {
		delays = flows[flow].delays = kzalloc(sizeof(*delays), GFP_ATOMIC);
		if (!delays)
			panic("weir: no memory for the delays of packets");
		delays->last = NEVER;
	}
	for (; packets; packets--) {
		count(&delays->delay, delay);
		if (delays->last != NEVER)
			count(&delays->jitter, delay > delays->last ? delay - delays->last : delays->last - delay);
		delays->last = delay;
	}
}

static enum hrtimer_restart on_tick(struct hrtimer *timer)
{
	roll(ktime_get_ns());
	set_alarm(timer, interval_end);
	return HRTIMER_NORESTART;
}

void begin_delays(void)
{
	if (!delay_interval)
		return;
	interval_end = epoch + delay_interval;
	hrtimer_init(&tick, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	tick.function = on_tick;
	set_alarm(&tick, interval_end);
}
