//! The arguments of `weir-emu`.

use std::path::PathBuf;

use lexopt::prelude::*;
use weir_units::Dur;

use crate::device::Offloads;
use crate::engine::Settings;

/// How the emulator works.
pub struct Options {
    /// Bridge two interfaces instead of serving TUN devices.
    pub bridge: bool,
    /// The offloads that the hosts may use.
    pub offloads: Offloads,
    /// Whether frames enter the links at the instant at which they entered their device, rather than when they are
    /// read.
    pub stamps: bool,
    /// File for a capture of all packets at the sending hosts.
    pub capture: Option<PathBuf>,
    /// Files for the plan's trace.
    pub trace: Option<[PathBuf; 3]>,
    /// Whether to run before all ordinary threads.
    pub real_time: bool,
    /// Options of the loop.
    pub settings: Settings,
    /// Options of the network.
    pub network: weir_emu::Options,
}

const HELP: &str = "\
weir-emu: emulates the links of a plan between network devices

Reads a job from standard input and writes tables to standard output; see crates/weir-run.

  --bridge            the hosts' devices are interfaces: two, and all that one receives goes to the other, or those at
                      the ports of the plan's switch, which learns Ethernet addresses
  --no-offloads       the hosts send packets of the MTU only, complete
  --capture FILE      write the headers of all that the sending hosts see, as pcap
  --trace SENDERS RECEIVERS PACKETS
                      write what measure.trace of the plan asks for: two captures (pcap) and a log (CSV)
  --bins              also table bins: what departs per flow and link
  --hold US           a packet of a train waits at most this long for the others of its train, before its host (60)
  --horizon US        read a host's device only while its network card holds less than this (1000)
  --spin US           spin at most this long before something is due, instead of trusting a timer (60)
  --memory MB         for what is under way (1024)
  --no-stamps         frames enter the links when they are read, not when the kernel saw them enter their device
  --no-real-time      no real-time priority
  -h, --help
";

/// Parses the arguments; `None` for a request for help.
///
/// # Errors
/// An argument is unknown, or its value is invalid.
pub fn parse() -> Result<Option<Options>, lexopt::Error> {
    let mut options = Options {
        bridge: false,
        offloads: Offloads::All,
        stamps: true,
        capture: None,
        trace: None,
        // With one processor, it would keep the hosts from running.
        real_time: std::thread::available_parallelism().is_ok_and(|processors| processors.get() > 1),
        settings: Settings { horizon: Dur::from_millis(1), spin: Dur::from_micros(60) },
        network: weir_emu::Options::default(),
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("bridge") => options.bridge = true,
            Long("no-offloads") => options.offloads = Offloads::None,
            Long("capture") => options.capture = Some(parser.value()?.into()),
            Long("trace") => {
                options.trace = Some([parser.value()?.into(), parser.value()?.into(), parser.value()?.into()]);
                options.network.trace = true;
            }
            Long("bins") => options.network.flow_bins = true,
            Long("hold") => options.network.hold = micros(&mut parser)?,
            Long("horizon") => options.settings.horizon = micros(&mut parser)?,
            Long("spin") => options.settings.spin = micros(&mut parser)?,
            Long("memory") => options.network.memory = parser.value()?.parse::<usize>()?.saturating_mul(1 << 20),
            Long("no-stamps") => options.stamps = false,
            Long("no-real-time") => options.real_time = false,
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(None);
            }
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(options))
}

fn micros(parser: &mut lexopt::Parser) -> Result<Dur, lexopt::Error> {
    Ok(Dur::from_micros(u64::from(parser.value()?.parse::<u32>()?)))
}
