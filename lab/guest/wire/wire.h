/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The network between the hosts of a plan, inside the lab's kernel: the links of crates/weir-plan, exact in virtual
 * time.
 *
 * A packet that enters a link passes its losses, its queue, its transmitter and its delay line, in this order and with
 * separate limits. Three kinds of links:
 *
 *   fifo    drop-tail at a rate that never changes: the start of a packet's transmission is known when it arrives, so
 *           that a packet costs one timer, the one that ends its delay
 *   qdisc   a network device wl<N>: its queue is whatever tc put there, its transmitter stops and wakes it
 *   nic     the first link of a host, by way of the host's own device weir0: the stack feels its queue
 *
 * No router has a namespace and nothing is routed: the port of a flow's receiver is first_port + flow, as everywhere in
 * weir, and each flow has its path. Packets of no flow (echo requests, foreign programs) take the path of any flow
 * between their two hosts.
 *
 * Everything happens in softirq context on the one processor of the guest, so that nothing here needs a lock; the
 * commands and the reader keep softirqs out.
 *
 *   main.c      /dev/weir, which takes commands and gives rows
 *   command.c   the commands
 *   course.c    which way a packet goes
 *   link.c      a packet enters a link, spends its delay, leaves it
 *   loss.c      which packets are lost before the queue
 *   answer.c    when a receiver's answer leaves it
 *   fifo.c      links of the kind fifo
 *   device.c    links of the kinds qdisc and nic
 *   count.c     what is counted of links, and the rows of all tables
 *   delay.c     how long packets take from host to host
 *   trace.c     single packets
 *   acks.c      the state of TCP after each acknowledgement and each transmission
 */
#ifndef WEIR_WIRE_H
#define WEIR_WIRE_H

#include <linux/hrtimer.h>
#include <linux/ip.h>
#include <linux/netdevice.h>
#include <linux/tcp.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <uapi/linux/dccp.h>

#include "random.h"

#define NEVER (~0ULL)

enum {
	WIRE_MAX_LINKS = 8192,
	WIRE_MAX_NODES = 8192,
	WIRE_MAX_HOPS = 64,
	WIRE_MAX_TRAIN = 64, /* packets in a train: one bit each */
};

/* The treatment of segments by a host's device. */
enum offload {
	OFFLOAD_NONE,   /* each is separate */
	OFFLOAD_TRAINS, /* trains stay whole on every link */
	OFFLOAD_DEVICE  /* trains, which the device segments */
};

enum kind {
	KIND_FIFO,
	KIND_QDISC,
	KIND_NIC
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

/* Random losses: the two states of crates/weir-elements (loss.rs). With equal probabilities there are no states. */
struct loss {
	bool stateful, bad;
	u64 leave[2], lose[2]; /* probabilities of the good and of the bad state, in 1/2^63 */
	u64 seed;
	struct random random;
};

enum changed {
	CHANGED_RATE,
	CHANGED_DELAY,
	CHANGED_LOSS
};

struct change {
	struct list_head list;
	u64 at;
	enum changed what;
	u64 value;
	struct loss *loss;
};

struct link {
	u32 number;
	enum kind kind;
	u64 rate, delay, limit_bytes, limit_packets;
	u32 overhead, mtu;
	bool record;

	u64 free_at;                             /* end of the transmissions so far, rounded up */
	u64 short_by;                            /* by so much, in ns / rate */
	struct sk_buff *sending;                 /* of a device: the packet in transmission */
	struct sk_buff_head rest;                /* of a nic: the rest of a segmented train */
	struct hrtimer sent;                     /* its end */
	struct sk_buff_head line;                /* the delay line */
	struct hrtimer arrival;                  /* of the line's head */
	struct waiting_chunk *queue, *queue_end; /* of a fifo: packets waiting for transmission */
	bool merged; /* a fifo fed only by a slower or equal one: a packet that enters that one will enter this one */
	u64 waiting_bytes, waiting_packets;
	u64 waiting_ip;
	struct net_device *dev;

	struct loss *loss;
	u64 data_packets; /* that came, of those that the list counts */
	u64 *listed;      /* numbers of data packets that are lost, ascending */
	u32 listed_count, listed_next;
	struct list_head changes;
	struct hrtimer change; /* of the first of them */

	struct counts counts;
	struct tally *tallies;
};

/* Times that a flow's receiver takes to answer: uniform below `most`. */
struct processing {
	u64 most;
	u64 seed;
	struct random random;
};

struct flow {
	u32 from, to;
	bool traced, recorded;
	u8 hops[2];
	u16 path[2][WIRE_MAX_HOPS];
	struct processing processing;
	struct delays *delays; /* of the data packets that have arrived */
};

struct host {
	struct net_device *dev;
	__be32 address;
	u32 link;
	u64 until; /* its answers are not ready before */
};

/*
 * The state of a packet inside this module. The queue of a device uses the beginning, too. skb->tstamp, which queues
 * leave alone, has the time at which the host handed the packet to its queue.
 */
struct place {
	u64 due;
	u8 of_queues[32];
	u64 entered; /* the queue of a device: of a link, or of the host */
};

/* Handles, at `now`, a packet that was not lost. */
typedef void (*keep_function)(struct link *link, struct sk_buff *skb, u64 now);

/* Tables `links` and, of links, the parts `drops` and `marks`; of flows `delays` and `delay_bins`; single packets;
 * table `acks`. */
enum row_kind {
	ROW_LINK,
	ROW_DROP,
	ROW_MARK,
	ROW_DELAY,
	ROW_DELAY_BIN,
	ROW_SENT,
	ROW_RECEIVED,
	ROW_DROPPED,
	ROW_ACK
};

enum {
	ROW_VALUES = 12
};

/* In skb->mark, which queues leave alone: the packet's course. */
union course {
	u32 mark;
	struct {
		u32 hop : 7, direction : 1, foreign : 1, data : 1, was_marked : 1, shown : 1, flow : 20;
	};
};

/* The plan's links; main.c holds them. */
extern struct link *links[WIRE_MAX_LINKS];
extern struct host hosts[WIRE_MAX_NODES];
extern struct flow *flows;
extern u32 flow_count, first_port;
extern u64 epoch;

/* command.c: a negative error, or 0 */
int command(const char *text);

/* course.c */
bool find_course(struct sk_buff *skb, u32 node, union course *course);

/* answer.c */
u64 ready_at(const struct sk_buff *skb, u32 node, union course course);
void restart_processing(void);

/* link.c */
void arrived(struct link *link, const struct sk_buff *skb);
void send_off(struct link *link, struct sk_buff *skb, u64 sent);
void leave(struct sk_buff *skb, u64 now);
void drop_some(struct link *link, struct sk_buff *train, u64 lost, keep_function keep, u64 now);
enum hrtimer_restart on_arrival(struct hrtimer *timer);

/* loss.c */
u64 lost_of(struct link *link, const struct sk_buff *skb);
void restart_losses(struct link *link);
void replace_losses(struct link *link, struct loss *loss);

/* fifo.c */
void enter_fifo(struct link *link, struct sk_buff *skb, u64 now);
void advance(struct link *link, u64 now);
void merge_links(void);

/* device.c */
enum hrtimer_restart on_sent(struct hrtimer *timer);
enum hrtimer_restart on_change(struct hrtimer *timer);
void change_next(struct link *link);
void enter_device(struct link *link, struct sk_buff *skb, u64 now);
struct net_device *make_link_device(const struct link *link);
struct net_device *make_host_device(u32 node, u32 link, u32 mtu, u32 queue, enum offload offload);

/* count.c */
void count_drop(struct link *link, const struct sk_buff *skb);
void count_mark(struct link *link, const struct sk_buff *skb);
void drop(struct link *link, struct sk_buff *skb);
void measure_queue(const struct link *link, u64 *bytes, u64 *packets);
void write_row(u64 time, u32 of, enum row_kind kind, const u64 *values, u32 count);
void begin_rows(u64 step);
void *take_rows(size_t *bytes);
void init_rows(void);

/* delay.c */
extern u64 delay_interval; /* 0: none are counted */
extern const struct header_ops stamping;
void count_delay(u32 flow, u64 sent, u64 now, u32 packets);
void begin_delays(void);

/* trace.c */
extern bool tracing;
void begin_trace(u64 first, u64 end, u64 packets);
void show_sent(struct sk_buff *skb, u64 time);
void show_received(const struct sk_buff *skb, u64 now);
void show_dropped(const struct sk_buff *skb, u32 link);

/* acks.c */
void begin_acks(u64 first, u64 end, u64 rows);

/* A row of a table: the interval that ends at `time`, number of the link or the flow, and up to ROW_VALUES values. */
#define add_row(time, of, kind, ...) \
	write_row(time, of, kind, (const u64[]){__VA_ARGS__}, sizeof((const u64[]){__VA_ARGS__}) / sizeof(u64))

static inline struct place *place_of(struct sk_buff *skb)
{
	return (struct place *)skb->cb;
}

static inline void set_alarm(struct hrtimer *timer, u64 at)
{
	hrtimer_start(timer, ns_to_ktime(at), HRTIMER_MODE_ABS_SOFT);
}

static inline struct link *known_link(u32 number)
{
	return number < WIRE_MAX_LINKS ? links[number] : NULL;
}

static inline struct link *link_of(union course course)
{
	return links[flows[course.flow].path[course.direction][course.hop]];
}

static inline u32 packets_in(const struct sk_buff *skb)
{
	return skb_is_gso(skb) ? max_t(u32, skb_shinfo(skb)->gso_segs, 1) : 1;
}

/* IP bytes of a packet, or of all packets of a train together. */
static inline u32 bytes_in(const struct sk_buff *skb)
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

static inline u32 wire_bytes(const struct link *link, const struct sk_buff *skb)
{
	return bytes_in(skb) + packets_in(skb) * link->overhead;
}

/*
 * The end of a transmission that begins at `now` or after those before. It takes a whole number of nanoseconds seldom:
 * the n-th end of a busy period is the exact time rounded up, as in crates/weir-elements (transmitter.rs).
 */
static inline u64 end_of_transmission(struct link *link, u32 wire, u64 now)
{
	u64 fraction, ns = div64_u64_rem((u64)wire * 8 * NSEC_PER_SEC, link->rate, &fraction);
	u64 end = max(now, link->free_at) + ns;

	if (now > link->free_at)
		link->short_by = 0;
	if (link->short_by < fraction) {
		link->short_by += link->rate;
		end++;
	}
	link->short_by -= fraction;
	return end;
}

static inline void count_start(struct link *link, const struct sk_buff *skb)
{
	link->counts.out_packets += packets_in(skb);
	link->counts.out_bytes += bytes_in(skb);
}

static inline void count_wait(struct link *link, u64 wait, u32 packets)
{
	link->counts.delay_sum += wait * packets;
	link->counts.delay_count += packets;
	link->counts.delay_max = max(link->counts.delay_max, wait);
}

#endif
