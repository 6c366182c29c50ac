// SPDX-License-Identifier: MIT OR GPL-2.0
/* A packet enters a link, spends its delay on it, and leaves it. */
#include <net/gso.h>

#include "wire.h"

void arrived(struct link *link, const struct sk_buff *skb)
{
	link->counts.in_packets += packets_in(skb);
	link->counts.in_bytes += bytes_in(skb);
}

/* The packets of a train, each alone; NULL, with the train unchanged, if memory is short. */
static struct sk_buff *take_apart(struct sk_buff *skb)
{
	netdev_features_t features = NETIF_F_SG | NETIF_F_HIGHDMA | NETIF_F_HW_CSUM;
	struct sk_buff *packets = skb_is_gso(skb) ? skb_gso_segment(skb, features) : NULL;

	if (IS_ERR_OR_NULL(packets))
		return NULL;
	consume_skb(skb);
	return packets;
}

/* Drops those packets of a train, or the single packet, that are `lost`, and passes each of the others to `keep`. */
void drop_some(struct link *link, struct sk_buff *train, u64 lost, keep_function keep, u64 now)
{
	struct sk_buff *packets = take_apart(train), *packet, *next;

	if (!packets) {
		drop(link, train);
		return;
	}
	skb_list_walk_safe(packets, packet, next)
	{
		skb_mark_not_on_list(packet);
		if (lost & 1)
			drop(link, packet);
		else
			keep(link, packet, now);
		lost >>= 1;
	}
}

/* The packet has passed the losses. */
static void admit(struct link *link, struct sk_buff *skb, u64 now)
{
	if (link->kind == KIND_FIFO)
		enter_fifo(link, skb, now);
	else
		enter_device(link, skb, now);
}

/* A packet comes to the link of its course. */
static void enter(struct sk_buff *skb, u64 now)
{
	struct link *link = link_of((union course){.mark = skb->mark});
	u64 lost;

	arrived(link, skb);
	if ((skb_is_gso(skb) ? skb_shinfo(skb)->gso_size : skb->len) > link->mtu) {
		drop(link, skb);
		return;
	}
	lost = lost_of(link, skb);
	if (lost)
		drop_some(link, skb, lost, admit, now);
	else
		admit(link, skb, now);
}

/* Puts a packet into the delay line; a packet never overtakes another. */
void send_off(struct link *link, struct sk_buff *skb, u64 sent)
{
	struct sk_buff *last = skb_peek_tail(&link->line);
	u64 due = sent + link->delay;

	place_of(skb)->due = last ? max(due, place_of(last)->due) : due;
	__skb_queue_tail(&link->line, skb);
	if (!last)
		set_alarm(&link->arrival, due);
}

static void deliver(struct sk_buff *skb, u32 node)
{
	struct net_device *dev = hosts[node].dev;

	if (!dev) {
		kfree_skb(skb);
		return;
	}
	skb_scrub_packet(skb, true);
	skb->dev = dev;
	skb->pkt_type = PACKET_HOST;
	skb->protocol = htons(ETH_P_IP);
	skb_reset_mac_header(skb);
	skb_reset_mac_len(skb);
	dev_sw_netstats_rx_add(dev, skb->len);
	netif_receive_skb(skb);
}

/* A packet leaves a link: on to the next, or to its host. */
void leave(struct sk_buff *skb, u64 now)
{
	union course course = {.mark = skb->mark};
	struct flow *flow = &flows[course.flow];

	if (++course.hop < flow->hops[course.direction]) {
		skb->mark = course.mark;
		enter(skb, now);
	} else {
		if (delay_interval && course.data)
			count_delay(course.flow, ktime_to_ns(skb->tstamp), now, packets_in(skb));
		if (course.shown)
			show_received(skb, now);
		deliver(skb, course.direction ? flow->from : flow->to);
	}
}

/* The next packet in a delay line was not touched for long: prefetches it for its departure. */
static __always_inline void prefetch_next(const struct link *link)
{
	const struct sk_buff *skb = skb_peek(&link->line);

	if (!skb)
		return;
	prefetch(skb_shinfo(skb));
	prefetch(skb->data);
	for (size_t at = 0; at < sizeof(*skb); at += L1_CACHE_BYTES)
		prefetch((const char *)skb->next + at); /* and the parts of the one after, for its turn */
}

enum hrtimer_restart on_arrival(struct hrtimer *timer)
{
	struct link *link = container_of(timer, struct link, arrival);
	u64 now = ktime_get_ns();
	struct sk_buff *skb;

	while ((skb = skb_peek(&link->line)) && place_of(skb)->due <= now) {
		__skb_unlink(skb, &link->line);
		prefetch_next(link);
		leave(skb, place_of(skb)->due);
	}
	if (skb)
		set_alarm(timer, place_of(skb)->due);
	return HRTIMER_NORESTART;
}
