//! What both ends of a TFRC flow need: the size of its datagrams, and what data and reports say on the wire.
//!
//! Data have the header of other datagrams ([`crate::datagram`]), with the sender's estimate of the round-trip time in place
//! of the due instant, because a rate has no plan. A report is as long as the simulator's, and begins with a part of the
//! run's token.

use weir_plan::Transport;
use weir_protocol::Token;
use weir_tfrc::{Data, Feedback};
use weir_units::{Dur, Time};

use crate::context::Context;
use crate::datagram::Header;

/// Bytes of a report's payload: a tag, and the four values of RFC 5348, section 3.2.2.
pub const REPORT_BYTES: usize = 40;
const TAG_BYTES: usize = 8;

/// Bytes of payload of each of a flow's datagrams.
pub fn payload_bytes(context: &Context, flow: u32) -> u32 {
    match &context.flow(flow).transport {
        Transport::Tfrc(tfrc) => tfrc.payload_bytes,
        _ => unreachable!("only TFRC flows have such endpoints"),
    }
}

/// The header of a data packet.
pub fn header(data: &Data) -> Header {
    Header { number: data.number, due_ns: data.rtt.map_or(0, |rtt| rtt.0), sent_ns: data.sent.0 }
}

/// What the header of a data packet says.
pub fn data(header: &Header) -> Data {
    let rtt = (header.due_ns > 0).then_some(Dur(header.due_ns));
    Data { number: header.number, sent: Time(header.sent_ns), rtt }
}

/// The payload of a report.
pub fn write_report(report: &Feedback, token: Option<&Token>) -> [u8; REPORT_BYTES] {
    let received = report.received.unwrap_or(f64::INFINITY).to_bits();
    let words = [report.echo.0, report.delay.0, received, report.loss.to_bits()];
    let mut payload = [0; REPORT_BYTES];
    payload[..TAG_BYTES].copy_from_slice(&tag(token));
    for (place, word) in payload[TAG_BYTES..].chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    payload
}

/// The report in a payload, if it is one of this run.
pub fn read_report(payload: &[u8], token: Option<&Token>) -> Option<Feedback> {
    let payload: &[u8; REPORT_BYTES] = payload.try_into().ok()?;
    if payload[..TAG_BYTES] != tag(token) {
        return None;
    }
    let word = |index: usize| {
        let at = TAG_BYTES + 8 * index;
        payload[at..at + 8].try_into().map_or(0, u64::from_be_bytes)
    };
    let (received, loss) = (f64::from_bits(word(2)), f64::from_bits(word(3)));
    let is_sane = received >= 0.0 && (0.0..=1.0).contains(&loss);
    let received = received.is_finite().then_some(received);
    is_sane.then_some(Feedback { echo: Time(word(0)), delay: Dur(word(1)), received, loss })
}

fn tag(token: Option<&Token>) -> [u8; TAG_BYTES] {
    let mut tag = [0; TAG_BYTES];
    if let Some(token) = token {
        tag.copy_from_slice(&token.as_bytes()[..TAG_BYTES]);
    }
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_and_reports_are_read_as_they_were_written() {
        for rtt in [None, Some(Dur(50_000_000))] {
            let sent = Data { number: 7, sent: Time(1 << 40), rtt };
            assert_eq!(data(&header(&sent)), sent);
        }
        let token = Token::from(*b"0123456789abcdef");
        for received in [None, Some(0.0), Some(2.5e6)] {
            let report = Feedback { echo: Time(3), delay: Dur(4), received, loss: 0.25 };
            for token in [None, Some(&token)] {
                assert_eq!(read_report(&write_report(&report, token), token), Some(report));
            }
        }
    }

    #[test]
    fn a_report_of_others_is_none() {
        let report = Feedback { echo: Time(3), delay: Dur(4), received: None, loss: 0.25 };
        let (ours, theirs) = (Token::from(*b"0123456789abcdef"), Token::from(*b"0123456x89abcdef"));
        let written = write_report(&report, Some(&ours));
        assert_eq!(read_report(&written, Some(&theirs)), None);
        assert_eq!(read_report(&written, None), None);
        assert_eq!(read_report(&written[..39], Some(&ours)), None);
        for (received, loss) in [(-1.0, 0.0), (f64::NAN, 0.0), (1.0, -0.1), (1.0, 1.1), (1.0, f64::NAN)] {
            let wrong = Feedback { received: Some(received), loss, ..report };
            assert_eq!(read_report(&write_report(&wrong, None), None), None, "{received} {loss}");
        }
    }
}
