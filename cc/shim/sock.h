/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The part of Linux' struct tcp_sock that a congestion control sees, as an ordinary C struct, and the arguments of its
 * operations.
 *
 * crates/weir-cc/src/sock.rs mirrors the layout and verifies it field by field. A field that BPF struct_ops may not
 * write is const: writing it does not compile.
 */
#ifndef WEIR_SHIM_SOCK_H
#define WEIR_SHIM_SOCK_H

#define WEIR_CC_MAX_OPTIONS 20

struct tcp_sock {
	u32 snd_cwnd;               /* congestion window, packets */
	u32 snd_cwnd_cnt;           /* packets acknowledged since the last linear increase */
	u32 snd_cwnd_stamp;         /* jiffies32 of the last change by validation or undo */
	u32 snd_ssthresh;           /* slow-start threshold, packets */
	const u32 snd_cwnd_clamp;   /* never above this, packets */
	const u32 packets_out;      /* packets sent and not cumulatively acknowledged */
	const u32 sacked_out;       /* of those, selectively acknowledged */
	const u32 lost_out;         /* of those, marked lost */
	const u32 retrans_out;      /* retransmissions in flight */
	const u32 max_packets_out;  /* most packets in flight in the last window */
	const u32 snd_una;          /* first byte not acknowledged, wraps */
	const u32 snd_nxt;          /* next byte to send, wraps */
	const u32 srtt_us;          /* smoothed RTT << 3, microseconds */
	const u32 mdev_us;          /* mean deviation << 2, microseconds */
	const u32 weir_rtt_min_us;  /* windowed minimum RTT; read through tcp_min_rtt() */
	const u32 mss_cache;        /* bytes a packet carries */
	const u64 tcp_mstamp;       /* the flow's clock, microseconds */
	const u64 delivered_mstamp; /* time of the last delivery, microseconds */
	const u64 first_tx_mstamp;  /* send time of the packet delivered first in the window, microseconds */
	const u64 tcp_clock_cache;  /* the flow's clock, nanoseconds */
	const u64 tcp_wstamp_ns;    /* departure of the next packet by pacing, on that clock */
	const u32 delivered;        /* packets delivered, retransmissions included */
	const u32 delivered_ce;     /* of those, with a congestion mark */
	const u32 lost;             /* packets ever marked lost */
	u32 app_limited;            /* 0, or the value of delivered until which samples are application-limited */
	const u32 prior_cwnd;       /* congestion window before recovery */
	const u32 prior_ssthresh;   /* threshold before recovery */
	const u32 lsndtime;         /* jiffies32 of the last data packet sent */
	const u8 is_cwnd_limited;   /* the window, not the application, limited the last flight */
	u8 ecn_flags;               /* TCP_ECN_* */
	const u8 weir_reserved[2];
};

struct inet_connection_sock {
	const u8 icsk_ca_state;    /* enum tcp_ca_state */
	const u8 icsk_retransmits; /* timeouts in a row */
	const u8 weir_reserved[6];
	u64 icsk_ca_priv[ICSK_CA_PRIV_SIZE / sizeof(u64)];
};

/*
 * The private state is last: the host places a page without access after it, so that writing beyond it ends the call.
 */
struct sock {
	struct tcp_sock weir_tcp;
	u64 sk_pacing_rate;           /* bytes a second; ~0 is unlimited */
	const u64 sk_max_pacing_rate; /* bytes a second */
	u32 sk_pacing_status;         /* SK_PACING_* */
	const u32 weir_hz;            /* jiffies a second */
	const u32 weir_random;        /* the flow's own seed; read through weir_random_below() */
	const u32 weir_reserved;
	const u64 weir_probes; /* address of a struct weir_probes; 0 where nobody samples probes */
	const u32 weir_options[WEIR_CC_MAX_OPTIONS];
	struct inet_connection_sock weir_icsk;
};

struct ack_sample {
	u32 pkts_acked;
	s32 rtt_us;    /* negative: no sample */
	u32 in_flight; /* bytes delivered since the acknowledged packet was sent */
};

struct rate_sample {
	u64 prior_mstamp;    /* start of the sample, microseconds */
	u32 prior_delivered; /* tcp_sock.delivered at prior_mstamp */
	u32 prior_delivered_ce;
	s32 delivered; /* packets delivered over the interval; negative: no sample */
	s32 delivered_ce;
	s64 interval_us; /* negative: no sample */
	u32 snd_interval_us;
	u32 rcv_interval_us;
	s64 rtt_us;       /* of the last packet acknowledged; negative: no sample */
	s32 losses;       /* packets marked lost on this ACK */
	u32 acked_sacked; /* packets newly acknowledged or selectively acknowledged */
	u32 prior_in_flight;
	u32 last_end_seq;
	u8 is_app_limited;
	u8 is_retrans;
	u8 is_ack_delayed;
	u8 weir_reserved[5];
};

#endif
