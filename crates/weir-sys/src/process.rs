//! Processes: priorities, limits, signals, and rules for children.

use std::io;
use std::num::NonZeroU64;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::io::Errno;
use rustix::process::{
    Pid, Rlimit, WaitId, WaitIdOptions, getppid, getpriority_process, getrlimit, kill_process_group,
    set_parent_process_death_signal, setpriority_process, setrlimit, waitid,
};
pub use rustix::process::{Resource, Signal};

use crate::call::check;

/// Argument of `sched_setattr(2)`, first version.
#[repr(C)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Schedules this thread by deadline: it gets `runtime_ns` of every `period_ns`, before all other policies. Its threads
/// and children are scheduled in the ordinary way.
///
/// # Errors
/// The process may not do this.
pub fn set_deadline(runtime_ns: u64, period_ns: u64) -> io::Result<()> {
    schedule(libc::SCHED_DEADLINE, libc::SCHED_FLAG_RESET_ON_FORK, 0, [runtime_ns, period_ns])
}

/// Gives this thread a real-time priority (`SCHED_FIFO`), before all ordinary threads. Its threads and children are
/// scheduled in the ordinary way.
///
/// # Errors
/// The process may not do this.
pub fn set_fifo(priority: u32) -> io::Result<()> {
    schedule(libc::SCHED_FIFO, libc::SCHED_FLAG_RESET_ON_FORK, priority, [0, 0])
}

/// Schedules this thread in the ordinary way again, with the niceness that it had before, as its later children.
///
/// # Errors
/// The process may not do this.
pub fn set_ordinary() -> io::Result<()> {
    schedule(libc::SCHED_OTHER, 0, 0, [0, 0])
}

/// Neither rustix nor musl has this call.
fn schedule(policy: libc::c_int, flags: libc::c_int, priority: u32, [runtime, period]: [u64; 2]) -> io::Result<()> {
    let attributes = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        policy: policy as u32,
        flags: flags as u64,
        nice: getpriority_process(None)?,
        priority,
        runtime,
        deadline: period,
        period,
    };
    // SAFETY: the kernel reads `size` bytes; 0 is the calling thread.
    check(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) })?;
    Ok(())
}

/// Makes timers of this thread expire without slack.
pub fn disable_timer_slack() {
    // A refusal leaves a slack of 50 us.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

/// Ignores interrupts from the terminal. They reach the parent too, which ends this process by closing its standard
/// input.
pub fn ignore_interrupts() {
    // SAFETY: ignoring a signal installs no handler.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
}

/// Ends this process by a signal, as another process ended.
pub fn die_of(signal: i32) {
    // SAFETY: the default action of a signal runs no code of this program.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// Raises the soft limit on descriptors to the hard one. Each flow needs one or two, and the soft limit is often 1024.
pub fn raise_descriptor_limit() {
    let maximum = getrlimit(Resource::Nofile).maximum;
    // After a refusal, opening a socket fails with a clear error.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Lowers a limit of this process for good, to `most` or to the present hard limit.
///
/// # Errors
/// From the kernel; none is expected.
pub fn lower_limit(resource: Resource, most: u64) -> Result<(), Errno> {
    let most = getrlimit(resource).maximum.map_or(most, |hard| hard.min(most));
    setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })
}

/// What a child does to itself before it executes its program.
#[derive(Clone, Debug, Default)]
pub struct ChildRules {
    /// It dies when its parent dies, even of SIGKILL.
    pub dies_with_parent: bool,
    /// It gives up a nice value below this one.
    pub least_nice: Option<i32>,
    /// Its limits.
    pub limits: Vec<(Resource, u64)>,
}

impl ChildRules {
    /// Applies these rules to the children of `command`.
    pub fn apply(self, command: &mut Command) {
        let parent = std::process::id();
        // SAFETY: between fork and exec the closure makes system calls only; it allocates nothing.
        unsafe { command.pre_exec(move || self.obey(parent)) };
    }

    fn obey(&self, parent: u32) -> io::Result<()> {
        if self.dies_with_parent {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            // The parent may have died before.
            if getppid().map_or(0, Pid::as_raw_pid) as u32 != parent {
                return Err(Errno::SRCH.into());
            }
        }
        if let Some(least) = self.least_nice {
            if getpriority_process(None).is_ok_and(|nice| nice < least) {
                // Anyone may raise the value of his own process.
                let _ = setpriority_process(None, least);
            }
        }
        for &(resource, most) in &self.limits {
            // Anyone may lower a limit.
            let _ = lower_limit(resource, most);
        }
        Ok(())
    }
}

/// Whether a child has ended. It can still be waited for, so that its number remains its own.
///
/// # Errors
/// It was waited for already.
pub fn has_ended(child: &Child) -> io::Result<bool> {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(Pid::from_child(child)), look)?.is_some())
}

/// Sends a signal to the process group of a child that leads one and was not yet waited for.
pub fn signal_group(child: &Child, signal: Signal) {
    // A group without processes needs no signal.
    let _ = kill_process_group(Pid::from_child(child), signal);
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_child_obeys_its_rules() {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -n"]);
        ChildRules { limits: vec![(Resource::Nofile, 17)], dies_with_parent: true, least_nice: Some(-10) }
            .apply(&mut command);
        let output = command.output().expect("a shell");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "17");
    }

    #[test]
    fn a_child_that_has_ended_can_still_be_waited_for() {
        let mut child = Command::new("sleep").arg("100").process_group(0).spawn().expect("a program");
        assert!(!has_ended(&child).expect("a child"));
        signal_group(&child, Signal::TERM);
        while !has_ended(&child).expect("a child") {
            std::thread::yield_now();
        }
        assert_eq!(child.wait().expect("a child").signal(), Some(Signal::TERM.as_raw()));
        assert!(has_ended(&child).is_err());
    }
}
