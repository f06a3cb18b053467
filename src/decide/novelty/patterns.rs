//! Every regular expression of the detectors, compiled once.
//!
//! A pattern that does not compile would find nothing and say nothing, so a test compiles them all.

use std::sync::LazyLock;

use regex::Regex;

/// One pattern; `None` only if it does not compile, which a test rules out.
pub(super) type Pattern = LazyLock<Option<Regex>>;

macro_rules! patterns {
    ($($(#[$doc:meta])* $name:ident = $source:expr;)+) => {
        $($(#[$doc])* pub(super) static $name: Pattern = LazyLock::new(|| Regex::new($source).ok());)+

        #[cfg(test)]
        const ALL: &[(&str, &Pattern)] = &[$((stringify!($name), &$name)),+];
    };
}

patterns! {
    /// RFC 2047 encoded word; the third group is the start of the next one.
    ENCODED_WORD = r"=\?[A-Za-z0-9_.:*-]{1,40}\?([BbQq])\?([^?\s]{1,4096})\?=(?:[ \t\r\n]+(=\?))?";
    /// A defanged scheme; the cheap test before [`FANG`].
    FANG_SCHEME = r"(?-u)xxp|XXP|xxP|XXp|\*\*p|\*\*P|__p";
    /// A defanged scheme, or a sign in brackets.
    FANG = concat!(
        r"(?i)h(?:xx|\*\*|__)(ps?)\b",
        r"|[ \t]?[\[({<][ \t]?(\.|dot|punkt|@|at|a|:|:/{2}|/)[ \t]?[\])}>][ \t]?",
    );
    /// A word for a dot between other words.
    DOT_WORD = r"(?-u)[ \n(\[](?:dot|DOT|Dot|period|PERIOD|Period|punkt|PUNKT|Punkt)[ \n)\]]";
    /// The same with its white space, to be replaced.
    DOT_SIGN = r"(?i)\s+[(\[]?(?:dot|period|punkt)[)\]]?\s+";
    /// An address or a host in words: local part, domain, path.
    SPOKEN = concat!(
        r"(?i)(?:([\w.+-]+)\s+[(\[]?(?:at-sign|at|arroba|@)[)\]]?\s+)?",
        r"([\w-]+(?:(?:\s+[(\[]?(?:dot|period|punkt)[)\]]?\s+|\.)[\w-]+)+)",
        r"((?:\s+slash\s+[\w.-]+)*)",
    );
    /// Labels before an account number. Searched in a small window before each number.
    LABEL = concat!(
        r"(?i)routing|(?-u:\b)aba(?-u:\b)|(?-u:\b)rtn(?-u:\b)|sort[ _-]?code|(?-u:\b)blz(?-u:\b)|bankleitzahl",
        r"|(?-u:\b)bsb(?-u:\b)|(?-u:\b)ifsc(?-u:\b)|clabe|account|(?-u:\b)acct|(?-u:\b)a/c(?-u:\b)",
        r"|(?-u:\b)acc(?:\.|\s+no)|konto|(?-u:\b)kto(?-u:\b)|cuenta|(?-u:\b)compte|(?-u:\b)conto(?-u:\b)",
        r"|rekening|(?-u:\b)conta(?-u:\b)|hesap|rachun|сч[её]т|账号|账户|帐号|帳號|口座|계좌|(?-u:\b)iban(?-u:\b)",
        r"|wallet|beneficiary",
    );
    /// A short text that is an address, a link or a pair.
    SHORT_ITEM = r"^(?:[^\s@]+@[^\s@]+\.[A-Za-z]{2,}|[a-z]{2,10}://\S+|(?:[a-z0-9-]+\.)+[a-z]{2,}(?:/\S*)?|[A-Za-z_][\w.-]*[=:][^\s=:].*)$";
    /// Bytes in hex with separators.
    HEX_LIST = r"(?i-u)\b(?:0x)?[0-9a-f]{2}(?:(?:[ :;,_|-]|, |\r?\n)(?:0x)?[0-9a-f]{2}){7,}\b";
    /// Codes of characters, decimal or octal.
    CODE_LIST = r"(?-u)\b[0-9]{2,3}(?:(?:[ ;,|-]|, |\r?\n)[0-9]{2,3}){7,}\b";
    /// Groups of eight bits.
    BITS = r"(?-u)\b[01]{8}(?:[ ,_]?[01]{8}){3,}\b";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_compiles() {
        for (name, pattern) in ALL {
            assert!(pattern.is_some(), "{name}");
        }
    }
}
