//! Any command as a workload. It is ready when a port listens or a line is printed. Its output is captured. It never
//! outlives this process.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use weir_sys::netns::Namespaces;
use weir_sys::process::{ChildRules, Signal, has_ended, signal_group};
use weir_sys::{set_nonblocking, would_block};

/// Maximum bytes kept of each stream; later output is discarded.
const CAPTURE_BYTES: usize = 64 << 20;
/// Interval at which a port is checked.
const LOOK: Duration = Duration::from_millis(20);
/// A program is not part of the measurement, so agents and the emulator, whose nice values may be lower, precede it.
const LEAST_NICE: i32 = -10;

/// A command to run.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The program and its arguments, never the line of a shell.
    pub arguments: Vec<OsString>,
    /// Additions to this process' environment.
    pub environment: Vec<(String, String)>,
    /// Its network namespace; `None` for the present one.
    pub netns: Option<PathBuf>,
    /// The condition of its readiness.
    pub readiness: Readiness,
}

/// The condition under which a command is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// At once.
    Started,
    /// When a TCP or UDP port listens in its namespace. Without a test connection, because a server may serve one
    /// client only.
    Port(u16),
    /// At this time after its start.
    After(Duration),
    /// When it has printed a line that contains this text, on either stream.
    Line(String),
}

/// The error of a command.
#[derive(Debug)]
pub enum CommandError {
    /// It could not be started.
    Start(String, io::Error),
    /// It ended before it was ready; its status and its last lines.
    Ended(ExitStatus, String),
    /// It was not ready, or had not ended, in time.
    Late(Duration, &'static str),
    /// A system call failed.
    System(io::Error),
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommandError::Start(program, error) => write!(f, "{program}: {error}; is it installed, and in PATH?"),
            CommandError::Ended(status, said) => write!(f, "ended ({status}) before it was ready: {said}"),
            CommandError::Late(time, what) => write!(f, "{what} within {:.1} s", time.as_secs_f64()),
            CommandError::System(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for CommandError {}

impl From<io::Error> for CommandError {
    fn from(error: io::Error) -> CommandError {
        CommandError::System(error)
    }
}

/// The output of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Captured {
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// Whether some output was discarded.
    pub truncated: bool,
}

/// A running command. Dropping it kills its process group.
#[derive(Debug)]
pub struct Running {
    child: Child,
    begun: Instant,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    captured: Captured,
    readiness: Readiness,
    ended: Option<ExitStatus>,
}

impl Running {
    /// Starts a command.
    ///
    /// # Errors
    /// The namespace or the program is missing.
    pub fn start(spec: &Spec, namespaces: &mut Namespaces) -> Result<Running, CommandError> {
        let Some((program, arguments)) = spec.arguments.split_first() else {
            return Err(CommandError::Start("command".into(), io::ErrorKind::InvalidInput.into()));
        };
        let failed = |what: String| move |error| CommandError::Start(what, error);
        let place = spec.netns.as_deref().map_or_else(String::new, |path| path.display().to_string());
        // A child inherits the namespace of the thread that creates it.
        namespaces.enter(spec.netns.as_deref()).map_err(failed(format!("network namespace {place}")))?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        command.envs(spec.environment.iter().map(|(name, value)| (name, value)));
        ChildRules { dies_with_parent: true, least_nice: Some(LEAST_NICE), limits: Vec::new() }.apply(&mut command);
        let mut child = command.spawn().map_err(failed(program.to_string_lossy().into_owned()))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        for fd in [stdout.as_ref().map(AsFd::as_fd), stderr.as_ref().map(AsFd::as_fd)] {
            set_nonblocking(fd.expect("both are piped"))?;
        }
        let readiness = spec.readiness.clone();
        let captured = Captured::default();
        Ok(Running { child, begun: Instant::now(), stdout, stderr, captured, readiness, ended: None })
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    /// It ends before, or takes longer than `patience`.
    pub fn wait_until_ready(&mut self, patience: Duration) -> Result<(), CommandError> {
        let begun = Instant::now();
        loop {
            self.take_output(LOOK.min(patience))?;
            if self.is_ready()? {
                return Ok(());
            }
            if let Some(status) = self.status()? {
                return Err(CommandError::Ended(status, self.last_words()));
            }
            if begun.elapsed() >= patience {
                return Err(CommandError::Late(patience, "was not ready"));
            }
        }
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// It takes longer than `patience`, and still runs.
    pub fn wait(&mut self, patience: Duration) -> Result<ExitStatus, CommandError> {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.status()? {
                self.take_output(Duration::ZERO)?;
                return Ok(status);
            }
            if begun.elapsed() >= patience {
                return Err(CommandError::Late(patience, "had not ended"));
            }
            self.take_output(LOOK.min(patience))?;
        }
    }

    /// Its status, if it has ended. Kills the rest of its group.
    ///
    /// # Errors
    /// From the kernel; none is expected.
    pub fn status(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.ended.is_none() && has_ended(&self.child)? {
            // Until it is reaped, no other group has its number.
            self.signal(Signal::KILL);
            self.ended = self.child.try_wait()?;
        }
        Ok(self.ended)
    }

    /// Its open output streams.
    pub fn streams(&self) -> [Option<BorrowedFd<'_>>; 2] {
        [self.stdout.as_ref().map(AsFd::as_fd), self.stderr.as_ref().map(AsFd::as_fd)]
    }

    /// A descriptor that becomes readable when it ends.
    ///
    /// # Errors
    /// Before Linux 5.3.
    pub fn end(&self) -> io::Result<OwnedFd> {
        Ok(pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty())?)
    }

    /// Requests its group to end.
    pub fn ask_to_end(&self) {
        self.signal(Signal::TERM);
    }

    /// Kills it and its group.
    pub fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Its output so far.
    pub fn captured(&self) -> &Captured {
        &self.captured
    }

    /// Reads its output; waits for it at most `patience`.
    ///
    /// # Errors
    /// From the kernel; none is expected.
    pub fn take_output(&mut self, patience: Duration) -> io::Result<()> {
        wait_for_output(self.stdout.as_ref(), self.stderr.as_ref(), patience);
        let Captured { stdout, stderr, truncated } = &mut self.captured;
        if self.stdout.as_mut().map_or(Ok(false), |stream| drain(stream, stdout, truncated))? {
            self.stdout = None;
        }
        if self.stderr.as_mut().map_or(Ok(false), |stream| drain(stream, stderr, truncated))? {
            self.stderr = None;
        }
        Ok(())
    }

    fn is_ready(&self) -> io::Result<bool> {
        match &self.readiness {
            Readiness::Started => Ok(true),
            Readiness::Port(port) => listens(self.child.id(), *port),
            Readiness::After(time) => Ok(self.begun.elapsed() >= *time),
            Readiness::Line(text) => {
                let Captured { stdout, stderr, .. } = &self.captured;
                Ok([stdout, stderr].into_iter().any(|stream| has_line(stream, text)))
            }
        }
    }

    /// Its last lines, for a message.
    pub fn last_words(&self) -> String {
        let Captured { stdout, stderr, .. } = &self.captured;
        let stream = if stderr.is_empty() { stdout } else { stderr };
        let text = String::from_utf8_lossy(stream);
        let lines: Vec<&str> = text.trim().lines().collect();
        lines[lines.len().saturating_sub(3)..].join(" / ")
    }

    /// Sends a signal to its group.
    fn signal(&self, signal: Signal) {
        if self.ended.is_none() {
            signal_group(&self.child, signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.status();
        self.signal(Signal::KILL);
        if self.ended.is_none() {
            let _ = self.child.wait();
        }
    }
}

/// The exit code in the manner of shells: 128 plus the signal for a killed process.
pub fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Waits for output of open streams, at most `patience`.
fn wait_for_output(stdout: Option<&ChildStdout>, stderr: Option<&ChildStderr>, patience: Duration) {
    let open = [stdout.map(AsFd::as_fd), stderr.map(AsFd::as_fd)].into_iter().flatten();
    let mut wanted: Vec<PollFd> = open.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    // After an interrupted wait, the caller reads what is there.
    let _ = poll(&mut wanted, Timespec::try_from(patience).ok().as_ref());
}

/// Reads the waiting output; true at the end of the stream.
fn drain(stream: &mut impl Read, kept: &mut Vec<u8>, truncated: &mut bool) -> io::Result<bool> {
    let mut part = [0; 65536];
    loop {
        match stream.read(&mut part) {
            Ok(0) => return Ok(true),
            Ok(bytes) => {
                let room = (CAPTURE_BYTES - kept.len()).min(bytes);
                kept.extend_from_slice(&part[..room]);
                *truncated |= room < bytes;
            }
            Err(error) if would_block(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

/// Whether a complete line of a stream contains a text.
fn has_line(stream: &[u8], text: &str) -> bool {
    let Some(end) = stream.iter().rposition(|&byte| byte == b'\n') else { return false };
    stream[..end].split(|&byte| byte == b'\n').any(|line| String::from_utf8_lossy(line).contains(text))
}

/// Whether a port listens in the namespace of a process: for connections, or for datagrams.
fn listens(process: u32, port: u16) -> io::Result<bool> {
    const LISTEN: &str = "0A";
    const UNCONNECTED: &str = "07";
    for (family, state) in [("tcp", LISTEN), ("tcp6", LISTEN), ("udp", UNCONNECTED), ("udp6", UNCONNECTED)] {
        let table = match std::fs::read_to_string(format!("/proc/{process}/net/{family}")) {
            // The process has ended, or the kernel has no IPv6.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidInput) => continue,
            other => other?,
        };
        if table.lines().skip(1).any(|line| port_in(line, state) == Some(port)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The local port of a line of /proc/net/tcp or its like, if the socket is in this state.
fn port_in(line: &str, state: &str) -> Option<u16> {
    let mut fields = line.split_ascii_whitespace().skip(1);
    let (_, port) = fields.next()?.rsplit_once(':')?;
    (fields.nth(1)? == state).then(|| u16::from_str_radix(port, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn start(arguments: &[&str], readiness: Readiness) -> Result<Running, CommandError> {
        let arguments = arguments.iter().map(OsString::from).collect();
        let spec = Spec { arguments, environment: Vec::new(), netns: None, readiness };
        Running::start(&spec, &mut Namespaces::default())
    }

    #[test]
    fn output_and_exit_code_are_captured() {
        let mut running = start(&["sh", "-c", "echo out; echo err >&2; exit 3"], Readiness::Started).expect("a shell");
        let status = running.wait(PATIENCE).expect("it ends");
        assert_eq!(exit_code(status), 3);
        assert_eq!(
            *running.captured(),
            Captured { stdout: b"out\n".into(), stderr: b"err\n".into(), truncated: false }
        );
    }

    #[test]
    fn a_line_makes_it_ready() {
        let line = Readiness::Line("I am up".into());
        let mut running = start(&["sh", "-c", "echo wait; echo now I am up; sleep 60"], line.clone()).expect("a shell");
        running.wait_until_ready(PATIENCE).expect("it says so");
        assert_eq!(running.status().expect("a child"), None);
        running.ask_to_end();
        assert_eq!(exit_code(running.wait(PATIENCE).expect("it ends")), 128 + Signal::TERM.as_raw());
        let mut never = start(&["sh", "-c", "echo no >&2; exit 1"], line).expect("a shell");
        let error = never.wait_until_ready(PATIENCE).expect_err("it ended");
        assert!(
            matches!(&error, CommandError::Ended(status, said) if exit_code(*status) == 1 && said == "no"),
            "{error}"
        );
    }

    #[test]
    fn a_port_that_listens_makes_it_ready() {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        // The namespace is shared: whoever listens in it will do.
        let mut running = start(&["sleep", "60"], Readiness::Port(port)).expect("sleep");
        running.wait_until_ready(PATIENCE).expect("it listens");
        drop(listener);
        let mut other = start(&["sleep", "60"], Readiness::Port(port)).expect("sleep");
        let error = other.wait_until_ready(Duration::from_millis(100)).expect_err("nobody listens");
        assert!(matches!(error, CommandError::Late(..)), "{error}");
    }

    #[test]
    fn a_group_is_killed_with_its_command() {
        let mut running =
            start(&["sh", "-c", "sleep 60 & echo $!; wait"], Readiness::Line(String::new())).expect("a shell");
        running.wait_until_ready(PATIENCE).expect("a line");
        let child: u32 = String::from_utf8_lossy(&running.captured().stdout).trim().parse().expect("a number");
        drop(running);
        let begun = Instant::now();
        let gone = || match std::fs::read_to_string(format!("/proc/{child}/stat")) {
            Err(_) => true,
            // An orphan waits for init to reap it.
            Ok(stat) => stat.contains(") Z "),
        };
        while !gone() {
            assert!(begun.elapsed() < PATIENCE, "process {child} still runs");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_program_that_is_missing_is_named() {
        let error = start(&["no-such-program-of-weir"], Readiness::Started).expect_err("no such program");
        assert!(error.to_string().starts_with("no-such-program-of-weir: "), "{error}");
        assert!(start(&[], Readiness::Started).is_err());
    }

    #[test]
    fn listening_sockets_of_proc_net_tcp() {
        let line =
            "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  0  0 1 1 0 100 0 0 10 0";
        assert_eq!(port_in(line, "0A"), Some(8080));
        assert_eq!(port_in(&line.replace(" 0A ", " 01 "), "0A"), None);
        assert_eq!(port_in("garbage", "0A"), None);
    }
}
