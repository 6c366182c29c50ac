//! The table of operations a C source exports: `struct tcp_congestion_ops` of `cc/shim/native.h`.

use crate::sock::{AckSample, RateSample, Sock};
use std::ffi::c_char;

/// Version of the interface; a shared object built against another is refused.
pub const ABI: u32 = 5;

/// One declared option.
#[repr(C)]
pub(crate) struct OptionRow {
    pub name: *const c_char,
    pub doc: *const c_char,
    pub value: u32,
    pub min: u32,
    pub max: u32,
    pub reserved: u32,
}

type Notify = unsafe extern "C" fn(*mut Sock);
type Ask = unsafe extern "C" fn(*mut Sock) -> u32;

/// The operations and the description of one congestion control. All pointers are to constants of the C source.
#[repr(C)]
pub(crate) struct Ops {
    pub abi: u32,
    pub sock_size: u32,
    pub priv_size: u32,
    pub flags: u32,
    pub name: *const c_char,
    pub title: *const c_char,
    pub source: *const c_char,
    pub year: u32,
    pub option_count: u32,
    pub options: *const OptionRow,
    pub init: Option<Notify>,
    pub release: Option<Notify>,
    pub ssthresh: Option<Ask>,
    pub cong_avoid: Option<unsafe extern "C" fn(*mut Sock, u32, u32)>,
    pub set_state: Option<unsafe extern "C" fn(*mut Sock, u8)>,
    pub cwnd_event: Option<unsafe extern "C" fn(*mut Sock, u32)>,
    pub in_ack_event: Option<unsafe extern "C" fn(*mut Sock, u32)>,
    pub undo_cwnd: Option<Ask>,
    pub pkts_acked: Option<unsafe extern "C" fn(*mut Sock, *const AckSample)>,
    pub cong_control: Option<unsafe extern "C" fn(*mut Sock, u32, i32, *const RateSample)>,
    pub cong_control_rs: Option<unsafe extern "C" fn(*mut Sock, *const RateSample)>,
    pub min_tso_segs: Option<Ask>,
    pub sndbuf_expand: Option<Ask>,
    pub min_cwnd: Option<Ask>,
}

// SAFETY: constants of a C source that is never unloaded; the functions touch only the socket they are given.
unsafe impl Sync for Ops {}
// SAFETY: as above.
unsafe impl Send for Ops {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    unsafe extern "C" {
        static weir_layout_ops: [u32; 27];
    }

    #[test]
    fn ops_have_the_layout_of_the_c_header() {
        macro_rules! offsets {
            ($($field:ident)*) => { [
                $(offset_of!(Ops, $field) as u32,)*
                size_of::<Ops>() as u32,
                size_of::<OptionRow>() as u32,
                size_of::<AckSample>() as u32,
            ] };
        }
        let rust = offsets!(abi sock_size priv_size flags name title source year option_count options init release
            ssthresh cong_avoid set_state cwnd_event in_ack_event undo_cwnd pkts_acked cong_control cong_control_rs
            min_tso_segs sndbuf_expand min_cwnd);
        // SAFETY: a constant of layout.c with this length.
        assert_eq!(rust, unsafe { weir_layout_ops });
    }
}
