//! View V2: addresses that a person reads and no parser does.
//!
//! Defanged (`hxxp://a[.]b`), spoken (`drop at exfil dot example`) and spaced (`h t t p`). Arguments
//! only: in a source a defanged link says that it is bad.

use memchr::{memchr_iter, memmem};

use super::bytes::{byte, byte_before, char_at, char_before, floor_boundary, slice};
use super::escapes::Unescaped;
use super::view::{Rewriter, View};
use super::{outline, patterns};

/// `hxxp://a[.]b`, `a (at) b [dot] c`: what a person reads as an address. Arguments only: in a
/// source it says that the address is bad.
pub(super) fn refang(view: &View<'_>) -> Option<Unescaped> {
    let text: &str = &view.text;
    if !might_be_fanged(text) {
        return None;
    }
    let mut rewriter = Rewriter::new(view);
    for groups in patterns::FANG.as_ref()?.captures_iter(text) {
        let Some(whole) = groups.get(0) else {
            continue;
        };
        let with = match (groups.get(1), groups.get(2)) {
            (Some(rest), _) => format!("htt{}", rest.as_str().to_lowercase()),
            (None, Some(sign)) => match sign.as_str().to_lowercase().as_str() {
                "." | "dot" | "punkt" => ".".to_owned(),
                "@" | "at" | "a" => "@".to_owned(),
                other => other.to_owned(),
            },
            (None, None) => continue,
        };
        rewriter.keep_to(whole.start());
        rewriter.replace_to(whole.end(), &with);
    }
    rewriter.finish().map(|view| Unescaped { view, spelled: Vec::new() })
}

/// Whether [`refang`] could have something to do.
fn might_be_fanged(text: &str) -> bool {
    patterns::FANG_SCHEME.as_ref().is_some_and(|scheme| scheme.is_match(text))
        || has_sign_in_brackets(text)
}

/// Whether an address could be defanged or spoken.
pub(super) fn has_spoken_or_fanged(text: &str) -> bool {
    might_be_fanged(text) || has_dot_word(text)
}

/// Whether an address could be written out, with signs in brackets or in words.
pub(super) fn is_written_out(text: &str) -> bool {
    has_sign_in_brackets(text) || has_dot_word(text)
}

/// Whether a sign of an address stands in brackets.
fn has_sign_in_brackets(text: &str) -> bool {
    let bytes = text.as_bytes();
    let in_brackets = |at: usize| {
        let skip = |at: usize| at + usize::from(matches!(byte(text, at), b' ' | b'\t'));
        let start = skip(at + 1);
        let window = slice(text, start, floor_boundary(text, start + 5));
        ["dot", "punkt", "at", "a", ".", "@", "://", ":", "/"].iter().any(|sign| {
            window.get(..sign.len()).is_some_and(|head| head.eq_ignore_ascii_case(sign))
                && matches!(byte(text, skip(start + sign.len())), b']' | b')' | b'}' | b'>')
        })
    };
    memchr::memchr3_iter(b'[', b'(', b'{', bytes).any(in_brackets)
        || memchr_iter(b'<', bytes).any(in_brackets)
}

/// Whether a text writes links so that nobody follows them: what it names is bad.
pub(super) fn is_defanged(text: &str) -> bool {
    let bytes = text.as_bytes();
    [&b"xxp"[..], b"XXP", b"[.]", b"(.)", b"{.}", b"[@]"]
        .iter()
        .any(|sign| memmem::find(bytes, sign).is_some())
}

/// `drop at exfil dot example dot net`, `exfil dot example dot net slash x`.
pub(super) fn spoken(view: &View<'_>) -> Option<Unescaped> {
    let text: &str = &view.text;
    if !has_dot_word(text) {
        return None;
    }
    let sign = patterns::DOT_SIGN.as_ref()?;
    let spoken = patterns::SPOKEN.as_ref()?;
    let mut rewriter = Rewriter::new(view);
    let mut done = 0;
    for dot in patterns::DOT_WORD.as_ref()?.find_iter(text) {
        if dot.start() < done {
            continue;
        }
        // The words around the dot are near it.
        let from = floor_boundary(text, dot.start().saturating_sub(SPOKEN_REACH)).max(done);
        let to = floor_boundary(text, dot.end() + 4 * SPOKEN_REACH);
        let window = slice(text, from, to);
        for groups in spoken.captures_iter(window) {
            let (Some(whole), Some(domain)) = (groups.get(0), groups.get(2)) else {
                continue;
            };
            if !sign.is_match(domain.as_str()) {
                continue;
            }
            let mut written = String::new();
            if let Some(local) = groups.get(1) {
                written.push_str(local.as_str());
                written.push('@');
            }
            written.push_str(&sign.replace_all(domain.as_str(), "."));
            if let Some(path) = groups.get(3) {
                for word in path.as_str().split_whitespace() {
                    if word.eq_ignore_ascii_case("slash") {
                        written.push('/');
                    } else {
                        written.push_str(word);
                    }
                }
            }
            rewriter.keep_to(from + whole.start());
            rewriter.replace_to(from + whole.end(), &written);
            done = from + whole.end();
        }
        done = done.max(dot.end());
    }
    rewriter.finish().map(|view| Unescaped { view, spelled: Vec::new() })
}

/// Bytes before a spoken dot in which its address begins.
const SPOKEN_REACH: usize = 96;

fn has_dot_word(text: &str) -> bool {
    patterns::DOT_WORD.as_ref().is_some_and(|dot| dot.is_match(text))
}

/// `h t t p s : / / a . b`: single characters with single spaces between them.
pub(super) fn letter_spaced(view: &View<'_>) -> Option<Unescaped> {
    let text: &str = &view.text;
    let mut rewriter = Rewriter::new(view);
    let mut done = 0;
    for space in memchr_iter(b' ', text.as_bytes()) {
        if space < done {
            continue;
        }
        // Cheap test first: prose rarely has a single character between two spaces.
        let Some(first) = char_at(text, space + 1) else {
            continue;
        };
        let after = space + 1 + first.len_utf8();
        if first == ' ' || byte(text, after) != b' ' {
            continue;
        }
        let start = match char_before(text, space) {
            Some(before)
                if matches!(byte_before(text, space - before.len_utf8()), 0 | b' ' | b'\n') =>
            {
                space - before.len_utf8()
            }
            _ => space + 1,
        };
        let mut letters = 0;
        let mut at = start;
        while let Some(character) = char_at(text, at) {
            let end = at + character.len_utf8();
            if character.is_whitespace() || !matches!(byte(text, end), 0 | b' ' | b'\n') {
                break;
            }
            letters += 1;
            at = end + 1;
            if byte(text, end) != b' ' {
                break;
            }
        }
        done = at.max(space + 1);
        if letters >= outline::LETTERS_MIN {
            rewriter.keep_to(start);
            let mut from = start;
            while from < at
                && let Some(character) = char_at(text, from)
            {
                let end = from + character.len_utf8();
                rewriter.keep_to(end);
                from = end + 1;
                // The space behind it goes; behind the last one another word may begin.
                if byte(text, end) == b' ' {
                    rewriter.replace_to(from, "");
                }
            }
        }
    }
    rewriter.finish().map(|view| Unescaped { view, spelled: Vec::new() })
}
