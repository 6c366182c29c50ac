//! Guards calls of users' congestion controls: a violation ends the call with a [`Fault`].
//!
//! The control gets a copy of the socket at the end of its page, in front of a page without access. So an access beyond
//! the private state ends the process at that instruction; [`watch`](crate::watch) then knows where. After the call the
//! copy is compared with the socket: only fields that BPF may write may differ.

use crate::{
    asked,
    sock::{PRIVATE_WORDS, Sock},
    watch::{self, Operation},
};
use std::{any::Any, fmt, panic, ptr};

/// Bytes before the copy that must not change.
const CANARY_BYTES: usize = 256;
const CANARY: u8 = 0xa5;

/// The additional facts about a user's congestion control.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Foreign {
    /// Path from which it was loaded.
    pub path: &'static str,
    /// Index in the record of calls.
    pub slot: u32,
    /// Bytes of private state that it declares.
    pub state_bytes: usize,
}

/// A congestion control did something forbidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Path from which it was loaded.
    pub control: String,
    /// Linux' name of the operation.
    pub operation: &'static str,
    /// What it did.
    pub what: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} {}", self.operation, self.control, self.what)
    }
}

impl std::error::Error for Fault {}

/// Runs `work` and catches a fault of a congestion control. After a fault, discard everything that `work` changed.
///
/// # Errors
/// The [`Fault`].
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, Fault> {
    // A fault leaves an operation half done, in state that the caller discards.
    panic::catch_unwind(panic::AssertUnwindSafe(work)).map_err(|payload: Box<dyn Any + Send>| {
        match payload.downcast::<Fault>() {
            Ok(fault) => *fault,
            Err(other) => panic::resume_unwind(other),
        }
    })
}

impl Foreign {
    /// Ends the work that [`caught`] began.
    #[cold]
    pub fn fault(&self, operation: Operation, what: String) -> ! {
        // Not `panic!`, which would print a message: this is not weir's mistake.
        panic::resume_unwind(Box::new(Fault { control: self.path.to_owned(), operation: operation.name(), what }))
    }

    /// Makes a call on a copy of `sock`, and takes over the permitted changes.
    #[cold]
    #[inline(never)]
    pub fn call<T>(&self, operation: Operation, sock: &mut Sock, call: impl FnOnce(*mut Sock) -> T) -> T {
        let result = ARENA.with(|arena| {
            let place = arena.sock;
            // SAFETY: the arena has room for a socket there and belongs to this thread.
            unsafe { ptr::copy_nonoverlapping(ptr::from_ref(sock), place, 1) };
            watch::begin(self.slot, operation, place as usize + size_of::<Sock>());
            let result = call(place);
            watch::end();
            if let Some(what) = asked::failure() {
                self.fault(operation, what);
            }
            if !arena.canary().iter().all(|&byte| byte == CANARY) {
                arena.restore();
                self.fault(operation, "wrote before struct sock".into());
            }
            // SAFETY: all of it was initialised above.
            let after = unsafe { &*place };
            if let Some(what) = self.forbidden(sock, after) {
                self.fault(operation, what);
            }
            // SAFETY: as above.
            unsafe { ptr::copy_nonoverlapping(place, sock, 1) };
            result
        });
        if sock.snd_cwnd == 0 {
            self.fault(operation, "set snd_cwnd to 0; a window has at least one packet".into());
        }
        result
    }

    fn forbidden(&self, before: &Sock, after: &Sock) -> Option<String> {
        let mut allowed = before.clone();
        allowed.take_writable(after);
        if allowed != *after {
            return Some(format!("wrote {}, which a congestion control only reads", first_difference(&allowed, after)));
        }
        let state = |sock: &Sock| {
            let mut bytes = [0; PRIVATE_WORDS * 8];
            for (chunk, word) in bytes.chunks_exact_mut(8).zip(&sock.private) {
                chunk.copy_from_slice(&word.to_ne_bytes());
            }
            bytes
        };
        (state(before)[self.state_bytes..] != state(after)[self.state_bytes..])
            .then(|| format!("wrote beyond its state of {} bytes", self.state_bytes))
    }
}

/// The first read-only field that a control has written, by Linux' name.
fn first_difference(expected: &Sock, found: &Sock) -> &'static str {
    macro_rules! find {
        ($($field:ident $name:literal)*) => { $(if expected.$field != found.$field { return $name; })* };
    }
    find!(snd_cwnd_clamp "snd_cwnd_clamp" packets_out "packets_out" sacked_out "sacked_out" lost_out "lost_out"
        retrans_out "retrans_out" max_packets_out "max_packets_out" snd_una "snd_una" snd_nxt "snd_nxt" srtt_us "srtt_us"
        mdev_us "mdev_us" rtt_min_us "rtt_min" mss_cache "mss_cache" tcp_mstamp_us "tcp_mstamp"
        delivered_mstamp_us "delivered_mstamp" first_tx_mstamp_us "first_tx_mstamp" delivered "delivered"
        delivered_ce "delivered_ce" lost "lost" prior_cwnd "prior_cwnd" prior_ssthresh "prior_ssthresh"
        lsndtime "lsndtime" is_cwnd_limited "is_cwnd_limited" ca_state "icsk_ca_state" retransmits "icsk_retransmits"
        max_pacing_rate "sk_max_pacing_rate" hz "HZ" probes "weir_probes" options "its options");
    "padding of struct sock"
}

/// A thread's memory for the copy, between two pages without access.
struct Arena {
    mapped: *mut libc::c_void,
    bytes: usize,
    sock: *mut Sock,
}

thread_local! {
    static ARENA: Arena = Arena::new();
}

impl Arena {
    fn new() -> Arena {
        // SAFETY: a question about the machine.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).expect("a page has a size");
        let bytes = 3 * page;
        // SAFETY: a new mapping of pages of its own.
        let mapped = unsafe {
            libc::mmap(ptr::null_mut(), bytes, libc::PROT_NONE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0)
        };
        assert!(mapped != libc::MAP_FAILED, "no memory for a congestion control's socket");
        let middle = mapped.cast::<u8>().wrapping_add(page);
        // SAFETY: the second of the three pages.
        let allowed = unsafe { libc::mprotect(middle.cast(), page, libc::PROT_READ | libc::PROT_WRITE) };
        assert!(allowed == 0, "no memory for a congestion control's socket");
        let arena = Arena { mapped, bytes, sock: middle.wrapping_add(page - size_of::<Sock>()).cast() };
        arena.restore();
        arena
    }

    fn restore(&self) {
        // SAFETY: bytes of the second page before the socket; a page holds both many times over.
        unsafe { ptr::write_bytes(self.sock.cast::<u8>().sub(CANARY_BYTES), CANARY, CANARY_BYTES) };
    }

    fn canary(&self) -> &[u8] {
        // SAFETY: as in `restore`.
        unsafe { std::slice::from_raw_parts(self.sock.cast::<u8>().sub(CANARY_BYTES), CANARY_BYTES) }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: what `new` mapped; nothing refers to it once the thread ends.
        unsafe { libc::munmap(self.mapped, self.bytes) };
    }
}
