//! The applications of flows: the data that they send, and their progress.

use weir_plan::{Source, Transport};
use weir_traffic::{CbrClock, Job, Transfers};
use weir_units::Time;

use crate::connection::Totals;
use crate::error::SimError;
use crate::packet::UDP_HEADERS;
use crate::tfrc::Tfrc;
use crate::udt::Udt;

/// The application of a flow.
pub(crate) enum Application {
    /// Transfers over TCP, one after the other; a bulk flow is one endless transfer.
    Transfers(Client),
    /// Datagrams at a constant bit rate.
    Cbr(Cbr),
    /// Datagrams at the rate that feedback allows.
    Tfrc(Box<Tfrc>),
    /// Transfers over UDT.
    Udt(Box<Udt>),
}

/// An application with transfers.
pub(crate) struct Client {
    pub transfers: Transfers,
    /// The next transfer, once its start is known.
    pub next: Option<Job>,
    /// The end of its last transfer, while the next one waits for other flows of the same user.
    pub waiting: Option<Time>,
    pub active: Option<Active>,
    /// Whether it offers data without end, until it is stopped.
    pub writing: bool,
}

impl Client {
    fn new(flow: &weir_plan::Flow) -> Client {
        let transfers = Transfers::new(&flow.source, flow.stop_ns);
        Client { transfers, next: None, waiting: None, active: None, writing: false }
    }
}

/// A transfer in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Active {
    pub job: Job,
    pub established: Option<Time>,
    /// The flow's totals at the start of the transfer.
    pub before: Totals,
}

/// An application that sends datagrams.
pub(crate) struct Cbr {
    pub clock: CbrClock,
    /// Bytes of each IP packet.
    pub ip_bytes: u32,
    /// Datagrams sent, modulo 2^32.
    pub sent: u32,
    pub last_sent: Time,
}

impl Application {
    /// The application of a flow of a plan.
    ///
    /// # Errors
    /// [`SimError::Unsupported`] for an external program: the simulator executes none.
    pub fn of(flow: &weir_plan::Flow) -> Result<Application, SimError> {
        let start = Time(flow.start_ns);
        match (&flow.source, &flow.transport) {
            (Source::Bulk | Source::Transfers { .. }, Transport::Tcp(_)) => {
                Ok(Application::Transfers(Client::new(flow)))
            }
            (Source::Bulk | Source::Transfers { .. }, Transport::Udt(udt)) => {
                Ok(Application::Udt(Box::new(Udt::new(udt, Client::new(flow)))))
            }
            (Source::Cbr(cbr), Transport::Udp(udp)) => {
                let ip_bytes = udp.payload_bytes + UDP_HEADERS;
                let clock = CbrClock::new(cbr, ip_bytes, start, flow.stop_ns);
                Ok(Application::Cbr(Cbr { clock, ip_bytes, sent: 0, last_sent: Time::ZERO }))
            }
            (Source::Bulk, Transport::Tfrc(tfrc)) => {
                Ok(Application::Tfrc(Box::new(Tfrc::new(tfrc.payload_bytes, start, flow.stop_ns))))
            }
            (_, Transport::Quic(_)) => {
                let text =
                    format!("flow {}: QUIC is a real program on real sockets: --method lab, emul or hosts", flow.name);
                Err(SimError::Unsupported(text))
            }
            (_, Transport::Mptcp(_) | Transport::Sctp(_)) => {
                let text =
                    format!("flow {}: its transport is one of a real kernel: --method lab, emul or hosts", flow.name);
                Err(SimError::Unsupported(text))
            }
            (_, Transport::Dccp(_)) => {
                let text = format!(
                    "flow {}: DCCP is the kernel's: --method lab; of its controls, the simulator has the law of CCID 3 only, \
                     as `transport: {{protocol: tfrc}}`",
                    flow.name
                );
                Err(SimError::Unsupported(text))
            }
            (Source::Command(_), _) => {
                let text = format!("flow {}: a program needs a real kernel: --method lab, emul or hosts", flow.name);
                Err(SimError::Unsupported(text))
            }
            (Source::Bulk | Source::Transfers { .. } | Source::Cbr(_), _) => {
                let text = format!(
                    "flow {}: transfers need TCP or UDT, a constant bit rate needs UDP, TFRC needs a bulk source",
                    flow.name
                );
                Err(SimError::Unsupported(text))
            }
        }
    }

    /// The client, if the application has transfers.
    pub fn client(&mut self) -> Option<&mut Client> {
        match self {
            Application::Transfers(client) => Some(client),
            Application::Udt(udt) => Some(&mut udt.client),
            Application::Cbr(_) | Application::Tfrc(_) => None,
        }
    }

    /// The transfer in progress.
    #[inline]
    pub fn active(&self) -> Option<&Active> {
        match self {
            Application::Transfers(client) => client.active.as_ref(),
            Application::Udt(udt) => udt.client.active.as_ref(),
            Application::Cbr(_) | Application::Tfrc(_) => None,
        }
    }

    /// The next instant at which it acts by itself; [`Time::MAX`] for never.
    pub fn due(&self) -> Time {
        let client = match self {
            Application::Transfers(client) => client,
            Application::Udt(udt) => &udt.client,
            Application::Cbr(_) | Application::Tfrc(_) => return Time::MAX,
        };
        let stop = if client.writing { client.transfers.stop() } else { Time::MAX };
        match &client.next {
            Some(job) if client.active.is_none() => stop.min(job.at),
            _ => stop,
        }
    }
}
