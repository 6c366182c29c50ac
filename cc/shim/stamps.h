/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The timestamps (RFC 7323) of the last acknowledgement, ms. weir_stamps() of a module reads the kernel's. The other
 * shims have none: they set the receiver's clock equal to the sender's, so that a one-way delay is a round trip's.
 */
#ifndef WEIR_SHIM_STAMPS_H
#define WEIR_SHIM_STAMPS_H

struct weir_stamps {
	u32 now;
	u32 remote; /* of the receiver */
	u32 echo;   /* of the sender, when it sent what is acknowledged */
};

#ifndef WEIR_KERNEL_STAMPS
static __always_inline struct weir_stamps weir_stamps(const struct sock *sk, s32 rtt_us)
{
	u32 now = (u32)(tcp_sk(sk)->tcp_mstamp / USEC_PER_MSEC);
	u32 rtt = rtt_us > 0 ? (u32)rtt_us : tcp_sk(sk)->srtt_us >> 3;
	struct weir_stamps stamps = {now, now, now - rtt / (u32)USEC_PER_MSEC};

	return stamps;
}
#endif

#endif
