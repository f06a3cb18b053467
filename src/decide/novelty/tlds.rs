//! Which endings of a dotted name are top-level domains, and which of those mean something else.
//!
//! Existence comes from the public suffix list (crate `psl`), which holds every delegated
//! top-level domain; the special-use names are those of IANA's registry (RFC 6761 and successors).

use super::tld_words::WORDS;

/// Special-use and private names that resolve somewhere (RFC 2606, 6761, 6762, 7686, 8375; the
/// private `internal` of ICANN, and names that routers and clusters use).
const SPECIAL: &[&str] = &[
    "test",
    "example",
    "invalid",
    "localhost",
    "local",
    "onion",
    "internal",
    "lan",
    "home",
    "corp",
    "intranet",
    "localdomain",
    "arpa",
    "alt",
    "cluster",
    "consul",
    "i2p",
    "bit",
    "eth",
    "private",
];

/// Endings of files that are sure to be meant when nothing else says host. `com`, `ai`, `app` and
/// the like are names of hosts first.
const SURE_FILES: &[&str] = &[
    "py", "md", "rs", "sh", "zip", "so", "pl", "pm", "ps", "cc", "mk", "am", "mov", "gz", "java",
    "lock", "map", "st", "vi", "mm", "do", "in", "cab", "doc", "docs", "pub", "inc", "as", "ms",
    "tm", "sc", "cfd", "swf", "csv", "log", "rb", "ts", "js", "go", "hs", "kt", "cs", "tf",
];

/// Names in [`WORDS`] that are hosts all the same when they stand bare: the classic ones.
const HOSTS_FIRST: &[&str] = &[
    "org",
    "edu",
    "gov",
    "mil",
    "de",
    "us",
    "be",
    "at",
    "it",
    "me",
    "info",
    "app",
    "dev",
    "cloud",
    "shop",
    "online",
    "site",
    "website",
    "xin",
    "bank",
    "blog",
    "icu",
    "vip",
    "club",
    "agency",
    "la",
    "no",
    "best",
    "solutions",
    "systems",
    "technology",
    "software",
    "university",
    "rocks",
    "bid",
    "loan",
    "wtf",
    "kim",
    "la",
    "arpa",
    "tel",
];

/// Whether `label` (lower-case ASCII, A-labels for other scripts) is a top-level domain.
pub(super) fn exists(label: &str) -> bool {
    if label.is_empty() || label.bytes().all(|byte| byte.is_ascii_digit()) {
        return false;
    }
    if SPECIAL.contains(&label) {
        return true;
    }
    // The list has names of other scripts as they are written.
    let (written, valid) = if label.starts_with("xn--") {
        let (written, read) = idna::domain_to_unicode(label);
        (written, read.is_ok())
    } else {
        (label.to_owned(), true)
    };
    if !valid {
        return false;
    }
    let name = format!("a.{written}");
    psl::suffix(name.as_bytes()).is_some_and(|suffix| suffix.is_known())
}

/// Whether mail may be delivered below `label`: beside the names that [`exists`] knows any label of
/// another script, as the address says by its `@` what it is.
pub(super) fn may_receive_mail(label: &str) -> bool {
    exists(label) || (label.starts_with("xn--") && idna::domain_to_unicode(label).1.is_ok())
}

/// Whether the ending names a kind of file.
pub(super) fn is_file_ending(label: &str) -> bool {
    SURE_FILES.contains(&label)
}

/// Whether the ending is a word or a member's name, so that a bare dotted name proves nothing.
pub(super) fn is_word(label: &str) -> bool {
    WORDS.contains(&label) && !HOSTS_FIRST.contains(&label)
}
