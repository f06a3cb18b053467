//! Where a text stands: what its key, the keys around it and the tool say about it.
//!
//! A key never makes an item known. It only decides whether a doubtful shape counts: a dotless host
//! in `to`, a number in `account_number`, a dotted name in `metric`.

use crate::decide::json::Json;

/// What the keys and the tool say about a text.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Place {
    /// A recipient field: `to`, `cc`, `attendees`.
    pub(super) recipient: bool,
    /// A field for a host or a link: `url`, `host`, `webhook`.
    pub(super) host: bool,
    /// A field for nothing else: `url`, `hostname`.
    pub(super) only_host: bool,
    /// A field of dotted names that are no hosts: `metric`, `file`, `package`.
    pub(super) identifier: bool,
    /// A field of versions and sections.
    pub(super) version: bool,
    /// A field for an account's own number.
    pub(super) account: bool,
    /// A field for a CLABE, Mexico's account number with its bank in it.
    pub(super) clabe: bool,
    /// A field for the number of a bank or branch: routing number, sort code.
    pub(super) bank: Option<BankCode>,
    /// A field for references, tax numbers, mandates and the like, which only look like accounts.
    pub(super) reference: bool,
    /// Keys, the parameter's description or the tool speak of accounts, payees or payments.
    pub(super) payment: bool,
    /// The text is a member's name.
    pub(super) is_key: bool,
    /// The text belongs to a trusted source.
    pub(super) source: bool,
    /// Sentences of the agent version or the organisation, where wildcards count.
    pub(super) wildcards: bool,
}

/// The numbering systems that pair the number of a bank with that of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum BankCode {
    /// ABA routing number, United States.
    Routing,
    /// Sort code, United Kingdom and Ireland.
    SortCode,
    /// Bankleitzahl, Germany and Austria.
    Blz,
    /// Bank State Branch, Australia.
    Bsb,
    /// Indian Financial System Code.
    Ifsc,
}

impl BankCode {
    pub(super) const fn prefix(self) -> &'static str {
        match self {
            BankCode::Routing => "us",
            BankCode::SortCode => "uk",
            BankCode::Blz => "de",
            BankCode::Bsb => "au",
            BankCode::Ifsc => "in",
        }
    }
}

/// The words of a key: `accountNumber`, `account_number` and `Account-Number` are two words each.
pub(super) fn words(key: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut last_lower = false;
    for character in key.chars().take(KEY_MAX) {
        if !character.is_alphanumeric() {
            if !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            last_lower = false;
            continue;
        }
        if character.is_uppercase() && last_lower && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        last_lower = character.is_lowercase() || character.is_ascii_digit();
        word.extend(character.to_lowercase());
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// Characters of a key that are looked at.
const KEY_MAX: usize = 128;

const RECIPIENT: &[&str] = &[
    "to",
    "cc",
    "bcc",
    "from",
    "recipient",
    "recipients",
    "email",
    "emails",
    "mail",
    "mailbox",
    "attendee",
    "attendees",
    "invitee",
    "invitees",
    "participant",
    "participants",
    "sender",
    "reply",
    "replyto",
    "addressee",
    "empfaenger",
    "empfänger",
    "an",
    "destinatario",
    "destinataire",
    "mailto",
    "forward",
    "subscriber",
    "subscribers",
    "guests",
    "guest",
];
const HOST: &[&str] = &[
    "host",
    "hosts",
    "hostname",
    "domain",
    "domains",
    "server",
    "endpoint",
    "url",
    "urls",
    "uri",
    "href",
    "link",
    "links",
    "site",
    "website",
    "webhook",
    "callback",
    "origin",
    "proxy",
    "redirect",
    "homepage",
    "baseurl",
    "remote",
    "target",
    "dest",
    "destination",
    "fqdn",
    "ip",
    "address",
    "src",
];
const ONLY_HOST: &[&str] = &[
    "host", "hosts", "hostname", "domain", "domains", "server", "endpoint", "url", "urls", "uri",
    "href", "website", "webhook", "callback", "homepage", "baseurl", "fqdn",
];
const IDENTIFIER: &[&str] = &[
    "field",
    "fields",
    "topic",
    "metric",
    "metrics",
    "event",
    "events",
    "package",
    "packages",
    "module",
    "modules",
    "import",
    "imports",
    "class",
    "function",
    "method",
    "setting",
    "settings",
    "path",
    "paths",
    "file",
    "files",
    "filename",
    "filenames",
    "folder",
    "ticker",
    "symbol",
    "symbols",
    "schema",
    "table",
    "column",
    "columns",
    "property",
    "properties",
    "attribute",
    "attributes",
    "selector",
    "namespace",
    "routing",
    "queue",
    "scope",
    "scopes",
    "permission",
    "permissions",
    "sort",
    "sortby",
    "order",
    "orderby",
    "groupby",
    "by",
    "identifier",
    "artifact",
    "dependency",
    "dependencies",
    "bundle",
];
const VERSION: &[&str] = &[
    "version", "versions", "ver", "release", "build", "section", "chapter", "revision", "firmware",
    "semver", "oid",
];
const ACCOUNT: &[&str] = &[
    "account",
    "accounts",
    "acct",
    "accountnumber",
    "accountno",
    "acctno",
    "iban",
    "konto",
    "kontonummer",
    "kto",
    "clabe",
    "card",
    "cards",
    "cardnumber",
    "pan",
    "wallet",
    "wallets",
    "cuenta",
    "compte",
    "conto",
    "rekening",
    "rekeningnummer",
    "bban",
    "nuban",
    "conta",
    "hesap",
    "konta",
    "rachunek",
    "kontonr",
    "creditcard",
    "konten",
    "口座",
    "口座番号",
    "账户",
    "账号",
    "帐号",
    "帳號",
    "계좌",
    "계좌번호",
    "الحساب",
    "счет",
    "счёт",
    "účet",
    "payee",
    "beneficiary",
];
/// Words that beside those of [`PAYEE`] speak of a payment.
const PAYMENT: &[&str] = &[
    "payment",
    "payments",
    "pay",
    "wire",
    "deposit",
    "withdraw",
    "remittance",
    "zahlung",
    "überweisung",
    "ueberweisung",
    "virement",
    "transferencia",
    "pago",
];

/// Words of a key above a value that say whose account it is.
const PAYEE: &[&str] = &[
    "account",
    "accounts",
    "acct",
    "iban",
    "payee",
    "payees",
    "recipient",
    "recipients",
    "beneficiary",
    "beneficiaries",
    "creditor",
    "debtor",
    "bank",
    "konto",
    "cuenta",
    "compte",
    "conto",
    "rekening",
    "empfaenger",
    "empfänger",
    "payout",
    "payouts",
    "transfer",
    "transfers",
];

/// Words of keys whose values look like account numbers and are none.
const REFERENCE: &[&str] = &[
    "reference",
    "ref",
    "references",
    "referenz",
    "invoice",
    "invoices",
    "invoicenumber",
    "invoiceno",
    "rechnung",
    "rechnungsnummer",
    "rechnungsnr",
    "belegnummer",
    "beleg",
    "facture",
    "factura",
    "fattura",
    "faktura",
    "vat",
    "vatid",
    "vatnumber",
    "ust",
    "ustid",
    "ustidnr",
    "uid",
    "tax",
    "taxid",
    "tin",
    "steuer",
    "steuernummer",
    "tva",
    "iva",
    "btw",
    "nip",
    "mandate",
    "mandat",
    "mandatsreferenz",
    "mandateid",
    "mandatereference",
    "ci",
    "purpose",
    "zweck",
    "verwendungszweck",
    "concept",
    "concepto",
    "memo",
    "note",
    "notes",
    "subject",
    "betreff",
    "description",
    "remittance",
    "remittanceinformation",
    "order",
    "bestellung",
    "bestellnummer",
    "auftrag",
    "ponumber",
    "document",
    "contract",
    "receipt",
    "tracking",
    "isin",
    "endtoend",
    "endtoendid",
    "e2e",
];

/// Whether a key names a reference, a tax number, a mandate or a creditor's identifier.
fn names_reference(words: &[String]) -> bool {
    let identifier =
        any_of(words, &["id", "identifier", "identification", "identifikationsnummer", "scheme"]);
    any_of(words, REFERENCE)
        || (identifier && any_of(words, &["creditor", "glaeubiger", "gläubiger", "creditorid"]))
        || any_of(words, &["creditorid", "creditoridentifier"])
}

/// Whether words speak of accounts, payees or payments.
fn names_payment(words: &[String]) -> bool {
    any_of(words, PAYEE) || any_of(words, PAYMENT)
}

fn any_of(words: &[String], list: &[&str]) -> bool {
    words.iter().any(|word| list.contains(&word.as_str()))
}

impl Place {
    /// What `keys` say, the nearest last; `payment` is what the tool says.
    pub(super) fn of_keys<'k>(
        keys: impl DoubleEndedIterator<Item = &'k str>,
        payment: bool,
    ) -> Place {
        let mut place = Place { payment, ..Place::default() };
        for (distance, key) in keys.rev().take(LEVELS).enumerate() {
            let words = words(key);
            place.account |= any_of(&words, ACCOUNT);
            // `payment` above a value says what the object is for; only a payee or an account
            // above it says that the value may be an account.
            place.payment |=
                if distance == 0 { names_payment(&words) } else { any_of(&words, PAYEE) };
            if distance == 0 {
                place.reference = names_reference(&words);
                place.bank = bank_code(&words);
                place.clabe = any_of(&words, &["clabe"]);
                place.recipient = any_of(&words, RECIPIENT);
                place.only_host = any_of(&words, ONLY_HOST);
                place.host = place.only_host || any_of(&words, HOST);
                place.identifier = any_of(&words, IDENTIFIER);
                place.version = any_of(&words, VERSION);
            } else if distance == 1 && !place.host {
                place.host = any_of(&words, &["hosts", "domains", "urls", "links"]);
            }
        }
        if place.bank.is_some() {
            place.account = false;
        }
        place
    }
}

/// Keys above a value that say what it is.
const LEVELS: usize = 3;

/// Which bank's number a key names.
pub(super) fn bank_code(words: &[String]) -> Option<BankCode> {
    let has = |word: &str| words.iter().any(|other| other == word);
    if has("routing") || has("aba") || has("rtn") || has("transit") || has("routingnumber") {
        Some(BankCode::Routing)
    } else if has("sortcode") || (has("sort") && (has("code") || words.len() == 1)) {
        Some(BankCode::SortCode)
    } else if has("blz") || has("bankleitzahl") {
        Some(BankCode::Blz)
    } else if has("bsb") {
        Some(BankCode::Bsb)
    } else if has("ifsc") {
        Some(BankCode::Ifsc)
    } else {
        None
    }
}

/// Whether a text of the tool's definition speaks of accounts, payees or payments.
pub(super) fn speaks_of_payment(text: &str) -> bool {
    text.split(|character: char| !character.is_alphanumeric())
        .take(WORDS_MAX)
        .any(|part| names_payment(&words(part)))
}

/// Words of a description that are looked at.
const WORDS_MAX: usize = 2_000;

/// The description of the parameter that `keys` lead to, in a JSON Schema of objects and arrays.
pub(super) fn parameter_description<'s>(
    schema: Option<&'s Json>,
    keys: &[&str],
) -> Option<&'s str> {
    let mut current = schema?;
    let mut description = None;
    for key in keys {
        while let Some(items) = current.get("items") {
            current = items;
        }
        current = current.get("properties")?.get(key)?;
        description = current.get("description").and_then(Json::as_str).or(description);
    }
    description
}
