//! Hosts of links: one canonical form for every notation, and the test whether a bare dotted name
//! is a host at all.

use super::bytes::{byte, byte_before, char_at, char_before, is_cjk, run_end, run_start, slice};
use super::place::Place;
use super::tlds;

/// A host's canonical form: A-labels in lower case without root dot, dotted IPv4, compressed IPv6
/// in brackets; without a leading `www.`.
pub(super) fn canonical(raw: &str, special: bool) -> String {
    let parsed = if special || raw.starts_with('[') {
        url::Host::parse(raw).map(|host| host.to_string())
    } else {
        url::Host::parse_opaque(raw).map(|host| host.to_string())
    };
    let host = parsed.unwrap_or_else(|_| super::email::canonical_domain(raw));
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    match host.strip_prefix("www.") {
        Some(rest) if rest.contains('.') => rest.to_owned(),
        _ => host,
    }
}

pub(super) fn is_host(character: char) -> bool {
    character.is_ascii_alphanumeric()
        || matches!(character, '.' | '-' | '_')
        || (!character.is_ascii()
            && (character.is_alphanumeric()
                || matches!(u32::from(character), 0x0300..=0x036F | 0x0900..=0x0DFF)))
}

/// A dotted name around the dot at `dot`, trimmed to what can be a host.
pub(super) fn dotted_name(text: &str, dot: usize, floor: usize) -> (usize, usize) {
    let mut start = run_start(text, dot, floor, is_host);
    let mut end = run_end(text, dot, is_host);
    // Sentence punctuation is not part of it.
    while end > dot && matches!(byte_before(text, end), b'.' | b'-' | b'_') {
        end -= 1;
    }
    while start < dot && matches!(byte(text, start), b'.' | b'-') {
        start += 1;
    }
    // Scripts without spaces run into ASCII names on both sides.
    let name = slice(text, start, end);
    if name.is_ascii() {
        return (start, end);
    }
    let last_dot = name.rfind('.').unwrap_or(0);
    let tail = slice(name, last_dot + 1, name.len());
    if let Some((offset, _)) = tail.char_indices().find(|(_, c)| is_cjk(*c))
        && offset > 0
    {
        end = start + last_dot + 1 + offset;
    }
    let name = slice(text, start, end);
    let first_dot = name.find('.').unwrap_or(0);
    let head = slice(name, 0, first_dot);
    if let Some((offset, character)) = head.char_indices().rfind(|(_, c)| is_cjk(*c)) {
        let after = offset + character.len_utf8();
        if after < head.len() {
            start += after;
        }
    }
    (start, end)
}

/// What follows a bare dotted name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follows {
    Nothing,
    Port,
    Path,
    Query,
    Code,
}

pub(super) fn follows(text: &str, end: usize) -> Follows {
    match byte(text, end) {
        b':' if byte(text, end + 1).is_ascii_digit() => {
            let digits = run_end(text, end + 1, |c| c.is_ascii_digit());
            let port = slice(text, end + 1, digits);
            let bounded =
                !matches!(char_at(text, digits), Some(c) if c.is_alphanumeric() || c == '.');
            if bounded && port.parse::<u16>().is_ok() { Follows::Port } else { Follows::Code }
        }
        b'/' => Follows::Path,
        b'?' | b'#' if char_at(text, end + 1).is_some_and(|c| !c.is_whitespace()) => Follows::Query,
        b'(' | b'[' | b'=' | b':' | b'{' => Follows::Code,
        _ => Follows::Nothing,
    }
}

/// Products whose name is a domain or looks like one; naming them carries nothing.
const PRODUCTS: &[&str] = &[
    "asp.net",
    "ado.net",
    "vb.net",
    "ml.net",
    "socket.io",
    "draw.io",
    "booking.com",
    "monday.com",
    "amazon.com",
    "salesforce.com",
    "crates.io",
    "paint.net",
    "diagrams.net",
    "json.net",
    "docs.rs",
    "cal.com",
    "make.com",
    "hey.com",
    "fly.io",
    "itch.io",
    "npm.im",
    "lib.rs",
    "odp.net",
];

/// Whether the dotted name `start..end` is a host where nothing but its place says so.
pub(super) fn is_link(text: &str, start: usize, end: usize, place: Place) -> bool {
    let name = slice(text, start, end);
    let canonical = super::email::canonical_domain(name);
    let last = canonical.rsplit('.').next().unwrap_or("");
    let after = follows(text, end);
    let before = char_before(text, start);
    // Part of an address, of a path, or of a longer name in code.
    if matches!(before, Some('@' | '/' | '\\' | '$' | '%' | '#')) || byte(text, end) == b'@' {
        return false;
    }
    if glued_to_escape(text, start) {
        return false;
    }
    // `{{user.email}}`: the name of a placeholder.
    if before == Some('{') && byte(text, end) == b'}' {
        return false;
    }
    if let Some(is_address) = dotted_quad(text, start, end, place, after) {
        return is_address;
    }
    if place.only_host && start == 0 && canonical.starts_with("www.") && after != Follows::Code {
        return true;
    }
    if !tlds::exists(last) || name.contains("..") {
        return false;
    }
    if place.host && start == 0 && after != Follows::Code {
        return place.only_host || !tlds::is_file_ending(last) || after != Follows::Nothing;
    }
    if name.get(..4).is_some_and(|head| head.eq_ignore_ascii_case("www.")) && name.len() > 5 {
        return true;
    }
    let file = tlds::is_file_ending(last);
    match after {
        Follows::Port | Follows::Query => return !(file && place.identifier),
        Follows::Path => {
            // `path/to/file.rs/x` and template remains are no hosts.
            if file || matches!(before, Some('.' | '-' | '~')) {
                return false;
            }
            let member = tlds::is_word(last) && place.identifier;
            return !member && !initials(name);
        }
        Follows::Code => return false,
        Follows::Nothing => {}
    }
    if file
        || tlds::is_word(last)
        || place.identifier
        || initials(name)
        || reversed_package(name)
        || code_object(name)
    {
        return false;
    }
    if PRODUCTS.contains(&canonical.as_str()) && name != canonical {
        return false;
    }
    !sentence_joint(name) && !part_number(name)
}

/// Whether an escape stands right before, or is taken for the name's beginning: `=40host.example`,
/// `U+0040host.example`, `&#64;host.example`, `=` at the line's end. The decoded view has the name.
fn glued_to_escape(text: &str, start: usize) -> bool {
    let hex = |from: usize, length: usize| {
        (from..from + length).all(|at| byte(text, at).is_ascii_hexdigit())
    };
    match byte_before(text, start) {
        b'=' => hex(start, 2),
        b'+' => hex(start, 4) && matches!(byte_before(text, start - 1), b'U' | b'u'),
        b'\n' => {
            let line_end =
                if byte_before(text, start - 1) == b'\r' { start - 2 } else { start - 1 };
            byte_before(text, line_end) == b'='
        }
        b';' => {
            let name = run_start(text, start - 1, start.saturating_sub(12), |c| {
                c.is_ascii_alphanumeric() || c == '#'
            });
            name < start - 1 && byte_before(text, name) == b'&'
        }
        _ => false,
    }
}

/// `self.me`, `window.at`: the objects that code names most.
fn code_object(name: &str) -> bool {
    matches!(
        name.split('.').next().unwrap_or(""),
        "self"
            | "this"
            | "cls"
            | "super"
            | "window"
            | "document"
            | "module"
            | "process"
            | "console"
            | "req"
            | "res"
            | "request"
            | "response"
            | "ctx"
            | "context"
            | "args"
            | "np"
            | "pd"
            | "os"
            | "sys"
            | "std"
            | "df"
            | "obj"
            | "item"
            | "user"
            | "data"
            | "config"
            | "event"
            | "props"
            | "state"
            | "math"
            | "Math"
            | "path"
            | "string"
            | "row"
            | "node"
            | "elem"
            | "element"
    )
}

/// `e.g`, `U.S.A`, `z.B`: labels of one letter each.
fn initials(name: &str) -> bool {
    name.split('.').all(|label| label.chars().count() <= 1)
        || (name.split('.').count() == 2
            && name.len() <= 4
            && name.split('.').any(|label| label.len() == 1)
            && !name.bytes().any(|b| b.is_ascii_digit())
            && name.split('.').next().is_some_and(|label| label.len() == 1))
}

/// `com.example.Foo`: a name of a package, read backwards.
fn reversed_package(name: &str) -> bool {
    let mut labels = name.split('.');
    let first = labels.next().unwrap_or("");
    matches!(
        first,
        "com" | "org" | "net" | "io" | "java" | "javax" | "edu" | "dev" | "kotlin" | "android"
    ) && labels.count() >= 2
}

/// `done.Next`, `Mr.Smith`, `ASP.NET`: the ending is written as the start of a sentence or a name.
fn sentence_joint(name: &str) -> bool {
    let Some((rest, last)) = name.rsplit_once('.') else {
        return true;
    };
    let mut letters = last.chars();
    let capital = letters.next().is_some_and(char::is_uppercase);
    let lower_tail = letters.clone().next().is_some() && letters.all(char::is_lowercase);
    if capital && lower_tail {
        return true;
    }
    // `.NET` and `.IO` in capitals after one plain word are product names.
    matches!(last, "NET" | "IO")
        && !rest.contains(['.', '-'])
        && rest.chars().all(char::is_alphabetic)
        || (last.chars().all(char::is_uppercase) && rest.chars().any(char::is_lowercase))
}

/// `AB.1234.CD`, `SKU-12.A`, `SAP.DE`: short capitals and digits.
fn part_number(name: &str) -> bool {
    let upper = name
        .chars()
        .all(|c| c.is_uppercase() || c.is_ascii_digit() || matches!(c, '.' | '-' | '_'));
    upper
        && name
            .split('.')
            .any(|label| !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_digit()))
        || upper && name.len() <= 7 && name.split('.').count() == 2
}

/// For a name of four numbers: whether it is an address. `None` for other names.
fn dotted_quad(text: &str, start: usize, end: usize, place: Place, after: Follows) -> Option<bool> {
    let name = slice(text, start, end);
    let numeric = name.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if !numeric {
        return None;
    }
    if name.parse::<std::net::Ipv4Addr>().is_err() {
        return Some(false);
    }
    if place.host {
        return Some(true);
    }
    if place.version || place.identifier {
        return Some(false);
    }
    if matches!(after, Follows::Port | Follows::Path) {
        return Some(true);
    }
    Some(!version_before(text, start))
}

/// `v`, `version`, `section` or a dash of a range stands before a number with dots.
fn version_before(text: &str, start: usize) -> bool {
    const WORDS: &[&str] = &[
        "v",
        "version",
        "ver",
        "release",
        "section",
        "chapter",
        "build",
        "rev",
        "revision",
        "firmware",
        "abschnitt",
        "kapitel",
        "paragraph",
        "clause",
        "article",
        "figure",
        "table",
        "appendix",
        "oid",
        "step",
        "sec",
        "ch",
        "§",
        "update",
        "upgrade",
        "driver",
        "software",
    ];
    let before = slice(text, super::bytes::floor_boundary(text, start.saturating_sub(24)), start);
    let trimmed = before.trim_end_matches([' ', ':', '.', '#', '=', '"', '(']);
    if trimmed.len() == before.len() && before.ends_with(|c: char| c.is_alphanumeric()) {
        return true;
    }
    let word = trimmed
        .rsplit(|c: char| !c.is_alphabetic() && c != '§')
        .next()
        .unwrap_or("")
        .to_lowercase();
    WORDS.contains(&word.as_str())
}
