//! Names that people give: of organisations, agents, versions and channels, and of tokens; and the
//! names of people themselves.

use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization;
use unicode_security::confusable_detection::skeleton;

use super::Refusal;
use crate::decide::text::{is_invisible, needs_escape};

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

/// The name of a token, and so of who decided or changed something: a person's.
///
/// # Errors
/// 400 at `param`.
pub fn check_person(param: &str, name: &str) -> Result<(), Refusal> {
    if name.chars().count() <= MAX_NAME && may_be_a_person(name) {
        return Ok(());
    }
    let text = "A name has 1 to 128 visible characters, no space around it, no colon nor what looks \
                like one, and cannot be taken for the automatic approver's.";
    Err(Refusal::invalid(param, text))
}

/// The member that a turn runs for, by the id that the gateway knows it by. It decides nothing and may
/// hold a colon, as ids of other systems do; but on no page may it pass for the automatic approver.
///
/// # Errors
/// 400 at `param`.
pub fn check_member(param: &str, id: &str) -> Result<(), Refusal> {
    let machine =
        |outline: &String| outline.starts_with("grant:") || is_called_like_a_machine(outline);
    if !outlines(id).iter().any(machine) {
        return Ok(());
    }
    let text = "A member's id cannot be one that could be taken for the automatic approver's name.";
    Err(Refusal::invalid(param, text))
}

/// Whether this may be a person's name: visible, without space around it, and not to be taken for a
/// machine's, by a program or by an eye.
pub(super) fn may_be_a_person(name: &str) -> bool {
    !name.is_empty()
        && name.trim() == name
        && !name.contains(needs_escape)
        && !looks_like_a_machine(name)
}

/// What machines are called in `decided_by`. A grant's name has an id after its colon.
const MACHINES: [&str; 3] = ["auto:approver", "policy:allow", "policy:block"];

/// How their names look, without the marks between the letters.
static MACHINES_LETTERS: LazyLock<Vec<String>> =
    LazyLock::new(|| MACHINES.iter().flat_map(|name| outlines(name).map(letters)).collect());

/// Whether a name looks like one of a machine: it has the colon that only they have, or is called
/// like one of them.
fn looks_like_a_machine(name: &str) -> bool {
    outlines(name).iter().any(|outline| outline.contains(':') || is_called_like_a_machine(outline))
}

/// Whether what looks so is a machine's name but for marks between the letters.
fn is_called_like_a_machine(outline: &str) -> bool {
    MACHINES_LETTERS.contains(&letters(outline))
}

fn letters(outline: impl AsRef<str>) -> String {
    outline.as_ref().chars().filter(|character| character.is_alphanumeric()).collect()
}

/// How a text looks: compatible forms and confusable characters as one, small letters, nothing that
/// is invisible. Some characters are confused with a capital letter, others with a small one: `0`
/// with `O`, `I` with `l`, whose small forms look like neither.
fn outlines(text: &str) -> [String; 2] {
    let small = |text: &str| skeleton(&text.to_lowercase()).collect::<String>();
    let visible = visible(text);
    [small(&visible), small(&skeleton(&visible).collect::<String>())]
}

fn visible(text: &str) -> String {
    text.nfkc().filter(|character| !is_invisible(*character)).collect()
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
        for good in ["Mia Auto", "Approver", "policy owner", "Анна", "أحمد", "राम"] {
            assert!(check_person("$", good).is_ok(), "{good}");
        }
        for bad in ["", " a", "a ", "auto:approver", "a\u{202e}b", "a\u{200b}", "a\nb", &long] {
            assert!(check_person("$", bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_member_may_have_another_systems_id() {
        for good in ["usr_81", "idp:usr_81", "auth0|5f7c", "ana@example.com", "approver"] {
            assert!(check_member("$", good).is_ok(), "{good}");
        }
        for bad in [
            "auto:approver",
            "ａｕｔｏ：ａｐｐｒｏｖｅｒ",
            "аuto approver",
            "grant:apreq_1",
            "ɡrant：x",
        ] {
            assert!(check_member("$", bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_person_is_called_what_could_be_read_as_a_machine() {
        for bad in [
            // Full width; Cyrillic letters; a ratio, a modifier letter, a presentation form.
            "ａｕｔｏ：ａｐｐｒｏｖｅｒ",
            "аutо:арprоver",
            "auto\u{2236}approver",
            "auto\u{a789}approver",
            "auto\u{2d0}approver",
            "auto\u{fe13}approver",
            "auto\u{589}approver",
            "AUTO:APPROVER",
            // A zero; a capital I for a small l.
            "Aut0 Appr0ver",
            "poIicy aIIow",
            "grant：apreq_1",
            "x꞉y",
            // The same without a colon.
            "Auto Approver",
            "auto-approver",
            "аuto·approver",
            "auto\u{3164}approver",
            "𝐚𝐮𝐭𝐨 𝐚𝐩𝐩𝐫𝐨𝐯𝐞𝐫",
            "policy allow",
            "Policy.Block",
        ] {
            assert!(check_person("$", bad).is_err(), "{bad:?}");
        }
    }
}
