//! Links: their canonical form.
//!
//! `http`, `https`, no scheme and `//` are one; every other scheme is kept. Host, port, dot
//! segments, escapes of unreserved characters and one trailing slash are normalised; query and
//! fragment stay as written. What two parsers may read differently is *doubtful* and never known.

use super::host;

/// One link, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    /// `` for `http`, `https` and none; else `scheme://`, or `scheme:` without an authority.
    pub(super) prefix: String,
    pub(super) host: String,
    /// `:port` where it is not the scheme's own.
    pub(super) port: String,
    /// With its leading slash; empty for the root.
    pub(super) path: String,
    /// `?query#fragment`, as written.
    pub(super) tail: String,
    /// Parsers disagree where it leads, so only the very same text makes it known.
    pub(super) doubtful: bool,
    pub(super) scheme_written: bool,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Link {
    /// What must be equal for two links to lead to the same server.
    pub(super) fn authority(&self) -> String {
        format!("{}{}{}", self.prefix, self.host, self.port)
    }

    /// The canonical form.
    pub(super) fn item(&self) -> String {
        format!("{}{}{}{}{}", self.prefix, self.host, self.port, self.path, self.tail)
    }
}

/// Schemes that are matched as the longest suffix of what stands before the colon, so that text
/// glued to it does not hide them.
const SCHEMES: &[&str] = &[
    "http",
    "https",
    "ftp",
    "ftps",
    "sftp",
    "ws",
    "wss",
    "ssh",
    "git",
    "git+ssh",
    "git+https",
    "svn",
    "file",
    "smb",
    "s3",
    "s3a",
    "gs",
    "gcs",
    "az",
    "abfs",
    "abfss",
    "wasb",
    "wasbs",
    "hdfs",
    "ldap",
    "ldaps",
    "redis",
    "rediss",
    "mongodb",
    "mongodb+srv",
    "postgres",
    "postgresql",
    "mysql",
    "amqp",
    "amqps",
    "mqtt",
    "mqtts",
    "slack",
    "whatsapp",
    "tg",
    "telegram",
    "msteams",
    "zoommtg",
    "discord",
    "skype",
    "facetime",
    "intent",
    "market",
    "magnet",
    "ipfs",
    "ipns",
    "irc",
    "ircs",
    "gopher",
    "nntp",
    "rtsp",
    "rtmp",
    "rsync",
    "telnet",
    "vnc",
    "rdp",
    "blob",
    "feed",
    "webcal",
    "dav",
    "davs",
    "gemini",
    "nfs",
    "afp",
    "cifs",
    "tftp",
    "oci",
    "jar",
    "xmpp",
    "sip",
    "sips",
    "tel",
    "sms",
    "callto",
    "fax",
    "javascript",
    "vbscript",
    "data",
    "view-source",
    "ms-word",
    "ms-excel",
    "scp",
    "unc",
    "viber",
    "signal",
    "line",
    "weixin",
    "fb-messenger",
    "stun",
    "turn",
];

const OPAQUE: &[&str] = &[
    "tel",
    "sms",
    "callto",
    "fax",
    "javascript",
    "vbscript",
    "data",
    "sip",
    "sips",
    "magnet",
    "skype",
];

/// The scheme at the end of `run`, the text before a colon. Without `authority` (no `//`) only
/// schemes that need none and the special ones count.
pub(super) fn scheme(run: &str, authority: bool) -> Option<&str> {
    let lower = run.to_ascii_lowercase();
    // Defanged: the refanged view has the link.
    if lower.ends_with("hxxp") || lower.ends_with("hxxps") {
        return None;
    }
    let known =
        SCHEMES.iter().filter(|scheme| lower.ends_with(*scheme)).max_by_key(|scheme| scheme.len());
    match known {
        Some(scheme) if authority => run.get(run.len() - scheme.len()..),
        Some(scheme) => {
            let rest = run.get(..run.len() - scheme.len()).unwrap_or("");
            let bounded = rest.is_empty() || rest.ends_with(['.', '-', '+']);
            let counts = if is_opaque(scheme) { bounded } else { is_special(scheme) && bounded };
            counts.then(|| run.get(run.len() - scheme.len()..)).flatten()
        }
        None if authority => {
            let letters = run.trim_start_matches(|c: char| !c.is_ascii_alphabetic());
            (letters.len() >= 2).then_some(letters)
        }
        None => None,
    }
}

/// Whether `written` holds the escapes of JSON (`\/`) or HTML (`&amp;`), so that another view has
/// the link itself.
pub(super) fn is_escaped(written: &str) -> bool {
    if written.contains(r"\/") {
        return true;
    }
    memchr::memchr_iter(b'&', written.as_bytes()).any(|at| {
        let rest = written.get(at + 1..).unwrap_or("");
        let name =
            rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '#').unwrap_or(rest.len());
        name > 1
            && name <= 32
            && rest.get(name..).is_some_and(|after| after.starts_with(';'))
            && htmlize::unescape(written.get(at..at + name + 2).unwrap_or("")).len() < name + 2
    })
}

/// Whether the prefix of a link is that of a scheme in the list.
pub(super) fn is_listed(prefix: &str) -> bool {
    prefix.is_empty() || SCHEMES.contains(&prefix.trim_end_matches("://"))
}

/// Schemes whose links have no authority.
pub(super) fn is_opaque(scheme: &str) -> bool {
    OPAQUE.contains(&scheme)
}

/// The special schemes of the WHATWG URL standard, which accept any number of either slash.
pub(super) fn is_special(scheme: &str) -> bool {
    matches!(scheme, "" | "http" | "https" | "ws" | "wss" | "ftp")
}

fn default_port(scheme: &str) -> &'static str {
    match scheme {
        "http" | "ws" => "80",
        "https" | "wss" => "443",
        "ftp" => "21",
        "ssh" | "sftp" => "22",
        _ => "",
    }
}

/// A link with an authority; `rest` is what follows the scheme's colon.
pub(super) fn absolute(scheme: &str, rest: &str, start: usize, end: usize) -> Option<Link> {
    let special = is_special(scheme);
    let mut doubtful = special && rest.contains('\\');
    let body =
        if special { rest.trim_start_matches(['/', '\\']) } else { rest.trim_start_matches('/') };
    let is_end = |c: char| matches!(c, '/' | '?' | '#') || (special && c == '\\');
    let authority_end = body.find(is_end).unwrap_or(body.len());
    let (authority, after) = body.split_at_checked(authority_end)?;
    let (user, host_port) = match authority.rsplit_once('@') {
        Some((user, host)) => (Some(user), host),
        None => (None, authority),
    };
    doubtful |= special && user.is_some() || user.is_some_and(|user| user.contains('@'));
    let (raw_host, port) = split_port(host_port);
    doubtful |= special && raw_host.contains('%');
    if raw_host.is_empty() && (special || after.is_empty()) {
        return None;
    }
    let raw_host = concrete(raw_host)?;
    let host = host::canonical(&raw_host, special);
    let port = if port.is_empty() || port == default_port(scheme) {
        String::new()
    } else {
        format!(":{port}")
    };
    let tail_at = after.find(['?', '#']).unwrap_or(after.len());
    let (path, tail) = after.split_at_checked(tail_at)?;
    let prefix = match scheme {
        "" | "http" | "https" => String::new(),
        other => format!("{other}://"),
    };
    let host = match user {
        Some(user) if !special => format!("{user}@{host}"),
        _ => host,
    };
    Some(Link {
        prefix,
        host,
        port,
        path: canonical_path(path, special),
        tail: unreserved(tail),
        doubtful,
        scheme_written: true,
        start,
        end,
    })
}

fn split_port(host_port: &str) -> (&str, &str) {
    if host_port.starts_with('[') {
        return match host_port.split_once(']') {
            Some((host, rest)) => {
                let end = host.len() + 1;
                (host_port.get(..end).unwrap_or(host_port), rest.trim_start_matches(':'))
            }
            None => (host_port, ""),
        };
    }
    match host_port.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            (host, port.trim_start_matches('0'))
        }
        _ => (host_port, ""),
    }
}

/// A host without its placeholders; `None` where nothing concrete is left.
fn concrete(host: &str) -> Option<String> {
    // Brackets inside are a defanged dot; the refanged view has the link.
    if host.get(1..).is_some_and(|rest| rest.contains('[')) {
        return None;
    }
    if is_placeholder(host) {
        return None;
    }
    if !host.contains(['{', '}', '$', '<', '>', '*']) {
        return Some(host.to_owned());
    }
    let mut left = String::new();
    let mut depth = 0_u32;
    for character in host.chars() {
        match character {
            '{' | '<' => depth += 1,
            '}' | '>' => depth = depth.saturating_sub(1),
            '$' | '*' => {}
            other if depth == 0 => left.push(other),
            _ => {}
        }
    }
    let left = left.trim_matches(['.', '-', '_', '%', ':']).to_owned();
    (left.contains('.') && !left.is_empty()).then_some(left)
}

/// `%s`, `%HOST%`, `%(host)s`, `[HOST]`: a host that a template leaves open.
fn is_placeholder(host: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty()
            && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
    };
    if let Some(name) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return is_name(name);
    }
    let Some(rest) = host.strip_prefix('%') else {
        return false;
    };
    let percents = rest.strip_suffix('%').is_some_and(is_name);
    let formatted = rest
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix('s').or_else(|| rest.strip_suffix('d')))
        .and_then(|rest| rest.strip_suffix(')'))
        .is_some_and(is_name);
    percents || formatted || matches!(rest, "s" | "d" | "v" | "S")
}

/// A link without an authority.
pub(super) fn opaque(scheme: &str, rest: &str, start: usize, end: usize) -> Option<Link> {
    let body = match scheme {
        "tel" | "sms" | "callto" | "fax" => {
            let (number, tail) = match rest.find('?') {
                Some(at) => rest.split_at_checked(at)?,
                None => (rest, ""),
            };
            let digits: String =
                number.chars().filter(|c| c.is_ascii_digit() || *c == '+').collect();
            if !digits.contains(|c: char| c.is_ascii_digit()) {
                return None;
            }
            return Some(Link {
                prefix: format!("{scheme}:"),
                host: digits,
                port: String::new(),
                path: String::new(),
                tail: tail.to_owned(),
                doubtful: false,
                scheme_written: true,
                start,
                end,
            });
        }
        _ => rest.trim_end(),
    };
    if body.is_empty() {
        return None;
    }
    Some(Link {
        prefix: format!("{scheme}:"),
        host: String::new(),
        port: String::new(),
        path: body.to_owned(),
        tail: String::new(),
        doubtful: false,
        scheme_written: true,
        start,
        end,
    })
}

/// Whether what follows `data:` is a data URI: a media type or parameters, then a comma.
pub(super) fn is_data(rest: &str) -> bool {
    let Some((head, _)) = rest.split_once(',') else {
        return false;
    };
    let mut parts = head.split(';');
    let media = parts.next().unwrap_or("");
    let media_ok = media.is_empty()
        || media.split_once('/').is_some_and(|(left, right)| {
            !left.is_empty()
                && !right.is_empty()
                && media.bytes().all(|byte| {
                    byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'+' | b'-' | b'_')
                })
        });
    media_ok && parts.all(|part| !part.contains(|c: char| c.is_whitespace() || c == '"'))
}

/// `user@host:path` as `ssh://user@host/path`.
pub(super) fn remote(user: &str, raw_host: &str, path: &str, start: usize, end: usize) -> Link {
    Link {
        prefix: "ssh://".to_owned(),
        host: format!("{user}@{}", host::canonical(raw_host, true)),
        port: String::new(),
        path: canonical_path(&format!("/{}", path.trim_start_matches('/')), false),
        tail: String::new(),
        doubtful: false,
        scheme_written: true,
        start,
        end,
    }
}

/// `\\host\share\file` as `file://host/share/file`.
pub(super) fn share(raw_host: &str, path: &str, start: usize, end: usize) -> Link {
    Link {
        prefix: "file://".to_owned(),
        host: host::canonical(raw_host, true),
        port: String::new(),
        path: canonical_path(&path.replace('\\', "/"), false),
        tail: String::new(),
        doubtful: false,
        scheme_written: true,
        start,
        end,
    }
}

/// Escapes normalised, dot segments resolved, one trailing slash dropped.
fn canonical_path(path: &str, special: bool) -> String {
    let decoded = unreserved(path);
    let slashed = if special { decoded.replace('\\', "/") } else { decoded };
    let mut segments: Vec<&str> = Vec::new();
    let mut parts = slashed.split('/').peekable();
    // The text before the first slash is empty: a path begins with one.
    parts.next();
    while let Some(part) = parts.next() {
        match part {
            "." => {
                if parts.peek().is_none() {
                    segments.push("");
                }
            }
            ".." => {
                segments.pop();
                if parts.peek().is_none() {
                    segments.push("");
                }
            }
            other => segments.push(other),
        }
    }
    let mut canonical = String::with_capacity(slashed.len());
    for segment in &segments {
        canonical.push('/');
        canonical.push_str(segment);
    }
    if canonical.ends_with('/') {
        canonical.pop();
    }
    canonical
}

/// `%XX` of unreserved characters decoded, the others in upper case (RFC 3986, 6.2.2); characters
/// beyond ASCII, quotes, angle brackets, bars and spaces percent-encoded as UTF-8, as every client
/// sends them.
fn unreserved(text: &str) -> String {
    let is_encoded =
        |byte: u8| !byte.is_ascii() || matches!(byte, b'"' | b'<' | b'>' | b'`' | b'|' | b' ');
    if !text.bytes().any(|byte| byte == b'%' || is_encoded(byte)) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let mut ahead = bytes.clone();
            if let (Some(high), Some(low)) = (hex(ahead.next()), hex(ahead.next())) {
                bytes = ahead;
                let value = high * 16 + low;
                if value.is_ascii_alphanumeric() || matches!(value, b'-' | b'.' | b'_' | b'~') {
                    out.push(char::from(value));
                } else {
                    out.push_str(&format!("%{value:02X}"));
                }
                continue;
            }
            out.push('%');
        } else if is_encoded(byte) {
            out.push_str(&format!("%{byte:02X}"));
        } else {
            out.push(char::from(byte));
        }
    }
    out
}

fn hex(byte: Option<u8>) -> Option<u8> {
    u8::try_from(char::from(byte?).to_digit(16)?).ok()
}
