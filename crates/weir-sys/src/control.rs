//! Control messages of sockets: cmsg(3), read and written as bytes.

/// A control message: its level, its type, its content.
pub(crate) type ControlMessage<'a> = (libc::c_int, libc::c_int, &'a [u8]);

/// Length, level and type.
const HEADER_BYTES: usize = size_of::<usize>() + 2 * size_of::<libc::c_int>();
const ALIGNMENT: usize = size_of::<usize>();

/// Room for control messages of at most `N` words.
pub(crate) type Room<const N: usize> = [u64; N];

/// The bytes of a room.
pub(crate) fn bytes(room: &[u64]) -> &[u8] {
    // SAFETY: words may be read as bytes.
    unsafe { std::slice::from_raw_parts(room.as_ptr().cast(), size_of_val(room)) }
}

/// The messages in `control`, as the kernel wrote them.
pub(crate) fn messages(mut control: &[u8]) -> impl Iterator<Item = ControlMessage<'_>> {
    std::iter::from_fn(move || {
        let len = usize::from_ne_bytes(at(control, 0)?);
        let (level, kind) = (at(control, size_of::<usize>())?, at(control, size_of::<usize>() + 4)?);
        let content = control.get(HEADER_BYTES..len)?;
        control = control.get(len.next_multiple_of(ALIGNMENT)..).unwrap_or(&[]);
        Some((libc::c_int::from_ne_bytes(level), libc::c_int::from_ne_bytes(kind), content))
    })
}

fn at<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset + N)?.try_into().ok()
}

/// The nanoseconds of a message that begins with a timespec.
pub(crate) fn timestamp_ns(content: &[u8]) -> Option<u64> {
    const WORD: usize = size_of::<libc::c_long>();
    let word = |offset| at(content, offset).map(|bytes: [u8; WORD]| libc::c_long::from_ne_bytes(bytes) as u64);
    Some(word(0)? * 1_000_000_000 + word(WORD)?)
}

/// An integer at an offset of a message.
pub(crate) fn integer(content: &[u8], offset: usize) -> Option<u32> {
    at(content, offset).map(u32::from_ne_bytes)
}

/// Words of a message with one integer.
pub(crate) const INTEGER_WORDS: usize = (HEADER_BYTES + ALIGNMENT).div_ceil(8);

/// A message with one integer.
pub(crate) fn integer_message(level: libc::c_int, kind: libc::c_int, value: u32) -> Room<INTEGER_WORDS> {
    let mut message = [0; INTEGER_WORDS * 8];
    let len = HEADER_BYTES + size_of::<u32>();
    let fields = [&len.to_ne_bytes()[..], &level.to_ne_bytes(), &kind.to_ne_bytes(), &value.to_ne_bytes()];
    for (to, from) in message.iter_mut().zip(fields.into_iter().flatten()) {
        *to = *from;
    }
    std::array::from_fn(|word| u64::from_ne_bytes(std::array::from_fn(|byte| message[word * 8 + byte])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let room = integer_message(1, 37, 0xdead_beef);
        let read: Vec<_> = messages(bytes(&room)).collect();
        assert_eq!(read.len(), 1);
        assert_eq!((read[0].0, read[0].1, integer(read[0].2, 0)), (1, 37, Some(0xdead_beef)));
    }

    #[test]
    fn layouts_are_those_of_the_c_library() {
        // SAFETY: the macros only compute.
        let (space, len) = unsafe { (libc::CMSG_SPACE(4), libc::CMSG_LEN(4)) };
        assert_eq!((space as usize, len as usize), (INTEGER_WORDS * 8, HEADER_BYTES + 4));
    }

    #[test]
    fn broken_messages_are_not_read_beyond_their_end() {
        let room = integer_message(1, 2, 3);
        for len in 0..20 {
            assert_eq!(messages(&bytes(&room)[..len]).count(), 0, "{len}");
        }
        assert_eq!(messages(&[0xff; 64]).count(), 0);
        assert_eq!(messages(&[0; 64]).count(), 0);
        assert_eq!((timestamp_ns(&[0; 15]), integer(&[0; 3], 0)), (None, None));
    }
}
