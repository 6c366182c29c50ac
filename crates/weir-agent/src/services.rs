//! The small services, for trying a path: echo (port 7), sink (9) and source (19), over TCP and UDP.
//!
//! They follow RFC 862, RFC 863 and RFC 864, except for the source's payload: zeros, as fast as possible; over UDP as
//! many as the request has bytes.

use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use weir_sys::epoll::{Epoll, Interest, Ready};
use weir_sys::pages::Zeros;
use weir_sys::socket::{IntOption, Socket};

use crate::error::AgentError;

/// A service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Returns all data.
    Echo,
    /// Discards all data.
    Sink,
    /// Sends zeros as fast as possible.
    Source,
}

impl Service {
    /// Its well-known port.
    pub fn port(self) -> u16 {
        match self {
            Service::Echo => 7,
            Service::Sink => 9,
            Service::Source => 19,
        }
    }
}

/// Events taken from the kernel at a time.
const EVENTS: usize = 256;
const INPUT: u64 = u64::MAX;
const DATAGRAMS: u64 = 1 << 32;
const CONNECTIONS: u64 = 1 << 33;

const EVERYTHING: usize = 1 << 30;
/// Maximum data of a connection that an echo holds.
const ECHO_BYTES: usize = 256 << 10;
const DATAGRAM_BYTES: usize = 65536;
/// Maximum bytes of a connection's turn.
const TURN_BYTES: usize = 4 << 20;
/// Maximum datagrams of a turn.
const TURN_DATAGRAMS: usize = 64;

/// One service at one address.
struct Port {
    service: Service,
    listener: Socket,
    datagrams: Socket,
}

/// A connection of a service; an echo's holds the data that are not yet returned.
struct Client {
    service: Service,
    socket: Socket,
    held: Vec<u8>,
    /// The peer sends no more; held data are still returned.
    ended: bool,
}

/// Serves until standard input ends; prints `ready` on standard output once all services can be reached.
///
/// # Errors
/// A port is in use or needs privilege, or this host lacks the address.
pub fn serve(address: IpAddr, services: &[(Service, u16)]) -> Result<(), AgentError> {
    let mut server = Server::new(address, services)?;
    let mut stdout = io::stdout();
    writeln!(stdout, "ready").and_then(|()| stdout.flush())?;
    server.run()
}

struct Server {
    epoll: Epoll,
    ports: Vec<Port>,
    clients: Vec<Option<Client>>,
    zeros: Zeros,
    buffer: Vec<u8>,
}

impl Server {
    fn new(address: IpAddr, services: &[(Service, u16)]) -> Result<Server, AgentError> {
        let epoll = Epoll::new(EVENTS)?;
        let mut ports = Vec::new();
        for (index, &(service, port)) in services.iter().enumerate() {
            let at = SocketAddr::new(address, port);
            let opened = open(service, at).map_err(|error| AgentError(format!("{service:?} on {at}: {error}")))?;
            epoll.add(&opened.listener, index as u64, Interest::LEVEL_READ)?;
            epoll.add(&opened.datagrams, DATAGRAMS | index as u64, Interest::LEVEL_READ)?;
            ports.push(opened);
        }
        let stdin = io::stdin();
        match epoll.add(&stdin.as_fd(), INPUT, Interest::LEVEL_READ) {
            // A regular file, such as /dev/null, never ends the service.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {}
            other => other?,
        }
        let zeros = Zeros::new(TURN_BYTES)?;
        Ok(Server { epoll, ports, clients: Vec::new(), zeros, buffer: vec![0; ECHO_BYTES.max(DATAGRAM_BYTES)] })
    }

    fn run(&mut self) -> Result<(), AgentError> {
        let mut ready = Vec::new();
        loop {
            ready.clear();
            self.epoll.wait(None, |token, what| ready.push((token, what)))?;
            for &(token, what) in &ready {
                if token == INPUT {
                    if input_ended()? {
                        return Ok(());
                    }
                } else if token & CONNECTIONS != 0 {
                    self.serve_client((token ^ CONNECTIONS) as usize, what);
                } else if token & DATAGRAMS != 0 {
                    self.serve_datagrams((token ^ DATAGRAMS) as usize);
                } else {
                    self.accept(token as usize)?;
                }
            }
        }
    }

    fn accept(&mut self, port: usize) -> Result<(), AgentError> {
        let Port { service, listener, .. } = &self.ports[port];
        while let Some(socket) = listener.accept()? {
            let slot = self.clients.iter().position(Option::is_none).unwrap_or_else(|| {
                self.clients.push(None);
                self.clients.len() - 1
            });
            let interest = if *service == Service::Sink { Interest::LEVEL_READ } else { Interest::LEVEL_BOTH };
            self.epoll.add(&socket, CONNECTIONS | slot as u64, interest)?;
            self.clients[slot] = Some(Client { service: *service, socket, held: Vec::new(), ended: false });
        }
        Ok(())
    }

    fn serve_client(&mut self, slot: usize, ready: Ready) {
        let Some(Some(client)) = self.clients.get_mut(slot) else { return };
        let open = match client.service {
            Service::Sink => client.sink(),
            Service::Source => client.source(self.zeros.as_slice(), &mut self.buffer, ready),
            Service::Echo => client.echo(&self.epoll, slot, &mut self.buffer),
        };
        // A client may leave at any time.
        if !open.unwrap_or(false) {
            self.clients[slot] = None;
        }
    }

    fn serve_datagrams(&mut self, port: usize) {
        let Port { service, datagrams, .. } = &self.ports[port];
        for _ in 0..TURN_DATAGRAMS {
            let Ok(Some((bytes, from))) = datagrams.receive_from(&mut self.buffer) else { return };
            let answer = match service {
                Service::Sink => continue,
                Service::Echo => &self.buffer[..bytes],
                Service::Source => &self.zeros.as_slice()[..bytes],
            };
            // A datagram that finds no room is lost, as datagrams are.
            let _ = datagrams.send_to(answer, &from);
        }
    }
}

impl Client {
    fn sink(&self) -> io::Result<bool> {
        Ok(self.socket.discard(EVERYTHING)? != Some(0))
    }

    fn source(&self, zeros: &[u8], buffer: &mut [u8], ready: Ready) -> io::Result<bool> {
        if ready.readable() && self.socket.receive(buffer)? == Some(0) {
            return Ok(false);
        }
        self.socket.send(zeros)?;
        Ok(true)
    }

    /// Reads and sends back, each as far as it goes; false when all is done.
    fn echo(&mut self, epoll: &Epoll, slot: usize, buffer: &mut [u8]) -> io::Result<bool> {
        self.send_held()?;
        let mut turn = 0;
        while self.held.is_empty() && !self.ended && turn < TURN_BYTES {
            match self.socket.receive(&mut buffer[..ECHO_BYTES])? {
                None => break,
                Some(0) => self.ended = true,
                Some(bytes) => {
                    turn += bytes;
                    self.held.extend_from_slice(&buffer[..bytes]);
                    self.send_held()?;
                }
            }
        }
        if self.ended && self.held.is_empty() {
            return Ok(false);
        }
        // Reads no more before the held data are returned.
        let interest = if self.held.is_empty() { Interest::LEVEL_READ } else { Interest::LEVEL_WRITE };
        epoll.change(&self.socket, CONNECTIONS | slot as u64, interest)?;
        Ok(true)
    }

    fn send_held(&mut self) -> io::Result<()> {
        if !self.held.is_empty() {
            let sent = self.socket.send(&self.held)?.unwrap_or(0);
            self.held.drain(..sent);
        }
        Ok(())
    }
}

fn open(service: Service, at: SocketAddr) -> io::Result<Port> {
    let listener = Socket::tcp(&at.ip())?;
    listener.set(IntOption::ReuseAddress, 1)?;
    listener.bind(at)?;
    listener.listen()?;
    let datagrams = Socket::udp(&at.ip())?;
    datagrams.set_receive_buffer(crate::open::UDP_BUFFER_BYTES)?;
    datagrams.bind(at)?;
    Ok(Port { service, listener, datagrams })
}

/// Reads standard input; true at its end.
fn input_ended() -> io::Result<bool> {
    use std::io::Read;
    let mut some = [0; 4096];
    Ok(io::stdin().lock().read(&mut some)? == 0)
}
