//! The applications of flows: what they want to send, and how far they have come.

use weir_plan::{Source, Transport};
use weir_traffic::{CbrClock, Job, Transfers};
use weir_units::Time;

use crate::connection::Totals;
use crate::error::SimError;
use crate::packet::UDP_HEADERS;

/// The application of a flow.
pub(crate) enum Application {
    /// Transfers over TCP, one after the other; a bulk flow is one that lasts.
    Transfers(Client),
    /// Datagrams at a constant bit rate.
    Cbr(Cbr),
}

/// An application that makes transfers.
pub(crate) struct Client {
    pub transfers: Transfers,
    /// The next transfer, once it is known when it begins.
    pub next: Option<Job>,
    /// Its next transfer waits for others of its user; its own last one ended then.
    pub waiting: Option<Time>,
    pub active: Option<Active>,
    /// It offers data until it is stopped.
    pub writing: bool,
}

/// A transfer under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Active {
    pub job: Job,
    pub established: Option<Time>,
    /// The totals when it began.
    pub before: Totals,
}

/// An application that sends datagrams.
pub(crate) struct Cbr {
    pub clock: CbrClock,
    /// Bytes of the IP packet of each.
    pub ip_bytes: u32,
    /// Datagrams sent, modulo 2^32.
    pub sent: u32,
    pub last_sent: Time,
}

impl Application {
    /// The application of a flow of a plan.
    ///
    /// # Errors
    /// [`SimError::Unsupported`] for a program: it would be executed.
    pub fn of(flow: &weir_plan::Flow) -> Result<Application, SimError> {
        let start = Time(flow.start_ns);
        match (&flow.source, &flow.transport) {
            (Source::Bulk | Source::Transfers { .. }, Transport::Tcp(_)) => Ok(Application::Transfers(Client {
                transfers: Transfers::new(&flow.source, flow.stop_ns),
                next: None,
                waiting: None,
                active: None,
                writing: false,
            })),
            (Source::Cbr(cbr), Transport::Udp(udp)) => {
                let ip_bytes = udp.payload_bytes + UDP_HEADERS;
                let clock = CbrClock::new(cbr, ip_bytes, start, flow.stop_ns);
                Ok(Application::Cbr(Cbr { clock, ip_bytes, sent: 0, last_sent: Time::ZERO }))
            }
            (Source::Command(_), _) => {
                let text = format!("flow {}: a program needs a real kernel: --method lab or emul", flow.name);
                Err(SimError::Unsupported(text))
            }
            (Source::Bulk | Source::Transfers { .. } | Source::Cbr(_), _) => {
                let text = format!("flow {}: transfers need TCP, a constant bit rate needs UDP", flow.name);
                Err(SimError::Unsupported(text))
            }
        }
    }

    /// The application as one that makes transfers.
    pub fn client(&mut self) -> Option<&mut Client> {
        match self {
            Application::Transfers(client) => Some(client),
            Application::Cbr(_) => None,
        }
    }

    /// The transfer under way.
    #[inline]
    pub fn active(&self) -> Option<&Active> {
        match self {
            Application::Transfers(client) => client.active.as_ref(),
            Application::Cbr(_) => None,
        }
    }

    /// When it wants to act next, as far as it knows by itself; [`Time::MAX`] for never.
    pub fn due(&self) -> Time {
        let Application::Transfers(client) = self else { return Time::MAX };
        let stop = if client.writing { client.transfers.stop() } else { Time::MAX };
        match &client.next {
            Some(job) if client.active.is_none() => stop.min(job.at),
            _ => stop,
        }
    }
}
