// SPDX-License-Identifier: MIT OR GPL-2.0
/* Links that are network devices: the first one of a host, and those with a queue of the kernel. */
#include <linux/if_arp.h>
#include <net/inet_ecn.h>

#include "wire.h"

enum {
	QUEUE_PACKETS = 1000,
	JITTER_NS = 4, /* a timer may be that late; transmissions still follow each other without a gap */
};

struct port {
	u32 link; /* the device's transmitter */
	u32 node; /* of a host's device */
};

/* The destructor of a packet in the queue of a device: only the queue frees it there. */
static void dropped_by_queue(struct sk_buff *skb)
{
	struct port *port = netdev_priv(skb->dev);

	count_drop(links[port->link], skb);
}

void enter_device(struct link *link, struct sk_buff *skb, u64 now)
{
	union course course = {.mark = skb->mark};
	u64 bytes = 0, packets = 0;

	course.was_marked = INET_ECN_is_ce(ip_hdr(skb)->tos);
	skb->mark = course.mark;
	place_of(skb)->entered = now;
	skb->dev = link->dev;
	skb->destructor = dropped_by_queue;
	dev_queue_xmit(skb);
	measure_queue(link, &bytes, &packets);
	link->counts.queue_max = max(link->counts.queue_max, bytes);
}

static void begin_transmission(struct link *link, u64 start)
{
	if (link->rate) {
		link->free_at = min(link->free_at, start); /* a link without a rate was never free */
		link->free_at = end_of_transmission(link, wire_bytes(link, link->sending), start);
		set_alarm(&link->sent, link->free_at);
	} else {
		link->free_at = NEVER; /* a change will start it */
	}
}

/* The transmitter takes a packet, which may not leave before `ready`; the queue stops until it was sent. */
static void transmit(struct link *link, struct sk_buff *skb, u64 entered, u64 ready)
{
	u64 now = ktime_get_ns();
	u64 start = link->free_at <= now && now - link->free_at <= JITTER_NS ? link->free_at : now;

	start = max(start, ready);
	count_start(link, skb);
	count_wait(link, start > entered ? start - entered : 0, packets_in(skb));
	netif_stop_queue(link->dev);
	link->sending = skb;
	begin_transmission(link, start);
}

/* Transmits the next packet of a segmented train; returns whether there is one. */
static bool transmit_rest(struct link *link)
{
	struct sk_buff *skb = __skb_dequeue(&link->rest);

	if (skb)
		transmit(link, skb, NEVER, 0);
	return skb;
}

void change_next(struct link *link)
{
	if (!list_empty(&link->changes))
		set_alarm(&link->change, epoch + list_first_entry(&link->changes, struct change, list)->at);
}

enum hrtimer_restart on_change(struct hrtimer *timer)
{
	struct link *link = container_of(timer, struct link, change);
	struct change *change = list_first_entry(&link->changes, struct change, list);

	if (change->what == CHANGED_LOSS)
		replace_losses(link, change->loss);
	else
		*(change->what == CHANGED_RATE ? &link->rate : &link->delay) = change->value;
	if (change->what == CHANGED_RATE)
		link->short_by = 0;
	if (link->sending && link->free_at == NEVER)
		begin_transmission(link, epoch + change->at);
	list_del(&change->list);
	kfree(change);
	change_next(link);
	return HRTIMER_NORESTART;
}

enum hrtimer_restart on_sent(struct hrtimer *timer)
{
	struct link *link = container_of(timer, struct link, sent);
	struct sk_buff *skb = link->sending;

	link->sending = NULL;
	skb_orphan(skb); /* for its socket, it has left the host now */
	if (link->delay)
		send_off(link, skb, link->free_at);
	else
		leave(skb, link->free_at);
	if (!transmit_rest(link))
		netif_wake_queue(link->dev);
	return HRTIMER_NORESTART;
}

static netdev_tx_t link_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct port *port = netdev_priv(dev);
	struct link *link = links[port->link];

	if (skb->destructor != dropped_by_queue) { /* the stack's own, misplaced here */
		kfree_skb(skb);
		return NETDEV_TX_OK;
	}
	skb->destructor = NULL;
	count_mark(link, skb);
	transmit(link, skb, place_of(skb)->entered, 0);
	return NETDEV_TX_OK;
}

/* Appends a packet of a segmented train behind the earlier ones. */
static void append_rest(struct link *link, struct sk_buff *skb, u64 now)
{
	__skb_queue_tail(&link->rest, skb);
}

static netdev_tx_t host_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct port *port = netdev_priv(dev);
	struct link *link = known_link(port->link);
	union course course;
	u64 lost, ready;

	if (!link || !pskb_may_pull(skb, sizeof(struct iphdr)) || !find_course(skb, port->node, &course) ||
	    link_of(course) != link) {
		dev->stats.tx_dropped++;
		kfree_skb(skb);
		return NETDEV_TX_OK;
	}
	dev_sw_netstats_tx_add(dev, packets_in(skb), skb->len);
	skb->mark = course.mark;
	if ((delay_interval || tracing) && !skb->tstamp)
		skb->tstamp = ktime_get(); /* it bypassed the stack */
	ready = ready_at(skb, port->node, course);
	if (tracing)
		show_sent(skb, max_t(u64, ktime_to_ns(skb->tstamp), ready));
	arrived(link, skb);
	lost = lost_of(link, skb);
	if (lost) {
		drop_some(link, skb, lost, append_rest, NEVER);
		transmit_rest(link);
	} else {
		transmit(link, skb, NEVER, ready);
	}
	return NETDEV_TX_OK;
}

static const struct net_device_ops link_ops = {.ndo_start_xmit = link_xmit};
static const struct net_device_ops host_ops = {.ndo_start_xmit = host_xmit};

static void set_up_device(struct net_device *dev)
{
	dev->type = ARPHRD_NONE;
	dev->flags = IFF_NOARP | IFF_POINTOPOINT;
	dev->min_mtu = 68;
	dev->max_mtu = 65535;
	dev->needs_free_netdev = true;
	dev->pcpu_stat_type = NETDEV_PCPU_STAT_TSTATS;
	dev->tx_queue_len = QUEUE_PACKETS; /* with 0, the device would get no queue */
	dev->features = dev->hw_features = /* without trains of SCTP, whose packets differ in size */
		NETIF_F_SG | NETIF_F_FRAGLIST | NETIF_F_HIGHDMA | NETIF_F_HW_CSUM | NETIF_F_SCTP_CRC |
		(NETIF_F_GSO_SOFTWARE & ~NETIF_F_GSO_SCTP);
	dev->vlan_features = dev->features;
}

static struct net_device *make_device(const char *name, const struct net_device_ops *ops, u32 link, u32 mtu, u32 queue)
{
	struct net_device *dev = alloc_netdev(sizeof(struct port), name, NET_NAME_USER, set_up_device);
	struct port *port;

	if (!dev)
		return NULL;
	port = netdev_priv(dev);
	port->link = link;
	dev->netdev_ops = ops;
	dev->mtu = mtu;
	dev->tx_queue_len = queue;
	dev_net_set(dev, current->nsproxy->net_ns);
	if (register_netdev(dev)) {
		free_netdev(dev);
		return NULL;
	}
	return dev;
}

/* The device of a link whose queue tc sets, in the writer's namespace; NULL if there can be none. */
struct net_device *make_link_device(const struct link *link)
{
	char name[IFNAMSIZ];

	snprintf(name, sizeof(name), "wl%u", link->number);
	return make_device(name, &link_ops, link->number, link->mtu, QUEUE_PACKETS);
}

/* The device of a host, in the writer's namespace; NULL if there can be none. */
struct net_device *make_host_device(u32 node, u32 link, u32 mtu, u32 queue, enum offload offload)
{
	struct net_device *dev = make_device("weir0", &host_ops, link, mtu, queue);

	if (!dev)
		return NULL;
	((struct port *)netdev_priv(dev))->node = node;
	dev->header_ops = &stamping; /* before the first packet: neighbours depend on it */
	rtnl_lock();
	netif_set_tso_max_segs(dev, offload == OFFLOAD_NONE ? 1 : WIRE_MAX_TRAIN);
	if (offload != OFFLOAD_TRAINS) {
		dev->wanted_features &= ~NETIF_F_GSO_SOFTWARE;
		netdev_update_features(dev);
	}
	rtnl_unlock();
	return dev;
}
