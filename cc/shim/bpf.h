/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * BPF shim: the same source as a struct_ops program, `clang -target bpf -O2 -g -c -I cc/include cc/NAME/NAME.c`.
 *
 * Self-contained: the kernel's types are declared with the fields a congestion control sees, and CO-RE relocates them
 * to the running kernel's layout at load time; no vmlinux.h, no libbpf headers. An option is a constant with its bounds
 * (weir_opt_NAME), which the loader sets before loading; HZ is weir_hz, set by the loader as well. weir_object says
 * what the object is and where its name and flags are, so that a loader need not know this header.
 *
 * The registered name is the identifier with a prefix: the kernel has names like cubic already and takes no hyphen.
 */
#ifndef WEIR_SHIM_BPF_H
#define WEIR_SHIM_BPF_H

typedef _Bool bool;
#define true 1
#define false 0

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef signed char s8;
typedef short s16;
typedef int s32;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#ifndef WEIR_KERNEL_PREFIX
#define WEIR_KERNEL_PREFIX "weir_"
#endif

#define ICSK_CA_PRIV_SIZE 104
#define TCP_CA_NAME_MAX 16
#define TCP_INFINITE_SSTHRESH 0x7fffffff
#define TCP_INIT_CWND 10

#define USEC_PER_SEC 1000000UL
#define USEC_PER_MSEC 1000UL
#define MSEC_PER_SEC 1000UL

enum tcp_ca_state {
	TCP_CA_Open = 0,
	TCP_CA_Disorder = 1,
	TCP_CA_CWR = 2,
	TCP_CA_Recovery = 3,
	TCP_CA_Loss = 4,
};

enum tcp_ca_event {
	CA_EVENT_TX_START,
	CA_EVENT_CWND_RESTART,
	CA_EVENT_COMPLETE_CWR,
	CA_EVENT_LOSS,
	CA_EVENT_ECN_NO_CE,
	CA_EVENT_ECN_IS_CE,
};

enum tcp_ca_ack_event_flags {
	CA_ACK_SLOWPATH = 1 << 0,
	CA_ACK_WIN_UPDATE = 1 << 1,
	CA_ACK_ECE = 1 << 2,
};

#define TCP_CONG_NON_RESTRICTED 0x1
#define TCP_CONG_NEEDS_ECN 0x2
/* Kernels that do not know a flag refuse it. */
#define TCP_CONG_NEEDS_ACCECN 0
#define TCP_CONG_ECT_1_NEGOTIATION 0
#define TCP_CONG_NEEDS_SAMPLES 0 /* Linux samples the delivery rate of every connection */

#define TCP_ECN_OK 1
#define TCP_ECN_QUEUE_CWR 2
#define TCP_ECN_DEMAND_CWR 4
#define TCP_ECN_SEEN 8

#define SK_PACING_NONE 0
#define SK_PACING_NEEDED 1
#define SK_PACING_FQ 2

/* Set by the loader: jiffies per second of the running kernel. */
const volatile u32 weir_hz = 1000;

static __always_inline u64 div64_u64(u64 dividend, u64 divisor)
{
	return dividend / divisor;
}

#ifdef WEIR_REPLAY
#include "replay.h"
#else
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* Only names and types matter here; order and padding are the running kernel's. const as in native.h. */
struct sock {
	unsigned long sk_pacing_rate;
	const unsigned long sk_max_pacing_rate;
	u32 sk_pacing_status;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const u8 icsk_ca_state : 5;
	const u8 icsk_retransmits;
	struct {
		u8 pending;
	} icsk_ack;
	u64 icsk_ca_priv[ICSK_CA_PRIV_SIZE / sizeof(u64)];
};

struct minmax_sample {
	u32 t;
	u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 snd_cwnd;
	u32 snd_cwnd_cnt;
	u32 snd_cwnd_stamp;
	u32 snd_ssthresh;
	const u32 snd_cwnd_clamp;
	const u32 packets_out;
	const u32 sacked_out;
	const u32 lost_out;
	const u32 retrans_out;
	const u32 max_packets_out;
	const u32 rcv_nxt;
	const u32 snd_una;
	const u32 snd_nxt;
	const u32 srtt_us;
	const u32 mdev_us;
	const struct minmax rtt_min;
	const u32 mss_cache;
	const u64 tcp_mstamp;
	const u64 delivered_mstamp;
	const u64 first_tx_mstamp;
	const u64 tcp_clock_cache;
	const u64 tcp_wstamp_ns;
	const u32 delivered;
	const u32 delivered_ce;
	const u32 lost;
	u32 app_limited;
	const u32 prior_cwnd;
	const u32 prior_ssthresh;
	const u32 lsndtime;
	const u8 is_cwnd_limited : 1;
	u8 ecn_flags;
};

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;
	u32 in_flight;
};

struct rate_sample {
	u64 prior_mstamp;
	u32 prior_delivered;
	u32 prior_delivered_ce;
	s32 delivered;
	s32 delivered_ce;
	long interval_us;
	u32 snd_interval_us;
	u32 rcv_interval_us;
	long rtt_us;
	int losses;
	u32 acked_sacked;
	u32 prior_in_flight;
	u32 last_end_seq;
	bool is_app_limited;
	bool is_retrans;
	bool is_ack_delayed;
};

struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event ev);
	void (*in_ack_event)(struct sock *sk, u32 flags);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	u32 (*min_tso_segs)(struct sock *sk);
	void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
	u32 (*undo_cwnd)(struct sock *sk);
	u32 (*sndbuf_expand)(struct sock *sk);
	char name[TCP_CA_NAME_MAX];
	u32 flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
};

#pragma clang attribute pop

/* A congestion control's struct sock is the start of a struct tcp_sock; the verifier knows that. */
static __always_inline struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)sk;
}

static __always_inline struct inet_connection_sock *inet_csk(const struct sock *sk)
{
	return (struct inet_connection_sock *)sk;
}

static __always_inline void *inet_csk_ca(const struct sock *sk)
{
	return (void *)inet_csk(sk)->icsk_ca_priv;
}

/* The position of a bit field is known only when the program is loaded (enum bpf_field_info_kind). */
#define WEIR_BPF_BITFIELD(object, field)                                                                  \
	({                                                                                                \
		const u8 *_at = (const u8 *)(object) + __builtin_preserve_field_info((object)->field, 0); \
		u64 _value = 0;                                                                           \
		switch (__builtin_preserve_field_info((object)->field, 1)) {                              \
		case 1:                                                                                   \
			_value = *(const u8 *)_at;                                                        \
			break;                                                                            \
		case 2:                                                                                   \
			_value = *(const u16 *)_at;                                                       \
			break;                                                                            \
		case 4:                                                                                   \
			_value = *(const u32 *)_at;                                                       \
			break;                                                                            \
		case 8:                                                                                   \
			_value = *(const u64 *)_at;                                                       \
			break;                                                                            \
		}                                                                                         \
		_value <<= __builtin_preserve_field_info((object)->field, 4);                             \
		_value >>= __builtin_preserve_field_info((object)->field, 5);                             \
		_value;                                                                                   \
	})

static __always_inline bool weir_cwnd_limited_flag(const struct tcp_sock *tp)
{
	return WEIR_BPF_BITFIELD(tp, is_cwnd_limited) != 0;
}

static __always_inline u8 weir_ca_state(const struct sock *sk)
{
	return WEIR_BPF_BITFIELD(inet_csk(sk), icsk_ca_state);
}

static __always_inline u32 tcp_min_rtt(const struct tcp_sock *tp)
{
	return tp->rtt_min.s[0].v;
}

#include "random.h"

/* Helper 7 is bpf_get_prandom_u32. */
static u32 (*const bpf_get_prandom_u32)(void) = (void *)7;

static __always_inline u32 weir_random_below(const struct sock *sk, u32 n)
{
#ifdef WEIR_RECORD
	return weir_hash_below((u32)tcp_sk(sk)->tcp_mstamp, tcp_sk(sk)->delivered, n);
#else
	(void)sk;
	return (u32)(((u64)bpf_get_prandom_u32() * n) >> 32);
#endif
}

static __always_inline u32 weir_random_byte(const struct sock *sk)
{
	return weir_random_below(sk, 256);
}

/* BPF has no helper for it. */
static __always_inline bool weir_enter_cwr(struct sock *sk)
{
	(void)sk;
	return false;
}

#include "stamps.h"

/* Helper 116 is bpf_tcp_send_ack. */
static long (*const bpf_tcp_send_ack)(void *tp, u32 rcv_nxt) = (void *)116;
#define ICSK_ACK_TIMER 2
#define ICSK_ACK_NOW 16

static __always_inline void weir_send_ack(struct sock *sk, u32 rcv_nxt)
{
	bpf_tcp_send_ack(tcp_sk(sk), rcv_nxt);
}

#include "echo.h"

static __always_inline void weir_echo_flag(struct sock *sk, bool is_marked)
{
	if (is_marked)
		tcp_sk(sk)->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tcp_sk(sk)->ecn_flags &= ~TCP_ECN_DEMAND_CWR;
}

static __always_inline void weir_echo_mark(struct sock *sk, struct weir_echo *echo, bool is_marked)
{
	if (echo->is_marked != is_marked) {
		if (inet_csk(sk)->icsk_ack.pending & ICSK_ACK_TIMER) {
			weir_echo_flag(sk, echo->is_marked);
			weir_send_ack(sk, echo->rcv_nxt);
		}
		inet_csk(sk)->icsk_ack.pending |= ICSK_ACK_NOW;
	}
	echo->rcv_nxt = tcp_sk(sk)->rcv_nxt;
	echo->is_marked = is_marked;
	weir_echo_flag(sk, is_marked);
}

/* Time: helper 118 is bpf_jiffies64 (include/uapi/linux/bpf.h). */
static u64 (*const bpf_jiffies64)(void) = (void *)118;
#define HZ weir_hz
#define tcp_jiffies32 ((u32)bpf_jiffies64())

#define WEIR_BPF_SK ((struct sock *)ctx[0])
#define WEIR_BPF_ARG1 ctx[1]
#define WEIR_BPF_ARG2 ctx[2]
#define WEIR_BPF_ACK ((const struct ack_sample *)ctx[1])
/* cong_control has two parameters before Linux 6.10 (WEIR_OLD_CONG_CONTROL), four since. */
#ifdef WEIR_OLD_CONG_CONTROL
#define WEIR_BPF_RATE ((const struct rate_sample *)ctx[1])
#else
#define WEIR_BPF_RATE ((const struct rate_sample *)ctx[3])
#endif

#ifdef WEIR_RECORD
#include "record.h"
#else
#define WEIR_BPF_VOID(op, call)                      \
	SEC("struct_ops") int weir_op_##op(u64 *ctx) \
	{                                            \
		call;                                \
		return 0;                            \
	}
#define WEIR_BPF_U32(op, call)                       \
	SEC("struct_ops") u32 weir_op_##op(u64 *ctx) \
	{                                            \
		return call;                         \
	}
#endif

#define WEIR_BPF_SLOT(op, function) WEIR_BPF_SLOT_##op
#define WEIR_BPF_SLOT_init .init = (void *)weir_op_init,
#define WEIR_BPF_SLOT_release .release = (void *)weir_op_release,
#define WEIR_BPF_SLOT_ssthresh .ssthresh = (void *)weir_op_ssthresh,
#define WEIR_BPF_SLOT_cong_avoid .cong_avoid = (void *)weir_op_cong_avoid,
#define WEIR_BPF_SLOT_set_state .set_state = (void *)weir_op_set_state,
#define WEIR_BPF_SLOT_cwnd_event .cwnd_event = (void *)weir_op_cwnd_event,
#define WEIR_BPF_SLOT_in_ack_event .in_ack_event = (void *)weir_op_in_ack_event,
#define WEIR_BPF_SLOT_undo_cwnd .undo_cwnd = (void *)weir_op_undo_cwnd,
#define WEIR_BPF_SLOT_pkts_acked .pkts_acked = (void *)weir_op_pkts_acked,
#define WEIR_BPF_SLOT_cong_control .cong_control = (void *)weir_op_cong_control,
#define WEIR_BPF_SLOT_cong_control_rs .cong_control = (void *)weir_op_cong_control,
#define WEIR_BPF_SLOT_min_tso_segs .min_tso_segs = (void *)weir_op_min_tso_segs,
#define WEIR_BPF_SLOT_sndbuf_expand .sndbuf_expand = (void *)weir_op_sndbuf_expand,
#define WEIR_BPF_SLOT_min_cwnd

#define WEIR_BPF_OPERATIONS(id, flags_, OPS)                      \
	SEC(".struct_ops")                                        \
	struct tcp_congestion_ops weir_cc_##id = {                \
		OPS(WEIR_BPF_SLOT).name = WEIR_KERNEL_PREFIX #id, \
		.flags = (flags_),                                \
	};
#endif

#include "../include/weir_tcp.h"

/* Options ------------------------------------------------------------------------------------------------------- */

struct weir_option {
	u32 value;
	u32 min;
	u32 max;
};

#define WEIR_OPTION_GLOBAL(name, value, min, max, doc) \
	const volatile struct weir_option weir_opt_##name = {value, min, max};
#define WEIR_CC_OPTIONS(LIST) LIST(WEIR_OPTION_GLOBAL)
#define OPT(sk, name) ((void)(sk), weir_opt_##name.value)

/* Probes --------------------------------------------------------------------------------------------------------- */

#include "probe.h"

/* A replay and a recording compare single calls. */
#if defined(WEIR_REPLAY) || defined(WEIR_RECORD)
static __always_inline bool weir_probed(const struct sock *sk)
{
	(void)sk;
	return false;
}

static __always_inline void weir_probe_show(const struct sock *sk, u64 name0, u64 name1, s64 value)
{
	(void)sk;
	(void)name0;
	(void)name1;
	(void)value;
}
#else
/* Set by the loader where probes are sampled; otherwise the verifier removes them. */
const volatile u32 weir_probing = 0;

/* The values of each connection, by the descriptor of its socket for whoever has it. */
struct {
	int (*type)[24];     /* BPF_MAP_TYPE_SK_STORAGE */
	int (*map_flags)[1]; /* BPF_F_NO_PREALLOC */
	int *key;
	struct weir_probes *value;
} weir_probe_map SEC(".maps");

/* Helper 107 is bpf_sk_storage_get; with a last argument of 1 it makes what there is not. */
static void *(*const bpf_sk_storage_get)(void *map, void *sk, void *value, u64 flags) = (void *)107;

static __always_inline bool weir_probed(const struct sock *sk)
{
	(void)sk;
	return weir_probing;
}

static __attribute__((noinline, unused)) int weir_probe_show(const struct sock *sk, u64 name0, u64 name1, s64 value)
{
	struct weir_probes *probes = bpf_sk_storage_get(&weir_probe_map, (struct sock *)sk, 0, 1);

	if (probes)
		weir_probe_store(probes, name0, name1, value);
	return 0;
}
#endif

/* Registration -------------------------------------------------------------------------------------------------- */

#define WEIR_CC_ABOUT(title, year, source)

/* Linux calls other operations before init, while the connection is being established: discards their state. */
static __always_inline void weir_forget(struct sock *sk)
{
	u64 *word = inet_csk_ca(sk);
	u32 i;

#pragma unroll
	for (i = 0; i < ICSK_CA_PRIV_SIZE / sizeof(u64); i++)
		word[i] = 0;
}

#define WEIR_BPF_PROGRAM_init(f) WEIR_BPF_VOID(init, weir_forget(WEIR_BPF_SK); f(WEIR_BPF_SK))
#define WEIR_BPF_PROGRAM_release(f) WEIR_BPF_VOID(release, f(WEIR_BPF_SK))
#define WEIR_BPF_PROGRAM_ssthresh(f) WEIR_BPF_U32(ssthresh, f(WEIR_BPF_SK))
#define WEIR_BPF_PROGRAM_cong_avoid(f) WEIR_BPF_VOID(cong_avoid, f(WEIR_BPF_SK, WEIR_BPF_ARG1, WEIR_BPF_ARG2))
#define WEIR_BPF_PROGRAM_set_state(f) WEIR_BPF_VOID(set_state, f(WEIR_BPF_SK, WEIR_BPF_ARG1))
#define WEIR_BPF_PROGRAM_cwnd_event(f) WEIR_BPF_VOID(cwnd_event, f(WEIR_BPF_SK, WEIR_BPF_ARG1))
#define WEIR_BPF_PROGRAM_in_ack_event(f) WEIR_BPF_VOID(in_ack_event, f(WEIR_BPF_SK, WEIR_BPF_ARG1))
#define WEIR_BPF_PROGRAM_undo_cwnd(f) WEIR_BPF_U32(undo_cwnd, f(WEIR_BPF_SK))
#define WEIR_BPF_PROGRAM_pkts_acked(f) \
	WEIR_BPF_VOID(pkts_acked, weir_make_up(WEIR_BPF_SK); f(WEIR_BPF_SK, WEIR_BPF_ACK))
#define WEIR_BPF_PROGRAM_min_tso_segs(f) WEIR_BPF_U32(min_tso_segs, f(WEIR_BPF_SK))
#define WEIR_BPF_PROGRAM_sndbuf_expand(f) WEIR_BPF_U32(sndbuf_expand, f(WEIR_BPF_SK))
/* No kernel that loads BPF uses rate halving. */
#define WEIR_BPF_PROGRAM_min_cwnd(f) __attribute__((unused)) static u32 (*const weir_min_cwnd)(struct sock *) = f;
#define WEIR_BPF_PROGRAM_cong_control_rs(f) WEIR_BPF_VOID(cong_control, f(WEIR_BPF_SK, WEIR_BPF_RATE))
#if defined(WEIR_OLD_CONG_CONTROL) && !defined(WEIR_REPLAY)
#define WEIR_BPF_PROGRAM_cong_control(f) \
	WEIR_BPF_VOID(cong_control, f(WEIR_BPF_SK, tcp_sk(WEIR_BPF_SK)->snd_una, 0, WEIR_BPF_RATE))
#else
#define WEIR_BPF_PROGRAM_cong_control(f) \
	WEIR_BPF_VOID(cong_control, f(WEIR_BPF_SK, WEIR_BPF_ARG1, WEIR_BPF_ARG2, WEIR_BPF_RATE))
#endif

#define WEIR_BPF_PROGRAM(op, function) WEIR_BPF_PROGRAM_##op(function)

/* Skipped calls ------------------------------------------------------------------------------------------------- */

/*
 * Some kernels skip a program now and then. The caller of ssthresh then takes as its result what the stack held: 0, or
 * half of an address. Rate reduction multiplies the window by it, or ends with a window of 0. Linux calls pkts_acked
 * for each acknowledgement, before it reduces the window: there such a threshold is computed again, from the window
 * that the loss found. Stale values that a control could have computed are not recognised, nor are those of undo_cwnd.
 */
#define WEIR_BPF_MOST_PACKETS (1U << 24)

static __always_inline bool weir_possible(u32 packets)
{
	return packets != 0 && packets <= WEIR_BPF_MOST_PACKETS;
}

#define WEIR_BPF_AGAIN(op, function) WEIR_BPF_AGAIN_##op(function)
#define WEIR_BPF_AGAIN_ssthresh(f) _tp->snd_ssthresh = f(_sk);
#define WEIR_BPF_AGAIN_init(f)
#define WEIR_BPF_AGAIN_release(f)
#define WEIR_BPF_AGAIN_cong_avoid(f)
#define WEIR_BPF_AGAIN_set_state(f)
#define WEIR_BPF_AGAIN_cwnd_event(f)
#define WEIR_BPF_AGAIN_in_ack_event(f)
#define WEIR_BPF_AGAIN_undo_cwnd(f)
#define WEIR_BPF_AGAIN_pkts_acked(f)
#define WEIR_BPF_AGAIN_cong_control(f)
#define WEIR_BPF_AGAIN_cong_control_rs(f)
#define WEIR_BPF_AGAIN_min_tso_segs(f)
#define WEIR_BPF_AGAIN_sndbuf_expand(f)
#define WEIR_BPF_AGAIN_min_cwnd(f)

/* A replay and a recording compare single calls. */
#if defined(WEIR_REPLAY) || defined(WEIR_RECORD)
#define WEIR_BPF_MAKE_UP(OPS)                                                              \
	__attribute__((unused)) static __always_inline void weir_make_up(struct sock *_sk) \
	{                                                                                  \
		(void)_sk;                                                                 \
	}
#else
#define WEIR_BPF_MAKE_UP(OPS)                                                                       \
	__attribute__((unused)) static __always_inline void weir_make_up(struct sock *_sk)          \
	{                                                                                           \
		struct tcp_sock *_tp = tcp_sk(_sk);                                                 \
		u32 _cwnd = _tp->snd_cwnd;                                                          \
                                                                                                    \
		if (weir_possible(_tp->snd_ssthresh) || _tp->snd_ssthresh == TCP_INFINITE_SSTHRESH) \
			return;                                                                     \
		_tp->snd_cwnd = weir_possible(_tp->prior_cwnd) ? _tp->prior_cwnd : TCP_INIT_CWND;   \
		OPS(WEIR_BPF_AGAIN)                                                                 \
		_tp->snd_cwnd = weir_possible(_cwnd) ? _cwnd : _tp->snd_ssthresh;                   \
	}
#endif

struct weir_object {
	char name[TCP_CA_NAME_MAX]; /* as in cc/registry.txt */
	u32 name_at;                /* offsets in this object's struct tcp_congestion_ops */
	u32 flags_at;
};

#define WEIR_CC_REGISTER(id, name_, flags_, state, OPS)                                        \
	_Static_assert(sizeof(state) <= ICSK_CA_PRIV_SIZE, "private state exceeds 104 bytes"); \
	_Static_assert(sizeof(WEIR_KERNEL_PREFIX #id) <= TCP_CA_NAME_MAX,                      \
		       "an identifier has at most 15 characters with its prefix");             \
	char _license[] SEC("license") = "Dual MIT/GPL";                                       \
	const volatile struct weir_object weir_object = {                                      \
		name_,                                                                         \
		__builtin_offsetof(struct tcp_congestion_ops, name),                           \
		__builtin_offsetof(struct tcp_congestion_ops, flags),                          \
	};                                                                                     \
	WEIR_BPF_MAKE_UP(OPS)                                                                  \
	OPS(WEIR_BPF_PROGRAM)                                                                  \
	WEIR_BPF_OPERATIONS(id, flags_, OPS)

#endif
