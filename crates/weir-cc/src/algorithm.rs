//! A congestion control as a named, described set of operations.

use crate::{
    error::CcError,
    explicit::EXPLICIT,
    guard::Foreign,
    ops::{ABI, Ops, OptionRow},
    sock::{MAX_OPTIONS, PRIVATE_WORDS, Sock},
};
use serde::Serialize;
use std::{ffi::c_char, fmt};

/// Longest name, as Linux' `TCP_CA_NAME_MAX` without its terminator.
const NAME_MAX: usize = 15;
/// Longest name of an option.
const OPTION_NAME_MAX: usize = 32;
/// Longest title, source and description of an option, bytes.
const PROSE_MAX: usize = 400;

/// A congestion control: cheap to copy, valid for the life of the process.
#[derive(Clone)]
pub struct Algorithm {
    pub(crate) ops: &'static Ops,
    /// Set for a user's control: its calls are guarded.
    pub(crate) foreign: Option<&'static Foreign>,
}

/// A congestion control's description of itself, for listings and manifests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Description {
    /// Registered name.
    pub name: String,
    /// Its name in prose.
    pub title: String,
    /// Year of the source.
    pub year: u32,
    /// Paper or RFC, with the section.
    pub source: String,
    /// Bytes of private state it uses.
    pub state_bytes: u32,
    /// Needs ECN on the connection.
    pub needs_ecn: bool,
    /// Needs accurate feedback of congestion marks (RFC 9768).
    pub needs_accecn: bool,
    /// Sets the window in `cong_control` instead of `cong_avoid`.
    pub has_cong_control: bool,
    /// The queue that a router on its path must have: it exists in the simulator only.
    pub queue: Option<String>,
    /// Its options.
    pub options: Vec<CcOption>,
}

/// One option of a congestion control.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CcOption {
    /// Name as in a scenario.
    pub name: String,
    /// What it does, with its unit.
    pub doc: String,
    /// Default value.
    pub default: u32,
    /// Smallest value.
    pub min: u32,
    /// Largest value.
    pub max: u32,
}

impl Algorithm {
    /// Verifies a table as Linux does when a module registers: mandatory operations, size of the state.
    pub(crate) fn check(ops: &'static Ops) -> Result<Algorithm, CcError> {
        let algorithm = Algorithm { ops, foreign: None };
        let reason = if ops.abi != ABI {
            format!("it was built for interface version {}, this is version {ABI}; build it again", ops.abi)
        } else if ops.sock_size as usize != size_of::<Sock>() {
            format!("its struct sock has {} bytes, expected {}", ops.sock_size, size_of::<Sock>())
        } else if let Some(reason) = fault(ops) {
            reason
        } else {
            return Ok(algorithm);
        };
        // An unknown interface version may have the name elsewhere: do not follow the pointer.
        let name = if ops.abi == ABI { text(ops.name) } else { String::new() };
        Err(CcError::Invalid { name, reason })
    }

    /// Registered name.
    pub fn name(&self) -> &'static str {
        str_of(self.ops.name)
    }

    /// `TCP_CONG_*` flags.
    pub fn flags(&self) -> u32 {
        self.ops.flags
    }

    /// Whether the connection must negotiate ECN.
    pub fn needs_ecn(&self) -> bool {
        self.ops.flags & 2 != 0
    }

    /// Whether the receiver must count marks.
    pub fn needs_accecn(&self) -> bool {
        self.ops.flags & 4 != 0
    }

    /// Whether its packets are ECT(1) instead of ECT(0): it is scalable (RFC 9331).
    pub fn sends_ect_1(&self) -> bool {
        self.ops.flags & 8 != 0
    }

    /// Whether the transport must sample the delivery rate for it: for `cong_control`, or for an exact
    /// [`AckSample::in_flight`](crate::AckSample::in_flight).
    pub fn needs_samples(&self) -> bool {
        self.has_cong_control() || self.ops.flags & 0x100 != 0
    }

    /// Whether it sets the window in `cong_control` instead of `cong_avoid`.
    pub fn has_cong_control(&self) -> bool {
        self.ops.cong_control.is_some() || self.ops.cong_control_rs.is_some()
    }

    /// Its options in the order of declaration.
    pub fn options(&self) -> Vec<CcOption> {
        self.rows().iter().map(CcOption::from).collect()
    }

    /// The whole description of itself.
    pub fn describe(&self) -> Description {
        Description {
            name: self.name().to_owned(),
            title: text(self.ops.title),
            year: self.ops.year,
            source: text(self.ops.source),
            state_bytes: self.ops.priv_size,
            needs_ecn: self.needs_ecn(),
            needs_accecn: self.needs_accecn(),
            has_cong_control: self.has_cong_control(),
            queue: self.queue().map(str::to_owned),
            options: self.options(),
        }
    }

    /// The kind of the queue that gives it explicit feedback; none for a control without. Both have one name.
    pub fn queue(&self) -> Option<&'static str> {
        (self.ops.flags & EXPLICIT != 0).then(|| self.name())
    }

    pub(crate) fn rows(&self) -> &'static [OptionRow] {
        if self.ops.option_count == 0 {
            return &[];
        }
        // SAFETY: pointer and count belong to one constant array of the C source.
        unsafe { std::slice::from_raw_parts(self.ops.options, self.ops.option_count as usize) }
    }
}

impl fmt::Debug for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Algorithm").field(&self.name()).finish()
    }
}

impl PartialEq for Algorithm {
    fn eq(&self, other: &Algorithm) -> bool {
        std::ptr::eq(self.ops, other.ops)
    }
}

impl From<&OptionRow> for CcOption {
    fn from(row: &OptionRow) -> CcOption {
        CcOption { name: text(row.name), doc: text(row.doc), default: row.value, min: row.min, max: row.max }
    }
}

impl OptionRow {
    pub(crate) fn name(&self) -> &'static str {
        str_of(self.name)
    }
}

/// Why Linux would refuse these operations, or weir could not run them.
fn fault(ops: &'static Ops) -> Option<String> {
    if ops.ssthresh.is_none() {
        return Some("it has no ssthresh operation; OP(ssthresh, tcp_reno_ssthresh) halves the window".into());
    }
    if ops.undo_cwnd.is_none() {
        return Some("it has no undo_cwnd operation; OP(undo_cwnd, tcp_reno_undo_cwnd) is the usual one".into());
    }
    if ops.cong_avoid.is_none() && ops.cong_control.is_none() && ops.cong_control_rs.is_none() {
        return Some("it has neither a cong_avoid nor a cong_control operation".into());
    }
    if ops.cong_control.is_some() && ops.cong_control_rs.is_some() {
        return Some("it has cong_control in both signatures; keep one".into());
    }
    if ops.priv_size as usize > PRIVATE_WORDS * 8 {
        return Some(format!("its state has {} bytes, at most {} are there", ops.priv_size, PRIVATE_WORDS * 8));
    }
    if ops.option_count as usize > MAX_OPTIONS {
        return Some(format!("it has {} options, at most {MAX_OPTIONS} are possible", ops.option_count));
    }
    if !is_name(ops.name, NAME_MAX) {
        return Some(format!("a name has 1 to {NAME_MAX} characters of a-z, 0-9, - and _"));
    }
    if !is_prose(ops.title) || !is_prose(ops.source) {
        return Some(format!("title and source are printable text of at most {PROSE_MAX} bytes"));
    }
    if ops.option_count > 0 && ops.options.is_null() {
        return Some("it has options, but no table of them".into());
    }
    Algorithm { ops, foreign: None }.rows().iter().find_map(option_fault)
}

fn option_fault(row: &OptionRow) -> Option<String> {
    if !is_name(row.name, OPTION_NAME_MAX) {
        return Some(format!("the name of an option has 1 to {OPTION_NAME_MAX} characters of a-z, 0-9, - and _"));
    }
    let name = row.name();
    if name == "name" {
        return Some("an option cannot be called name: in a scenario, that names the congestion control".into());
    }
    if !is_prose(row.doc) {
        return Some(format!("what option {name} does is printable text of at most {PROSE_MAX} bytes"));
    }
    if row.min > row.max || row.value < row.min || row.value > row.max {
        return Some(format!("option {name} is {} by default, and from {} to {}", row.value, row.min, row.max));
    }
    None
}

fn is_name(pointer: *const c_char, most: usize) -> bool {
    let valid = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    bounded(pointer, most).is_some_and(|name| !name.is_empty() && name.chars().all(valid))
}

fn is_prose(pointer: *const c_char) -> bool {
    pointer.is_null() || bounded(pointer, PROSE_MAX).is_some_and(|text| !text.chars().any(char::is_control))
}

/// The text at `pointer`, if it has at most `most` bytes.
fn bounded(pointer: *const c_char, most: usize) -> Option<&'static str> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: a string of a C source that is never unloaded; reads at most `most` bytes.
    let length = (0..=most).find(|&at| unsafe { *pointer.add(at) } == 0)?;
    // SAFETY: as above; these bytes were just read.
    std::str::from_utf8(unsafe { std::slice::from_raw_parts(pointer.cast(), length) }).ok()
}

fn str_of(pointer: *const c_char) -> &'static str {
    bounded(pointer, PROSE_MAX).unwrap_or("")
}

fn text(pointer: *const c_char) -> String {
    str_of(pointer).to_owned()
}
