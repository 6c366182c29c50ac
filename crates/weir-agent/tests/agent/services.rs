//! Echo, sink and source.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::time::Duration;

use crate::harness::{Agent, own_address};

fn serving(service: &str) -> (Agent, SocketAddr) {
    let address = SocketAddr::new(own_address(), 7070);
    let mut agent = Agent::spawn(&[service, "--address", &address.ip().to_string(), "--port", "7070"]);
    assert_eq!(agent.first_line(), "ready\n");
    (agent, address)
}

fn connect(to: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(to).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    stream
}

fn datagrams(to: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind((own_address(), 0)).expect("a port");
    socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    socket.connect(to).expect("an address");
    socket
}

#[test]
fn echo_sends_back_every_byte_in_order_and_then_ends() {
    let (_agent, address) = serving("echo");
    let sent: Vec<u8> = (0..3_000_000_u32).map(|i| ((i * 7) >> 3) as u8).collect();
    let stream = connect(address);
    let writer = std::thread::spawn({
        let (mut stream, sent) = (stream.try_clone().expect("a clone"), sent.clone());
        move || {
            stream.write_all(&sent).expect("room");
            stream.shutdown(Shutdown::Write).expect("an open stream");
        }
    });
    let mut got = Vec::new();
    (&stream).read_to_end(&mut got).expect("the echo");
    writer.join().expect("the writer");
    assert!(got == sent, "{} bytes of {}", got.len(), sent.len());

    let socket = datagrams(address);
    socket.send(b"hello").expect("room");
    let mut answer = [0; 64];
    assert_eq!(socket.recv(&mut answer).expect("an echo"), 5);
    assert_eq!(&answer[..5], b"hello");
}

#[test]
fn sink_takes_everything_and_answers_nothing() {
    let (_agent, address) = serving("sink");
    let mut stream = connect(address);
    stream.write_all(&vec![1; 4_000_000]).expect("it takes all");
    stream.shutdown(Shutdown::Write).expect("an open stream");
    assert_eq!(stream.read(&mut [0; 10]).expect("the end"), 0);
}

#[test]
fn source_sends_zeros_without_end() {
    let (_agent, address) = serving("source");
    let mut stream = connect(address);
    let mut got = vec![1; 2_000_000];
    stream.read_exact(&mut got).expect("zeros");
    assert!(got.iter().all(|&byte| byte == 0));
    let socket = datagrams(address);
    socket.send(&[1; 900]).expect("room");
    assert_eq!(socket.recv(&mut [0; 1000]).expect("an answer"), 900);
}

#[test]
fn services_leave_when_their_input_ends_whoever_is_connected() {
    let (mut agent, address) = serving("source");
    let _stream = connect(address);
    agent.hang_up();
    assert_eq!(agent.wait_code(), Some(0));
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_port_that_is_taken_is_said() {
    let (_agent, address) = serving("sink");
    let second = Agent::spawn(&["echo", "--address", &address.ip().to_string(), "--port", "7070"]);
    assert_eq!(second.wait_code(), Some(1));
}
