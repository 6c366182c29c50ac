//! Errors of a congestion control before a flow uses it.

use std::path::PathBuf;

/// An error of this crate. Every message says what was wrong and what was expected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CcError {
    /// No congestion control has this name.
    #[error("no congestion control is called {name:?}{}; registered: {}", nearest_clause(.nearest), .known.join(", "))]
    Unknown {
        /// The requested name.
        name: String,
        /// The most similar registered names, best first; may be empty.
        nearest: Vec<String>,
        /// All registered names.
        known: Vec<String>,
    },
    /// The congestion control has no such option.
    #[error("{cc} has no option {option:?}{}; it has: {}", nearest_clause(.nearest), list_or_none(.known))]
    UnknownOption {
        /// The congestion control.
        cc: String,
        /// The requested option.
        option: String,
        /// Its most similar options, best first; may be empty.
        nearest: Vec<String>,
        /// All its options.
        known: Vec<String>,
    },
    /// The value of an option is out of its bounds.
    #[error("option {option} of {cc} is {value}; expected {min} to {max}")]
    OptionRange {
        /// The congestion control.
        cc: String,
        /// The option.
        option: String,
        /// The value given.
        value: i64,
        /// Its lower bound.
        min: u32,
        /// Its upper bound.
        max: u32,
    },
    /// A table of operations that Linux' `tcp_register_congestion_control` would refuse as well.
    #[error("congestion control {name:?} is refused: {reason}")]
    Invalid {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// A shared object could not be loaded.
    #[error("{} is not a congestion control weir can load: {reason}", .path.display())]
    Load {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// A source did not compile.
    #[error("{} does not compile as a congestion control:\n{messages}", .source_file.display())]
    Compile {
        /// The source.
        source_file: PathBuf,
        /// The compiler's messages.
        messages: String,
    },
    /// A source that is refused before compiling.
    #[error("{}: {reason}", .path.display())]
    Source {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The compiler cannot be confined, so it is not run.
    #[error(
        "the compiler of a congestion control cannot be confined here: {reason}. WEIR_UNCONFINED=1 runs it all the same, with everything that you may do"
    )]
    Unconfined {
        /// Why.
        reason: String,
    },
    /// There is no C compiler.
    #[error("no C compiler: tried {tried}; install gcc or clang, or set CC")]
    NoCompiler {
        /// The command tried.
        tried: String,
    },
    /// A file could not be read or written.
    #[error("{}: {error}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        #[source]
        error: std::io::Error,
    },
}

impl CcError {
    /// `cc`, whose options are `known`, has none called `option`.
    pub fn unknown_option(cc: &str, option: &str, known: Vec<String>) -> CcError {
        CcError::UnknownOption { cc: cc.to_owned(), option: option.to_owned(), nearest: nearest(option, &known), known }
    }
}

fn nearest_clause(nearest: &[String]) -> String {
    match nearest {
        [] => String::new(),
        names => format!("; did you mean {}?", names.join(" or ")),
    }
}

fn list_or_none(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// The names close enough to `wanted` to be a typo of it, best first.
pub fn nearest(wanted: &str, names: &[String]) -> Vec<String> {
    let limit = 1 + wanted.chars().count() / 3;
    let mut scored: Vec<(usize, &String)> = names
        .iter()
        .map(|name| (edit_distance(&wanted.to_lowercase(), name), name))
        .filter(|(distance, name)| *distance <= limit || (wanted.len() > 2 && name.starts_with(wanted)))
        .collect();
    scored.sort();
    scored.into_iter().take(3).map(|(_, name)| name.clone()).collect()
}

/// Levenshtein's distance: insertions, deletions and substitutions from `a` to `b`.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        assert_eq!(edit_distance("cubic", "cubic"), 0);
        assert_eq!(edit_distance("cubci", "cubic"), 2);
        assert_eq!(edit_distance("", "bic"), 3);
        assert_eq!(edit_distance("bic", ""), 3);
        assert_eq!(edit_distance("cubic", "bic"), 2);
    }

    #[test]
    fn a_long_unlike_name_has_no_neighbour() {
        let names = ["reno".to_owned(), "bic".to_owned()];
        assert!(nearest("vegas", &names).is_empty());
        assert_eq!(nearest("Reno", &names), ["reno"]);
    }
}
