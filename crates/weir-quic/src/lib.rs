//! The ends of a QUIC flow (RFC 9000), without I/O and without a clock: a driver passes datagrams and the present.
//!
//! The protocol is that of quinn-proto. This crate adds what an evaluation needs: payload of zeros that is never copied,
//! connections that strangers cannot open, and the state of congestion control ([`State`]).
//!
//! - [`Client`]: the sending end: one connection, whose streams carry transfers one after another.
//! - [`Server`]: the receiving end: accepts connections, and counts the payload of their streams.
//! - [`Settings`], [`Control`]: the settings of both.
//!
//! The server makes its key and its certificate when it starts ([`tls`]); nothing is written to a file. The seed
//! of the settings decides the random numbers of the protocol, such as skipped packet numbers, but no keys.

#![forbid(unsafe_code)]
#![allow(rustdoc::private_intra_doc_links, reason = "the page is read by who reads the sources")]

mod client;
mod observed;
mod server;
mod settings;
mod tls;

pub use client::{Client, Event};
pub use observed::{Moment, State, Turn};
pub use server::{Delivered, Server};
pub use settings::{Control, HEADER_BYTES, MIN_PAYLOAD_BYTES, QuicError, Settings};
