/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Kernel-module shim: the same source as a loadable congestion control, with the kernel's own types and helpers.
 *
 * Kbuild:  obj-m := NAME.o   ccflags-y := -I $(weir)/cc/include
 *
 * An option is a module parameter, the same for all flows. The registered name is the identifier with a prefix, as in
 * bpf.h.
 */
#ifndef WEIR_SHIM_KMOD_H
#define WEIR_SHIM_KMOD_H

#include <linux/hashtable.h>
#include <linux/inet_diag.h>
#include <linux/jiffies.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/random.h>
#include <linux/rculist.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/version.h>
#include <net/tcp.h>

#ifndef CONFIG_64BIT
#error "a congestion control of weir divides 64-bit numbers: it needs a 64-bit kernel"
#endif

#ifndef WEIR_KERNEL_PREFIX
#define WEIR_KERNEL_PREFIX "weir_"
#endif

static inline bool weir_cwnd_limited_flag(const struct tcp_sock *tp)
{
	return tp->is_cwnd_limited;
}

static inline u8 weir_ca_state(const struct sock *sk)
{
	return inet_csk(sk)->icsk_ca_state;
}

/* Inline, because the kernel draws a byte for a constant up to 256, and a word for anything else. */
static __always_inline u32 weir_random_below(const struct sock *sk, u32 n)
{
	(void)sk;
	return get_random_u32_below(n);
}

static inline u32 weir_random_byte(const struct sock *sk)
{
	u8 byte;

	(void)sk;
	get_random_bytes(&byte, 1);
	return byte;
}

/* Linux reduces the window to ssthresh() packet by packet; whether it does. */
static inline bool weir_enter_cwr(struct sock *sk)
{
	tcp_enter_cwr(sk);
	return true;
}

#define WEIR_KERNEL_STAMPS
#include "stamps.h"

static inline struct weir_stamps weir_stamps(const struct sock *sk, s32 rtt_us)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	struct weir_stamps stamps = {
		(u32)div_u64(tp->tcp_mstamp, USEC_PER_MSEC),
		tp->rx_opt.rcv_tsval,
		tp->rx_opt.rcv_tsecr,
	};

	(void)rtt_us;
	return stamps;
}

/* Linux samples the delivery rate of every connection. */
#define TCP_CONG_NEEDS_SAMPLES 0

/* It has a third parameter in some kernels. */
static inline void weir_send_ack(struct sock *sk, u32 rcv_nxt)
{
	if (__builtin_types_compatible_p(typeof(&__tcp_send_ack), void (*)(struct sock *, u32)))
		((void (*)(struct sock *, u32))(void *)__tcp_send_ack)(sk, rcv_nxt);
	else
		((void (*)(struct sock *, u32, u16))(void *)__tcp_send_ack)(sk, rcv_nxt, 0);
}

/* Flags of later kernels. */
#ifndef TCP_CONG_NEEDS_ACCECN
#define TCP_CONG_NEEDS_ACCECN 0
#endif
#ifndef TCP_CONG_ECT_1_NEGOTIATION
#define TCP_CONG_ECT_1_NEGOTIATION 0
#endif

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

/* As in weir_tcp.h; the kernel had it until it reduced windows by proportional rate reduction. */
static inline u32 tcp_reno_min_cwnd(struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh / 2;
}

/* Options ------------------------------------------------------------------------------------------------------- */

#define WEIR_OPTION_PARAMETER(name, value, min, max, doc)                                                         \
	static uint weir_opt_##name = value;                                                                      \
	module_param_cb(name, &weir_parameter_ops, (&(struct weir_parameter){&weir_opt_##name, min, max}), 0644); \
	MODULE_PARM_DESC(name, doc);

struct weir_parameter {
	uint *value;
	uint min;
	uint max;
};

static int weir_parameter_set(const char *text, const struct kernel_param *parameter)
{
	const struct weir_parameter *option = parameter->arg;
	uint value;
	int error = kstrtouint(text, 0, &value);

	if (error)
		return error;
	if (value < option->min || value > option->max)
		return -EINVAL;
	*option->value = value;
	return 0;
}

static int weir_parameter_get(char *buffer, const struct kernel_param *parameter)
{
	const struct weir_parameter *option = parameter->arg;

	return scnprintf(buffer, PAGE_SIZE, "%u\n", *option->value);
}

static const struct kernel_param_ops weir_parameter_ops = {.set = weir_parameter_set, .get = weir_parameter_get};

#define WEIR_CC_OPTIONS(LIST) LIST(WEIR_OPTION_PARAMETER)
#define OPT(sk, name) ((void)(sk), READ_ONCE(weir_opt_##name))

/* Probes --------------------------------------------------------------------------------------------------------- */

#include "probe.h"

/*
 * The values of a connection are kept from the first time that somebody asks for them by TCP_CC_INFO. An answer has 20
 * bytes in every kernel: one probe, the next time another.
 */
struct weir_probe_answer {
	s64 value;
	char name[WEIR_PROBE_NAME_MAX];
} __packed;

struct weir_probed {
	struct hlist_node node;
	const struct sock *sk;
	u32 next;
	struct weir_probes probes;
	struct rcu_head rcu;
};

static DEFINE_HASHTABLE(weir_probed_table, 6);
static DEFINE_SPINLOCK(weir_probed_lock);
static u32 weir_probed_count;

static inline bool weir_probed(const struct sock *sk)
{
	(void)sk;
	return unlikely(READ_ONCE(weir_probed_count));
}

static inline struct weir_probed *weir_probed_find(const struct sock *sk)
{
	struct weir_probed *found;

	hash_for_each_possible_rcu (weir_probed_table, found, node, (unsigned long)sk)
		if (found->sk == sk)
			return found;
	return NULL;
}

static noinline __maybe_unused void weir_probe_show(const struct sock *sk, u64 name0, u64 name1, s64 value)
{
	struct weir_probed *found;

	rcu_read_lock();
	found = weir_probed_find(sk);
	if (found)
		weir_probe_store(&found->probes, name0, name1, value);
	rcu_read_unlock();
}

static inline void weir_probed_add(const struct sock *sk)
{
	struct weir_probed *made = kzalloc(sizeof(*made), GFP_ATOMIC);

	if (!made)
		return;
	made->sk = sk;
	spin_lock_bh(&weir_probed_lock);
	if (weir_probed_find(sk)) {
		kfree(made);
	} else {
		hash_add_rcu(weir_probed_table, &made->node, (unsigned long)sk);
		WRITE_ONCE(weir_probed_count, weir_probed_count + 1);
	}
	spin_unlock_bh(&weir_probed_lock);
}

static inline void weir_probed_remove(const struct sock *sk)
{
	struct weir_probed *found;

	if (!weir_probed(sk))
		return;
	spin_lock_bh(&weir_probed_lock);
	found = weir_probed_find(sk);
	if (found) {
		hash_del_rcu(&found->node);
		WRITE_ONCE(weir_probed_count, weir_probed_count - 1);
		kfree_rcu(found, rcu);
	}
	spin_unlock_bh(&weir_probed_lock);
}

/* The next probe that has a value; a name of zeros if there is none. */
static inline void weir_probe_next(struct weir_probed *found, struct weir_probe_answer *answer)
{
	const struct weir_probe *probe = &found->probes.probe[found->next % WEIR_MAX_PROBES];

	if (!probe->name[0]) {
		found->next = 0;
		probe = &found->probes.probe[0];
	}
	found->next++;
	answer->value = probe->value;
	memcpy(answer->name, probe->name, sizeof(answer->name));
}

static size_t weir_probe_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
{
	struct weir_probe_answer answer = {};
	struct weir_probed *found;

	BUILD_BUG_ON(sizeof(answer) > sizeof(*info));
	(void)attr;
	if (ext != ~0U) /* a dump of sockets, which asks for the forms that it knows */
		return 0;
	rcu_read_lock();
	found = weir_probed_find(sk);
	if (found)
		weir_probe_next(found, &answer);
	rcu_read_unlock();
	if (!found)
		weir_probed_add(sk);
	memcpy(info, &answer, sizeof(answer));
	return sizeof(answer);
}

/* Registration -------------------------------------------------------------------------------------------------- */

#define WEIR_CC_ABOUT(title, year, source) MODULE_DESCRIPTION(title ": " source);

#define WEIR_KMOD_SLOT(op, function) WEIR_KMOD_SLOT_##op(function)
#define WEIR_KMOD_SLOT_init(f) .init = weir_adapt_init,
#define WEIR_KMOD_SLOT_release(f)
#define WEIR_KMOD_SLOT_ssthresh(f) .ssthresh = f,
#define WEIR_KMOD_SLOT_cong_avoid(f) .cong_avoid = f,
#define WEIR_KMOD_SLOT_set_state(f) .set_state = f,
#define WEIR_KMOD_SLOT_cwnd_event(f) .cwnd_event = f,
#define WEIR_KMOD_SLOT_in_ack_event(f) .in_ack_event = f,
#define WEIR_KMOD_SLOT_undo_cwnd(f) .undo_cwnd = f,
#define WEIR_KMOD_SLOT_pkts_acked(f) .pkts_acked = f,
#define WEIR_KMOD_SLOT_min_tso_segs(f) .min_tso_segs = f,
#define WEIR_KMOD_SLOT_sndbuf_expand(f) .sndbuf_expand = f,
#define WEIR_KMOD_SLOT_min_cwnd(f)
#define WEIR_KMOD_SLOT_cong_control(f) .cong_control = weir_adapt_cong_control,
#define WEIR_KMOD_SLOT_cong_control_rs(f) .cong_control = weir_adapt_cong_control,

/* cong_control has two parameters before Linux 6.10, four since; a source may be written either way. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 10, 0)
#define WEIR_KMOD_CONTROL(call)                                                            \
	static void weir_adapt_cong_control(struct sock *sk, const struct rate_sample *rs) \
	{                                                                                  \
		u32 ack = tcp_sk(sk)->snd_una;                                             \
		int flag = 0;                                                              \
                                                                                           \
		(void)ack;                                                                 \
		(void)flag;                                                                \
		call;                                                                      \
	}
#else
#define WEIR_KMOD_CONTROL(call)                                                                               \
	static void weir_adapt_cong_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs) \
	{                                                                                                     \
		call;                                                                                         \
	}
#endif

#define WEIR_KMOD_ADAPT(op, function) WEIR_KMOD_ADAPT_##op(function)
/* Linux calls other operations before init, while the connection is being established: discards their state. */
#define WEIR_KMOD_ADAPT_init(f)                                                            \
	static void weir_adapt_init(struct sock *sk)                                       \
	{                                                                                  \
		memset(inet_csk(sk)->icsk_ca_priv, 0, sizeof(inet_csk(sk)->icsk_ca_priv)); \
		f(sk);                                                                     \
	}
#define WEIR_KMOD_ADAPT_release(f)
#define WEIR_KMOD_ADAPT_ssthresh(f)
#define WEIR_KMOD_ADAPT_cong_avoid(f)
#define WEIR_KMOD_ADAPT_set_state(f)
#define WEIR_KMOD_ADAPT_cwnd_event(f)
#define WEIR_KMOD_ADAPT_in_ack_event(f)
#define WEIR_KMOD_ADAPT_undo_cwnd(f)
#define WEIR_KMOD_ADAPT_pkts_acked(f)
#define WEIR_KMOD_ADAPT_min_tso_segs(f)
#define WEIR_KMOD_ADAPT_sndbuf_expand(f)
/* No kernel that this builds for uses rate halving. */
#define WEIR_KMOD_ADAPT_min_cwnd(f) static u32 (*const weir_min_cwnd)(struct sock *) __maybe_unused = f;
#define WEIR_KMOD_ADAPT_cong_control(f) WEIR_KMOD_CONTROL(f(sk, ack, flag, rs))
#define WEIR_KMOD_ADAPT_cong_control_rs(f) WEIR_KMOD_CONTROL(f(sk, rs))

#define WEIR_KMOD_RELEASE(op, function) WEIR_KMOD_RELEASE_##op(function)
#define WEIR_KMOD_RELEASE_release(f) f(sk);
#define WEIR_KMOD_RELEASE_init(f)
#define WEIR_KMOD_RELEASE_ssthresh(f)
#define WEIR_KMOD_RELEASE_cong_avoid(f)
#define WEIR_KMOD_RELEASE_set_state(f)
#define WEIR_KMOD_RELEASE_cwnd_event(f)
#define WEIR_KMOD_RELEASE_in_ack_event(f)
#define WEIR_KMOD_RELEASE_undo_cwnd(f)
#define WEIR_KMOD_RELEASE_pkts_acked(f)
#define WEIR_KMOD_RELEASE_min_tso_segs(f)
#define WEIR_KMOD_RELEASE_sndbuf_expand(f)
#define WEIR_KMOD_RELEASE_min_cwnd(f)
#define WEIR_KMOD_RELEASE_cong_control(f)
#define WEIR_KMOD_RELEASE_cong_control_rs(f)

#define WEIR_CC_REGISTER(id, name_, flags_, state, OPS)                                       \
	static_assert(sizeof(state) <= ICSK_CA_PRIV_SIZE, "private state exceeds 104 bytes"); \
	static_assert(sizeof(WEIR_KERNEL_PREFIX #id) <= TCP_CA_NAME_MAX,                      \
		      "an identifier has at most 15 characters with its prefix");             \
	OPS(WEIR_KMOD_ADAPT)                                                                  \
	static void weir_adapt_release(struct sock *sk)                                       \
	{                                                                                     \
		OPS(WEIR_KMOD_RELEASE)                                                        \
		weir_probed_remove(sk);                                                       \
	}                                                                                     \
	static struct tcp_congestion_ops weir_cc_##id __read_mostly = {                       \
		OPS(WEIR_KMOD_SLOT).release = weir_adapt_release,                             \
		.get_info = weir_probe_info,                                                  \
		.name = WEIR_KERNEL_PREFIX #id,                                               \
		.flags = (flags_),                                                            \
		.owner = THIS_MODULE,                                                         \
	};                                                                                    \
	static int __init weir_cc_register(void)                                              \
	{                                                                                     \
		return tcp_register_congestion_control(&weir_cc_##id);                        \
	}                                                                                     \
	static void __exit weir_cc_unregister(void)                                           \
	{                                                                                     \
		tcp_unregister_congestion_control(&weir_cc_##id);                             \
	}                                                                                     \
	module_init(weir_cc_register);                                                        \
	module_exit(weir_cc_unregister);                                                      \
	MODULE_LICENSE("Dual MIT/GPL");

#endif
