//! The structures of the C boundary as bytes, for recordings and for builds of the same C elsewhere.

use crate::sock::{AckSample, RateSample, Sock};

macro_rules! plain {
    ($type:ty) => {
        impl $type {
            /// Its bytes, in the layout of the C header.
            pub fn as_bytes(&self) -> &[u8] {
                // SAFETY: integers without padding (the tests count them), borrowed for as long as `self` is.
                unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast::<u8>(), size_of::<Self>()) }
            }

            /// From its bytes; none if their number is wrong.
            pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
                if bytes.len() != size_of::<Self>() {
                    return None;
                }
                // SAFETY: integers, for which every pattern of bits is a value; the length was checked.
                Some(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast::<Self>()) })
            }
        }
    };
}

plain!(Sock);
plain!(AckSample);
plain!(RateSample);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MAX_OPTIONS, PRIVATE_WORDS};

    #[test]
    fn there_is_no_padding() {
        let sock = 16 * 4 + 5 * 8 + 7 * 4 + 4 + PRIVATE_WORDS * 8 + 8 + 3 * 8 + 4 * 4 + MAX_OPTIONS * 4;
        assert_eq!(size_of::<Sock>(), sock);
        assert_eq!(size_of::<AckSample>(), 3 * 4);
        assert_eq!(size_of::<RateSample>(), 2 * 8 + 4 * 4 + 2 * 4 + 8 + 4 * 4 + 8);
    }

    #[test]
    fn bytes_and_back() {
        let sock = Sock { snd_cwnd: 7, pacing_rate: 9, ecn_flags: 3, ..Sock::default() };
        assert_eq!(Sock::from_bytes(sock.as_bytes()), Some(sock.clone()));
        assert_eq!(Sock::from_bytes(&sock.as_bytes()[1..]), None);
        assert_eq!(sock.as_bytes()[..4], 7_u32.to_ne_bytes());
    }
}
