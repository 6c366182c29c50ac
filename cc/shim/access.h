/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Linux' accessors, for struct sock as in sock.h. Time is the flow's own clock, so that a call sees the same instant
 * wherever it is replayed.
 */
#ifndef WEIR_SHIM_ACCESS_H
#define WEIR_SHIM_ACCESS_H

/* Linux' accessors drop const as well: read-only access is enforced field by field. */
#include "echo.h"
#include "random.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-qual"

static __always_inline struct tcp_sock *tcp_sk(const struct sock *sk)
{
	return (struct tcp_sock *)&sk->weir_tcp;
}

static __always_inline struct inet_connection_sock *inet_csk(const struct sock *sk)
{
	return (struct inet_connection_sock *)&sk->weir_icsk;
}

static __always_inline void *inet_csk_ca(const struct sock *sk)
{
	return (void *)sk->weir_icsk.icsk_ca_priv;
}

#pragma GCC diagnostic pop

#define HZ ((sk)->weir_hz)
#define tcp_jiffies32 weir_jiffies32(sk)

static __always_inline u32 weir_jiffies32(const struct sock *sk)
{
	return (u32)(sk->weir_tcp.tcp_mstamp * sk->weir_hz / USEC_PER_SEC);
}

static __always_inline bool weir_cwnd_limited_flag(const struct tcp_sock *tp)
{
	return tp->is_cwnd_limited;
}

static __always_inline u8 weir_ca_state(const struct sock *sk)
{
	return sk->weir_icsk.icsk_ca_state;
}

/* A random number below n, for choices that flows should not make alike. */
static __always_inline u32 weir_random_below(const struct sock *sk, u32 n)
{
	return weir_hash_below(sk->weir_random ^ (u32)sk->weir_tcp.tcp_mstamp, sk->weir_tcp.delivered, n);
}

/* A byte of such a number. */
static __always_inline u32 weir_random_byte(const struct sock *sk)
{
	return weir_random_below(sk, 256);
}

/* The transport cannot be asked to reduce the window: the control does it itself. */
static __always_inline bool weir_enter_cwr(struct sock *sk)
{
	(void)sk;
	return false;
}

#include "stamps.h"

/* The simulator's receiver echoes marks itself (crates/weir-tcp/src/receiver.rs). */
static __always_inline void weir_echo_mark(struct sock *sk, struct weir_echo *echo, bool is_marked)
{
	(void)sk;
	(void)echo;
	(void)is_marked;
}

static __always_inline u32 tcp_min_rtt(const struct tcp_sock *tp)
{
	return tp->weir_rtt_min_us;
}

#endif
