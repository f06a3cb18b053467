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

use super::bytes::{
    byte, byte_before, char_at, char_before, floor_boundary, run_end, run_start, slice,
};
use super::host::{self, Follows};
use super::link_end::{self, Around, Ends};
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
        text_start: text.len() - text.trim_start().len(),
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
    finder.links.sort_by_key(|link| link.start);
    finder.links.into_iter().for_each(sink);
    looked
}

struct Finder<'t> {
    text: &'t str,
    place: Place,
    links: Vec<Link>,
    looked: Looked,
    /// Where the white space at the beginning ends.
    text_start: usize,
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
            let floor = floor_boundary(text, colon.saturating_sub(32));
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
    fn token_end_of(&mut self, start: usize) -> Option<Ends> {
        let inside = start < self.token_end && start >= self.token_start;
        if inside {
            self.nested += 1;
            if self.nested > NESTED_MAX {
                self.looked = Looked::BudgetSpent;
                return None;
            }
            // An inner link may end earlier, at a separator that only it has.
            return Some(self.ends(start, self.token_end));
        }
        self.token_start = start;
        self.nested = 0;
        let ends = self.ends(start, ceiling(self.text, start));
        self.token_end = ends.whole;
        Some(ends)
    }

    fn ends(&self, start: usize, ceiling: usize) -> Ends {
        let around = if start != self.text_start || self.place.source {
            Around::Text
        } else if is_alone(self.text) {
            Around::Nothing
        } else if self.place.only_host && link_end::begins_link(self.text, start) {
            Around::Field
        } else {
            Around::Text
        };
        let ends = link_end::find(self.text, start, ceiling, around);
        if around == Around::Text { ends } else { Ends { cut: ends.whole, ..ends } }
    }

    /// Adds a link with an authority that goes on to `ends`; `rest` is what follows its scheme.
    fn add_absolute(
        &mut self,
        scheme: &str,
        (start, rest): (usize, usize),
        ends: Ends,
        accept: impl Fn(Link) -> Option<Link>,
    ) {
        // In a sentence both may be meant; the shorter one first, as it is the better name of both.
        let cut = (ends.cut < ends.whole).then_some(ends.cut);
        for end in cut.into_iter().chain([ends.whole]) {
            let link = link_form::absolute(scheme, slice(self.text, rest, end), start, end);
            if let Some(link) = link.and_then(&accept) {
                self.links.push(link);
            }
        }
    }

    fn push_absolute(&mut self, scheme: &str, start: usize, rest: usize, authority: bool) {
        if let Some(ends) = self.token_end_of(start) {
            // `https:evil.test` needs a host that exists; after two slashes any authority counts.
            self.add_absolute(scheme, (start, rest), ends, |link| {
                (authority || believable(&link.host)).then_some(link)
            });
        }
    }

    /// `tel:`, `javascript:`, `data:`: schemes without an authority.
    fn opaque(&mut self, scheme: &str, start: usize, rest: usize) {
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
        let text = slice(self.text, 0, ceiling(self.text, start));
        let opens = start <= self.text_start;
        let end = match scheme {
            "tel" | "sms" | "callto" | "fax" => {
                let end = run_end(text, rest, |c| {
                    c.is_ascii_digit() || matches!(c, '+' | '-' | ' ' | '(' | ')' | '.' | '*' | '#')
                });
                if byte(text, end) == b'?' {
                    link_end::find(text, end, text.len(), Around::Text).whole
                } else {
                    end
                }
            }
            "data" if !link_form::is_data(slice(text, rest, floor_boundary(text, rest + 128))) => {
                return;
            }
            "javascript" | "vbscript" | "data" if opens => text.len(),
            _ if opens && is_alone(self.text) => text.len(),
            _ => opaque_end(text, rest),
        };
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
        let user_start =
            run_start(text, start - 1, floor_boundary(text, start.saturating_sub(65)), |c| {
                c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '+')
            });
        let user = slice(text, user_start, start - 1);
        let host = slice(text, start, colon);
        if user.is_empty() || matches!(byte_before(text, user_start), b'/' | b':') {
            return;
        }
        let end = link_end::find(text, colon, ceiling(text, start), Around::Text).whole;
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
            let Some(ends) = self.token_end_of(at) else {
                continue;
            };
            let field = self.place.host || is_attribute(text, at);
            self.add_absolute("https", (at, at), ends, |link| {
                let counts = believable(&link.host)
                    && (!tlds::is_file_ending(link.host.rsplit('.').next().unwrap_or(""))
                        || !link.path.is_empty()
                        || !link.tail.is_empty()
                        || field);
                counts.then_some(Link { scheme_written: false, ..link })
            });
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
        let ends = match host::follows(text, name_end) {
            Follows::Port | Follows::Path | Follows::Query => {
                self.ends(start, ceiling(text, start))
            }
            Follows::Nothing | Follows::Code => Ends { cut: name_end, whole: name_end },
        };
        self.add_absolute("", (start, start), ends, |link| {
            Some(Link { scheme_written: false, ..link })
        });
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

/// Whether a text is one word.
fn is_alone(text: &str) -> bool {
    !text.trim().contains(char::is_whitespace)
}

/// Where a link that starts at `start` ends at the latest.
fn ceiling(text: &str, start: usize) -> usize {
    floor_boundary(text, start + LINK_MAX)
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

/// Whether the value of `href=`, `src=` or another attribute begins at `at`.
fn is_attribute(text: &str, at: usize) -> bool {
    let quote = run_start(text, at, at.saturating_sub(1), |c| matches!(c, '"' | '\''));
    byte_before(text, quote) == b'='
}

fn opaque_end(text: &str, start: usize) -> usize {
    run_end(text, start, |c| !c.is_whitespace() && !matches!(c, '"' | '`' | '>'))
}
