//! Linux for the programs of a run (`weir-agent`, `weir-emu`, `weir-confine`) and its workers: safe functions for system calls.
//!
//! The programs call rustix directly where rustix has a safe function that suffices. This crate adds
//!
//! - what several programs share: [`clock`], [`epoll`], [`netns`], [`process`];
//! - sockets with the options of a plan ([`socket`]), many datagrams in a call ([`datagrams`]), timestamps of
//!   acknowledgements ([`stamps`]);
//! - MPTCP and SCTP ([`native`]), DCCP ([`dccp`]);
//! - the state of connections ([`tcp_info`], [`diag`], [`probes`]) and of queueing disciplines ([`qdisc`]), by [`netlink`];
//! - devices: [`tun`], and [`packet`] sockets with and without a ring;
//! - [`memory`] that a process keeps, [`pages`] of zeros, and [`isolation`]: seccomp filters, namespaces and mount attributes.
//!
//! All unsafe code of these programs is here.

mod call;
pub mod clock;
mod control;
pub mod datagrams;
pub mod dccp;
pub mod diag;
pub mod epoll;
pub mod isolation;
mod mapping;
pub mod memory;
pub mod native;
pub mod netlink;
pub mod netns;
pub mod packet;
pub mod pages;
pub mod probes;
pub mod process;
pub mod qdisc;
pub mod socket;
pub mod stamps;
pub mod tcp_info;
pub mod tun;

pub use call::{set_nonblocking, would_block};
pub use rustix::io::Errno;
