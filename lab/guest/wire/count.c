// SPDX-License-Identifier: MIT OR GPL-2.0
/* The counters of each link, and the rows of all tables. */
#include <linux/slab.h>
#include <net/inet_ecn.h>
#include <net/sch_generic.h>

#include "wire.h"

enum {
	CHUNK_ROWS = 256,
};

struct wire_row {
	__le64 time;
	__le32 of;
	__le32 kind;
	__le64 values[ROW_VALUES];
};

struct chunk {
	struct wire_row row[CHUNK_ROWS]; /* first: the result of take_rows */
	struct list_head list;
	u32 rows;
};

static u64 interval, next_tick;
static struct hrtimer tick;
static LIST_HEAD(chunks);

static struct tally *tally_of(struct link *link, u32 flow)
{
	struct tally *tally;

	for (tally = link->tallies; tally; tally = tally->next)
		if (tally->flow == flow)
			return tally;
	tally = kzalloc(sizeof(*tally), GFP_ATOMIC);
	if (tally) {
		tally->flow = flow;
		tally->next = link->tallies;
		link->tallies = tally;
	}
	return tally;
}

void count_drop(struct link *link, const struct sk_buff *skb)
{
	union course course = {.mark = skb->mark};
	struct tally *tally;

	link->counts.drop_packets += packets_in(skb);
	link->counts.drop_bytes += bytes_in(skb);
	if (course.shown)
		show_dropped(skb, link->number);
	if (course.data && (tally = tally_of(link, course.flow)))
		tally->dropped += packets_in(skb);
}

void count_mark(struct link *link, const struct sk_buff *skb)
{
	union course course = {.mark = skb->mark};
	struct tally *tally;

	if (course.was_marked || !INET_ECN_is_ce(ip_hdr(skb)->tos))
		return;
	link->counts.mark_packets += packets_in(skb);
	if (course.data && (tally = tally_of(link, course.flow)))
		tally->marked += packets_in(skb);
}

void drop(struct link *link, struct sk_buff *skb)
{
	count_drop(link, skb);
	kfree_skb(skb);
}

void write_row(u64 time, u32 of, enum row_kind kind, const u64 *values, u32 count)
{
	struct chunk *chunk = list_empty(&chunks) ? NULL : list_last_entry(&chunks, struct chunk, list);
	struct wire_row *row;

	if (!chunk || chunk->rows == CHUNK_ROWS) {
		chunk = kmalloc(sizeof(*chunk), GFP_ATOMIC);
		if (!chunk)
			panic("weir: no memory for the rows of tables");
		chunk->rows = 0;
		list_add_tail(&chunk->list, &chunks);
	}
	row = &chunk->row[chunk->rows++];
	memset(row, 0, sizeof(*row));
	row->time = cpu_to_le64(time);
	row->of = cpu_to_le32(of);
	row->kind = cpu_to_le32(kind);
	for (u32 i = 0; i < count && i < ROW_VALUES; i++)
		row->values[i] = cpu_to_le64(values[i]);
}

void measure_queue(const struct link *link, u64 *bytes, u64 *packets)
{
	if (link->kind == KIND_FIFO) {
		*bytes = link->waiting_ip;
		*packets = link->waiting_packets;
	} else if (link->dev) {
		struct Qdisc *queue = rtnl_dereference(netdev_get_tx_queue(link->dev, 0)->qdisc);
		u32 length = 0, backlog = 0;

		qdisc_qstats_qlen_backlog(queue, &length, &backlog);
		*packets = length;
		*bytes = backlog;
	}
}

static void close_tallies(struct link *link, u64 time)
{
	struct tally *tally;

	while ((tally = link->tallies)) {
		if (tally->dropped)
			add_row(time, link->number, ROW_DROP, tally->flow, tally->dropped);
		if (tally->marked)
			add_row(time, link->number, ROW_MARK, tally->flow, tally->marked);
		link->tallies = tally->next;
		kfree(tally);
	}
}

static void close_bin(struct link *link, u64 now)
{
	struct counts *counts = &link->counts;
	u64 bytes = 0, packets = 0, time = now - epoch;

	if (link->kind == KIND_FIFO)
		advance(link, now);
	close_tallies(link, time);
	measure_queue(link, &bytes, &packets);
	if (link->record && (counts->in_packets || counts->out_packets || counts->drop_packets || packets))
		add_row(time, link->number, ROW_LINK, counts->in_packets, counts->in_bytes, counts->out_packets,
			counts->out_bytes, counts->drop_packets, counts->drop_bytes, counts->mark_packets, bytes,
			packets, max(counts->queue_max, bytes),
			counts->delay_count ? div64_u64(counts->delay_sum, counts->delay_count) : NEVER,
			counts->delay_count ? counts->delay_max : NEVER);
	*counts = (struct counts){.queue_max = bytes};
}

static enum hrtimer_restart on_tick(struct hrtimer *timer)
{
	for (u32 i = 0; i < WIRE_MAX_LINKS; i++)
		if (links[i])
			close_bin(links[i], next_tick);
	next_tick += interval;
	set_alarm(timer, next_tick);
	return HRTIMER_NORESTART;
}

/* Rows of the counters from now on, one per `step` of the plan's time; 0: none. */
void begin_rows(u64 step)
{
	for (u32 i = 0; i < WIRE_MAX_LINKS; i++)
		if (links[i])
			links[i]->counts = (struct counts){};
	interval = step;
	if (step) {
		next_tick = epoch + step;
		set_alarm(&tick, next_tick);
	}
}

/* A piece of the recorded rows, to be freed with kfree, and its bytes; NULL if there is none. */
void *take_rows(size_t *bytes)
{
	struct chunk *chunk;

	local_bh_disable();
	chunk = list_first_entry_or_null(&chunks, struct chunk, list);
	if (chunk)
		list_del(&chunk->list);
	local_bh_enable();
	if (!chunk)
		return NULL;
	*bytes = chunk->rows * sizeof(struct wire_row);
	return chunk->row;
}

void init_rows(void)
{
	hrtimer_init(&tick, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	tick.function = on_tick;
}
