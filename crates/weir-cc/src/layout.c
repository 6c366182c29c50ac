// SPDX-License-Identifier: MIT OR GPL-2.0
/* Sizes and offsets of the native shim, for the layout test of sock.rs. The order is that of sock.rs. */
#include "weir_cc.h"

#define TCP(field) offsetof(struct sock, weir_tcp) + offsetof(struct tcp_sock, field)
#define ICSK(field) offsetof(struct sock, weir_icsk) + offsetof(struct inet_connection_sock, field)
#define SOCK(field) offsetof(struct sock, field)

const u32 weir_layout_sock[] = {
	TCP(snd_cwnd),          TCP(snd_cwnd_cnt),     TCP(snd_cwnd_stamp),    TCP(snd_ssthresh),
	TCP(snd_cwnd_clamp),    TCP(packets_out),      TCP(sacked_out),        TCP(lost_out),
	TCP(retrans_out),       TCP(max_packets_out),  TCP(snd_una),           TCP(snd_nxt),
	TCP(srtt_us),           TCP(mdev_us),          TCP(weir_rtt_min_us),   TCP(mss_cache),
	TCP(tcp_mstamp),        TCP(delivered_mstamp), TCP(first_tx_mstamp),   TCP(tcp_clock_cache),
	TCP(tcp_wstamp_ns),     TCP(delivered),        TCP(delivered_ce),      TCP(lost),
	TCP(app_limited),       TCP(prior_cwnd),       TCP(prior_ssthresh),    TCP(lsndtime),
	TCP(is_cwnd_limited),   TCP(ecn_flags),        SOCK(sk_pacing_rate),   SOCK(sk_max_pacing_rate),
	SOCK(sk_pacing_status), SOCK(weir_hz),         SOCK(weir_random),      SOCK(weir_probes),
	SOCK(weir_options),     ICSK(icsk_ca_state),   ICSK(icsk_retransmits), ICSK(icsk_ca_priv),
	sizeof(struct sock),
};

#define PROBES(field) offsetof(struct weir_probes, field)
const u32 weir_layout_probes[] = {
	PROBES(refused),
	sizeof(struct weir_probe),
	offsetof(struct weir_probe, value),
	sizeof(struct weir_probes),
};

#define RATE(field) offsetof(struct rate_sample, field)
const u32 weir_layout_rate_sample[] = {
	RATE(prior_mstamp),    RATE(prior_delivered),      RATE(prior_delivered_ce),
	RATE(delivered),       RATE(delivered_ce),         RATE(interval_us),
	RATE(snd_interval_us), RATE(rcv_interval_us),      RATE(rtt_us),
	RATE(losses),          RATE(acked_sacked),         RATE(prior_in_flight),
	RATE(last_end_seq),    RATE(is_app_limited),       RATE(is_retrans),
	RATE(is_ack_delayed),  sizeof(struct rate_sample),
};

#define OPS(field) offsetof(struct tcp_congestion_ops, field)
const u32 weir_layout_ops[] = {
	OPS(abi),
	OPS(sock_size),
	OPS(priv_size),
	OPS(flags),
	OPS(name),
	OPS(title),
	OPS(source),
	OPS(year),
	OPS(option_count),
	OPS(options),
	OPS(init),
	OPS(release),
	OPS(ssthresh),
	OPS(cong_avoid),
	OPS(set_state),
	OPS(cwnd_event),
	OPS(in_ack_event),
	OPS(undo_cwnd),
	OPS(pkts_acked),
	OPS(cong_control),
	OPS(cong_control_rs),
	OPS(min_tso_segs),
	OPS(sndbuf_expand),
	OPS(min_cwnd),
	sizeof(struct tcp_congestion_ops),
	sizeof(struct weir_cc_option),
	sizeof(struct ack_sample),
};
