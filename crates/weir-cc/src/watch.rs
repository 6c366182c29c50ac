//! Records a process' calls of users' congestion controls, visible to another process.

use std::{
    cell::UnsafeCell,
    ffi::c_int,
    mem::MaybeUninit,
    os::fd::RawFd,
    ptr,
    sync::atomic::{AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed},
};

use crate::suite;
use serde::Serialize;

/// Bytes of the record.
pub const WATCH_BYTES: usize = size_of::<Page>();

const CONTROLS: usize = 7;
/// The index that all controls beyond the others share.
pub(crate) const LAST: u32 = CONTROLS as u32 - 1;
const PATH_BYTES: usize = 512;
/// No access failed.
const NOWHERE: i64 = i64::MIN;

/// The operation called, with Linux' names; `load` is the opening of a shared object, `report` a question to a decider.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Load,
    Init,
    Release,
    Ssthresh,
    CongAvoid,
    SetState,
    CwndEvent,
    InAckEvent,
    UndoCwnd,
    PktsAcked,
    CongControl,
    MinTsoSegs,
    SndbufExpand,
    MinCwnd,
    Report,
    Probe,
}

const NAMES: [&str; 16] = [
    "load",
    "init",
    "release",
    "ssthresh",
    "cong_avoid",
    "set_state",
    "cwnd_event",
    "in_ack_event",
    "undo_cwnd",
    "pkts_acked",
    "cong_control",
    "min_tso_segs",
    "sndbuf_expand",
    "min_cwnd",
    "report",
    "WEIR_PROBE",
];

/// What is undefined in C, by the numbers of `cc/shim/undefined.h`.
const UNDEFINED: [&str; 15] = [
    "a sum that its signed type cannot hold",
    "a difference that its signed type cannot hold",
    "a product that its signed type cannot hold",
    "a negation that its signed type cannot hold",
    "a division by zero, or of the least integer by -1",
    "a shift by as many bits as the type has or more, by a negative number, or of a signed integer out of its range",
    "an index out of bounds",
    "an access through a null pointer, one of the wrong alignment, or beyond an object",
    "a pointer that leaves the memory",
    "a value that its type does not have",
    "an array of no elements",
    "a null pointer where none may be",
    "a built-in function with an argument that it does not take",
    "a call through a pointer to a function of another type",
    "the end of a function that does not return there",
];
/// What is above the number of the kind.
const UNDEFINED_MARK: u64 = 0x7765_6972_7542;

/// The values of the options in a trial.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Options {
    Default,
    Least,
    Largest,
}

impl Options {
    pub const ALL: [Options; 3] = [Options::Default, Options::Least, Options::Largest];

    /// As the end of a sentence.
    pub fn clause(self) -> &'static str {
        match self {
            Options::Default => "",
            Options::Least => ", with each option at its least value",
            Options::Largest => ", with each option at its largest value",
        }
    }
}

/// A trial with these options begins.
pub(crate) fn trying(options: Options) {
    page().options.store(options as u32, Relaxed);
}

/// The suite asks requirement `index`.
pub(crate) fn asking(index: usize) {
    page().options.store((Options::ALL.len() + index) as u32, Relaxed);
}

/// What [`trying`] or [`asking`] stored, as the end of a sentence.
fn clause(stored: u32) -> String {
    let stored = stored as usize;
    match Options::ALL.get(stored) {
        Some(options) => options.clause().to_owned(),
        None => suite::clause(stored - Options::ALL.len()),
    }
}

impl Operation {
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

#[repr(C)]
struct Page {
    /// Calls begun and calls ended: odd during a call.
    calls: AtomicU64,
    operation: AtomicU32,
    control: AtomicU32,
    /// The signal that ended the process; zero if none was caught.
    signal: AtomicU32,
    /// The [`Options`] of the trial, or the number of the suite's requirement after these.
    options: AtomicU32,
    /// Place of a failed access, bytes after the end of the private state.
    past_state: AtomicI64,
    /// The control's position in its object; zero if elsewhere.
    at: AtomicU64,
    /// The number of what is undefined, plus one; zero if nothing is known to be.
    undefined: AtomicU64,
    paths: [[AtomicU8; PATH_BYTES]; CONTROLS],
}

/// A page of this process, for when no other process watches.
struct Own(UnsafeCell<MaybeUninit<Page>>);
// SAFETY: a page holds atomic integers only.
unsafe impl Sync for Own {}
static OWN: Own = Own(UnsafeCell::new(MaybeUninit::zeroed()));
static PAGE: AtomicPtr<Page> = AtomicPtr::new(OWN.0.get().cast());

static CONTROLS_SEEN: AtomicU32 = AtomicU32::new(0);
static BASES: [AtomicUsize; CONTROLS] = [const { AtomicUsize::new(0) }; CONTROLS];
static STATE_END: AtomicUsize = AtomicUsize::new(0);

fn page() -> &'static Page {
    // SAFETY: either the page of this process or one that `share` mapped and never unmaps; zero is valid for all fields.
    unsafe { &*PAGE.load(Relaxed) }
}

/// The index under which a control's calls are recorded; all beyond the seventh share one.
pub(crate) fn register(path: &str) -> u32 {
    let slot = CONTROLS_SEEN.fetch_add(1, Relaxed).min(LAST);
    for (place, byte) in page().paths[slot as usize].iter().zip(path.bytes().take(PATH_BYTES - 1).chain([0])) {
        place.store(byte, Relaxed);
    }
    slot
}

/// Sets the load address of control `slot`.
pub(crate) fn set_base(slot: u32, base: usize) {
    BASES[slot as usize].store(base, Relaxed);
}

/// A call begins, on a private state that ends at `state_end`.
#[inline]
pub(crate) fn begin(slot: u32, operation: Operation, state_end: usize) {
    let page = page();
    STATE_END.store(state_end, Relaxed);
    page.operation.store(operation as u32, Relaxed);
    page.control.store(slot, Relaxed);
    // Only one thread calls, so the addition need not be atomic.
    page.calls.store(page.calls.load(Relaxed) | 1, Relaxed);
}

/// The call has returned.
#[inline]
pub(crate) fn end() {
    let page = page();
    page.calls.store((page.calls.load(Relaxed) | 1) + 1, Relaxed);
}

/// Records calls in the file `fd`, of [`WATCH_BYTES`] bytes, from now on, and any fatal signal.
///
/// # Errors
/// The file cannot be mapped, or a handler cannot be set.
pub fn share(fd: RawFd) -> std::io::Result<()> {
    // SAFETY: a new mapping of whole pages, which is never unmapped.
    let mapped = unsafe {
        libc::mmap(ptr::null_mut(), WATCH_BYTES, libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED, fd, 0)
    };
    if mapped == libc::MAP_FAILED {
        return Err(std::io::Error::last_os_error());
    }
    let shared = mapped.cast::<Page>();
    // SAFETY: as in `page`.
    unsafe { (*shared).past_state.store(NOWHERE, Relaxed) };
    PAGE.store(shared, Relaxed);
    catch_signals()
}

const CAUGHT: [c_int; 6] = [libc::SIGFPE, libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGTRAP, libc::SIGABRT];
const STACK_BYTES: usize = 64 * 1024;

fn catch_signals() -> std::io::Result<()> {
    // A control that has used up the stack needs another one for the handler; it lives as long as the thread.
    let stack = Box::leak(vec![0_u8; STACK_BYTES].into_boxed_slice());
    let described = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: STACK_BYTES };
    // SAFETY: the stack is never freed.
    if unsafe { libc::sigaltstack(&raw const described, ptr::null_mut()) } != 0 {
        return Err(std::io::Error::last_os_error());
    }
    for signal in CAUGHT {
        // SAFETY: zero is a valid sigaction, with an empty mask.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_sigaction = caught as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        // SAFETY: `caught` does only what a handler may: it writes memory and restores the default.
        if unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Records where the process dies, and lets it die.
extern "C" fn caught(signal: c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let page = page();
    if page.signal.load(Relaxed) == 0 {
        page.signal.store(signal as u32, Relaxed);
        if matches!(signal, libc::SIGSEGV | libc::SIGBUS) {
            // SAFETY: the kernel's, for a signal with an address.
            let address = unsafe { (*info).si_addr() } as usize;
            page.past_state.store(address.wrapping_sub(STATE_END.load(Relaxed)) as i64, Relaxed);
        }
        let base = BASES[(page.control.load(Relaxed) as usize).min(CONTROLS - 1)].load(Relaxed);
        let mut instruction = instruction(context);
        if signal == libc::SIGILL
            && let Some((kind, called_from)) = undefined(context)
        {
            page.undefined.store(kind + 1, Relaxed);
            instruction = called_from;
        }
        let offset = instruction.wrapping_sub(base);
        if base != 0 && offset < 1 << 30 {
            page.at.store(offset as u64, Relaxed);
        }
    }
    // SAFETY: both may be called from a handler; the signal is delivered when this returns.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

/// The kind of what is undefined and the place of the call, if `cc/shim/undefined.h` stopped the process.
fn undefined(context: *mut libc::c_void) -> Option<(u64, usize)> {
    let (kind, called_from) = first_registers(context);
    // The call may be the last instruction of its line: the one after it belongs to the next.
    (kind >> 16 == UNDEFINED_MARK).then(|| (kind & 0xffff, (called_from as usize).wrapping_sub(1)))
}

/// The registers that `WEIR_STOP` of `cc/shim/undefined.h` sets.
#[cfg(target_arch = "x86_64")]
fn first_registers(context: *mut libc::c_void) -> (u64, u64) {
    // SAFETY: the kernel's context of the handler.
    let registers = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    (registers[libc::REG_RAX as usize] as u64, registers[libc::REG_RDX as usize] as u64)
}

#[cfg(target_arch = "aarch64")]
fn first_registers(context: *mut libc::c_void) -> (u64, u64) {
    // SAFETY: the kernel's context of the handler.
    let registers = unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.regs };
    (registers[0], registers[1])
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn first_registers(_: *mut libc::c_void) -> (u64, u64) {
    (0, 0)
}

#[cfg(target_arch = "x86_64")]
fn instruction(context: *mut libc::c_void) -> usize {
    // SAFETY: the kernel's context of the handler.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] as usize }
}

#[cfg(target_arch = "aarch64")]
fn instruction(context: *mut libc::c_void) -> usize {
    // SAFETY: the kernel's context of the handler.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.pc as usize }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn instruction(_: *mut libc::c_void) -> usize {
    0
}

/// The content of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Watched {
    /// Changes at the beginning and the end of every call.
    pub calls: u64,
    /// Whether a call is in progress.
    pub in_call: bool,
    /// The operation called last.
    pub operation: &'static str,
    /// The control called last: its path; empty if there was none.
    pub control: String,
    /// The signal that ended the process; zero if none did.
    pub signal: u32,
    /// The values of its options in a trial or the suite's requirement, as the end of a sentence; empty for the defaults,
    /// or for the flow's.
    pub options: String,
    /// For an access to invalid memory: bytes after the end of the private state, if near it.
    pub past_state: Option<i64>,
    /// The control's position in its object when the signal came.
    pub at: Option<u64>,
    /// What is undefined in C, if a build that looks for it ended there.
    pub undefined: Option<&'static str>,
}

impl Watched {
    /// Parses the bytes of a record, which may be forged.
    pub fn parse(bytes: &[u8]) -> Option<Watched> {
        const NEAR: i64 = 1 << 20;
        if bytes.len() != WATCH_BYTES {
            return None;
        }
        let half = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let slot = (half(12) as usize).min(CONTROLS - 1);
        let path = &bytes[48 + slot * PATH_BYTES..][..PATH_BYTES];
        let path = &path[..path.iter().position(|&byte| byte == 0).unwrap_or(PATH_BYTES)];
        let past_state = word(24) as i64;
        Some(Watched {
            calls: word(0),
            in_call: word(0) % 2 == 1,
            operation: NAMES[(half(8) as usize).min(NAMES.len() - 1)],
            control: String::from_utf8_lossy(path).into_owned(),
            signal: half(16),
            options: clause(half(20)),
            past_state: (0..NEAR).contains(&past_state).then_some(past_state),
            at: Some(word(32)).filter(|&at| at != 0),
            undefined: (word(40) as usize).checked_sub(1).and_then(|kind| UNDEFINED.get(kind).copied()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn every_kind_of_the_header_has_its_words() {
        let header = include_str!("../../../cc/shim/undefined.h");
        let kinds: Vec<usize> = header
            .lines()
            .filter_map(|line| line.strip_prefix("WEIR_UNDEFINED_IS(")?.split(',').next()?.parse().ok())
            .collect();
        assert!(kinds.is_sorted() && kinds.first() == Some(&0));
        assert_eq!(kinds.last(), Some(&(UNDEFINED.len() - 1)));
        assert!(header.contains(&format!("{:#x}", UNDEFINED_MARK << 16)));
    }

    #[test]
    fn the_record_is_parsed_where_it_is_written() {
        assert_eq!(offset_of!(Page, operation), 8);
        assert_eq!(offset_of!(Page, control), 12);
        assert_eq!(offset_of!(Page, signal), 16);
        assert_eq!(offset_of!(Page, options), 20);
        assert_eq!(offset_of!(Page, past_state), 24);
        assert_eq!(offset_of!(Page, at), 32);
        assert_eq!(offset_of!(Page, undefined), 40);
        assert_eq!(offset_of!(Page, paths), 48);
        const { assert!(WATCH_BYTES <= 4096) };
        assert_eq!(NAMES[Operation::Probe as usize], "WEIR_PROBE");
    }

    #[test]
    fn a_record_of_garbage_is_harmless() {
        let watched = Watched::parse(&[0xff; WATCH_BYTES]).expect("as long as it should be");
        assert_eq!(watched.operation, "WEIR_PROBE");
        assert!(watched.in_call && watched.past_state.is_none() && watched.options.is_empty());
        assert_eq!(watched.undefined, None);
        assert_eq!(Watched::parse(&[]), None);
    }
}
