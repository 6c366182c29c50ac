//! The settings of a connection.

use std::fmt;
use std::sync::Arc;

use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};
use quinn_proto::{EndpointConfig, TransportConfig, VarInt};

use crate::observed::{Observer, Seen};

/// Bytes of a full QUIC packet beside the payload: the short header (first byte, connection id of 8 bytes, packet number
/// of 2), the header of a STREAM frame (type, id, offset of 4 bytes), and the authentication tag (16).
pub const HEADER_BYTES: u32 = 1 + 8 + 2 + 1 + 1 + 4 + 16;
/// Least payload of a full datagram (RFC 9000, section 14).
pub const MIN_PAYLOAD_BYTES: u32 = 1200;

/// Streams that a client may open in advance of those that have ended.
const STREAMS: u32 = 1024;

/// A congestion control of quinn-proto.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// NewReno (RFC 9002, section 7).
    Reno,
    /// CUBIC (RFC 8312), without HyStart.
    Cubic,
    /// BBR v1, whose rate quinn-proto does not use for pacing; its authors call it experimental.
    Bbr,
}

impl Control {
    /// The control with this name: `reno`, `cubic` or `bbr`.
    pub fn of(name: &str) -> Option<Control> {
        match name {
            "reno" => Some(Control::Reno),
            "cubic" => Some(Control::Cubic),
            "bbr" => Some(Control::Bbr),
            _ => None,
        }
    }

    fn factory(self, initial_window: u64) -> Arc<dyn ControllerFactory + Send + Sync> {
        match self {
            Control::Reno => {
                let mut config = NewRenoConfig::default();
                config.initial_window(initial_window);
                Arc::new(config)
            }
            Control::Cubic => {
                let mut config = CubicConfig::default();
                config.initial_window(initial_window);
                Arc::new(config)
            }
            Control::Bbr => {
                let mut config = BbrConfig::default();
                config.initial_window(initial_window);
                Arc::new(config)
            }
        }
    }
}

/// The settings of both ends of a flow.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Congestion control of the client.
    pub control: Control,
    /// Payload of a full datagram, from [`MIN_PAYLOAD_BYTES`] on. The path is not probed for more.
    pub payload_bytes: u16,
    /// Initial window, bytes.
    pub initial_window: u64,
    /// Maximum number of bytes written and not acknowledged.
    pub send_buffer_bytes: u64,
    /// Maximum number of bytes received and not read, and the flow-control window of connection and stream.
    pub receive_buffer_bytes: u64,
    /// A secret that both ends know: the server refuses clients without it.
    pub secret: Vec<u8>,
    /// Seed of the protocol's random numbers.
    pub seed: [u8; 32],
}

impl Settings {
    /// The protocol that both ends name in the handshake; with another one, TLS refuses the connection.
    pub(crate) fn alpn(&self) -> Vec<u8> {
        [b"weir/".as_slice(), &self.secret].concat()
    }

    pub(crate) fn endpoint(&self) -> Result<EndpointConfig, QuicError> {
        let mut config = EndpointConfig::default();
        config.rng_seed(Some(self.seed)).max_udp_payload_size(self.payload_bytes).map_err(QuicError::of)?;
        Ok(config)
    }

    /// The settings of the transport; `seen` observes the congestion control.
    pub(crate) fn transport(&self, seen: &Seen) -> TransportConfig {
        let window = VarInt::from_u64(self.receive_buffer_bytes).unwrap_or(VarInt::MAX);
        let factory = self.control.factory(self.initial_window);
        let mut config = TransportConfig::default();
        config
            .initial_mtu(self.payload_bytes)
            .min_mtu(self.payload_bytes)
            .mtu_discovery_config(None)
            .max_idle_timeout(None)
            .max_concurrent_uni_streams(STREAMS.into())
            .max_concurrent_bidi_streams(VarInt::from_u32(0))
            .datagram_receive_buffer_size(None)
            .enable_segmentation_offload(false)
            .send_window(self.send_buffer_bytes)
            .receive_window(window)
            .stream_receive_window(window)
            .congestion_controller_factory(Arc::new(Observer::factory(factory, seen)));
        config
    }
}

/// A failed connection, or settings that QUIC cannot have.
#[derive(Debug)]
pub struct QuicError(pub(crate) String);

impl QuicError {
    pub(crate) fn of(error: impl fmt::Display) -> QuicError {
        QuicError(error.to_string())
    }
}

impl fmt::Display for QuicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for QuicError {}
