//! Preallocates link storage: reallocating during a run stalls packets for milliseconds.

use weir_links::{Link, Record};

/// Bytes of a full packet. The storage may still grow for smaller packets.
const PACKET_BYTES: u64 = 1500;
/// Maximum packets preallocated for a queue or a propagation delay: those of 150 ms at 10 Gb/s.
const MAX_PACKETS: u64 = 1 << 17;
/// Storage up to this size grows quickly enough, without preallocation.
const MIN_PACKETS: u64 = 1 << 10;
/// Maximum packets preallocated on all links: 20 MB, allocated within some milliseconds.
const ALL_PACKETS: u64 = 1 << 19;

/// Preallocates the storage of a plan's links.
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

/// Maximum full packets of a link: in its queue, and under way beyond it.
fn most_packets(link: &weir_plan::Link) -> (u64, u64) {
    // Only the queues of hosts' network cards have no limit, and they stay short.
    let waiting = link.queue.limit().max_packets(PACKET_BYTES).unwrap_or(0);
    let bits = u128::from(link.rate_bps) * u128::from(link.delay.max_ns()) / 1_000_000_000;
    let under_way = bits / u128::from(8 * PACKET_BYTES);
    (waiting.min(MAX_PACKETS), under_way.min(u128::from(MAX_PACKETS)) as u64)
}
