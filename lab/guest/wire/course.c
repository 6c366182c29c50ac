// SPDX-License-Identifier: MIT OR GPL-2.0
/* The course of a packet: that of its flow. */
#include "wire.h"

/* The first flow between two nodes, in either direction. */
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

/*
 * The course of a packet to or from the port of a flow; a download has the port at its sender, others at their
 * receiver.
 */
static bool course_of(u32 number, u32 node, __be32 to, u32 payload, union course *course)
{
	const struct flow *flow;

	if (number >= flow_count)
		return false;
	flow = &flows[number];
	if (flow->from == node && hosts[flow->to].address == to)
		*course = (union course){.flow = number, .data = payload > 0};
	else if (flow->to == node && hosts[flow->from].address == to)
		*course = (union course){.flow = number, .direction = 1};
	else
		return false;
	return flow->hops[course->direction] > 0;
}

static bool flow_course(u32 node, const struct iphdr *ip, u32 source, u32 target, u32 payload, union course *course)
{
	return course_of(target - first_port, node, ip->daddr, payload, course) ||
	       course_of(source - first_port, node, ip->daddr, payload, course);
}

/* Finds the course of a packet that leaves a host; only IPv4 has one. */
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
	/* The ports of SCTP are where those of UDP are. All packets of its sender count as data packets. */
	if (!ip_is_fragment(ip) && ip->protocol == IPPROTO_SCTP) {
		const struct udphdr *ports = (const void *)((const u8 *)ip + header);

		if (flow_course(node, ip, ntohs(ports->source), ntohs(ports->dest), skb->len - header, course))
			return true;
	}
	/* As in TCP, the header says where its options end (RFC 4340, section 5.1). */
	if (!ip_is_fragment(ip) && ip->protocol == IPPROTO_DCCP) {
		const struct dccp_hdr *dccp = (const void *)((const u8 *)ip + header);

		if (flow_course(node, ip, ntohs(dccp->dccph_sport), ntohs(dccp->dccph_dport),
				skb->len - header - dccp->dccph_doff * 4, course))
			return true;
	}
	return any_course(node, ip->daddr, course);
}
