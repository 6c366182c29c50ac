// SPDX-License-Identifier: MIT OR GPL-2.0
/* Which way a packet goes: that of its flow. */
#include "wire.h"

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
bool find_course(struct sk_buff *skb, u32 node, union course *course)
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
