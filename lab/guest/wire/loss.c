// SPDX-License-Identifier: MIT OR GPL-2.0
/* Selects the packets lost before the queue: the models of crates/weir-elements (loss.rs), draw by draw. */
#include <linux/slab.h>

#include "wire.h"

static bool is_lost(struct loss *loss)
{
	if (loss->stateful)
		loss->bad ^= random_happens(&loss->random, loss->leave[loss->bad]);
	return random_happens(&loss->random, loss->lose[loss->bad]);
}

static bool is_listed(struct link *link)
{
	link->data_packets++;
	if (link->listed_next == link->listed_count || link->listed[link->listed_next] != link->data_packets)
		return false;
	link->listed_next++;
	return true;
}

/* The lost packets of a train: bit i for the i-th one; a single packet is the first. */
u64 lost_of(struct link *link, const struct sk_buff *skb)
{
	union course course = {.mark = skb->mark};
	u64 lost = 0;

	if (!link->loss && !link->listed)
		return 0;
	for (u32 i = 0; i < packets_in(skb); i++) {
		bool gone = link->loss && is_lost(link->loss);

		if (course.data && is_listed(link))
			gone = true;
		lost |= (u64)gone << i;
	}
	return lost;
}

/* From now on only `loss` applies, or no losses. */
void replace_losses(struct link *link, struct loss *loss)
{
	kfree(link->loss);
	link->loss = loss;
	kvfree(link->listed);
	link->listed = NULL;
	link->listed_count = link->listed_next = 0;
}

/* Restarts the count: the next packet is the first of the plan. */
void restart_losses(struct link *link)
{
	link->data_packets = 0;
	link->listed_next = 0;
	if (link->loss) {
		link->loss->bad = false;
		link->loss->random = random_of(link->loss->seed);
	}
}
