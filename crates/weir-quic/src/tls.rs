//! Keys and certificates of TLS. A server's are made when it starts, and are gone when it ends.

use std::sync::Arc;

use quinn_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, ServerConfig, SignatureScheme};

use crate::settings::QuicError;

/// The name in the certificate, and the one for which clients ask.
pub(crate) const NAME: &str = "weir";

/// The server's side, with a new key and a certificate that it signs itself.
///
/// # Errors
/// The system has no random numbers.
pub(crate) fn server(alpn: Vec<u8>) -> Result<QuicServerConfig, QuicError> {
    let failed = |_| QuicError("no key could be made: the system gives no random numbers".into());
    let secret = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).map_err(failed)?;
    let key = Ed25519KeyPair::from_pkcs8(secret.as_ref()).map_err(QuicError::of)?;
    let certificate = CertificateDer::from(certificate(&key));
    let secret = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(secret.as_ref().to_vec()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(provider::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(QuicError::of)?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], secret)
        .map_err(QuicError::of)?;
    config.alpn_protocols = vec![alpn];
    // A ticket would be sent for each connection, and no client uses it.
    config.send_tls13_tickets = 0;
    QuicServerConfig::try_from(config).map_err(QuicError::of)
}

/// The client's side. It accepts every certificate whose key signs the handshake.
///
/// # Errors
/// None is expected.
pub(crate) fn client(alpn: Vec<u8>) -> Result<QuicClientConfig, QuicError> {
    let provider = Arc::new(provider::default_provider());
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(QuicError::of)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyName(provider)))
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn];
    config.resumption = rustls::client::Resumption::disabled();
    QuicClientConfig::try_from(config).map_err(QuicError::of)
}

/// Accepts a certificate of anybody: the names of a test bed mean nothing, and nothing is secret.
#[derive(Debug)]
struct AnyName(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("QUIC needs TLS 1.3".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const UTF8_STRING: u8 = 0x0c;
const UTC_TIME: u8 = 0x17;
const VERSION: u8 = 0xa0;
/// Ed25519 (RFC 8410).
const ALGORITHM: [u8; 7] = [SEQUENCE, 5, 0x06, 3, 0x2b, 0x65, 0x70];
/// `commonName`.
const COMMON_NAME: [u8; 5] = [0x06, 3, 0x55, 0x04, 0x03];
const FROM: &[u8] = b"000101000000Z";
const UNTIL: &[u8] = b"491231235959Z";

/// A certificate of `key` that `key` signs (RFC 5280, section 4.1), in DER.
fn certificate(key: &Ed25519KeyPair) -> Vec<u8> {
    let name = der(SEQUENCE, &[&der(SET, &[&der(SEQUENCE, &[&COMMON_NAME, &der(UTF8_STRING, &[NAME.as_bytes()])])])]);
    let body = der(
        SEQUENCE,
        &[
            &der(VERSION, &[&der(INTEGER, &[&[2]])]),
            &der(INTEGER, &[&[1]]),
            &ALGORITHM,
            &name,
            &der(SEQUENCE, &[&der(UTC_TIME, &[FROM]), &der(UTC_TIME, &[UNTIL])]),
            &name,
            &der(SEQUENCE, &[&ALGORITHM, &der(BIT_STRING, &[&[0], key.public_key().as_ref()])]),
        ],
    );
    let signature = key.sign(&body);
    der(SEQUENCE, &[&body, &ALGORITHM, &der(BIT_STRING, &[&[0], signature.as_ref()])])
}

/// A value of DER with `tag`, whose content is `parts`.
fn der(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let mut value = vec![tag];
    // The shortest form, as DER requires.
    match content.len() {
        short @ ..0x80 => value.push(short as u8),
        long @ ..0x100 => value.extend([0x81, long as u8]),
        long => {
            value.push(0x82);
            value.extend((long as u16).to_be_bytes());
        }
    }
    value.extend(content);
    value
}
