//! What holds for every item and every disguise.

use approver::decide::json::Json;
use approver::decide::novelty::{Finding, Kind, Sources, ToolText, scan};
use base64::Engine as _;
use proptest::prelude::*;

/// An item that must be found, and what its canonical form is.
#[derive(Debug, Clone)]
struct Item {
    kind: Kind,
    text: String,
}

fn item() -> impl Strategy<Value = Item> {
    prop_oneof![
        ("[a-z]{3,8}", "[a-z]{4,10}").prop_map(|(local, host)| Item {
            kind: Kind::Email,
            text: format!("{local}@{host}.example"),
        }),
        ("[a-z]{4,10}", "[a-z]{2,8}").prop_map(|(host, path)| Item {
            kind: Kind::Link,
            text: format!("https://{host}.example/{path}"),
        }),
        (0_u64..10_000_000_000)
            .prop_map(|account| Item { kind: Kind::Iban, text: german_iban(account) }),
    ]
}

fn german_iban(account: u64) -> String {
    let bban = format!("50010517{account:010}");
    let number = format!("{bban}131400");
    let remainder =
        number.bytes().fold(0_u64, |rest, digit| (rest * 10 + u64::from(digit - b'0')) % 97);
    format!("DE{:02}{bban}", 98 - remainder)
}

/// A way to write the same text so that a search for it fails.
#[derive(Debug, Clone, Copy)]
enum Disguise {
    Percent,
    PercentAll,
    Html,
    Backslash,
    Invisible,
    CodePoint,
    QuotedPrintable,
    EncodedWord,
    Base64,
    Base32,
    Hex,
}

fn disguise() -> impl Strategy<Value = Disguise> {
    prop_oneof![
        Just(Disguise::Percent),
        Just(Disguise::PercentAll),
        Just(Disguise::Html),
        Just(Disguise::Backslash),
        Just(Disguise::Invisible),
        Just(Disguise::CodePoint),
        Just(Disguise::QuotedPrintable),
        Just(Disguise::EncodedWord),
        Just(Disguise::Base64),
        Just(Disguise::Base32),
        Just(Disguise::Hex),
    ]
}

fn apply(disguise: Disguise, text: &str) -> String {
    let each = |change: &dyn Fn(char) -> String| text.chars().map(change).collect::<String>();
    match disguise {
        Disguise::Percent => each(&|c| match c {
            '@' | ':' | '/' | '.' | '%' | '&' | ';' | '#' | '\\' => {
                format!("%{:02X}", u32::from(c))
            }
            other => other.to_string(),
        }),
        Disguise::PercentAll => text.bytes().map(|byte| format!("%{byte:02x}")).collect(),
        Disguise::Html => each(&|c| format!("&#{};", u32::from(c))),
        Disguise::Backslash => each(&|c| format!("\\u{:04x}", u32::from(c))),
        Disguise::Invisible => {
            let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(at, _)| at);
            format!("{}\u{200b}{}", &text[..middle], &text[middle..])
        }
        Disguise::CodePoint => each(&|c| format!("U+{:04X}", u32::from(c))),
        Disguise::QuotedPrintable => text.bytes().map(|byte| format!("={byte:02X}")).collect(),
        Disguise::EncodedWord => {
            format!("=?utf-8?B?{}?=", base64::engine::general_purpose::STANDARD.encode(text))
        }
        Disguise::Base32 => data_encoding::BASE32.encode(text.as_bytes()),
        Disguise::Base64 => base64::engine::general_purpose::STANDARD.encode(text),
        Disguise::Hex => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
    }
}

fn call(key: &str, text: &str) -> Json {
    Json::Object(vec![(key.to_owned(), Json::String(text.to_owned()))])
}

fn found(arguments: &Json, sources: &Sources) -> Vec<Finding> {
    scan(arguments, ToolText::default(), sources)
}

/// Whether the item itself was found, or the scan said that it could not look further.
fn tells(findings: &[Finding], item: &Item) -> bool {
    findings.iter().any(|finding| {
        finding.kind == Kind::Budget
            || (finding.kind == item.kind
                && item.text.trim_start_matches("https://") == finding.item)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn an_item_is_found_in_any_composition_of_disguises(
        item in item(),
        disguises in prop::collection::vec(disguise(), 0..4),
        prefix in "[a-z ]{0,12}",
    ) {
        let mut text = item.text.clone();
        for disguise in &disguises {
            text = apply(*disguise, &text);
        }
        let findings = found(&call("note", &format!("{prefix} {text} ok")), &Sources::default());
        prop_assert!(tells(&findings, &item), "{text}: {findings:?}");
    }

    #[test]
    fn an_item_split_over_a_list_is_found(item in item(), cuts in prop::collection::vec(1_usize..40, 1..5)) {
        let mut pieces = Vec::new();
        let mut rest = item.text.as_str();
        for cut in cuts {
            let (head, tail) = rest.split_at(cut.min(rest.len()));
            pieces.push(Json::String(head.to_owned()));
            rest = tail;
        }
        pieces.push(Json::String(rest.to_owned()));
        let arguments = Json::Object(vec![("parts".to_owned(), Json::Array(pieces))]);
        let findings = found(&arguments, &Sources::default());
        // A piece may be an item of its own; then that is what is told.
        prop_assert!(!findings.is_empty(), "{arguments}");
    }

    #[test]
    fn a_visible_notation_in_a_source_makes_it_known(item in item(), notation in 0_usize..6) {
        let written = match notation {
            0 => item.text.clone(),
            1 => item.text.to_uppercase(),
            2 => format!("**{}**,", item.text),
            3 => format!("<{}>", item.text),
            4 => format!("({}).", item.text),
            _ => format!("\"{}\"", item.text),
        };
        // A path's case is part of it.
        let written = if item.kind == Kind::Link && notation == 1 { item.text.clone() } else { written };
        let user = format!("Please use {written} for this");
        let sources = Sources::new(&[&user], "", &[]);
        let findings = found(&call("note", &item.text), &sources);
        prop_assert!(findings.is_empty(), "{user}: {findings:?}");
    }

    #[test]
    fn unrelated_text_in_sources_hides_nothing(
        item in item(),
        texts in prop::collection::vec("[ -~\u{e4}\u{200b}\u{4e2d}]{0,80}", 0..4),
    ) {
        prop_assume!(!texts.iter().any(|text| text.to_lowercase().contains(&item.text.to_lowercase())));
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let sources = Sources::new(&texts, "", &[]);
        let findings = found(&call("note", &item.text), &sources);
        prop_assert!(tells(&findings, &item), "{findings:?}");
    }

    #[test]
    fn the_order_of_members_changes_nothing(
        members in prop::collection::btree_map(
            "[a-z_0-9]{1,8}|user|domain|host|path|country|check|bban|account_number|sort_code",
            "[ -?A-~]{0,24}|[a-z]{2,6}@[a-z]{3}\\.example|DE12|50010517[0-9]{10}|[0-9]{6,10}|[a-z]{4}\\.example",
            0..7,
        ),
        seed in any::<u64>(),
    ) {
        let ordered: Vec<(String, Json)> = members.iter().map(|(key, text)| (key.clone(), Json::String(text.clone()))).collect();
        let mut shuffled = ordered.clone();
        let mut state = seed | 1;
        for index in (1..shuffled.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            shuffled.swap(index, (state >> 33) as usize % (index + 1));
        }
        // Of up to four members every order is tried; of more, neighbours in the text's own order are
        // joined too, and what they make points at the object.
        let any_order = ordered.len() <= 4;
        let sorted = |members: Vec<(String, Json)>| {
            let mut findings: Vec<String> = found(&Json::Object(members), &Sources::default())
                .iter()
                .filter(|finding| any_order || !finding.pointer.is_empty())
                .map(|finding| format!("{} {} {}", finding.kind.code(), finding.item, finding.pointer))
                .collect();
            findings.sort();
            findings
        };
        prop_assert_eq!(sorted(ordered), sorted(shuffled));
    }

    #[test]
    fn no_text_makes_it_fail(text in any::<String>(), source in any::<String>()) {
        let sources = Sources::new(&[&source], &source, &[&source]);
        let _ = found(&call(&text, &text), &sources);
    }
}

/// Countries whose national part is digits only, with its length.
const DIGITS_ONLY: &[(&str, usize)] = &[
    ("AT", 16),
    ("BE", 12),
    ("CZ", 20),
    ("DE", 18),
    ("DK", 14),
    ("ES", 20),
    ("FI", 14),
    ("HU", 24),
    ("NO", 11),
    ("PL", 24),
    ("SE", 20),
];

proptest! {
    /// Another implementation of ISO 13616 as the oracle: what it accepts is found, and nothing
    /// else is an IBAN but the aliases of its check digits.
    #[test]
    fn an_iban_is_what_the_oracle_accepts(
        index in 0..DIGITS_ONLY.len(),
        digits in "[0-9]{24}",
        check in 0_u8..100,
        right in any::<bool>(),
    ) {
        let (country, length) = DIGITS_ONLY[index];
        let bban = &digits[..length];
        let letters: String = country
            .bytes()
            .map(|letter| (u32::from(letter - b'A') + 10).to_string())
            .collect();
        let remainder = format!("{bban}{letters}00")
            .bytes()
            .fold(0_u64, |rest, digit| (rest * 10 + u64::from(digit - b'0')) % 97);
        let check = if right { 98 - remainder } else { u64::from(check) };
        let number = format!("{country}{check:02}{bban}");
        let accepted = number.parse::<iban::Iban>().is_ok();
        prop_assert!(accepted || !right, "{}", number);
        let arguments = Json::Object(vec![("x".to_owned(), Json::String(number.clone()))]);
        let found = scan(&arguments, ToolText::default(), &Sources::default())
            .iter()
            .any(|finding| finding.kind == Kind::Iban && finding.item == number);
        // 00, 01 and 99 have the same remainder as a right pair and are refused by the oracle alone.
        let alias = matches!(check, 0 | 1 | 99);
        prop_assert!(found == accepted || (found && alias), "{}", number);
    }
}
