// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * The commands that make the network, one a write to /dev/weir:
 *
 *   flows COUNT FIRST_PORT DELAY_NS
 *                                    DELAY_NS: interval of the rows of delays, 0 for none; before any host
 *   link N KIND RATE_BPS OVERHEAD_BYTES MTU_BYTES DELAY_NS LIMIT_BYTES LIMIT_PACKETS RECORD
 *                                    KIND 0 fifo, 1 qdisc, 2 nic
 *   host NODE ADDRESS LINK MTU_BYTES QUEUE_PACKETS OFFLOAD
 *                                    in the writer's namespace; OFFLOAD 0 every segment alone, 1 trains of segments
 *                                    everywhere, 2 only as far as the device
 *   trace FROM_NS TO_NS PACKETS      rows of single packets: of the plan's time, and how many; before any host
 *   acks FROM_NS TO_NS ROWS          rows of table `acks`: of the plan's time, and how many
 *   flow N FROM TO TRACED RECORDED   nodes; whether it has rows of single packets, and of table `acks`
 *   path FLOW DIRECTION LINK...      0 data, 1 acknowledgements
 *   processing FLOW SEED MOST_NS     its receiver takes up to that time to answer
 *   loss LINK SEED P R GOOD BAD      two states; probabilities in 1/2^63
 *   loss LINK SEED P                 each packet
 *   lose LINK PACKET                 loses this data packet, counted from 1; ascending
 *   change AT_NS LINK rate|delay VALUE
 *   change AT_NS LINK loss none|SEED P...
 *                                    ascending; a fifo can only change its losses
 *   start EPOCH_NS INTERVAL_NS       forget what was counted; rows from then on
 */
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "wire.h"

enum {
	MAX_FLOWS = 1 << 20
};

#define NO_LINK (~0U)

static int add_link(const char *text)
{
	struct link *link = kzalloc(sizeof(*link), GFP_KERNEL);
	u32 kind, record;

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
	__skb_queue_head_init(&link->rest);
	INIT_LIST_HEAD(&link->changes);
	hrtimer_init(&link->arrival, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	link->arrival.function = on_arrival;
	hrtimer_init(&link->sent, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	link->sent.function = on_sent;
	hrtimer_init(&link->change, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_SOFT);
	link->change.function = on_change;
	links[link->number] = link;
	if (kind == KIND_QDISC) {
		link->dev = make_link_device(link);
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
	    node >= WIRE_MAX_NODES || offload > OFFLOAD_DEVICE)
		return -EINVAL;
	link = known_link(number);
	if (number != NO_LINK && (!link || link->kind != KIND_NIC || link->dev))
		return -EINVAL;
	dev = make_host_device(node, number, mtu, queue, offload);
	if (!dev)
		return -ENOMEM;
	if (link)
		link->dev = dev;
	hosts[node] = (struct host){.dev = dev, .address = htonl(address), .link = number};
	return 0;
}

static int set_flows(const char *text)
{
	u32 count, port;

	if (flows || sscanf(text, "%u %u %llu", &count, &port, &delay_interval) != 3 || !count || count > MAX_FLOWS)
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
	u32 number, from, to, traced, recorded;

	if (sscanf(text, "%u %u %u %u %u", &number, &from, &to, &traced, &recorded) != 5 || number >= flow_count ||
	    from >= WIRE_MAX_NODES || to >= WIRE_MAX_NODES)
		return -EINVAL;
	flows[number].from = from;
	flows[number].to = to;
	flows[number].traced = traced;
	flows[number].recorded = recorded;
	return 0;
}

static int set_trace(const char *text)
{
	u64 from, to, packets;

	if (sscanf(text, "%llu %llu %llu", &from, &to, &packets) != 3)
		return -EINVAL;
	begin_trace(from, to, packets);
	return 0;
}

static int set_acks(const char *text)
{
	u64 from, to, rows;

	if (sscanf(text, "%llu %llu %llu", &from, &to, &rows) != 3)
		return -EINVAL;
	begin_acks(from, to, rows);
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

static int set_processing(const char *text)
{
	u32 number;
	u64 seed, most;

	if (sscanf(text, "%u %llu %llu", &number, &seed, &most) != 3 || number >= flow_count)
		return -EINVAL;
	flows[number].processing = (struct processing){.seed = seed, .most = most};
	return 0;
}

/* The losses of "SEED P" or "SEED P R GOOD BAD", none of "none"; or an error. */
static struct loss *losses_of(const char *text)
{
	struct loss loss = {};
	struct loss *made;
	u64 p, r, good, bad;
	int given = sscanf(text, "%llu %llu %llu %llu %llu", &loss.seed, &p, &r, &good, &bad);

	if (!strncmp(text, "none", 4))
		return NULL;
	if (given != 2 && given != 5)
		return ERR_PTR(-EINVAL);
	loss.random = random_of(loss.seed);
	loss.lose[0] = p;
	if (given == 5) {
		loss.stateful = true;
		loss.leave[0] = p;
		loss.leave[1] = r;
		loss.lose[0] = good;
		loss.lose[1] = bad;
	}
	made = kmemdup(&loss, sizeof(loss), GFP_KERNEL);
	return made ? made : ERR_PTR(-ENOMEM);
}

static int set_loss(const char *text)
{
	u32 number;
	int used = 0;
	struct link *link;
	struct loss *loss;

	if (sscanf(text, "%u %n", &number, &used) != 1 || !(link = known_link(number)) || link->loss)
		return -EINVAL;
	loss = losses_of(text + used);
	if (IS_ERR(loss))
		return PTR_ERR(loss);
	link->loss = loss;
	return 0;
}

static int add_lost(const char *text)
{
	u32 number;
	u64 packet, *grown;
	struct link *link;

	if (sscanf(text, "%u %llu", &number, &packet) != 2 || !(link = known_link(number)))
		return -EINVAL;
	grown = kvmalloc_array(link->listed_count + 1, sizeof(u64), GFP_KERNEL);
	if (!grown)
		return -ENOMEM;
	memcpy(grown, link->listed, link->listed_count * sizeof(u64));
	grown[link->listed_count++] = packet;
	kvfree(link->listed);
	link->listed = grown;
	return 0;
}

/* Parses the text after the link in a change; false: it is malformed, or this kind of link does not support it. */
static bool parse_change(const char *text, const struct link *link, struct change *change)
{
	if (!strncmp(text, "loss ", 5)) {
		change->what = CHANGED_LOSS;
		change->loss = losses_of(text + 5);
		return !IS_ERR(change->loss);
	}
	change->what = strncmp(text, "rate ", 5) ? CHANGED_DELAY : CHANGED_RATE;
	return link->kind != KIND_FIFO &&
	       sscanf(text, change->what == CHANGED_RATE ? "rate %llu" : "delay %llu", &change->value) == 1;
}

static int add_change(const char *text)
{
	struct change *change = kzalloc(sizeof(*change), GFP_KERNEL);
	u32 number;
	int used = 0;
	struct link *link;

	if (!change)
		return -ENOMEM;
	if (sscanf(text, "%llu %u %n", &change->at, &number, &used) != 2 || !(link = known_link(number)) ||
	    !parse_change(text + used, link, change)) {
		kfree(change);
		return -EINVAL;
	}
	list_add_tail(&change->list, &link->changes);
	return 0;
}

static int start(const char *text)
{
	u64 begin, step;

	if (sscanf(text, "%llu %llu", &begin, &step) != 2)
		return -EINVAL;
	merge_links();
	local_bh_disable();
	epoch = begin;
	for (u32 i = 0; i < WIRE_MAX_LINKS; i++)
		if (links[i]) {
			restart_losses(links[i]);
			change_next(links[i]);
		}
	restart_processing();
	begin_rows(step);
	begin_delays();
	local_bh_enable();
	return 0;
}

static const struct {
	const char *name;
	int (*function)(const char *text);
	bool sleeps;
} known[] = {
	{"flows ", set_flows, true}, {"link ", add_link, true},     {"host ", add_host, true},
	{"flow ", set_flow},         {"path ", set_path},           {"loss ", set_loss, true},
	{"lose ", add_lost, true},   {"change ", add_change, true}, {"start ", start, true},
	{"trace ", set_trace},       {"acks ", set_acks},           {"processing ", set_processing},
};

int command(const char *text)
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
