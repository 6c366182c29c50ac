//! A compiled congestion control as an ELF object, and the constants that are set in it before loading.
//!
//! The object describes itself (`cc/shim/bpf.h`): `weir_opt_NAME` is an option's value with its bounds, `weir_hz` the
//! running kernel's HZ, `weir_object` the registered name and the offsets of name and flags in the operations'
//! structure.

use crate::{error::BpfError, names};
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, elf, read::elf::ElfFile64};
use std::collections::BTreeMap;
use weir_cc::CcError;

/// `TCP_CONG_NON_RESTRICTED`: processes without `CAP_NET_ADMIN` may choose it.
const NON_RESTRICTED: u32 = 1;
/// Prefix of an option's name in its symbol.
const OPTION: &str = "weir_opt_";
/// The switch of probes, and the map of their values (`cc/shim/bpf.h`).
const PROBING: &str = "weir_probing";
pub(crate) const PROBES: &str = "weir_probe_map";
/// Prefix of the identifier in the name of the operations' structure.
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
    /// Of `weir_probing`; none in an object without probes.
    probing_at: Option<usize>,
    operations: String,
    /// Offsets of the registered name, and of the flags, in the file.
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
    /// Reads the object's description of itself. `cc` is its name in errors.
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
        let probing_at = symbols.get(PROBING).copied();
        probing_at.map(word).transpose()?;
        let mut options = Vec::new();
        for (symbol, &at) in &symbols {
            if let Some(name) = symbol.strip_prefix(OPTION) {
                let (default, min, max) = (word(at)?, word(at + 4)?, word(at + 8)?);
                options.push(CompiledOption { name: name.to_owned(), default, min, max, at });
            }
        }
        options.sort_by_key(|option| option.at);
        Ok(CompiledCc { name, options, hz_at, probing_at, operations, name_at, flags_at, bytes })
    }

    /// Name as in `cc/registry.txt`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The options in the order of declaration.
    pub fn options(&self) -> &[CompiledOption] {
        &self.options
    }

    /// The name of the structure of operations, and of its map.
    pub fn operations(&self) -> &str {
        &self.operations
    }

    /// The ELF object with all values set so far.
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

    /// Sets jiffies per second.
    pub fn set_hz(&mut self, hz: u32) {
        self.put(self.hz_at, hz);
    }

    /// Has its probes keep their values, in the map `weir_probe_map`; an object without probes has none to keep.
    pub fn set_probing(&mut self) {
        if let Some(at) = self.probing_at {
            self.put(at, 1);
        }
    }

    /// Sets the name under which the kernel registers it.
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

/// Offsets of the global variables in the file.
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

#[cfg(test)]
mod tests {
    use super::*;
    use object::{
        Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
        write::{self, StandardSection, Symbol, SymbolSection},
    };

    /// An object like the shim's, from variables with their words. Needs no compiler.
    fn elf(variables: &[(&str, Vec<u32>)]) -> Vec<u8> {
        let endian = if cfg!(target_endian = "big") { Endianness::Big } else { Endianness::Little };
        let mut file = write::Object::new(BinaryFormat::Elf, Architecture::Bpf, endian);
        let constants = file.section_id(StandardSection::ReadOnlyData);
        let operations = file.add_section(Vec::new(), b".struct_ops".to_vec(), SectionKind::Data);
        for (name, words) in variables {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let section = if name.starts_with(OPERATIONS) { operations } else { constants };
            let symbol = file.add_symbol(Symbol {
                name: name.as_bytes().to_vec(),
                value: 0,
                size: 0,
                kind: SymbolKind::Data,
                scope: SymbolScope::Dynamic,
                weak: false,
                section: SymbolSection::Undefined,
                flags: SymbolFlags::None,
            });
            file.add_symbol_data(symbol, section, &bytes, 8);
        }
        file.write().expect("a valid file")
    }

    fn name_words(name: &str) -> Vec<u32> {
        let mut bytes = name.as_bytes().to_vec();
        bytes.resize(NAME_BYTES, 0);
        bytes.chunks(4).map(|four| u32::from_ne_bytes(four.try_into().expect("four"))).collect()
    }

    /// Its structure of operations has two other words, the name, another word, the flags.
    fn example() -> Vec<u8> {
        let object = [name_words("mine"), vec![8, 28]].concat();
        let operations = [vec![7, 7], name_words("weir_mine"), vec![7, 2]].concat();
        elf(&[
            ("weir_opt_beta", vec![717, 1, 1023]),
            ("weir_opt_c", vec![400, 1, 2000]),
            ("weir_hz", vec![1000]),
            ("weir_object", object),
            ("weir_cc_mine", operations),
        ])
    }

    fn parsed() -> CompiledCc {
        CompiledCc::parse("mine.c", example()).expect("an object of the shim")
    }

    #[test]
    fn an_object_says_what_it_is() {
        let object = parsed();
        assert_eq!((object.name(), object.operations()), ("mine", "weir_cc_mine"));
        let options: Vec<_> = object.options().iter().map(|o| (o.name.as_str(), o.default, o.min, o.max)).collect();
        assert_eq!(options, [("beta", 717, 1, 1023), ("c", 400, 1, 2000)]);
    }

    #[test]
    fn constants_are_set_and_nothing_else_changes() {
        let mut object = parsed();
        object.set_options(&BTreeMap::from([("beta".into(), 512), ("c".into(), 1)])).expect("within the bounds");
        object.set_hz(250);
        object.set_registered_name("w1.0_mine").expect("a name");
        object.set_unrestricted();
        let again = CompiledCc::parse("mine.c", object.bytes().to_vec()).expect("still an object");
        let values: Vec<u32> = again.options().iter().map(|option| option.default).collect();
        assert_eq!(values, [512, 1]);
        assert_eq!(word(again.bytes(), again.hz_at), Some(250));
        assert_eq!(text(again.bytes(), again.name_at, NAME_BYTES).as_deref(), Some("w1.0_mine"));
        assert_eq!(word(again.bytes(), again.flags_at), Some(3));
        assert_eq!(again.name(), "mine");

        let before = example();
        let changed = before.iter().zip(again.bytes()).filter(|(a, b)| a != b).count();
        assert_eq!(before.len(), again.bytes().len());
        assert!(changed <= 2 * 4 + 4 + NAME_BYTES + 4, "{changed} bytes changed");
    }

    #[test]
    fn a_shorter_name_leaves_nothing_of_the_longer() {
        let mut object = parsed();
        object.set_registered_name("x").expect("a name");
        assert_eq!(object.bytes()[object.name_at..][..NAME_BYTES], *b"x\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
    }

    #[test]
    fn what_is_out_of_bounds_or_unknown_is_refused_and_nothing_set() {
        for (name, value, message) in [
            ("beta", 0, "option beta of mine is 0; expected 1 to 1023"),
            ("beta", 1024, "option beta of mine is 1024; expected 1 to 1023"),
            ("beta", -1, "option beta of mine is -1; expected 1 to 1023"),
            ("beta", 1 << 32 | 5, "option beta of mine is 4294967301; expected 1 to 1023"),
            ("betta", 5, "mine has no option \"betta\"; did you mean beta?; it has: beta, c"),
        ] {
            let mut object = parsed();
            let error = object.set_options(&BTreeMap::from([(name.into(), value)])).expect_err(message);
            assert_eq!(error.to_string(), message);
            assert_eq!(object.bytes(), example());
        }
    }

    #[test]
    fn what_is_no_object_of_the_shim_is_refused() {
        let refused = |bytes: Vec<u8>| CompiledCc::parse("x.o", bytes).expect_err("no object").to_string();
        assert!(refused(b"no ELF".to_vec()).contains("the BPF object of x.o is unusable"));
        assert!(refused(elf(&[("weir_hz", vec![1])])).contains("it has no weir_object"));
        let unregistered = elf(&[("weir_object", [name_words("mine"), vec![8, 28]].concat()), ("weir_hz", vec![1])]);
        assert!(refused(unregistered).contains("it registers no congestion control"));
        let mut cut = example();
        cut.truncate(200);
        refused(cut);
    }
}
