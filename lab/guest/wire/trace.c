// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Single packets of traced flows: a row when the host's device takes a packet, and one when it reaches its host or is
 * dropped. crates/weir-trace (rows.rs) interprets the rows: here, a packet is its headers.
 */
#include "wire.h"

struct packet_row {
	u16 direction, size; /* payload of each packet of a train; 0 for a packet alone */
	u32 payload;
	u64 link;
	u8 headers[(ROW_VALUES - 2) * sizeof(u64)];
};

bool tracing;
static u64 from, until, left; /* of the plan's time; packets that may still be sent */

void begin_trace(u64 first, u64 end, u64 packets)
{
	tracing = true;
	from = first;
	until = end;
	left = packets;
}

static void show(const struct sk_buff *skb, enum row_kind kind, u64 time, u32 link)
{
	union course course = {.mark = skb->mark};
	const struct iphdr *ip = ip_hdr(skb);
	u32 header = ip_hdrlen(skb);
	struct packet_row row = {.direction = course.direction, .link = link};

	BUILD_BUG_ON(sizeof(row) != ROW_VALUES * sizeof(u64));
	if (time - epoch >= until)
		return;
	if (ip->protocol == IPPROTO_TCP)
		header += ((const struct tcphdr *)((const u8 *)ip + header))->doff * 4;
	else
		header += sizeof(struct udphdr);
	if (header > sizeof(row.headers) || skb_copy_bits(skb, skb_network_offset(skb), row.headers, header))
		return;
	row.payload = skb->len - header;
	row.size = skb_is_gso(skb) ? skb_shinfo(skb)->gso_size : 0;
	write_row(time - epoch, course.flow, kind, (const u64 *)&row, ROW_VALUES);
}

/* The device of a host takes a packet that was handed to its queue at `time`. */
void show_sent(struct sk_buff *skb, u64 time)
{
	union course course = {.mark = skb->mark};

	if (course.foreign || !flows[course.flow].traced || !left || epoch == NEVER || time < epoch)
		return;
	if (time - epoch >= from)
		left -= min_t(u64, left, packets_in(skb));
	course.shown = 1;
	skb->mark = course.mark;
	show(skb, ROW_SENT, time, 0);
}

/* A packet with a row of show_sent reaches its host. */
void show_received(const struct sk_buff *skb, u64 now)
{
	show(skb, ROW_RECEIVED, now, 0);
}

/* A packet with a row of show_sent is dropped. */
void show_dropped(const struct sk_buff *skb, u32 link)
{
	unsigned long flags;
	u64 now;

	local_irq_save(flags); /* reading the clock costs a program time; this is no program */
	now = ktime_get_ns();
	local_irq_restore(flags);
	show(skb, ROW_DROPPED, now, link);
}
