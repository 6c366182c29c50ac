//! A compiled congestion control as an ELF object, and the constants that are set in it before it is loaded.
//!
//! The object describes itself (`cc/shim/bpf.h`): `weir_opt_NAME` is an option's value with its bounds, `weir_hz` the
//! running kernel's HZ, `weir_object` the registered name and where name and flags are in the operations' structure.

use crate::{error::BpfError, names};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, elf, read::elf::ElfFile64};
use std::collections::BTreeMap;
use weir_cc::CcError;

/// `TCP_CONG_NON_RESTRICTED`: processes without `CAP_NET_ADMIN` may choose it.
const NON_RESTRICTED: u32 = 1;
/// What precedes an option's name in its symbol.
const OPTION: &str = "weir_opt_";
/// What precedes the identifier in the name of the operations' structure.
const OPERATIONS: &str = "weir_cc_";
/// Bytes of a name with its terminator, `TCP_CA_NAME_MAX`.
const NAME_BYTES: usize = 16;

/// A BPF object whose constants can be set.
#[derive(Clone, Debug)]
pub struct CompiledCc {
    bytes: Vec<u8>,
    name: String,
    options: Vec<CompiledOption>,
    hz_at: usize,
    operations: String,
    /// Where the name to register, and the flags, are in the file.
    name_at: usize,
    flags_at: usize,
}

/// An option as the object declares it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompiledOption {
    /// Name as in a scenario.
    pub name: String,
    /// Value when not given.
    pub default: u32,
    /// Smallest value.
    pub min: u32,
    /// Largest value.
    pub max: u32,
    at: usize,
}

impl CompiledCc {
    /// Reads what an object says about itself. `cc` is what it is called in errors.
    ///
    /// # Errors
    /// [`BpfError::Object`].
    pub fn parse(cc: &str, bytes: Vec<u8>) -> Result<CompiledCc, BpfError> {
        let fail = |reason: String| BpfError::Object { cc: cc.to_owned(), reason };
        let symbols = symbols(&bytes).map_err(|error| fail(error.to_string()))?;
        let at = |name: &str| symbols.get(name).copied().ok_or_else(|| fail(format!("it has no {name}")));
        let described = at("weir_object")?;
        let (operations, start) = symbols
            .iter()
            .find(|(name, _)| name.starts_with(OPERATIONS))
            .map(|(name, at)| (name.clone(), *at))
            .ok_or_else(|| fail("it registers no congestion control".into()))?;
        let word = |at| word(&bytes, at).ok_or_else(|| fail("it is cut short".into()));
        let name = text(&bytes, described, NAME_BYTES).ok_or_else(|| fail("it has no name".into()))?;
        let name_at = start + word(described + NAME_BYTES)? as usize;
        let flags_at = start + word(described + NAME_BYTES + 4)? as usize;
        word(name_at + NAME_BYTES - 4)?;
        word(flags_at)?;
        let hz_at = at("weir_hz")?;
        word(hz_at)?;
        let mut options = Vec::new();
        for (symbol, &at) in &symbols {
            if let Some(name) = symbol.strip_prefix(OPTION) {
                let (default, min, max) = (word(at)?, word(at + 4)?, word(at + 8)?);
                options.push(CompiledOption { name: name.to_owned(), default, min, max, at });
            }
        }
        options.sort_by_key(|option| option.at);
        Ok(CompiledCc { name, options, hz_at, operations, name_at, flags_at, bytes })
    }

    /// Name as in `cc/registry.txt`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The options in the order of declaration.
    pub fn options(&self) -> &[CompiledOption] {
        &self.options
    }

    /// The name of the structure of operations, which is also its map's.
    pub fn operations(&self) -> &str {
        &self.operations
    }

    /// The ELF object with everything set so far.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Sets options by name.
    ///
    /// # Errors
    /// [`CcError::UnknownOption`], [`CcError::OptionRange`].
    pub fn set_options(&mut self, values: &BTreeMap<String, i64>) -> Result<(), CcError> {
        for (name, &value) in values {
            let option = self.option(name)?;
            let fits = u32::try_from(value).ok().filter(|value| (option.min..=option.max).contains(value));
            let Some(fits) = fits else {
                let (min, max) = (option.min, option.max);
                return Err(CcError::OptionRange { cc: self.name.clone(), option: name.clone(), value, min, max });
            };
            let at = option.at;
            self.put(at, fits);
        }
        Ok(())
    }

    /// Sets jiffies a second.
    pub fn set_hz(&mut self, hz: u32) {
        self.put(self.hz_at, hz);
    }

    /// Sets the name under which the kernel will know it.
    ///
    /// # Errors
    /// [`BpfError::BadName`].
    pub fn set_registered_name(&mut self, name: &str) -> Result<(), BpfError> {
        names::check_name(name)?;
        let field = &mut self.bytes[self.name_at..][..NAME_BYTES];
        field.fill(0);
        field[..name.len()].copy_from_slice(name.as_bytes());
        Ok(())
    }

    /// Lets processes without `CAP_NET_ADMIN` choose it.
    pub fn set_unrestricted(&mut self) {
        let flags = word(&self.bytes, self.flags_at).unwrap_or(0);
        self.put(self.flags_at, flags | NON_RESTRICTED);
    }

    fn option(&self, name: &str) -> Result<&CompiledOption, CcError> {
        self.options.iter().find(|option| option.name == name).ok_or_else(|| {
            let known: Vec<String> = self.options.iter().map(|option| option.name.clone()).collect();
            CcError::unknown_option(&self.name, name, known)
        })
    }

    fn put(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
}

/// Where each global variable is in the file.
fn symbols(bytes: &[u8]) -> Result<BTreeMap<String, usize>, object::Error> {
    let file: ElfFile64<'_, object::Endianness> = ElfFile64::parse(bytes)?;
    let mut found = BTreeMap::new();
    for symbol in file.symbols() {
        let Some(index) = symbol.section_index() else { continue };
        let is_object = symbol.elf_symbol().st_type() == elf::STT_OBJECT;
        let section = file.section_by_index(index)?;
        if let (true, Some((start, length))) = (is_object, section.file_range()) {
            let at = symbol.address();
            if at.saturating_add(symbol.size()) <= length {
                found.insert(symbol.name()?.to_owned(), (start + at) as usize);
            }
        }
    }
    Ok(found)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    // clang's target `bpf` has the byte order of the machine.
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_ne_bytes)
}

fn text(bytes: &[u8], at: usize, most: usize) -> Option<String> {
    let field = bytes.get(at..at.checked_add(most)?)?;
    let end = field.iter().position(|&byte| byte == 0)?;
    std::str::from_utf8(&field[..end]).ok().filter(|name| !name.is_empty()).map(str::to_owned)
}
