//! The throughput equation (RFC 5348, section 3.1), with the recommended b = 1 and retransmission timeout of four round-trip
//! times.

use weir_units::Dur;

/// The rate of TCP Reno with packets of `packet_bytes` at a loss event rate of `loss`, bytes per second.
pub fn throughput(packet_bytes: f64, rtt: Dur, loss: f64) -> f64 {
    packet_bytes / (rtt.as_secs_f64() * round_trips_a_packet(loss))
}

/// The loss event rate at which [`throughput`] is `rate`, within a millionth of it; section 6.3.1 asks for 5 %.
pub fn loss_for(packet_bytes: f64, rtt: Dur, rate: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while high - low > 1e-6 * high {
        let middle = f64::midpoint(low, high);
        if throughput(packet_bytes, rtt, middle) > rate { low = middle } else { high = middle }
    }
    high
}

/// Round-trip times that TCP takes for a packet.
fn round_trips_a_packet(p: f64) -> f64 {
    (2.0 * p / 3.0).sqrt() + 4.0 * (3.0 * (3.0 * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Dur = Dur(100_000_000);

    /// At p = 1 %: sqrt(2/300) + 12 sqrt(3/800) * 0.01 * 1.0032 = 0.081650 + 0.007372 = 0.089022 round trips a packet.
    #[test]
    fn the_equation_gives_the_value_computed_by_hand() {
        let packets_a_round = throughput(1.0, RTT, 0.01) * 0.1;
        assert!((packets_a_round - 1.0 / 0.089_022).abs() < 1e-3, "{packets_a_round}");
    }

    #[test]
    fn for_few_losses_it_is_the_square_root_law() {
        let packets_a_round = throughput(1.0, RTT, 1e-6) * 0.1;
        assert!((packets_a_round / (1.5e6f64).sqrt() - 1.0).abs() < 1e-4, "{packets_a_round}");
    }

    #[test]
    fn the_inverse_finds_the_loss_rate_again() {
        for loss in [1e-6, 1e-4, 0.01, 0.2, 0.9] {
            let found = loss_for(1460.0, RTT, throughput(1460.0, RTT, loss));
            assert!((found / loss - 1.0).abs() < 1e-5, "{found} for {loss}");
        }
    }

    /// Section 6.3.1: a first loss in the first round-trip time means half a packet a round-trip time.
    #[test]
    fn half_a_packet_a_round_trip_is_a_loss_rate_of_a_fifth() {
        let found = loss_for(1.0, RTT, 0.5 / 0.1);
        assert!((0.2..0.215).contains(&found), "{found}");
    }
}
