//! Links: finding them in a text.
//!
//! # What it finds
//! Every address that a browser, a mail program or a command would follow: with a scheme, with too
//! few or the wrong slashes, without a scheme, as a UNC path, as an scp remote, as `tel:` or
//! `javascript:`, and links inside the path or the parameters of another.
//!
//! # Why it matters
//! Fetching a link sends its path and query away, also to a host that everybody trusts: CVE-2025-32711
//! left through an allowed host. So a known host with a new path is novel, and says that the host is
//! known.
//!
//! # Example
//! `https://wiki.example/page?d=the%20code%20is%204471` is novel although `https://wiki.example/page`
//! stands in the user's message.
//!
//! # What it misses
//! A bare host that ends like a file (`notes.md`) or like a member (`user.name`) and has neither
//! scheme, port, path nor a field that asks for a host; a link whose data hides in *which* of several
//! known links is opened.

use memchr::{memchr_iter, memmem};

use super::bytes::{byte, byte_before, char_at, char_before, is_cjk, run_end, run_start, slice};
use super::host::{self, Follows};
use super::link_form::{self, Link};
use super::place::Place;
use super::tlds;

/// Links inside one token that are looked at; one more runs the budget out.
const NESTED_MAX: usize = 16;
/// The longest link looked at; what is longer is cut there and never known.
pub(super) const LINK_MAX: usize = 16 * 1024;

/// Whether everything was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Looked {
    Everywhere,
    BudgetSpent,
}

/// Calls `sink` with every link in `text`.
pub(super) fn find(text: &str, place: Place, sink: &mut dyn FnMut(Link)) -> Looked {
    let mut finder = Finder {
        text,
        place,
        links: Vec::new(),
        looked: Looked::Everywhere,
        token_start: usize::MAX,
        token_end: 0,
        nested: 0,
        opaque_end: 0,
        opaque_nested: 0,
    };
    finder.schemes();
    finder.slashes();
    finder.shares();
    finder.names();
    let looked = finder.looked;
    finder.links.sort_by_key(|link| (link.start, usize::MAX - link.end));
    finder.links.into_iter().for_each(sink);
    looked
}

struct Finder<'t> {
    text: &'t str,
    place: Place,
    links: Vec<Link>,
    looked: Looked,
    token_start: usize,
    token_end: usize,
    nested: usize,
    opaque_end: usize,
    opaque_nested: usize,
}

impl Finder<'_> {
    fn schemes(&mut self) {
        let text = self.text;
        for colon in memchr_iter(b':', text.as_bytes()) {
            if colon == 0 || char_at(text, colon + 1).is_none_or(char::is_whitespace) {
                continue;
            }
            let floor = super::bytes::floor_boundary(text, colon.saturating_sub(32));
            let start = run_start(text, colon, floor, |c| {
                c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.')
            });
            if start == colon {
                continue;
            }
            let run = slice(text, start, colon);
            self.remote(start, colon);
            let slashes = run_end(text, colon + 1, |c| matches!(c, '/' | '\\')) - (colon + 1);
            let authority = slashes >= 2;
            let Some(scheme) = link_form::scheme(run, authority) else {
                continue;
            };
            let start = colon - scheme.len();
            let scheme = scheme.to_ascii_lowercase();
            if link_form::is_opaque(&scheme) {
                self.opaque(&scheme, start, colon + 1);
            } else if authority || link_form::is_special(&scheme) {
                self.push_absolute(&scheme, start, colon + 1, authority);
            }
        }
    }

    /// Counts links in one token, so that a token of nothing but schemes costs linear time.
    fn token_end_of(&mut self, start: usize) -> Option<usize> {
        let inside = start < self.token_end && start >= self.token_start;
        if inside {
            self.nested += 1;
            if self.nested > NESTED_MAX {
                self.looked = Looked::BudgetSpent;
                return None;
            }
            // An inner link may end earlier, at a separator that only it has.
            return Some(end_of(self.text, start, self.token_end));
        }
        self.token_start = start;
        self.nested = 0;
        let ceiling = super::bytes::floor_boundary(self.text, start + LINK_MAX);
        self.token_end = end_of(self.text, start, ceiling);
        Some(self.token_end)
    }

    fn push_absolute(&mut self, scheme: &str, start: usize, rest: usize, authority: bool) {
        let Some(end) = self.token_end_of(start) else {
            return;
        };
        let Some(link) = link_form::absolute(scheme, slice(self.text, rest, end), start, end)
        else {
            return;
        };
        // `https:evil.test` needs a host that exists; after two slashes any authority counts.
        if authority || believable(&link.host) {
            self.links.push(link);
        }
    }

    /// `tel:`, `javascript:`, `data:`: schemes without an authority.
    fn opaque(&mut self, scheme: &str, start: usize, rest: usize) {
        let text = self.text;
        // Inside another such link only so many are looked at: each reaches to the token's end.
        if rest <= self.opaque_end {
            self.opaque_nested += 1;
            if self.opaque_nested > NESTED_MAX {
                self.looked = Looked::BudgetSpent;
                return;
            }
        } else {
            self.opaque_nested = 0;
        }
        let end = match scheme {
            "tel" | "sms" | "callto" | "fax" => {
                let mut end = run_end(text, rest, |c| {
                    c.is_ascii_digit() || matches!(c, '+' | '-' | ' ' | '(' | ')' | '.' | '*' | '#')
                });
                if byte(text, end) == b'?' {
                    end = end_of(text, end, super::bytes::floor_boundary(text, end + LINK_MAX));
                }
                end
            }
            "javascript" | "vbscript" if slice(text, 0, start).trim().is_empty() => text.len(),
            "data" => {
                if !link_form::is_data(slice(
                    text,
                    rest,
                    super::bytes::floor_boundary(text, rest + 128),
                )) {
                    return;
                }
                if slice(text, 0, start).trim().is_empty() {
                    text.len()
                } else {
                    opaque_end(text, rest)
                }
            }
            _ => opaque_end(text, rest),
        };
        let ceiling = super::bytes::floor_boundary(text, start + LINK_MAX);
        let end = end.min(ceiling);
        self.opaque_end = end.max(self.opaque_end);
        if let Some(link) = link_form::opaque(scheme, slice(text, rest, end), start, end) {
            self.links.push(link);
        }
    }

    /// `user@host:path`, the notation of scp, rsync and git.
    fn remote(&mut self, start: usize, colon: usize) {
        let text = self.text;
        if byte_before(text, start) != b'@' {
            return;
        }
        let user_start = run_start(
            text,
            start - 1,
            super::bytes::floor_boundary(text, start.saturating_sub(65)),
            |c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+'),
        );
        let user = slice(text, user_start, start - 1);
        let host = slice(text, start, colon);
        if user.is_empty() || matches!(byte_before(text, user_start), b'/' | b':') {
            return;
        }
        let end = end_of(text, colon, super::bytes::floor_boundary(text, start + LINK_MAX));
        let path = slice(text, colon + 1, end);
        let first = path.chars().next();
        let is_path = first
            .is_some_and(|c| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '~' | '-'))
            && (path.contains('/')
                || path.ends_with(".git")
                || (user_start == 0 && end == text.len() && !self.place.recipient))
            && !path.starts_with("//")
            && !path.starts_with("~$");
        if is_path && believable(&host.to_ascii_lowercase()) {
            self.links.push(link_form::remote(user, host, path, user_start, end));
        }
    }

    /// `//host/path`, where a reference may begin.
    fn slashes(&mut self) {
        let text = self.text;
        for at in memmem::find_iter(text.as_bytes(), b"//") {
            let opens = match char_before(text, at) {
                None => true,
                Some(before) => {
                    before.is_whitespace()
                        || matches!(
                            before,
                            '"' | '\'' | '(' | '=' | '<' | '>' | ',' | '[' | '`' | '|' | '{' | ';'
                        )
                }
            };
            let first = char_at(text, at + 2);
            if !opens || !first.is_some_and(|c| c.is_alphanumeric() || matches!(c, '[' | '_')) {
                continue;
            }
            let Some(end) = self.token_end_of(at) else {
                continue;
            };
            if let Some(link) = link_form::absolute("https", slice(text, at, end), at, end)
                && believable(&link.host)
                && (!tlds::is_file_ending(link.host.rsplit('.').next().unwrap_or(""))
                    || !link.path.is_empty()
                    || !link.tail.is_empty()
                    || self.place.host
                    || is_attribute(text, at))
            {
                self.links.push(Link { scheme_written: false, ..link });
            }
        }
    }

    /// `\\host\share\file`.
    fn shares(&mut self) {
        let text = self.text;
        for at in memmem::find_iter(text.as_bytes(), br"\\") {
            let opens = match char_before(text, at) {
                None => true,
                Some(before) => {
                    before.is_whitespace()
                        || matches!(before, '"' | '\'' | '(' | '=' | '<' | '`' | '|' | ',')
                }
            };
            let host_end = run_end(text, at + 2, host::is_host);
            if !opens
                || host_end == at + 2
                || byte(text, host_end) != b'\\'
                || byte(text, host_end + 1) == b'\\'
            {
                continue;
            }
            let share_end = run_end(text, host_end + 1, |c| {
                !c.is_whitespace() && !matches!(c, '"' | '<' | '>' | '|' | '*' | '?')
            });
            let host = slice(text, at + 2, host_end);
            if share_end > host_end + 2 && host.len() > 1 {
                self.links.push(link_form::share(
                    host,
                    slice(text, host_end, share_end),
                    at,
                    share_end,
                ));
            }
        }
    }

    /// Dotted names without a scheme, outside the links found so far.
    fn names(&mut self) {
        let text = self.text;
        let mut taken: Vec<(usize, usize)> =
            self.links.iter().map(|link| (link.start, link.end)).collect();
        taken.sort_unstable();
        let mut next_taken = 0;
        let mut done = 0;
        for dot in memchr_iter(b'.', text.as_bytes()) {
            if dot < done {
                continue;
            }
            let after = byte(text, dot + 1);
            if !(after.is_ascii_alphanumeric() || after >= 0x80) {
                continue;
            }
            while taken.get(next_taken).is_some_and(|(_, end)| *end <= dot) {
                next_taken += 1;
            }
            if taken.get(next_taken).is_some_and(|(start, _)| *start <= dot) {
                continue;
            }
            let (start, end) = host::dotted_name(text, dot, done);
            done = end.max(dot + 1);
            if start >= dot || end <= dot + 1 || end - start > 255 {
                continue;
            }
            if host::is_link(text, start, end, self.place) {
                self.push_name(start, end);
                done = self.links.last().map_or(done, |link| link.end.max(done));
            }
        }
        if self.place.host {
            self.lonely_host();
        }
        self.localhost();
    }

    fn push_name(&mut self, start: usize, name_end: usize) {
        let text = self.text;
        let end = match host::follows(text, name_end) {
            Follows::Port | Follows::Path | Follows::Query => {
                end_of(text, name_end, super::bytes::floor_boundary(text, start + LINK_MAX))
            }
            Follows::Nothing | Follows::Code => name_end,
        };
        if let Some(link) = link_form::absolute("", slice(text, start, end), start, end) {
            self.links.push(Link { scheme_written: false, ..link });
        }
    }

    /// An IPv6 address or `localhost` as the whole value of a field for hosts.
    fn lonely_host(&mut self) {
        let text = self.text.trim();
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        if bare.contains(':') && bare.parse::<std::net::Ipv6Addr>().is_ok() {
            let written = format!("[{bare}]");
            if let Some(link) = link_form::absolute("", &written, 0, self.text.len()) {
                self.links.push(link);
            }
        }
    }

    /// `localhost:8080/x` needs no scheme.
    fn localhost(&mut self) {
        let text = self.text;
        for at in memmem::find_iter(text.as_bytes(), b"localhost:") {
            let bounded = !char_before(text, at)
                .is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '@' | '/'));
            if bounded && host::follows(text, at + 9) == Follows::Port {
                self.push_name(at, at + 9);
            }
        }
    }
}

/// Whether a link is one beyond doubt: a listed scheme and a host that can exist.
pub(super) fn is_plain(link: &Link) -> bool {
    link.scheme_written && link_form::is_listed(&link.prefix) && believable(&link.host)
}

/// Whether a canonical host exists in some network's terms: a TLD, an address, `localhost`.
fn believable(host: &str) -> bool {
    if host.starts_with('[') || host == "localhost" || host.parse::<std::net::Ipv4Addr>().is_ok() {
        return true;
    }
    host.rsplit_once('.').is_some_and(|(rest, last)| !rest.is_empty() && tlds::exists(last))
}

/// The end of a link that starts at `start`: white space, quotes, angle brackets, an unbalanced
/// bracket; without the punctuation of the sentence around it.
fn end_of(text: &str, start: usize, ceiling: usize) -> usize {
    let quote = byte_before(text, start) == b'\'';
    let whole = start == 0 && ceiling == text.len();
    let mut depth = [0_i32; 3];
    let mut end = start;
    let mut last = '\0';
    while end < ceiling {
        let Some(character) = char_at(text, end) else {
            break;
        };
        let stop = match character {
            '<' | '>' | '"' | '`' | '|' => true,
            '\'' => quote,
            '(' | '[' | '{' => {
                let kind = bracket(character);
                if let Some(count) = depth.get_mut(kind) {
                    *count += 1;
                }
                false
            }
            ')' | ']' | '}' => {
                let kind = bracket(character);
                match depth.get_mut(kind) {
                    Some(count) if *count > 0 => {
                        *count -= 1;
                        false
                    }
                    // A bracket of the host itself, `https://[2001:db8::1]/`.
                    _ => true,
                }
            }
            ',' | ';' => {
                let rest = slice(text, end + 1, super::bytes::floor_boundary(text, end + 9));
                rest.starts_with("http://") || rest.starts_with("https://")
            }
            '\\' => matches!(byte(text, end + 1), b'"' | b'\''),
            '&' => !whole && is_bracket_reference(text, end),
            '\u{3000}'..='\u{303F}' => true,
            other => {
                other.is_whitespace()
                    || other.is_control()
                    || (is_cjk(other)
                        && (last.is_ascii_alphanumeric()
                            || matches!(last, ',' | ';' | ':' | '!' | '?' | '.' | ')'))
                        && !whole)
            }
        };
        if stop {
            break;
        }
        last = character;
        end += character.len_utf8();
    }
    if end == ceiling && ceiling < text.len() {
        return end;
    }
    trimmed_end(text, start, end)
}

/// The end without what closes a sentence or a quotation, in any script, and without `'s`.
fn trimmed_end(text: &str, start: usize, end: usize) -> usize {
    let mut end = end;
    while let Some(last) = char_before(text, end).filter(|_| end > start) {
        let genitive = matches!(last, 's' | 'S')
            && matches!(char_before(text, end - 1), Some('\'' | '\u{2019}'))
            && end - 1 > start;
        if genitive {
            end -= 1;
        } else if is_closing(last) {
            end -= last.len_utf8();
        } else {
            break;
        }
    }
    end
}

const fn is_closing(character: char) -> bool {
    matches!(
        character,
        '.' | ',' | ';' | ':' | '!' | '?' | '\'' | '*' | '~' | '\\'
            | '\u{2018}'..='\u{201F}'
            | '\u{2039}' | '\u{203A}' | '\u{00AB}' | '\u{00BB}' | '\u{2026}' | '\u{2013}' | '\u{2014}'
            | '\u{060C}' | '\u{061B}' | '\u{061F}' | '\u{06D4}' | '\u{066B}' | '\u{066C}'
            | '\u{0964}' | '\u{0965}' | '\u{0589}' | '\u{055D}' | '\u{05C3}' | '\u{037E}' | '\u{0387}'
            | '\u{104A}' | '\u{104B}' | '\u{17D4}' | '\u{17D5}' | '\u{1362}'..='\u{1368}'
            | '\u{FF01}' | '\u{FF0C}' | '\u{FF0E}' | '\u{FF1A}' | '\u{FF1B}' | '\u{FF1F}'
    )
}

/// Whether the value of `href=`, `src=` or another attribute begins at `at`.
fn is_attribute(text: &str, at: usize) -> bool {
    let quote = run_start(text, at, at.saturating_sub(1), |c| matches!(c, '"' | '\''));
    byte_before(text, quote) == b'='
}

/// Whether a reference at `at` stands for a quote or an angle bracket, where every link ends.
fn is_bracket_reference(text: &str, at: usize) -> bool {
    const NAMES: [&str; 16] = [
        "&gt;", "&lt;", "&quot;", "&apos;", "&#34;", "&#39;", "&#60;", "&#62;", "&#x22;", "&#x27;",
        "&#x3c;", "&#x3e;", "&#x3C;", "&#x3E;", "&ldquo;", "&rdquo;",
    ];
    NAMES.iter().any(|name| slice(text, at, at + name.len()) == *name)
}

const fn bracket(character: char) -> usize {
    match character {
        '(' | ')' => 0,
        '[' | ']' => 1,
        _ => 2,
    }
}

fn opaque_end(text: &str, start: usize) -> usize {
    run_end(text, start, |c| !c.is_whitespace() && !matches!(c, '"' | '`' | '>'))
}
