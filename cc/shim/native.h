/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Native shim: a table of ordinary functions over struct sock as in sock.h.
 *
 * A congestion control may write the fields that bpf_tcp_ca.c lets a BPF program write: snd_cwnd, snd_cwnd_cnt,
 * snd_cwnd_stamp, snd_ssthresh, ecn_flags, app_limited, sk_pacing_rate, sk_pacing_status and the private state. The
 * other fields are const.
 */
#ifndef WEIR_SHIM_NATIVE_H
#define WEIR_SHIM_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;

#ifndef __always_inline
#define __always_inline inline __attribute__((always_inline))
#endif
#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/*
 * Raised whenever a struct below or the meaning of a field changes; a shared object built against another version is
 * refused.
 */
#define WEIR_CC_ABI 5

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

/* tcp_congestion_ops.flags */
#define TCP_CONG_NON_RESTRICTED 0x1
#define TCP_CONG_NEEDS_ECN 0x2
#define TCP_CONG_NEEDS_ACCECN 0x4
#define TCP_CONG_ECT_1_NEGOTIATION 0x8
/* ack_sample.in_flight is exact, as in Linux; every other control spares the simulator that. Not a flag of the kernel.
 */
#define TCP_CONG_NEEDS_SAMPLES 0x100

/* tcp_sock.ecn_flags */
#define TCP_ECN_OK 1
#define TCP_ECN_QUEUE_CWR 2
#define TCP_ECN_DEMAND_CWR 4
#define TCP_ECN_SEEN 8

/* sock.sk_pacing_status */
#define SK_PACING_NONE 0
#define SK_PACING_NEEDED 1
#define SK_PACING_FQ 2

#include "sock.h"

#include "access.h"
#include "probe.h"

static __always_inline bool weir_probed(const struct sock *sk)
{
	return unlikely(sk->weir_probes);
}

/* Out of line: a control pays a test for each probe, not its code. */
static __attribute__((noinline, cold, unused)) void weir_probe_show(const struct sock *sk, u64 name0, u64 name1,
								    s64 value)
{
	weir_probe_store((struct weir_probes *)(uintptr_t)sk->weir_probes, name0, name1, value);
}

struct weir_cc_option {
	const char *name;
	const char *doc;
	u32 value;
	u32 min;
	u32 max;
	u32 reserved;
};

/* Linux' tcp_congestion_ops, preceded by the fields with which the host verifies and describes it. */
struct tcp_congestion_ops {
	u32 abi;
	u32 sock_size;
	u32 priv_size;
	u32 flags;
	const char *name;
	const char *title;
	const char *source;
	u32 year;
	u32 option_count;
	const struct weir_cc_option *options;

	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	void (*set_state)(struct sock *sk, u8 new_state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event ev);
	void (*in_ack_event)(struct sock *sk, u32 flags);
	u32 (*undo_cwnd)(struct sock *sk);
	void (*pkts_acked)(struct sock *sk, const struct ack_sample *sample);
	void (*cong_control)(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs);
	void (*cong_control_rs)(struct sock *sk, const struct rate_sample *rs); /* Linux before 6.10 */
	u32 (*min_tso_segs)(struct sock *sk);
	u32 (*sndbuf_expand)(struct sock *sk);
	u32 (*min_cwnd)(struct sock *sk); /* Linux before 3.7 */
};

/* Arithmetic ---------------------------------------------------------------------------------------------------- */

static inline u64 div64_u64(u64 dividend, u64 divisor)
{
	return dividend / divisor;
}

#include "../include/weir_tcp.h"

/* Options ------------------------------------------------------------------------------------------------------- */

#define WEIR_OPTION_FIELD(name, value, min, max, doc) u32 name;
#define WEIR_OPTION_ROW(name, value, min, max, doc) {#name, doc, value, min, max, 0},
#define WEIR_OPTION_CHECK(name, value, min, max, doc)                    \
	_Static_assert((value) >= (min) + 0LL && (value) <= (max) + 0LL, \
		       "default of option " #name " is " #value ", outside of its range " #min " to " #max);

#define WEIR_CC_OPTIONS(LIST)                                                               \
	struct weir_cc_options {                                                            \
		LIST(WEIR_OPTION_FIELD)                                                     \
	};                                                                                  \
	LIST(WEIR_OPTION_CHECK)                                                             \
	_Static_assert(sizeof(struct weir_cc_options) <= WEIR_CC_MAX_OPTIONS * sizeof(u32), \
		       "a congestion control has at most WEIR_CC_MAX_OPTIONS options");     \
	static const struct weir_cc_option weir_option_rows[] = {LIST(WEIR_OPTION_ROW)};

#define OPT(sk, name) (((const struct weir_cc_options *)(sk)->weir_options)->name)

/* Registration -------------------------------------------------------------------------------------------------- */

#define WEIR_CC_ABOUT(title_, year_, source_)            \
	static const char weir_about_title[] = title_;   \
	static const char weir_about_source[] = source_; \
	enum {                                           \
		weir_about_year = (year_)                \
	};

#define WEIR_OP_SLOT(op, function) .op = function,

#ifdef WEIR_CC_SHARED
/*
 * A shared object is linked without libc; the compiler may still call these two for a struct that it clears or copies.
 */
#ifdef __clang__
#define WEIR_PLAIN_LOOP __attribute__((weak))
#else
#define WEIR_PLAIN_LOOP __attribute__((weak, optimize("no-tree-loop-distribute-patterns")))
#endif

WEIR_PLAIN_LOOP void *memset(void *to, int byte, size_t size)
{
	for (size_t i = 0; i < size; i++)
		((u8 *)to)[i] = (u8)byte;
	return to;
}

WEIR_PLAIN_LOOP void *memcpy(void *restrict to, const void *restrict from, size_t size)
{
	for (size_t i = 0; i < size; i++)
		((u8 *)to)[i] = ((const u8 *)from)[i];
	return to;
}

#ifdef WEIR_CC_SANITIZE
#include "undefined.h"
#endif

#define WEIR_CC_SYMBOL(id) weir_cc_entry
#ifndef WEIR_CC_SOURCE
#define WEIR_CC_SOURCE ""
#endif
/* weir_cc_built_from identifies the source, so that an edited file is detected without loading the object. */
#define WEIR_CC_EXPORT_ABI                                                          \
	__attribute__((visibility("default"))) const u32 weir_cc_abi = WEIR_CC_ABI; \
	__attribute__((visibility("default"))) const char weir_cc_built_from[] = "weir-cc-built-from:" WEIR_CC_SOURCE;
#else
#define WEIR_CC_SYMBOL(id) weir_cc_##id
#define WEIR_CC_EXPORT_ABI
#endif

/* Compilers print both types of a pointer, and so the size of an oversized state. */
#define WEIR_CC_STATE_SIZE(state)                                                         \
	__attribute__((unused)) static char (*const weir_state_size)[ICSK_CA_PRIV_SIZE] = \
		(char (*)[sizeof(state) <= ICSK_CA_PRIV_SIZE ? ICSK_CA_PRIV_SIZE : sizeof(state)])0;

#define WEIR_CC_REGISTER(id, name_, flags_, state, OPS)                                               \
	_Static_assert(sizeof(state) <= ICSK_CA_PRIV_SIZE, "private state exceeds 104 bytes");        \
	WEIR_CC_STATE_SIZE(state)                                                                     \
	_Static_assert(sizeof("weir_" #id) <= TCP_CA_NAME_MAX,                                        \
		       "the identifier " #id " has more than 10 characters: in Linux it is weir_" #id \
		       ", of at most 15");                                                            \
	_Static_assert(_Alignof(state) <= _Alignof(u64), "private state is aligned to 8 bytes");      \
	_Static_assert(sizeof(name_) <= TCP_CA_NAME_MAX, "a name has at most 15 characters");         \
	WEIR_CC_EXPORT_ABI                                                                            \
	__attribute__((visibility("default"))) const struct tcp_congestion_ops WEIR_CC_SYMBOL(id) = { \
		.abi = WEIR_CC_ABI,                                                                   \
		.sock_size = sizeof(struct sock),                                                     \
		.priv_size = sizeof(state),                                                           \
		.flags = (flags_),                                                                    \
		.name = name_,                                                                        \
		.title = weir_about_title,                                                            \
		.source = weir_about_source,                                                          \
		.year = weir_about_year,                                                              \
		.option_count = sizeof(weir_option_rows) / sizeof(weir_option_rows[0]),               \
		.options = weir_option_rows,                                                          \
		OPS(WEIR_OP_SLOT)};

#endif
