//! Cleans up on kernels before 6.4, which keep a registered congestion control when its process is killed. There
//! `weir-bpf hold` is two processes: one holds, the other forwards messages and cleans up. Either ends when the other
//! does.
//!
//! If both are killed at once, the names stay until the next `weir-bpf hold`, which removes those of dead processes.

use crate::registered::{self, Registered};
use serde::Deserialize;
use std::{
    collections::BTreeSet,
    fs,
    io::{self, BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    thread,
};

/// The initial pid namespace, which sees the processes of all others (`PROC_PID_INIT_INO`).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// The names in an answer of `hold`.
#[derive(Deserialize)]
struct Told {
    loaded: Option<String>,
    unloaded: Option<String>,
}

/// Runs `holder`, a `weir-bpf hold`, forwards its standard input and output, and unregisters its controls after its
/// end.
///
/// # Errors
/// It cannot be started, or its output cannot be forwarded.
pub fn guarded(mut holder: Command) -> io::Result<()> {
    remove_orphans();
    let mut child = holder.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (input, output) = (child.stdin.take(), child.stdout.take());
    let (Some(mut input), Some(output)) = (input, output) else { return Err(io::Error::other("no pipes")) };
    thread::spawn(move || pass(io::stdin().lock(), &mut input));
    let mut held = BTreeSet::new();
    let passed = note(BufReader::new(output), &mut io::stdout().lock(), &mut held);
    if passed.is_err() {
        child.kill()?; // nobody hears it any more
    }
    child.wait()?;
    unregister(registered::all().iter().filter(|one| held.contains(&one.name)));
    passed
}

/// Forwards lines as they come; closes `to` when the input ends.
fn pass(from: impl BufRead, to: &mut impl Write) {
    for line in from.lines() {
        let Ok(line) = line else { return };
        if writeln!(to, "{line}").and_then(|()| to.flush()).is_err() {
            return;
        }
    }
}

/// Forwards answers, and keeps the held names in `held`.
fn note(from: impl BufRead, to: &mut impl Write, held: &mut BTreeSet<String>) -> io::Result<()> {
    for line in from.lines() {
        let line = line?;
        if let Ok(told) = serde_json::from_str::<Told>(&line) {
            held.extend(told.loaded);
            told.unloaded.map(|name| held.remove(&name));
        }
        writeln!(to, "{line}")?;
        to.flush()?;
    }
    Ok(())
}

/// Removes the controls of processes that were killed together with their guard, if this process sees all others.
fn remove_orphans() {
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    if namespace != Path::new(FIRST_NAMESPACE) {
        return;
    }
    let all = registered::all();
    unregister(all.iter().filter(|one| owner(&one.name).is_some_and(|owner| !Path::new("/proc").join(owner).exists())));
}

/// The process in a name that weir gives for a run: its id in hexadecimal between `w` and a dot.
fn owner(name: &str) -> Option<String> {
    let (number, _) = name.strip_prefix('w')?.split_once('.')?;
    u32::from_str_radix(number, 16).ok().map(|number| number.to_string())
}

fn unregister<'a>(these: impl Iterator<Item = &'a Registered>) {
    for one in these {
        if let Err(error) = registered::unregister(&one.map) {
            eprintln!("weir-bpf: {} stays in the kernel: {error}; a reboot removes it", one.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_is_in_the_name() {
        assert_eq!(owner("w3f2a.0_cubic").as_deref(), Some("16170"));
        for name in ["weir_cubic", "w3f2a_cubic", "wz.0_cubic", "cubic", "w.0"] {
            assert_eq!(owner(name), None, "{name}");
        }
    }

    #[test]
    fn answers_are_passed_on_and_what_is_held_is_noted() {
        let said =
            "{\"loaded\": \"a\", \"cc\": \"x\"}\n{\"error\": \"no\"}\n{\"loaded\": \"b\"}\n{\"unloaded\": \"a\"}\n";
        let (mut passed, mut held) = (Vec::new(), BTreeSet::new());
        note(said.as_bytes(), &mut passed, &mut held).expect("memory");
        assert_eq!(String::from_utf8(passed).as_deref(), Ok(said));
        assert_eq!(held, BTreeSet::from(["b".to_owned()]));
    }
}
