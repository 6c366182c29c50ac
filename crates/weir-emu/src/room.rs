//! Memory for the packets that the links of a plan can hold, had before the run: a list that grows to twice its size while
//! packets come and go keeps them waiting for milliseconds.

use weir_links::{Link, Record};

/// Bytes of a full packet: of smaller ones, a link may hold more than there was room for.
const PACKET_BYTES: u64 = 1500;
/// Most packets in a queue or beyond it that room is made for: what 10 Gb/s carry in 150 ms.
const MAX_PACKETS: u64 = 1 << 17;
/// Room is made for links that can hold more than this; what grows up to there is soon done.
const MIN_PACKETS: u64 = 1 << 10;
/// Most packets on all links: 20 MB, which are had within some milliseconds.
const ALL_PACKETS: u64 = 1 << 19;

/// Makes room on the links of a plan.
pub fn reserve<P: Record>(plan: &[weir_plan::Link], links: &mut [Link<P>]) {
    let mut left = ALL_PACKETS;
    for (plan, link) in plan.iter().zip(links) {
        let (waiting, under_way) = most_packets(plan);
        if waiting + under_way > MIN_PACKETS && waiting + under_way <= left {
            left -= waiting + under_way;
            link.reserve(waiting as usize, under_way as usize);
        }
    }
}

/// Full packets that a link holds at most: in its queue, and beyond it.
fn most_packets(link: &weir_plan::Link) -> (u64, u64) {
    // Nothing for a queue without a limit, which is that of a host's network card and stays short.
    let waiting = link.queue.limit().max_packets(PACKET_BYTES).unwrap_or(0);
    let bits = u128::from(link.rate_bps) * u128::from(link.delay.max_ns()) / 1_000_000_000;
    let under_way = bits / u128::from(8 * PACKET_BYTES);
    (waiting.min(MAX_PACKETS), under_way.min(u128::from(MAX_PACKETS)) as u64)
}
