/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Part of bpf.h with WEIR_RECORD: writes every call to a ring buffer with the socket's fields before and after it, in
 * the layout of sock.h, so that the native build can repeat the calls of a live connection.
 */
#ifndef WEIR_SHIM_RECORD_H
#define WEIR_SHIM_RECORD_H

/* The native structures beside the kernel's of the same names, with every field writable. */
#define const
#define tcp_sock weir_copy_tcp_sock
#define inet_connection_sock weir_copy_connection
#define sock weir_copy_sock
#define ack_sample weir_copy_ack_sample
#define rate_sample weir_copy_rate_sample
#include "sock.h"

#include "call.h"
#undef const
#undef tcp_sock
#undef inet_connection_sock
#undef sock
#undef ack_sample
#undef rate_sample

struct weir_record {
	u64 flow; /* the kernel's address of the socket */
	u64 jiffies_before;
	u64 jiffies_after;
	struct weir_call call;
	struct weir_copy_sock after;
};

/* A map as libbpf reads it: the type of a member is its value. */
struct {
	int (*type)[27]; /* BPF_MAP_TYPE_RINGBUF */
	int (*max_entries)[1 << 24];
} weir_records SEC(".maps");

/* Calls for which the ring buffer had no room. */
u64 weir_unrecorded;

/* include/uapi/linux/bpf.h */
static void *(*const bpf_ringbuf_reserve)(void *map, u64 size, u64 flags) = (void *)131;
static void (*const bpf_ringbuf_submit)(void *data, u64 flags) = (void *)132;

static __always_inline void weir_copy_transport(struct weir_copy_tcp_sock *to, const struct tcp_sock *tp)
{
	to->snd_cwnd = tp->snd_cwnd;
	to->snd_cwnd_cnt = tp->snd_cwnd_cnt;
	to->snd_cwnd_stamp = tp->snd_cwnd_stamp;
	to->snd_ssthresh = tp->snd_ssthresh;
	to->snd_cwnd_clamp = tp->snd_cwnd_clamp;
	to->packets_out = tp->packets_out;
	to->sacked_out = tp->sacked_out;
	to->lost_out = tp->lost_out;
	to->retrans_out = tp->retrans_out;
	to->max_packets_out = tp->max_packets_out;
	to->snd_una = tp->snd_una;
	to->snd_nxt = tp->snd_nxt;
	to->srtt_us = tp->srtt_us;
	to->mdev_us = tp->mdev_us;
	to->weir_rtt_min_us = tcp_min_rtt(tp);
	to->mss_cache = tp->mss_cache;
	to->tcp_mstamp = tp->tcp_mstamp;
	to->delivered_mstamp = tp->delivered_mstamp;
	to->first_tx_mstamp = tp->first_tx_mstamp;
	to->tcp_clock_cache = tp->tcp_clock_cache;
	to->tcp_wstamp_ns = tp->tcp_wstamp_ns;
	to->delivered = tp->delivered;
	to->delivered_ce = tp->delivered_ce;
	to->lost = tp->lost;
	to->app_limited = tp->app_limited;
	to->prior_cwnd = tp->prior_cwnd;
	to->prior_ssthresh = tp->prior_ssthresh;
	to->lsndtime = tp->lsndtime;
	to->is_cwnd_limited = weir_cwnd_limited_flag(tp);
	to->ecn_flags = tp->ecn_flags;
	to->weir_reserved[0] = to->weir_reserved[1] = 0;
}

static __always_inline void weir_copy_socket(struct weir_copy_sock *to, const struct sock *sk)
{
	const struct inet_connection_sock *icsk = inet_csk(sk);
	u32 i;

	weir_copy_transport(&to->weir_tcp, tcp_sk(sk));
#pragma unroll
	for (i = 0; i < ICSK_CA_PRIV_SIZE / sizeof(u64); i++)
		to->weir_icsk.icsk_ca_priv[i] = icsk->icsk_ca_priv[i];
	to->weir_icsk.icsk_ca_state = weir_ca_state(sk);
	to->weir_icsk.icsk_retransmits = icsk->icsk_retransmits;
	to->sk_pacing_rate = sk->sk_pacing_rate;
	to->sk_max_pacing_rate = sk->sk_max_pacing_rate;
	to->sk_pacing_status = sk->sk_pacing_status;
	to->weir_hz = weir_hz;
	to->weir_random = 0;
	to->weir_reserved = 0;
	to->weir_probes = 0;
}

static __always_inline void weir_copy_ack(struct weir_call *call, const struct ack_sample *sample)
{
	call->ack.pkts_acked = sample->pkts_acked;
	call->ack.rtt_us = sample->rtt_us;
	call->ack.in_flight = sample->in_flight;
}

static __always_inline void weir_copy_rate(struct weir_call *call, const struct rate_sample *sample)
{
	call->rate.prior_mstamp = sample->prior_mstamp;
	call->rate.prior_delivered = sample->prior_delivered;
	call->rate.prior_delivered_ce = sample->prior_delivered_ce;
	call->rate.delivered = sample->delivered;
	call->rate.delivered_ce = sample->delivered_ce;
	call->rate.interval_us = sample->interval_us;
	call->rate.snd_interval_us = sample->snd_interval_us;
	call->rate.rcv_interval_us = sample->rcv_interval_us;
	call->rate.rtt_us = sample->rtt_us;
	call->rate.losses = sample->losses;
	call->rate.acked_sacked = sample->acked_sacked;
	call->rate.prior_in_flight = sample->prior_in_flight;
	call->rate.last_end_seq = sample->last_end_seq;
	call->rate.is_app_limited = sample->is_app_limited;
	call->rate.is_retrans = sample->is_retrans;
	call->rate.is_ack_delayed = sample->is_ack_delayed;
}

/* The arguments of each operation besides the socket; the verifier forbids reading arguments that it lacks. */
#define WEIR_TAKES_NOTHING(op)                                                                  \
	static __always_inline void weir_arguments_##op(struct weir_call *call, const u64 *ctx) \
	{                                                                                       \
	}
#define WEIR_TAKES(op, ...)                                                                     \
	static __always_inline void weir_arguments_##op(struct weir_call *call, const u64 *ctx) \
	{                                                                                       \
		__VA_ARGS__;                                                                    \
	}
WEIR_TAKES_NOTHING(init)
WEIR_TAKES_NOTHING(release)
WEIR_TAKES_NOTHING(ssthresh)
WEIR_TAKES_NOTHING(undo_cwnd)
WEIR_TAKES_NOTHING(min_tso_segs)
WEIR_TAKES_NOTHING(sndbuf_expand)
WEIR_TAKES(cong_avoid, call->arg1 = ctx[1]; call->arg2 = ctx[2])
WEIR_TAKES(set_state, call->arg1 = (u8)ctx[1])
WEIR_TAKES(cwnd_event, call->arg1 = ctx[1])
WEIR_TAKES(in_ack_event, call->arg1 = ctx[1])
WEIR_TAKES(pkts_acked, weir_copy_ack(call, (const struct ack_sample *)ctx[1]))
#ifdef WEIR_OLD_CONG_CONTROL
WEIR_TAKES(cong_control, call->arg1 = tcp_sk((struct sock *)ctx[0])->snd_una;
	   weir_copy_rate(call, (const struct rate_sample *)ctx[1]))
#else
WEIR_TAKES(cong_control, call->arg1 = ctx[1]; call->arg2 = ctx[2];
	   weir_copy_rate(call, (const struct rate_sample *)ctx[3]))
#endif

static __always_inline struct weir_record *weir_record_room(void)
{
	struct weir_record *record = bpf_ringbuf_reserve(&weir_records, sizeof(struct weir_record), 0);

	if (!record)
		__sync_fetch_and_add(&weir_unrecorded, 1);
	return record;
}

static __always_inline void weir_record_begin(struct weir_record *record, const u64 *ctx, u32 op)
{
	record->flow = ctx[0];
	record->jiffies_before = bpf_jiffies64();
	record->call.op = op;
	record->call.arg1 = record->call.arg2 = 0;
	weir_copy_socket(&record->call.sk, (const struct sock *)ctx[0]);
}

static __always_inline void weir_record_end(struct weir_record *record, const u64 *ctx, u32 result)
{
	record->call.result = result;
	weir_copy_socket(&record->after, (const struct sock *)ctx[0]);
	record->jiffies_after = bpf_jiffies64();
	bpf_ringbuf_submit(record, 0);
}

/* The call is there twice: an older verifier does not follow a second check for a record. */
#define WEIR_BPF_RECORDED(op, type, statement, result)            \
	SEC("struct_ops") type weir_op_##op(u64 *ctx)             \
	{                                                         \
		struct weir_record *_record = weir_record_room(); \
		if (!_record) {                                   \
			statement;                                \
			return result;                            \
		}                                                 \
		weir_record_begin(_record, ctx, WEIR_OP_##op);    \
		weir_arguments_##op(&_record->call, ctx);         \
		statement;                                        \
		weir_record_end(_record, ctx, result);            \
		return result;                                    \
	}
#define WEIR_BPF_VOID(op, call) WEIR_BPF_RECORDED(op, int, call, 0)
#define WEIR_BPF_U32(op, call) WEIR_BPF_RECORDED(op, u32, u32 _result = call, _result)

#endif
