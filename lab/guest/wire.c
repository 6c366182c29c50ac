// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * The network between the hosts of a plan, inside the lab's kernel: the links of crates/weir-plan, exact in virtual
 * time.
 *
 * A packet that enters a link passes its losses, its queue, its transmitter and its delay line, in this order and with
 * separate limits. Three kinds of links:
 *
 *   fifo   drop-tail at a rate that never changes: the start of a packet's transmission is known when it arrives, so
 * that a packet costs one timer, the one that ends its delay qdisc  a network device wl<N>: its queue is whatever tc
 * put there, its transmitter stops and wakes it nic    the first link of a host, by way of the host's own device weir0:
 * the stack feels its queue
 *
 * No router has a namespace and nothing is routed: the port of a flow's receiver is first_port + flow, as everywhere in
 * weir, and each flow has its path. Packets of no flow (echo requests, foreign programs) take the path of any flow
 * between their two hosts.
 *
 * One command a write to /dev/weir:
 *
 *   flows COUNT FIRST_PORT
 *   link N KIND RATE_BPS OVERHEAD_BYTES MTU_BYTES DELAY_NS LIMIT_BYTES LIMIT_PACKETS RECORD    KIND 0 fifo, 1 qdisc, 2
 * nic host NODE ADDRESS LINK MTU_BYTES QUEUE_PACKETS OFFLOAD    in the writer's namespace; OFFLOAD 0 every segment
 * alone, 1 trains of segments everywhere, 2 only as far as the device flow N FROM TO nodes path FLOW DIRECTION LINK...
 * 0 data, 1 acknowledgements loss LINK SEED P R GOOD BAD                               two states; probabilities in
 * 1/2^32 lose LINK PACKET                                          loses this data packet, counted from 1; ascending
 *   change AT_NS LINK rate|delay VALUE                        ascending
 *   start EPOCH_NS INTERVAL_NS                                forget what was counted; rows from then on
 *
 * Reading /dev/weir gives the rows recorded so far: struct wire_row, little endian.
 *
 * Everything happens in softirq context on the one processor of the guest, so that nothing here needs a lock; the
 * commands and the reader keep softirqs out.
 */
#include <linux/hrtimer.h>
#include <linux/if_arp.h>
#include <linux/inetdevice.h>
#include <linux/ip.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <net/inet_ecn.h>
#include <net/ip.h>
#include <net/sch_generic.h>

#define NEVER (~0ULL)
#define WIRE_NONE (~0U)

enum {
	WIRE_MAX_LINKS = 8192,
	WIRE_MAX_NODES = 8192,
	WIRE_MAX_HOPS = 64,
	WIRE_MAX_COMMAND = 4096,
	WIRE_CHUNK_ROWS = 256,
	WIRE_CHUNK_WAITING = 168, /* a page */
	WIRE_QUEUE_PACKETS = 1000,
	WIRE_ROOM = 8,      /* packets that a queue has room for which never forms */
	WIRE_JITTER_NS = 4, /* a timer may be that late; transmissions still follow each other without a gap */
};

enum offload {
	OFFLOAD_NONE,
	OFFLOAD_TRAINS,
	OFFLOAD_DEVICE
};

enum kind {
	KIND_FIFO,
	KIND_QDISC,
	KIND_NIC
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
	struct list_head list;
	u32 rows;
	struct wire_row row[WIRE_CHUNK_ROWS];
};

/* Packets of one flow that were dropped or marked on one link in the interval. */
struct tally {
	struct tally *next;
	u32 flow;
	u64 dropped, marked;
};

struct counts {
	u64 in_packets, in_bytes, out_packets, out_bytes, drop_packets, drop_bytes, mark_packets;
	u64 queue_max, delay_sum, delay_count, delay_max;
};

/* A packet in the queue of a fifo: what remains to be done when its transmission begins. */
struct waiting {
	u64 start;
	u32 wire, bytes, packets;
};

struct waiting_chunk {
	struct waiting_chunk *next;
	u32 head, tail;
	struct waiting entry[WIRE_CHUNK_WAITING];
};

struct change {
	struct list_head list;
	u64 at;
	bool is_rate;
	u64 value;
};

struct link {
	u32 number;
	enum kind kind;
	u64 rate, delay, limit_bytes, limit_packets;
	u32 overhead, mtu;
	bool record;

	u64 free_at;                             /* when the transmitter has sent what it was given */
	struct sk_buff *sending;                 /* of a device: the packet in transmission */
	struct hrtimer sent;                     /* its end */
	struct sk_buff_head line;                /* the delay line */
	struct hrtimer arrival;                  /* of the line's head */
	struct waiting_chunk *queue, *queue_end; /* of a fifo: whose transmission has not begun */
	bool merged; /* a fifo that one other alone feeds, no faster: what enters that one is known to enter this one */
	u64 waiting_bytes, waiting_packets;
	u64 waiting_ip;
	struct net_device *dev;

	bool lossy, bad;
	u64 random;
	u32 p, r, loss_good, loss_bad;
	u64 data_packets;
	u64 *lose;
	u32 lose_count, lose_next;
	struct list_head changes;
	struct hrtimer change; /* of the first of them */

	struct counts counts;
	struct tally *tallies;
};

struct flow {
	u32 from, to;
	u8 hops[2];
	u16 path[2][WIRE_MAX_HOPS];
};

struct host {
	struct net_device *dev;
	__be32 address;
	u32 link;
};

/* Where a packet is, while it is in the hands of this module. */
struct place {
	u64 due;
};

/* In skb->mark, which queues leave alone: where it goes. */
union course {
	u32 mark;
	struct {
		u32 hop : 7, direction : 1, foreign : 1, data : 1, was_marked : 1, flow : 21;
	};
};

struct port {
	u32 link; /* what the device transmits on */
	u32 node; /* of a host's device */
};

static struct link *links[WIRE_MAX_LINKS];
static struct host hosts[WIRE_MAX_NODES];
static struct flow *flows;
static u32 flow_count, first_port;
static u64 epoch = NEVER, interval;
static struct hrtimer tick;
static u64 next_tick;
static LIST_HEAD(chunks);
static DEFINE_MUTEX(commands);

static void enter(struct sk_buff *skb, u64 now);

static struct place *place_of(struct sk_buff *skb)
{
	return (struct place *)skb->cb;
}

static void set_alarm(struct hrtimer *timer, u64 at)
{
	hrtimer_start(timer, ns_to_ktime(at), HRTIMER_MODE_ABS_SOFT);
}

/* Packets -------------------------------------------------------------------------------------------------------- */

static u32 packets_in(const struct sk_buff *skb)
{
	return skb_is_gso(skb) ? max_t(u32, skb_shinfo(skb)->gso_segs, 1) : 1;
}

/* IP bytes of a packet, or of all packets of a train together. */
static u32 bytes_in(const struct sk_buff *skb)
{
	u32 header = ip_hdrlen(skb);

	if (!skb_is_gso(skb))
		return skb->len;
	if (skb_shinfo(skb)->gso_type & (SKB_GSO_TCPV4 | SKB_GSO_TCPV6))
		header += tcp_hdrlen(skb);
	else
		header += sizeof(struct udphdr);
	return skb->len + (packets_in(skb) - 1) * header;
}

static u32 wire_bytes(const struct link *link, const struct sk_buff *skb)
{
	return bytes_in(skb) + packets_in(skb) * link->overhead;
}

static u64 transmission(const struct link *link, u32 wire)
{
	return div64_u64((u64)wire * 8 * NSEC_PER_SEC + link->rate / 2, link->rate);
}

/* The flow between two nodes, in either direction, that is found first. */
static bool any_course(u32 from, __be32 to, union course *course)
{
	for (u32 i = 0; i < flow_count; i++) {
		struct flow *flow = &flows[i];

		for (u32 direction = 0; direction < 2; direction++) {
			u32 here = direction ? flow->to : flow->from, there = direction ? flow->from : flow->to;

			if (here != from || hosts[there].address != to || !flow->hops[direction])
				continue;
			*course = (union course){.flow = i, .direction = direction, .foreign = 1};
			return true;
		}
	}
	return false;
}

static bool flow_course(u32 node, const struct iphdr *ip, u32 source, u32 target, u32 payload, union course *course)
{
	u32 forward = target - first_port, backward = source - first_port;

	if (forward < flow_count && flows[forward].from == node && hosts[flows[forward].to].address == ip->daddr)
		*course = (union course){.flow = forward, .data = payload > 0};
	else if (backward < flow_count && flows[backward].to == node &&
		 hosts[flows[backward].from].address == ip->daddr)
		*course = (union course){.flow = backward, .direction = 1};
	else
		return false;
	return flows[course->flow].hops[course->direction] > 0;
}

/* Finds the way of a packet that leaves a host; only IPv4 has one. */
static bool find_course(struct sk_buff *skb, u32 node, union course *course)
{
	const struct iphdr *ip = ip_hdr(skb);
	u32 header = ip_hdrlen(skb);

	if (skb->protocol != htons(ETH_P_IP))
		return false;
	if (!ip_is_fragment(ip) && ip->protocol == IPPROTO_TCP) {
		const struct tcphdr *tcp = (const void *)((const u8 *)ip + header);

		if (flow_course(node, ip, ntohs(tcp->source), ntohs(tcp->dest), skb->len - header - tcp->doff * 4,
				course))
			return true;
	} else if (!ip_is_fragment(ip) && ip->protocol == IPPROTO_UDP) {
		const struct udphdr *udp = (const void *)((const u8 *)ip + header);

		if (flow_course(node, ip, ntohs(udp->source), ntohs(udp->dest), skb->len - header - sizeof(*udp),
				course))
			return true;
	}
	return any_course(node, ip->daddr, course);
}

static struct link *known_link(u32 number)
{
	return number < WIRE_MAX_LINKS ? links[number] : NULL;
}

static struct link *link_of(union course course)
{
	return links[flows[course.flow].path[course.direction][course.hop]];
}

/* Counting ------------------------------------------------------------------------------------------------------- */

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

static void count_drop(struct link *link, struct sk_buff *skb)
{
	union course course = {.mark = skb->mark};
	struct tally *tally;

	link->counts.drop_packets += packets_in(skb);
	link->counts.drop_bytes += bytes_in(skb);
	if (course.data && (tally = tally_of(link, course.flow)))
		tally->dropped += packets_in(skb);
}

static void count_mark(struct link *link, struct sk_buff *skb)
{
	union course course = {.mark = skb->mark};
	struct tally *tally;

	if (course.was_marked || !INET_ECN_is_ce(ip_hdr(skb)->tos))
		return;
	link->counts.mark_packets += packets_in(skb);
	if (course.data && (tally = tally_of(link, course.flow)))
		tally->marked += packets_in(skb);
}

static void count_start(struct link *link, const struct sk_buff *skb)
{
	link->counts.out_packets += packets_in(skb);
	link->counts.out_bytes += bytes_in(skb);
}

static void count_wait(struct link *link, u64 wait, u32 packets)
{
	link->counts.delay_sum += wait * packets;
	link->counts.delay_count += packets;
	link->counts.delay_max = max(link->counts.delay_max, wait);
}

static void drop(struct link *link, struct sk_buff *skb)
{
	count_drop(link, skb);
	kfree_skb(skb);
}

/* The destructor of a packet that is in the queue of a device: nobody but the queue frees it there. */
static void dropped_by_queue(struct sk_buff *skb)
{
	struct port *port = netdev_priv(skb->dev);

	count_drop(links[port->link], skb);
}

/* Rows ----------------------------------------------------------------------------------------------------------- */

static struct wire_row *new_row(struct link *link, u64 time, enum row_kind kind)
{
	struct chunk *chunk = list_empty(&chunks) ? NULL : list_last_entry(&chunks, struct chunk, list);
	struct wire_row *row;

	if (!chunk || chunk->rows == WIRE_CHUNK_ROWS) {
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

/* Puts a packet at the end of a fifo's queue. */
static void wait_in(struct link *link, struct waiting waiting)
{
	struct waiting_chunk *chunk = link->queue_end;

	if (!chunk || chunk->tail == WIRE_CHUNK_WAITING) {
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
static void advance(struct link *link, u64 now)
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

static void measure_queue(struct link *link, u64 *bytes, u64 *packets)
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

/* Losses --------------------------------------------------------------------------------------------------------- */

static u32 draw(struct link *link)
{
	u64 z = link->random += 0x9e3779b97f4a7c15ULL; /* SplitMix64 */

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return (z ^ (z >> 31)) >> 32;
}

/* Whether a packet is lost before the queue; a train is lost as a whole. */
static bool is_lost(struct link *link, const struct sk_buff *skb)
{
	union course course = {.mark = skb->mark};
	bool listed = false;

	if (course.data)
		for (u32 i = packets_in(skb); i; i--) {
			link->data_packets++;
			if (link->lose_next < link->lose_count && link->lose[link->lose_next] == link->data_packets) {
				link->lose_next++;
				listed = true;
			}
		}
	if (!link->lossy)
		return listed;
	if (draw(link) < (link->bad ? link->r : link->p))
		link->bad = !link->bad;
	return draw(link) < (link->bad ? link->loss_bad : link->loss_good) || listed;
}

/* Links ---------------------------------------------------------------------------------------------------------- */

/* Into the delay line; a packet never overtakes another. */
static void send_off(struct link *link, struct sk_buff *skb, u64 sent)
{
	struct sk_buff *last = skb_peek_tail(&link->line);
	u64 due = sent + link->delay;

	place_of(skb)->due = last ? max(due, place_of(last)->due) : due;
	__skb_queue_tail(&link->line, skb);
	if (!last)
		set_alarm(&link->arrival, due);
}

/* Transmits a packet that comes to a fifo at `now`; when it has left. */
static u64 pass_fifo(struct link *link, u32 wire, u64 now)
{
	return link->free_at = max(now, link->free_at) + transmission(link, wire);
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

static void enter_fifo(struct link *link, struct sk_buff *skb, u64 now)
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

static void enter_device(struct link *link, struct sk_buff *skb, u64 now)
{
	union course course = {.mark = skb->mark};
	u64 bytes = 0, packets = 0;

	course.was_marked = INET_ECN_is_ce(ip_hdr(skb)->tos);
	skb->mark = course.mark;
	skb->tstamp = ns_to_ktime(now);
	skb->dev = link->dev;
	skb->destructor = dropped_by_queue;
	dev_queue_xmit(skb);
	measure_queue(link, &bytes, &packets);
	link->counts.queue_max = max(link->counts.queue_max, bytes);
}

/* A packet comes to the link that its course names. */
static void enter(struct sk_buff *skb, u64 now)
{
	struct link *link = link_of((union course){.mark = skb->mark});

	link->counts.in_packets += packets_in(skb);
	link->counts.in_bytes += bytes_in(skb);
	if (is_lost(link, skb) || (skb_is_gso(skb) ? skb_shinfo(skb)->gso_size : skb->len) > link->mtu)
		drop(link, skb);
	else if (link->kind == KIND_FIFO)
		enter_fifo(link, skb, now);
	else
		enter_device(link, skb, now);
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
static void leave(struct sk_buff *skb, u64 now)
{
	union course course = {.mark = skb->mark};
	struct flow *flow = &flows[course.flow];

	if (++course.hop < flow->hops[course.direction]) {
		skb->mark = course.mark;
		enter(skb, now);
	} else {
		deliver(skb, course.direction ? flow->from : flow->to);
	}
}

static enum hrtimer_restart on_arrival(struct hrtimer *timer)
{
	struct link *link = container_of(timer, struct link, arrival);
	u64 now = ktime_get_ns();
	struct sk_buff *skb;

	while ((skb = skb_peek(&link->line)) && place_of(skb)->due <= now) {
		__skb_unlink(skb, &link->line);
		leave(skb, place_of(skb)->due);
	}
	if (skb)
		set_alarm(timer, place_of(skb)->due);
	return HRTIMER_NORESTART;
}

/* Devices -------------------------------------------------------------------------------------------------------- */

static void begin_transmission(struct link *link, u64 start)
{
	if (link->rate) {
		link->free_at = start + transmission(link, wire_bytes(link, link->sending));
		set_alarm(&link->sent, link->free_at);
	} else {
		link->free_at = NEVER; /* a change will begin it */
	}
}

/* The transmitter takes a packet; the queue waits until it was sent. */
static void transmit(struct link *link, struct sk_buff *skb, u64 entered)
{
	u64 now = ktime_get_ns();
	u64 start = link->free_at <= now && now - link->free_at <= WIRE_JITTER_NS ? link->free_at : now;

	count_start(link, skb);
	count_wait(link, start > entered ? start - entered : 0, packets_in(skb));
	netif_stop_queue(link->dev);
	link->sending = skb;
	begin_transmission(link, start);
}

static void change_next(struct link *link)
{
	if (!list_empty(&link->changes))
		set_alarm(&link->change, epoch + list_first_entry(&link->changes, struct change, list)->at);
}

static enum hrtimer_restart on_change(struct hrtimer *timer)
{
	struct link *link = container_of(timer, struct link, change);
	struct change *change = list_first_entry(&link->changes, struct change, list);

	*(change->is_rate ? &link->rate : &link->delay) = change->value;
	if (link->sending && link->free_at == NEVER)
		begin_transmission(link, epoch + change->at);
	list_del(&change->list);
	kfree(change);
	change_next(link);
	return HRTIMER_NORESTART;
}

static enum hrtimer_restart on_sent(struct hrtimer *timer)
{
	struct link *link = container_of(timer, struct link, sent);
	struct sk_buff *skb = link->sending;

	link->sending = NULL;
	skb_orphan(skb); /* to its socket, it has left the host now */
	if (link->delay)
		send_off(link, skb, link->free_at);
	else
		leave(skb, link->free_at);
	netif_wake_queue(link->dev);
	return HRTIMER_NORESTART;
}

static netdev_tx_t link_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct port *port = netdev_priv(dev);
	struct link *link = links[port->link];

	if (skb->destructor != dropped_by_queue) { /* the stack's own: it has no business here */
		kfree_skb(skb);
		return NETDEV_TX_OK;
	}
	skb->destructor = NULL;
	count_mark(link, skb);
	transmit(link, skb, ktime_to_ns(skb->tstamp));
	return NETDEV_TX_OK;
}

static netdev_tx_t host_xmit(struct sk_buff *skb, struct net_device *dev)
{
	struct port *port = netdev_priv(dev);
	struct link *link = known_link(port->link);
	union course course;

	if (!link || !pskb_may_pull(skb, sizeof(struct iphdr)) || !find_course(skb, port->node, &course) ||
	    link_of(course) != link) {
		dev->stats.tx_dropped++;
		kfree_skb(skb);
		return NETDEV_TX_OK;
	}
	dev_sw_netstats_tx_add(dev, packets_in(skb), skb->len);
	skb->mark = course.mark;
	link->counts.in_packets += packets_in(skb);
	link->counts.in_bytes += bytes_in(skb);
	if (is_lost(link, skb))
		drop(link, skb);
	else
		transmit(link, skb, NEVER);
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
	dev->tx_queue_len = WIRE_QUEUE_PACKETS; /* with none here, the device would get no queue */
	dev->features = dev->hw_features =
		NETIF_F_SG | NETIF_F_FRAGLIST | NETIF_F_HIGHDMA | NETIF_F_HW_CSUM | NETIF_F_GSO_SOFTWARE;
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

/* Commands ------------------------------------------------------------------------------------------------------- */

static int add_link(const char *text)
{
	struct link *link = kzalloc(sizeof(*link), GFP_KERNEL);
	u32 kind, record;
	char name[IFNAMSIZ];

	if (!link)
		return -ENOMEM;
	if (sscanf(text, "%u %u %llu %u %u %llu %llu %llu %u", &link->number, &kind, &link->rate, &link->overhead,
		   &link->mtu, &link->delay, &link->limit_bytes, &link->limit_packets, &record) != 9 ||
	    link->number >= WIRE_MAX_LINKS || links[link->number] || kind > KIND_NIC || !link->rate) {
		kfree(link);
		return -EINVAL;
	}
	link->kind = kind;
	link->record = record;
	__skb_queue_head_init(&link->line);
	INIT_LIST_HEAD(&link->changes);
	hrtimer_init(&link->arrival, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	link->arrival.function = on_arrival;
	hrtimer_init(&link->sent, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	link->sent.function = on_sent;
	hrtimer_init(&link->change, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	link->change.function = on_change;
	links[link->number] = link;
	if (kind == KIND_QDISC) {
		snprintf(name, sizeof(name), "wl%u", link->number);
		link->dev = make_device(name, &link_ops, link->number, link->mtu, WIRE_QUEUE_PACKETS);
		if (!link->dev)
			return -ENOMEM;
	}
	return 0;
}

static int add_host(const char *text)
{
	u32 node, address, number, mtu, queue, offload;
	struct link *link;
	struct net_device *dev;

	if (sscanf(text, "%u %x %u %u %u %u", &node, &address, &number, &mtu, &queue, &offload) != 6 ||
	    node >= WIRE_MAX_NODES)
		return -EINVAL;
	link = known_link(number);
	if (number != WIRE_NONE && (!link || link->kind != KIND_NIC || link->dev))
		return -EINVAL;
	dev = make_device("weir0", &host_ops, number, mtu, queue);
	if (!dev)
		return -ENOMEM;
	rtnl_lock();
	if (offload == OFFLOAD_NONE)
		netif_set_tso_max_segs(dev, 1);
	if (offload != OFFLOAD_TRAINS) {
		dev->wanted_features &= ~NETIF_F_GSO_SOFTWARE;
		netdev_update_features(dev);
	}
	rtnl_unlock();
	((struct port *)netdev_priv(dev))->node = node;
	if (link)
		link->dev = dev;
	hosts[node] = (struct host){.dev = dev, .address = htonl(address), .link = number};
	return 0;
}

static int set_flows(const char *text)
{
	u32 count, port;

	if (flows || sscanf(text, "%u %u", &count, &port) != 2 || !count || count > 1 << 20)
		return -EINVAL;
	flows = vzalloc(array_size(count, sizeof(*flows)));
	if (!flows)
		return -ENOMEM;
	flow_count = count;
	first_port = port;
	return 0;
}

static int set_flow(const char *text)
{
	u32 number, from, to;

	if (sscanf(text, "%u %u %u", &number, &from, &to) != 3 || number >= flow_count || from >= WIRE_MAX_NODES ||
	    to >= WIRE_MAX_NODES)
		return -EINVAL;
	flows[number].from = from;
	flows[number].to = to;
	return 0;
}

static int set_path(const char *text)
{
	u32 number, direction, link;
	int used = 0;
	struct flow *flow;

	if (sscanf(text, "%u %u%n", &number, &direction, &used) != 2 || number >= flow_count || direction > 1)
		return -EINVAL;
	flow = &flows[number];
	flow->hops[direction] = 0;
	for (text += used; sscanf(text, " %u%n", &link, &used) == 1; text += used) {
		if (flow->hops[direction] == WIRE_MAX_HOPS || !known_link(link))
			return -EINVAL;
		flow->path[direction][flow->hops[direction]++] = link;
	}
	return 0;
}

static int set_loss(const char *text)
{
	u32 number, p, r, good, bad;
	u64 seed;
	struct link *link;

	if (sscanf(text, "%u %llu %u %u %u %u", &number, &seed, &p, &r, &good, &bad) != 6 ||
	    !(link = known_link(number)))
		return -EINVAL;
	link->lossy = true;
	link->random = seed;
	link->p = p;
	link->r = r;
	link->loss_good = good;
	link->loss_bad = bad;
	return 0;
}

static int add_lost(const char *text)
{
	u32 number;
	u64 packet, *grown;
	struct link *link;

	if (sscanf(text, "%u %llu", &number, &packet) != 2 || !(link = known_link(number)))
		return -EINVAL;
	grown = kvmalloc_array(link->lose_count + 1, sizeof(u64), GFP_KERNEL);
	if (!grown)
		return -ENOMEM;
	memcpy(grown, link->lose, link->lose_count * sizeof(u64));
	grown[link->lose_count++] = packet;
	kvfree(link->lose);
	link->lose = grown;
	return 0;
}

static int add_change(const char *text)
{
	struct change *change = kzalloc(sizeof(*change), GFP_KERNEL);
	char what[8];
	u32 number;
	struct link *link;

	if (!change)
		return -ENOMEM;
	if (sscanf(text, "%llu %u %7s %llu", &change->at, &number, what, &change->value) != 4 ||
	    !(link = known_link(number)) || link->kind == KIND_FIFO) {
		kfree(change);
		return -EINVAL;
	}
	change->is_rate = !strcmp(what, "rate");
	list_add_tail(&change->list, &link->changes);
	return 0;
}

/* Whether a packet that leaves `before` can never be lost, or have to wait behind others, on `link`. */
static bool may_merge(const struct link *before, const struct link *link)
{
	u32 largest = link->mtu + link->overhead;

	return before->kind == KIND_FIFO && link->kind == KIND_FIFO && !link->record && !link->lossy &&
	       !link->lose_count && link->rate >= before->rate && link->mtu >= before->mtu &&
	       link->limit_packets >= WIRE_ROOM && link->limit_bytes >= WIRE_ROOM * largest;
}

/* Finds the links that can be merged with the only one that feeds them. */
static void merge_links(void)
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

static int start(const char *text)
{
	u64 begin, step;

	if (sscanf(text, "%llu %llu", &begin, &step) != 2)
		return -EINVAL;
	merge_links();
	local_bh_disable();
	epoch = begin;
	interval = step;
	for (u32 i = 0; i < WIRE_MAX_LINKS; i++)
		if (links[i]) {
			links[i]->counts = (struct counts){};
			links[i]->data_packets = 0;
			links[i]->lose_next = 0;
			change_next(links[i]);
		}
	if (step) {
		next_tick = begin + step;
		set_alarm(&tick, next_tick);
	}
	local_bh_enable();
	return 0;
}

static const struct {
	const char *name;
	int (*function)(const char *text);
	bool sleeps;
} known[] = {
	{"flows ", set_flows, true}, {"link ", add_link, true},     {"host ", add_host, true},
	{"flow ", set_flow},         {"path ", set_path},           {"loss ", set_loss},
	{"lose ", add_lost, true},   {"change ", add_change, true}, {"start ", start, true},
};

static int command(const char *text)
{
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		size_t length = strlen(known[i].name);
		int error;

		if (strncmp(text, known[i].name, length))
			continue;
		if (!known[i].sleeps)
			local_bh_disable();
		error = known[i].function(text + length);
		if (!known[i].sleeps)
			local_bh_enable();
		return error;
	}
	return -EINVAL;
}

static ssize_t wire_write(struct file *file, const char __user *buffer, size_t size, loff_t *offset)
{
	char *text;
	int error;

	if (size > WIRE_MAX_COMMAND)
		return -EINVAL;
	text = memdup_user_nul(buffer, size);
	if (IS_ERR(text))
		return PTR_ERR(text);
	mutex_lock(&commands);
	error = command(text);
	mutex_unlock(&commands);
	if (error)
		pr_err("weir: cannot do: %s\n", text);
	kfree(text);
	return error ? error : size;
}

/* Gives whole chunks: the reader comes seldom and takes all there is. */
static ssize_t wire_read(struct file *file, char __user *buffer, size_t size, loff_t *offset)
{
	struct chunk *chunk;
	size_t length;

	local_bh_disable();
	chunk = list_first_entry_or_null(&chunks, struct chunk, list);
	if (chunk)
		list_del(&chunk->list);
	local_bh_enable();
	if (!chunk)
		return 0;
	length = chunk->rows * sizeof(struct wire_row);
	if (length > size || copy_to_user(buffer, chunk->row, length)) {
		kfree(chunk);
		return -EFAULT;
	}
	kfree(chunk);
	return length;
}

static const struct file_operations wire_files = {.owner = THIS_MODULE, .read = wire_read, .write = wire_write};
static struct miscdevice wire_device = {.minor = MISC_DYNAMIC_MINOR, .name = "weir", .fops = &wire_files, .mode = 0600};

static int __init wire_init(void)
{
	BUILD_BUG_ON(sizeof(struct place) > sizeof_field(struct sk_buff, cb));
	BUILD_BUG_ON(sizeof(union course) != sizeof(u32));
	hrtimer_init(&tick, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	tick.function = on_tick;
	return misc_register(&wire_device);
}

module_init(wire_init);
MODULE_DESCRIPTION("The links of a plan");
MODULE_LICENSE("Dual MIT/GPL");
