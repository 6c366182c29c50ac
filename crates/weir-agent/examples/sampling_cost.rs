//! What it costs to look at the TCP state of many sockets: a system call each, or one dump of them all.
//!
//!     cargo run --release -p weir-agent --example sampling_cost

use std::net::{TcpListener, TcpStream};

use weir_sys::clock::monotonic_ns;
use weir_sys::diag::{Diag, Ports, States};
use weir_sys::socket::Socket;
use weir_sys::tcp_info::TcpInfo;

const ROUNDS: u64 = 50;

fn main() -> std::io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let at = listener.local_addr()?;
    let mut pairs: Vec<(Socket, TcpStream)> = Vec::new();
    let mut diag = Diag::new()?;
    println!("sockets  a call each, us  one dump, us");
    for wanted in [1, 2, 5, 10, 20, 50, 100, 200, 500] {
        while pairs.len() < wanted {
            let socket = Socket::tcp(&at.ip())?;
            socket.connect(at)?;
            pairs.push((socket, listener.accept()?.0));
        }
        let calls = median(|| pairs.iter().map(|(socket, _)| TcpInfo::of(socket).map_or(0, |i| i.snd_cwnd)).sum());
        let dump = median(|| {
            let mut sum = 0;
            diag.dump(false, States::Open, &Ports::Remote(at.port()..=at.port()), |socket| sum += socket.info.snd_cwnd)
                .map_or(0, |()| sum)
        });
        println!("{wanted:7}  {:15.1}  {:12.1}", calls as f64 / 1e3, dump as f64 / 1e3);
    }
    Ok(())
}

/// Median time of many rounds, in nanoseconds.
fn median(mut round: impl FnMut() -> u32) -> u64 {
    let mut times: Vec<u64> = (0..ROUNDS)
        .map(|_| {
            let begun = monotonic_ns();
            assert!(round() > 0);
            monotonic_ns() - begun
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}
