//! Names that people give: of organisations, agents, versions and channels, and of tokens.

use super::Refusal;
use crate::decide::text::shown;

/// The most characters of a name.
pub const MAX_NAME: usize = 128;

/// A name that may stand in a path: `[A-Za-z0-9][A-Za-z0-9._-]*`, at most 128 characters.
///
/// # Errors
/// 400 at `param`.
pub fn check_plain(param: &str, name: &str) -> Result<(), Refusal> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let starts = name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric());
    if starts && name.len() <= MAX_NAME && name.bytes().all(plain) {
        return Ok(());
    }
    let text = "A name has 1 to 128 characters of a-z, A-Z, 0-9, `.`, `_` and `-`, and begins with \
                a letter or digit.";
    Err(Refusal::invalid(param, text))
}

/// The name of a token, and so of who decided or changed something: visible, and without a colon,
/// which marks machines.
///
/// # Errors
/// 400 at `param`.
pub fn check_person(param: &str, name: &str) -> Result<(), Refusal> {
    let fits = (1..=MAX_NAME).contains(&name.chars().count()) && name.trim() == name;
    if fits && !name.contains(':') && !name.contains(char::is_control) && shown(name) == name {
        return Ok(());
    }
    let text = "A name has 1 to 128 visible characters, no colon, and no space around it.";
    Err(Refusal::invalid(param, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["7", "erp-assistant", "a.b_c"] {
            assert!(check_plain("$", good).is_ok(), "{good}");
        }
        let long = "a".repeat(129);
        for bad in ["", ".", "..", "-a", "a/b", "a b", "é", "a\n", &long] {
            assert!(check_plain("$", bad).is_err(), "{bad}");
        }
        for good in ["Ana Gómez", "田中", "o'neil"] {
            assert!(check_person("$", good).is_ok(), "{good}");
        }
        for bad in ["", " a", "a ", "auto:approver", "a\u{202e}b", "a\u{200b}", "a\nb", &long] {
            assert!(check_person("$", bad).is_err(), "{bad:?}");
        }
    }
}
