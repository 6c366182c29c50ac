//! Explains a compiler's messages about a congestion control: features that the kernel and BPF lack, and existing
//! fields.

use crate::{compile::HEADERS, confined::LIMITS_SAID, sources::Sources};
use std::path::Path;
use weir_cc::nearest;

const WRITABLE: &str = "snd_cwnd, snd_cwnd_cnt, snd_cwnd_stamp, snd_ssthresh, app_limited, ecn_flags, sk_pacing_rate, \
                        sk_pacing_status and its private state (inet_csk_ca)";
const FLOAT: &str = "floating point, which the kernel and BPF do not have: compute in integers, a share as x * 717 / 1024 \
                     or with weir_window.h";
const SIGNED: &str = "division of signed numbers, which BPF does not have (nor a 32-bit kernel for 64 bits): divide \
                      unsigned numbers, and put the sign back";
/// Messages of gcc, clang and the assembler when a limit ended them.
const ENDED: [&str; 9] = [
    "File too large",
    "out of memory",
    "memory exhausted",
    "cannot allocate",
    "Cannot allocate memory",
    "Killed signal terminated",
    "CPU time limit exceeded",
    "File size limit exceeded",
    "ended with signal",
];
const STRUCTS: [&str; 5] = ["tcp_sock", "inet_connection_sock", "sock", "ack_sample", "rate_sample"];

/// `messages` of a compiler about `sources`, preceded by their explanation, if known, as `file:line: ...`.
pub(crate) fn explained(messages: &str, sources: &Sources) -> String {
    told(messages, &sources.path, &sources.left_out)
}

fn told(messages: &str, source: &Path, left_out: &[(String, &'static str)]) -> String {
    let mut meant: Vec<String> = Vec::new();
    let lines: Vec<&str> = messages.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        if let Some(meaning) = meaning(line).or_else(|| missing(line, left_out)).or_else(|| asserted(line, messages)) {
            let here = undetermined(&lines[at + 1..], source).or_else(|| line_number(line, source));
            let said = match here.or_else(|| expanded_at(&lines[at + 1..], source)) {
                Some(number) => format!("{}:{number}: {meaning}", source.display()),
                None => format!("{}: {meaning}", source.display()),
            };
            if !meant.contains(&said) {
                meant.push(said);
            }
        }
    }
    let words = without_internals(messages);
    if meant.is_empty() {
        // Its first error may be far below the include that caused it.
        let is_error = |line: &&str| line.contains("error: ") || line.contains("Error: ");
        let first = words.lines().find(is_error).map(str::trim);
        meant.extend(first.filter(|first| !words.starts_with(first)).map(str::to_owned));
    }
    if meant.is_empty() { words } else { format!("{}\n\n{words}", meant.join("\n")).trim_end().to_owned() }
}

/// The line of the source whose macro a message is about: the first of the following notes with one.
fn expanded_at(after: &[&str], source: &Path) -> Option<u32> {
    let of_message = after.iter().take_while(|line| !line.contains("error: "));
    of_message.filter(|line| line.contains(" macro ")).find_map(|line| line_number(line, source))
}

/// The text of a failed assertion in weir's headers, and the values for it, which a compiler prints only on request.
fn asserted(line: &str, messages: &str) -> Option<String> {
    if line.contains("'weir_option_rows' undeclared") || line.contains("undeclared identifier 'weir_option_rows'") {
        return Some(
            "it declares no options: write WEIR_CC_OPTIONS(MY_OPTIONS) above; without any, #define MY_OPTIONS(OPTION)"
                .to_owned(),
        );
    }
    let text = between(line, "static assertion failed: \"", "\"")
        .or_else(|| between(line, "static_assert failed \"", "\""))
        .or_else(|| {
            between(line, "static assertion failed due to requirement", "").and_then(|_| line.split(": ").last())
        })?;
    if text != "private state exceeds 104 bytes" {
        return Some(text.to_owned());
    }
    let sizes = messages.split("(*)[").skip(1).filter_map(|rest| rest.split(']').next()?.parse::<u64>().ok());
    Some(sizes.max().map_or_else(|| text.to_owned(), |bytes| format!("{text}: it has {bytes}")))
}

/// The line that clang's backend knows but could not show, because the object has the user's name of the file.
fn undetermined(after: &[&str], source: &Path) -> Option<u32> {
    let mut of_message = after.iter().take_while(|line| !line.contains("error: "));
    let note = of_message.find(|line| line.contains("could not determine the original source location for"))?;
    line_number(note.rsplit(' ').next()?, source)
}

fn meaning(line: &str) -> Option<String> {
    if line.contains("SSE register") || line.contains("SSE disabled") || line.contains("general-regs-only") {
        return Some(FLOAT.to_owned());
    }
    if line.contains("signed division") {
        return Some(SIGNED.to_owned());
    }
    if let Some((kind, field)) = unknown_field(line) {
        return Some(fields_instead(kind, field));
    }
    if let Some(name) = between(line, "undefined reference to `", "'")
        .or_else(|| between(line, "undefined symbol: ", ""))
        .or_else(|| between(line, "built-in function '", "' is not supported"))
    {
        return Some(function_instead(name));
    }
    if let Some(name) = between(line, "implicit declaration of function '", "'")
        .or_else(|| between(line, "call to undeclared function '", "'"))
        .or_else(|| between(line, "call to undeclared library function '", "'"))
    {
        return Some(format!("{name}: there is no such function; a congestion control has no libc"));
    }
    if ENDED.iter().any(|said| line.contains(said)) {
        return Some(format!("compiling it takes too much: {LIMITS_SAID}"));
    }
    let read_only = between(line, "read-only member '", "'");
    if let Some(field) = read_only.or_else(|| between(line, "non-static data member '", "' with const")) {
        return Some(format!("{field}: a congestion control only reads it; it writes {WRITABLE}"));
    }
    None
}

/// Explains a missing file that was withheld from the compiler.
fn missing(line: &str, left_out: &[(String, &'static str)]) -> Option<String> {
    let name = between(line, "fatal error: ", ": No such file or directory")
        .or_else(|| between(line, "fatal error: '", "' file not found"))?;
    let (_, why) = left_out.iter().find(|(left, _)| left == name)?;
    Some(format!("\"{name}\" {why}"))
}

fn function_instead(name: &str) -> String {
    if is_soft_float(name) {
        FLOAT.to_owned()
    } else if matches!(name, "__divdi3" | "__moddi3" | "__divti3" | "__modti3") {
        SIGNED.to_owned()
    } else {
        format!("{name}: there is no such function; a congestion control has no libc")
    }
}

/// Whether compilers call this function instead of a floating-point unit.
fn is_soft_float(name: &str) -> bool {
    const TYPES: [&str; 5] = ["sf", "df", "xf", "tf", "hf"];
    name.strip_prefix("__").is_some_and(|rest| {
        let digits = rest.trim_end_matches(|c: char| c.is_ascii_digit());
        TYPES.iter().any(|kind| {
            digits.ends_with(kind) || rest.contains(&format!("fix{kind}")) || {
                rest.starts_with("fixuns") && rest["fixuns".len()..].starts_with(kind)
            }
        })
    })
}

/// The struct and the field in a message about a missing field, in gcc's and clang's wording.
fn unknown_field(line: &str) -> Option<(&str, &str)> {
    let gcc =
        || Some((between(line, "'struct ", "' has no member named '")?, between(line, "no member named '", "'")?));
    let clang = || Some((between(line, "' in 'struct ", "'")?, between(line, "no member named '", "' in")?));
    gcc().or_else(clang)
}

fn fields_instead(kind: &str, field: &str) -> String {
    let there = fields(kind);
    if there.is_empty() {
        return format!("{field}: not a field of struct {kind}");
    }
    let elsewhere = STRUCTS.iter().find(|other| **other != kind && fields(other).iter().any(|name| name == field));
    let hint = match (elsewhere, nearest(field, &there).first()) {
        (Some(&"tcp_sock"), _) => format!("; struct tcp_sock has it: tcp_sk(sk)->{field}."),
        (Some(&"sock"), _) => format!("; struct sock has it: sk->{field}."),
        (Some(&"inet_connection_sock"), _) => format!("; struct inet_connection_sock has it: inet_csk(sk)->{field}."),
        (Some(other), _) => format!("; struct {other} has it."),
        (None, Some(name)) => format!("; did you mean {name}?"),
        (None, None) => ".".to_owned(),
    };
    format!("{field}: not a field of struct {kind} that a congestion control sees{hint} There is: {}", there.join(", "))
}

/// The fields of a struct of `cc/shim/sock.h`, in its order.
fn fields(kind: &str) -> Vec<String> {
    let header = HEADERS.iter().find(|(name, _)| *name == "shim/sock.h").map_or("", |(_, text)| text);
    let Some(body) = between(header, &format!("\nstruct {kind} {{\n"), "\n};") else { return Vec::new() };
    let declared = body.lines().filter_map(|line| line.split(';').next()?.split_whitespace().last());
    let names = declared.map(|name| name.split('[').next().unwrap_or(name).to_owned());
    // Sources read these with tcp_min_rtt(), HZ and OPT(); the structs within struct sock have accessors.
    names.filter(|name| !name.starts_with("weir_") && !name.is_empty()).collect()
}

/// The text between two pieces of a line; with an empty end, up to the next space.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let rest = &text[text.find(before)? + before.len()..];
    if after.is_empty() { rest.split_whitespace().next() } else { Some(&rest[..rest.find(after)?]) }
}

/// The line number in a message: `FILE:LINE:` anywhere, or clang's `Error at line LINE:`.
fn line_number(line: &str, source: &Path) -> Option<u32> {
    let name = source.file_name()?.to_str()?;
    let after = match line.find(&format!("{name}:")) {
        Some(at) => &line[at + name.len() + 1..],
        None => &line[line.find("t line ")? + "t line ".len()..],
    };
    after.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Removes lines that only the compiler's authors understand.
fn without_internals(messages: &str) -> String {
    let is_internal = |line: &&str| {
        line.starts_with("fatal error: error in backend: Cannot select")
            || line.trim_start().starts_with("0x")
            || line.starts_with("In function: ")
            || line.starts_with("cc1: some warnings being treated as errors")
            || line.starts_with("collect2: error: ld returned")
    };
    messages.lines().filter(|line| !is_internal(line)).collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn explain(line: &str) -> String {
        told(line, Path::new("./mine.c"), &[]).lines().next().unwrap_or_default().to_owned()
    }

    #[test]
    fn the_words_of_each_compiler_for_the_same_mistake_mean_the_same() {
        let float = format!("./mine.c:31: {FLOAT}");
        for line in [
            "./mine.c:31:33: error: SSE register return with SSE disabled",
            "/usr/bin/ld: ./mine.c:31: undefined reference to `__muldf3'",
            "ld.lld: error: undefined symbol: __floatunsidf at mine.c:31",
            "./mine.c:31:28: error: A call to built-in function '__fixunsdfsi' is not supported.",
        ] {
            assert_eq!(explain(line), float, "{line}");
        }
        let signed = format!("./mine.c:38: {SIGNED}");
        for line in [
            "Error at line 38: Unsupport signed division for DAG: 0xf2ba430: i64 = sdiv 0xf2, Constant:i64<1000>, mine.c:38:67",
            "./mine.c:38:67: error: unsupported signed division, please convert to unsigned div/mod",
            "/usr/bin/ld: mine.c:38: undefined reference to `__divdi3'",
        ] {
            assert_eq!(explain(line), signed, "{line}");
        }
    }

    #[test]
    fn the_first_error_comes_first() {
        let included = "In file included from a.h:1,\n  from mine.c:2:\nb.h:7:3: error: 'x' undeclared\n";
        let assembled = "cc4711.s: Assembler messages:\ncc4711.s:9: Error: file not found: secret\n";
        assert_eq!(explain(included), "b.h:7:3: error: 'x' undeclared");
        assert_eq!(explain(assembled), "cc4711.s:9: Error: file not found: secret");
    }

    #[test]
    fn soft_floats_are_told_from_other_functions() {
        for name in ["__muldf3", "__floatsidf", "__fixdfsi", "__fixunssfdi", "__gtsf2", "__truncdfsf2", "__floatunsisf"]
        {
            assert!(is_soft_float(name), "{name}");
        }
        for name in ["malloc", "__divdi3", "memmove", "__umoddi3", "printf"] {
            assert!(!is_soft_float(name), "{name}");
        }
    }

    #[test]
    fn an_unknown_field_lists_those_there_are() {
        for line in [
            "./mine.c:3:1: error: 'struct tcp_sock' has no member named 'snd_cwmd'",
            "./mine.c:3:1: error: no member named 'snd_cwmd' in 'struct tcp_sock'",
        ] {
            let text = explain(line);
            assert!(text.starts_with("./mine.c:3: snd_cwmd: not a field of struct tcp_sock"), "{text}");
            assert!(
                text.contains("did you mean snd_cwnd?") && text.contains("There is: snd_cwnd, snd_cwnd_cnt"),
                "{text}"
            );
            assert!(!text.contains("weir_"), "{text}");
        }
        let text = explain("./mine.c:3:1: error: 'struct sock' has no member named 'srtt_us'");
        assert!(text.contains("struct tcp_sock has it: tcp_sk(sk)->srtt_us"), "{text}");
    }
}
