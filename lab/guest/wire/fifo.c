// SPDX-License-Identifier: MIT OR GPL-2.0
/* Drop-tail links at a rate that never changes: a packet's departure is known when it arrives. */
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "wire.h"

enum {
	CHUNK_PACKETS = 168, /* a page */
	ROOM = 8,            /* packets that fit into a queue that never forms */
};

/* A packet in the queue of a fifo: the work left for the start of its transmission. */
struct waiting {
	u64 start;
	u32 wire, bytes, packets;
};

struct waiting_chunk {
	struct waiting_chunk *next;
	u32 head, tail;
	struct waiting entry[CHUNK_PACKETS];
};

/* Puts a packet at the end of a fifo's queue. */
static void wait_in(struct link *link, struct waiting waiting)
{
	struct waiting_chunk *chunk = link->queue_end;

	if (!chunk || chunk->tail == CHUNK_PACKETS) {
		chunk = kmalloc(sizeof(*chunk), GFP_ATOMIC);
		if (!chunk)
			panic("weir: no memory for a queue");
		chunk->next = NULL;
		chunk->head = chunk->tail = 0;
		*(link->queue_end ? &link->queue_end->next : &link->queue) = chunk;
		link->queue_end = chunk;
	}
	chunk->entry[chunk->tail++] = waiting;
	link->waiting_bytes += waiting.wire;
	link->waiting_ip += waiting.bytes;
	link->waiting_packets += waiting.packets;
}

/* Moves the packets of a fifo whose transmission began until `now` from the queue to the wire. */
void advance(struct link *link, u64 now)
{
	struct waiting_chunk *chunk;

	while ((chunk = link->queue)) {
		for (; chunk->head < chunk->tail && chunk->entry[chunk->head].start <= now; chunk->head++) {
			struct waiting *waiting = &chunk->entry[chunk->head];

			link->counts.out_packets += waiting->packets;
			link->counts.out_bytes += waiting->bytes;
			link->waiting_bytes -= waiting->wire;
			link->waiting_ip -= waiting->bytes;
			link->waiting_packets -= waiting->packets;
		}
		if (chunk->head < chunk->tail)
			return;
		link->queue = chunk->next;
		if (!link->queue)
			link->queue_end = NULL;
		kfree(chunk);
	}
}

/* Transmits a packet that comes to a fifo at `now`; returns its time of departure. */
static u64 pass_fifo(struct link *link, u32 wire, u64 now)
{
	return link->free_at = end_of_transmission(link, wire, now);
}

/* The fifo that a packet enters next, if it may enter it ahead of time. */
static struct link *merged_after(union course course)
{
	struct link *next;

	if (++course.hop == flows[course.flow].hops[course.direction])
		return NULL;
	next = link_of(course);
	return next->merged ? next : NULL;
}

void enter_fifo(struct link *link, struct sk_buff *skb, u64 now)
{
	union course course = {.mark = skb->mark};
	u32 wire = wire_bytes(link, skb), packets = packets_in(skb);
	u64 start = max(now, link->free_at), sent;
	struct link *next;

	advance(link, now);
	if (start > now &&
	    (link->waiting_bytes + wire > link->limit_bytes || link->waiting_packets + packets > link->limit_packets)) {
		drop(link, skb);
		return;
	}
	sent = pass_fifo(link, wire, now);
	count_wait(link, start - now, packets);
	if (start > now)
		wait_in(link, (struct waiting){start, wire, bytes_in(skb), packets});
	else
		count_start(link, skb);
	link->counts.queue_max = max(link->counts.queue_max, link->waiting_ip);
	for (; (next = merged_after(course)); link = next) {
		course.hop++;
		sent = pass_fifo(next, wire_bytes(next, skb), sent + link->delay);
	}
	skb->mark = course.mark;
	send_off(link, skb, sent);
}

/* Whether a packet that leaves `before` can never be lost, or queue behind others, on `link`. */
static bool may_merge(const struct link *before, const struct link *link)
{
	u32 largest = link->mtu + link->overhead;

	return before->kind == KIND_FIFO && link->kind == KIND_FIFO && !link->record && !link->loss && !link->listed &&
	       list_empty(&link->changes) && link->rate >= before->rate && link->mtu >= before->mtu &&
	       link->limit_packets >= ROOM && link->limit_bytes >= ROOM * largest;
}

/* Finds the links that can be merged with the only one that feeds them. */
void merge_links(void)
{
	struct link **feeder = vzalloc(array_size(WIRE_MAX_LINKS, sizeof(*feeder)));
	static struct link many;

	if (!feeder)
		return;
	for (u32 i = 0; i < flow_count; i++)
		for (u32 direction = 0; direction < 2; direction++)
			for (u32 hop = 0; hop < flows[i].hops[direction]; hop++) {
				u32 here = flows[i].path[direction][hop];
				struct link *before = hop ? links[flows[i].path[direction][hop - 1]] : &many;

				feeder[here] = !feeder[here] || feeder[here] == before ? before : &many;
			}
	for (u32 i = 0; i < WIRE_MAX_LINKS; i++)
		if (links[i] && feeder[i] && feeder[i] != &many)
			links[i]->merged = may_merge(feeder[i], links[i]);
	vfree(feeder);
}
