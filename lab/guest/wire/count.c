// SPDX-License-Identifier: MIT OR GPL-2.0
/* What is counted of each link, and the rows made of it: tables `links`, `drops` and `marks`. */
#include <linux/slab.h>
#include <net/inet_ecn.h>
#include <net/sch_generic.h>

#include "wire.h"

enum {
	CHUNK_ROWS = 256,
};

/* Table `links`, and the parts `drops` and `marks`: time, link, then what the name says. */
enum row_kind {
	ROW_LINK,
	ROW_DROP,
	ROW_MARK
};

struct wire_row {
	__le64 time;
	__le32 link;
	__le32 kind;
	union {
		struct {
			__le64 in_packets, in_bytes, out_packets, out_bytes, drop_packets, drop_bytes, mark_packets;
			__le64 queue_bytes, queue_packets, queue_max_bytes, queue_delay, queue_delay_max;
		};
		struct {
			__le64 flow, packets;
		};
	};
};

struct chunk {
	struct wire_row row[CHUNK_ROWS]; /* first: what take_rows gives */
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

static struct wire_row *new_row(struct link *link, u64 time, enum row_kind kind)
{
	struct chunk *chunk = list_empty(&chunks) ? NULL : list_last_entry(&chunks, struct chunk, list);
	struct wire_row *row;

	if (!chunk || chunk->rows == CHUNK_ROWS) {
		chunk = kmalloc(sizeof(*chunk), GFP_ATOMIC);
		if (!chunk)
			panic("weir: no memory for the rows of table links");
		chunk->rows = 0;
		list_add_tail(&chunk->list, &chunks);
	}
	row = &chunk->row[chunk->rows++];
	memset(row, 0, sizeof(*row));
	row->time = cpu_to_le64(time);
	row->link = cpu_to_le32(link->number);
	row->kind = cpu_to_le32(kind);
	return row;
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
		for (enum row_kind kind = ROW_DROP; kind <= ROW_MARK; kind++) {
			u64 packets = kind == ROW_DROP ? tally->dropped : tally->marked;
			struct wire_row *row;

			if (!packets)
				continue;
			row = new_row(link, time, kind);
			row->flow = cpu_to_le64(tally->flow);
			row->packets = cpu_to_le64(packets);
		}
		link->tallies = tally->next;
		kfree(tally);
	}
}

static void close_bin(struct link *link, u64 now)
{
	struct counts *counts = &link->counts;
	u64 bytes = 0, packets = 0, time = now - epoch;
	struct wire_row *row;

	if (link->kind == KIND_FIFO)
		advance(link, now);
	close_tallies(link, time);
	measure_queue(link, &bytes, &packets);
	if (link->record && (counts->in_packets || counts->out_packets || counts->drop_packets || packets)) {
		row = new_row(link, time, ROW_LINK);
		row->in_packets = cpu_to_le64(counts->in_packets);
		row->in_bytes = cpu_to_le64(counts->in_bytes);
		row->out_packets = cpu_to_le64(counts->out_packets);
		row->out_bytes = cpu_to_le64(counts->out_bytes);
		row->drop_packets = cpu_to_le64(counts->drop_packets);
		row->drop_bytes = cpu_to_le64(counts->drop_bytes);
		row->mark_packets = cpu_to_le64(counts->mark_packets);
		row->queue_bytes = cpu_to_le64(bytes);
		row->queue_packets = cpu_to_le64(packets);
		row->queue_max_bytes = cpu_to_le64(max(counts->queue_max, bytes));
		row->queue_delay =
			cpu_to_le64(counts->delay_count ? div64_u64(counts->delay_sum, counts->delay_count) : NEVER);
		row->queue_delay_max = cpu_to_le64(counts->delay_count ? counts->delay_max : NEVER);
	}
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

/* Rows of what is counted from now on, one each `step` of the plan's time; 0: none. */
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

/* A piece of what was recorded, to be freed with kfree, and its bytes; NULL if there is none. */
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
