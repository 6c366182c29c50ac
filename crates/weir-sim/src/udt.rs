//! A flow over UDT: both ends, its application, and the control packets in flight.

use weir_plan::UDT_HEADERS;
use weir_udt::{Control, HEADER_BYTES, Receiver, Sender, Settings, Step};
use weir_units::{Dur, Time};

use crate::application::Client;
use crate::packet::UDP_HEADERS;
use crate::tfrc::Contents;

/// A flow over UDT.
pub(crate) struct Udt {
    pub client: Client,
    pub sender: Sender,
    pub receiver: Receiver,
    /// Whether there was a connection.
    pub opened: bool,
    /// Of the random decreases and of the ticks of the host's timer.
    pub seed: u64,
    settings: Settings,
    onward: Contents<Control>,
    back: Contents<Control>,
}

impl Udt {
    pub fn new(plan: &weir_plan::Udt, client: Client) -> Udt {
        let packets = |bytes: u64| (bytes / u64::from(plan.payload_bytes)).max(1);
        let settings = Settings {
            payload_bytes: plan.payload_bytes,
            packet_bytes: plan.payload_bytes + UDT_HEADERS,
            send_buffer: packets(plan.send_buffer_bytes),
            receive_buffer: packets(plan.receive_buffer_bytes),
            timer: Dur(plan.timer_ns),
            profile: plan.profile.iter().map(|it| Step { at: Time(it.at_ns), rate_bps: it.rate_bps }).collect(),
            seed: 0,
        };
        Udt {
            client,
            sender: Sender::new(settings.clone()),
            receiver: Receiver::new(settings.receive_buffer),
            opened: false,
            seed: 0,
            settings,
            onward: Contents::default(),
            back: Contents::default(),
        }
    }

    /// Makes both ends anew.
    pub fn open(&mut self) {
        self.opened = true;
        self.sender = Sender::new(Settings { seed: self.seed, ..self.settings.clone() });
        self.receiver = Receiver::new(self.settings.receive_buffer);
    }

    /// Gives the sender data, after a handshake if the connection is `fresh`.
    pub fn write(&mut self, now: Time, bytes: u64, fresh: bool) {
        self.sender.write(bytes);
        if fresh {
            self.sender.connect(now);
        }
    }

    /// The control packets under way to the receiver, or back.
    pub fn under_way(&mut self, onward: bool) -> &mut Contents<Control> {
        if onward { &mut self.onward } else { &mut self.back }
    }
}

/// Bytes of the IP packet of a control packet.
pub(crate) fn control_ip_bytes(control: &Control) -> u32 {
    UDP_HEADERS + control.bytes()
}

const _: () = assert!(UDP_HEADERS + HEADER_BYTES == UDT_HEADERS);
