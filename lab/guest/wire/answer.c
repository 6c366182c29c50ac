// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * A receiving host takes a random time to answer, as in the simulator (crates/weir-sim, processing.rs), draw by draw.
 * Whatever else leaves the host waits behind the answer.
 */
#include "wire.h"

/* Uniform below `most`. */
static u64 draw(struct processing *processing)
{
	return mul_u64_u64_shr(random_next(&processing->random), processing->most, 64);
}

/* The time before which a packet that the device of a host takes may not leave it. */
u64 ready_at(const struct sk_buff *skb, u32 node, union course course)
{
	struct processing *processing = &flows[course.flow].processing;
	struct host *host = &hosts[node];

	if (course.direction && !course.foreign && processing->most) {
		/* from when it was made: it may have waited for the transmitter */
		host->until = max(host->until, place_of(skb)->entered + draw(processing));
	}
	return host->until;
}

/* The next draw of each flow is its first of the plan. */
void restart_processing(void)
{
	for (u32 i = 0; i < flow_count; i++)
		flows[i].processing.random = random_of(flows[i].processing.seed);
}
