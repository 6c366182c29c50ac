//! The values that a congestion control shows by `WEIR_PROBE`: the Rust side of `cc/shim/probe.h`.

use std::cell::UnsafeCell;

/// Maximum number of probes of a congestion control.
pub const MAX_PROBES: usize = 8;

/// The name of a probe, padded with zeros.
pub type ProbeName = [u8; 16];

/// A place for a probe; its name is zero while it is free.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Place {
    name: [u64; 2],
    value: i64,
}

/// `struct weir_probes`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Places {
    places: [Place; MAX_PROBES],
    refused: [u64; 2],
}

/// The places of one connection, which its congestion control fills in.
#[derive(Debug, Default)]
pub(crate) struct Probes(Box<UnsafeCell<Places>>);

// SAFETY: C writes the places during calls of an `Instance`, which need it exclusively; otherwise they are only read.
unsafe impl Sync for Probes {}

impl Clone for Probes {
    fn clone(&self) -> Probes {
        Probes(Box::new(UnsafeCell::new(*self.places())))
    }
}

impl Probes {
    /// Where C finds them.
    pub fn address(&self) -> u64 {
        self.0.get() as usize as u64
    }

    fn places(&self) -> &Places {
        // SAFETY: no call of the congestion control is in progress, as this borrow of its instance shows.
        unsafe { &*self.0.get() }
    }

    /// Names and values, in the order in which they were first shown.
    pub fn values(&self) -> impl Iterator<Item = (ProbeName, i64)> + '_ {
        let places = self.places().places.iter().take_while(|place| place.name[0] != 0);
        places.map(|place| (name(place.name), place.value))
    }

    /// What is wrong with the probes, if something is.
    pub fn fault(&self) -> Option<String> {
        let Places { places, refused } = self.places();
        if places[0].name[0] == 0 {
            // Most congestion controls show nothing; a value is refused only if no place is free.
            return None;
        }
        if refused[0] != 0 {
            let name = text(&name(*refused));
            return Some(format!("shows one value too many, {name:?}; a congestion control has at most {MAX_PROBES}"));
        }
        let odd = self.values().map(|(name, _)| text(&name)).find(|name| !name.bytes().all(is_of_name))?;
        Some(format!("shows a value called {odd:?}; a name has characters of a-z, A-Z, 0-9, _, . and -"))
    }
}

fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-')
}

fn name(words: [u64; 2]) -> ProbeName {
    let mut name = [0; 16];
    name[..8].copy_from_slice(&words[0].to_le_bytes());
    name[8..].copy_from_slice(&words[1].to_le_bytes());
    name
}

/// The name of a probe without its padding.
pub fn text(name: &ProbeName) -> String {
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    String::from_utf8_lossy(&name[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    unsafe extern "C" {
        static weir_layout_probes: [u32; 4];
    }

    #[test]
    fn probes_have_the_layout_of_the_c_header() {
        let rust = [offset_of!(Places, refused), size_of::<Place>(), offset_of!(Place, value), size_of::<Places>()];
        // SAFETY: a constant of layout.c with this length.
        assert_eq!(rust.map(|bytes| bytes as u32), unsafe { weir_layout_probes });
    }
}
