// SPDX-License-Identifier: MIT OR GPL-2.0
/*
 * Table `acks`: a row when a recorded flow has processed an acknowledgement, and one when it has sent a packet or,
 * where trains stay whole, a train. lab/kernel/12-observer.patch calls the observer.
 */
#include <net/tcp.h>

#include "wire.h"

enum ack_kind {
	ACK_PROCESSED,
	ACK_SENT,
	ACK_SENT_AGAIN
};

#define NOTHING_U32 (~0U)
#define NOTHING (~0ULL)

static u64 from, until, left; /* of the plan's time; rows that may still be written */

/* The recorded flow that sends through `sk`; NOTHING_U32 if there is none. */
static u32 flow_of(const struct sock *sk)
{
	u32 number = ntohs(inet_sk(sk)->inet_dport) - first_port;

	if (sk->sk_family != AF_INET || number >= flow_count || !flows[number].recorded ||
	    inet_sk(sk)->inet_saddr != hosts[flows[number].from].address)
		return NOTHING_U32;
	return number;
}

/* Bytes of data up to the sequence number `seq`. The handshake took the first number, the end takes the last. */
static u64 bytes_until(const struct sock *sk, u32 seq)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	bool ended = (1 << sk->sk_state) & (TCPF_FIN_WAIT1 | TCPF_FIN_WAIT2 | TCPF_CLOSING | TCPF_LAST_ACK);

	return tp->bytes_acked - 1 + (u32)(seq - tp->snd_una) - (ended && seq == tp->write_seq);
}

static u64 delivery_rate(const struct tcp_sock *tp, const struct rate_sample *rs)
{
	if (rs->delivered <= 0 || rs->interval_us <= 0)
		return NOTHING;
	return div64_u64((u64)rs->delivered * tp->mss_cache * 8 * USEC_PER_SEC, rs->interval_us);
}

static void observe(struct sock *sk, const struct sk_buff *sent, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	u64 packet, delivered = 0, rtt = NOTHING, rate = NOTHING, pacing = NOTHING, now;
	u32 number = flow_of(sk), ssthresh = tp->snd_ssthresh;
	enum ack_kind kind = ACK_PROCESSED;
	unsigned long flags;

	if (number == NOTHING_U32 || !left || epoch == NEVER || sk->sk_state == TCP_SYN_SENT || !tp->mss_cache)
		return;
	if (sent) {
		if (!sent->len) /* the end of the connection */
			return;
		kind = TCP_SKB_CB(sent)->sacked & TCPCB_EVER_RETRANS ? ACK_SENT_AGAIN : ACK_SENT;
		packet = div_u64(bytes_until(sk, TCP_SKB_CB(sent)->seq), tp->mss_cache);
	} else {
		packet = div_u64(bytes_until(sk, tp->snd_una) + tp->mss_cache - 1, tp->mss_cache);
		delivered = rs->acked_sacked;
		rtt = rs->rtt_us > 0 ? rs->rtt_us * NSEC_PER_USEC : NOTHING;
		rate = delivery_rate(tp, rs);
	}
	if (sk->sk_pacing_status != SK_PACING_NONE && sk->sk_pacing_rate != ~0UL)
		pacing = sk->sk_pacing_rate * 8;
	if (ssthresh >= TCP_INFINITE_SSTHRESH)
		ssthresh = NOTHING_U32;
	local_irq_save(flags); /* as in trace.c; programs send with softirqs on */
	now = ktime_get_ns();
	if (now >= epoch + from && now < epoch + until) {
		left--;
		add_row(now - epoch, number, ROW_ACK, kind, packet, delivered, tp->snd_cwnd, ssthresh,
			tcp_packets_in_flight(tp), rtt, rate, pacing, inet_csk(sk)->icsk_ca_state);
	}
	local_irq_restore(flags);
}

void begin_acks(u64 first, u64 end, u64 rows)
{
	from = first;
	until = end;
	left = rows;
	WRITE_ONCE(tcp_observer, observe);
}
