//! Confinement without Landlock: a private view of the host by mounts, and a private pid namespace.
//!
//! Hidden places are covered, everything else is read-only, named places are mounted writable over it. The pid
//! namespace leaves no process outside to signal or trace, and ends all of its processes when its first one ends.
//! Without root it needs a user namespace, which not every system allows.
//!
//! There are three processes: one outside, which waits; the first one inside, which reaps; and the one that becomes the
//! program.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{self, ExitStatus};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, set_parent_process_death_signal, wait as wait_any, waitpid};
use rustix::thread::{CapabilitySet, capabilities};
use weir_sys::isolation::fork;
use weir_sys::process::die_of;

use crate::view::View;
use crate::{Error, mounts};

/// The side on which [`enter`] returns.
pub(crate) enum Side {
    /// Outside; the program ran and ended with this status.
    Outside(ExitStatus),
    /// Inside; the caller becomes the program.
    Inside,
}

/// Starts a process inside, with `view` and `writable` places. Returns in it, and in the caller when it has ended.
pub(crate) fn enter(view: &View, writable: &[PathBuf]) -> Result<Side, Error> {
    let call = |error: io::Error| Error::Call("make namespaces", error);
    let (told, tell) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| call(error.into()))?;
    let (lives, life) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| call(error.into()))?;
    let own = Own::new();
    let Some(child) = fork(own.flags).map_err(|error| call(error.into()))? else {
        drop((told, life));
        let done = tie_to_parent(lives.as_fd()).and_then(|()| prepare(&own, view, writable));
        let mut tell = fs::File::from(tell);
        if let Err(error) = &done {
            let _ = write!(tell, "{error}");
            process::exit(1);
        }
        let _ = tell.write_all(&[READY]);
        return fork_program(tell);
    };
    drop((tell, lives));
    let mut answer = Vec::new();
    fs::File::from(told).read_to_end(&mut answer).map_err(call)?;
    let status = await_child(child).map_err(|error| call(error.into()))?;
    drop(life);
    match answer.split_first() {
        Some((&READY, of_program)) => {
            // Without a status, the first process was killed, and the program with it.
            let of_program = of_program.try_into().map(i32::from_ne_bytes).map(ExitStatus::from_raw);
            Ok(Side::Outside(of_program.unwrap_or(status)))
        }
        _ => Err(Error::Namespaces(String::from_utf8_lossy(&answer).into_owned())),
    }
}

/// Children of any kind, including those that end without a signal to the parent.
const ALL_CHILDREN: WaitOptions = WaitOptions::from_bits_retain(libc::__WALL as u32);

/// The first message of the first process inside, before the program's status.
const READY: u8 = 0;

/// Tries whether this works here.
pub(crate) fn available() -> Result<(), Error> {
    let (told, tell) = pipe_with(PipeFlags::CLOEXEC).map_err(Error::call("make a pipe"))?;
    let own = Own::new();
    let Some(child) = fork(own.flags).map_err(Error::call("make namespaces"))? else {
        drop(told);
        let view = View::of_host(&[], false, &[], &[]);
        let answer = prepare(&own, &view, &[]).err().map(|error| error.to_string()).unwrap_or_default();
        let _ = fs::File::from(tell).write_all(answer.as_bytes());
        process::exit(0);
    };
    drop(tell);
    let mut answer = String::new();
    let read = fs::File::from(told).read_to_string(&mut answer);
    await_child(child).map_err(io::Error::from).and(read).map_err(Error::call("make namespaces"))?;
    if answer.is_empty() { Ok(()) } else { Err(Error::Namespaces(answer)) }
}

fn await_child(child: Pid) -> Result<ExitStatus, Errno> {
    let ended = retry_on_intr(|| waitpid(Some(child), WaitOptions::empty()))?;
    ended.map(|(_, status)| ExitStatus::from_raw(status.as_raw())).ok_or(Errno::CHILD)
}

/// Ends this process with its parent. If that has ended already, nobody has the other end of `lives`.
fn tie_to_parent(lives: BorrowedFd<'_>) -> Result<(), Error> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(Error::call("tie a process to its parent"))?;
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    if poll(&mut [PollFd::from_borrowed_fd(lives, PollFlags::empty())], Some(&now)) != Ok(0) {
        process::exit(1);
    }
    Ok(())
}

/// Starts the process that becomes the program, from the first process inside. That one ends with the program, and all
/// others with it.
fn fork_program(mut tell: fs::File) -> Result<Side, Error> {
    let (wait, go) = pipe_with(PipeFlags::CLOEXEC).map_err(Error::call("make a pipe"))?;
    let Some(child) = fork(0).map_err(Error::call("start a process"))? else {
        drop((go, tell));
        // A program that may trace must not find its parent with more rights than its own.
        let mut word = [0];
        fs::File::from(wait).read_exact(&mut word).map_err(|error| Error::Call("wait for the first process", error))?;
        return Ok(Side::Inside);
    };
    drop(wait);
    let confined = confine_itself()
        .and_then(|()| fs::File::from(go).write_all(b".").map_err(|error| Error::Call("start the program", error)));
    if let Err(error) = &confined {
        eprintln!("weir-confine: {error}");
        process::exit(1);
    }
    loop {
        match wait_any(ALL_CHILDREN) {
            Ok(Some((ended, _))) if ended != child => {}
            Err(Errno::INTR) => {}
            ended => {
                let status = ended.ok().flatten().map_or(0, |(_, status)| status.as_raw());
                let _ = tell.write_all(&status.to_ne_bytes());
                process::exit(0);
            }
        }
    }
}

/// Confines this process at least as much as the program.
fn confine_itself() -> Result<(), Error> {
    crate::privileges::give_up()?;
    crate::calls::enforce(&crate::Calls { trace: false, alone: true, plain: true })
}

/// Ends this process with the program's status.
pub(crate) fn end_like(status: ExitStatus) -> ! {
    if let Some(number) = status.signal() {
        die_of(number);
    }
    process::exit(status.code().unwrap_or(1))
}

/// In the namespaces, with all capabilities there: maps the user, makes the view.
fn prepare(own: &Own, view: &View, writable: &[PathBuf]) -> Result<(), Error> {
    own.map_user()?;
    let here = std::env::current_dir();
    mounts::make(view, writable).map_err(|(path, error)| Error::Path(path, error))?;
    if let Ok(here) = here {
        // The working directory is on the mount below; leaves a covered place.
        let _ = std::env::set_current_dir(&here).or_else(|_| std::env::set_current_dir("/"));
    }
    Ok(())
}

/// The namespaces, and the user in them.
struct Own {
    flags: libc::c_int,
    /// This user and group, if they must be mapped.
    ids: Option<(u32, u32)>,
}

impl Own {
    fn new() -> Own {
        let flags = libc::CLONE_NEWNS | libc::CLONE_NEWPID | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
        if capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN)) {
            return Own { flags, ids: None };
        }
        let ids = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Own { flags: flags | libc::CLONE_NEWUSER, ids: Some(ids) }
    }

    /// Maps this user to the same number, and no other user.
    fn map_user(&self) -> Result<(), Error> {
        let Some((user, group)) = self.ids else { return Ok(()) };
        let write = |path: &str, text: String| fs::write(path, text).map_err(Error::path(Path::new(path)));
        write("/proc/self/setgroups", "deny".to_owned())?;
        write("/proc/self/uid_map", format!("{user} {user} 1"))?;
        write("/proc/self/gid_map", format!("{group} {group} 1"))
    }
}
