//! Connections that have not shown the run's token yet.
//!
//! The token is the first bytes of a connection between agents. Until it has come, nothing of a connection counts. One
//! that says something else is closed, also one that says nothing for [`PATIENCE_NS`]. The sender's host has no such
//! limit: the path may lose its first segment again and again. At most [`MOST`] connections wait; then those of other
//! hosts leave first.

use std::io;
use std::net::IpAddr;

use weir_protocol::Token;
use weir_sys::epoll::Interest;
use weir_sys::socket::Socket;
use weir_units::Time;

use crate::context::Context;
use crate::schedule::Slot;
use crate::session::token;
use crate::window::WindowKeeper;

/// Generation of the newcomers' tokens of epoll.
pub const NEWCOMER: u32 = u32::MAX;

const PATIENCE_NS: u64 = 2_000_000_000;
const MOST: usize = 8;

/// A connection, and its window since it was accepted.
pub type Accepted = (Socket, WindowKeeper);

/// The connections to one flow's receiver that have not shown the token yet.
pub struct Newcomers {
    flow: u32,
    endpoint: u32,
    secret: Token,
    /// The address of the flow's sender.
    expected: IpAddr,
    /// In the order in which they came.
    here: Vec<Newcomer>,
}

struct Newcomer {
    accepted: Accepted,
    from: Option<IpAddr>,
    said: usize,
    until: Time,
}

enum Verdict {
    Admitted,
    Refused,
    Open,
}

impl Newcomers {
    /// For the receiver of a flow; none in a run without a token.
    pub fn new(context: &Context, endpoint: u32, flow: u32) -> Option<Newcomers> {
        let secret = context.job.token?;
        let expected = context.host(context.flow(flow).from).address;
        Some(Newcomers { flow, endpoint, secret, expected, here: Vec::new() })
    }

    /// Takes a new connection.
    ///
    /// # Errors
    /// From the kernel; none is expected.
    pub fn take(&mut self, context: &mut Context, accepted: Accepted) -> io::Result<()> {
        context.epoll.add(&accepted.0, token(self.endpoint, NEWCOMER), Interest::READ)?;
        let from = accepted.0.peer().ok().map(|peer| peer.ip());
        let until = if from == Some(self.expected) { Time::MAX } else { Time(context.now.0 + PATIENCE_NS) };
        context.schedule.add(until, Slot::Endpoint(self.endpoint));
        self.here.push(Newcomer { accepted, from, said: 0, until });
        Ok(())
    }

    /// Returns those that have shown the token, in the order in which they came, and closes those that may not stay.
    pub fn screen(&mut self, context: &mut Context) -> Vec<Accepted> {
        let mut admitted = Vec::new();
        for mut newcomer in std::mem::take(&mut self.here) {
            match newcomer.hear(&self.secret) {
                Verdict::Admitted => admitted.push(newcomer.accepted),
                Verdict::Open if newcomer.until > context.now => self.here.push(newcomer),
                Verdict::Open | Verdict::Refused => self.refuse(context, newcomer),
            }
        }
        while self.here.len() > MOST {
            let (first, _) = self.here.iter().enumerate().min_by_key(|(_, newcomer)| newcomer.until).expect("some");
            let newcomer = self.here.remove(first);
            self.refuse(context, newcomer);
        }
        admitted
    }

    fn refuse(&self, context: &mut Context, newcomer: Newcomer) {
        let Newcomer { accepted: (socket, _), from, .. } = newcomer;
        socket.abort();
        match from {
            Some(from) => context.refuse(self.flow, &format_args!("a connection from {from}")),
            None => context.refuse(self.flow, &"a connection"),
        }
    }
}

impl Newcomer {
    /// Reads no more than the token.
    fn hear(&mut self, secret: &Token) -> Verdict {
        let secret = secret.as_bytes();
        while self.said < secret.len() {
            let mut heard = [0; Token::BYTES];
            let wanted = &secret[self.said..];
            match self.accepted.0.receive(&mut heard[..wanted.len()]) {
                Ok(None) => return Verdict::Open,
                Ok(Some(count)) if count > 0 && heard[..count] == wanted[..count] => self.said += count,
                // Something else, or the end.
                Ok(Some(_)) | Err(_) => return Verdict::Refused,
            }
        }
        Verdict::Admitted
    }
}
