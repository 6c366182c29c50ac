//! Names in the kernel's list of congestion controls, which all network namespaces share.

use crate::error::BpfError;

/// Longest name: Linux' `TCP_CA_NAME_MAX` without its terminator.
const NAME_MAX: usize = 15;

/// Default name of a registered congestion control: `weir_cubic` for `cubic`.
///
/// The kernel already has names like `cubic` and accepts no hyphen from BPF; long names are cut.
pub fn default_name(cc: &str) -> String {
    let mut name: String =
        "weir_".chars().chain(cc.chars().map(|c| if accepted(c) { c } else { '_' })).take(NAME_MAX).collect();
    name.truncate(name.trim_end_matches('_').len());
    name
}

/// Verifies that the kernel accepts `name` from BPF (`bpf_obj_name_cpy`).
///
/// # Errors
/// [`BpfError::BadName`].
pub fn check_name(name: &str) -> Result<(), BpfError> {
    if (1..=NAME_MAX).contains(&name.len()) && name.chars().all(accepted) && !name.starts_with('.') {
        return Ok(());
    }
    Err(BpfError::BadName { name: name.to_owned() })
}

fn accepted(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_by_default_is_one_the_kernel_takes() {
        assert_eq!(default_name("cubic"), "weir_cubic");
        assert_eq!(default_name("cubic-2005"), "weir_cubic_2005");
        assert_eq!(default_name("a-control-with-a-long-name"), "weir_a_control");
        for algorithm in weir_cc::list() {
            check_name(&default_name(algorithm.name())).expect("a valid name");
        }
    }

    #[test]
    fn a_name_the_kernel_would_refuse_is_refused_before() {
        for good in ["a", "w3f2a_cubic", "A.b_9", "abcdefghijklmno"] {
            check_name(good).expect("a valid name");
        }
        for bad in ["", "cubic-2005", "abcdefghijklmnop", "a b", "käfer", "a/b", ".", ".."] {
            let message = check_name(bad).expect_err("an invalid name").to_string();
            assert!(message.contains("1 to 15 characters"), "{message}");
        }
    }
}
