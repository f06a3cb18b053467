//! The countries that issue IBANs and the shape of their numbers.
//!
//! Source: SWIFT's IBAN registry, release 101 (89 countries), as python-stdnum 2.2 ships it. Crates
//! lag behind: `iban_validate` 5.0.1 has release 98. The shape is the registry's own notation without
//! its exclamation marks: `8n10n` is eight digits of the bank and ten of the account; `a` are
//! letters, `c` letters or digits.

/// Country and the parts of its basic bank account number, sorted by country.
const REGISTRY: &[(&str, &str)] = &[
    ("AD", "4n4n12c"),
    ("AE", "3n16n"),
    ("AL", "8n16c"),
    ("AT", "5n11n"),
    ("AZ", "4a20c"),
    ("BA", "3n3n8n2n"),
    ("BE", "3n7n2n"),
    ("BG", "4a4n2n8c"),
    ("BH", "4a14c"),
    ("BI", "5n5n11n2n"),
    ("BR", "8n5n10n1a1c"),
    ("BY", "4c4n16c"),
    ("CH", "5n12c"),
    ("CR", "4n14n"),
    ("CY", "3n5n16c"),
    ("CZ", "4n16n"),
    ("DE", "8n10n"),
    ("DJ", "5n5n11n2n"),
    ("DK", "4n9n1n"),
    ("DO", "4c20n"),
    ("EE", "2n14n"),
    ("EG", "4n4n17n"),
    ("ES", "4n4n1n1n10n"),
    ("FI", "3n11n"),
    ("FK", "2a12n"),
    ("FO", "4n9n1n"),
    ("FR", "5n5n11c2n"),
    ("GB", "4a6n8n"),
    ("GE", "2a16n"),
    ("GI", "4a15c"),
    ("GL", "4n9n1n"),
    ("GR", "3n4n16c"),
    ("GT", "4c20c"),
    ("HN", "4a20n"),
    ("HR", "7n10n"),
    ("HU", "3n4n1n15n1n"),
    ("IE", "4a6n8n"),
    ("IL", "3n3n13n"),
    ("IQ", "4a3n12n"),
    ("IS", "4n2n6n10n"),
    ("IT", "1a5n5n12c"),
    ("JO", "4a4n18c"),
    ("KW", "4a22c"),
    ("KZ", "3n13c"),
    ("LB", "4n20c"),
    ("LC", "4a24c"),
    ("LI", "5n12c"),
    ("LT", "5n11n"),
    ("LU", "3n13c"),
    ("LV", "4a13c"),
    ("LY", "3n3n15n"),
    ("MC", "5n5n11c2n"),
    ("MD", "2c18c"),
    ("ME", "3n13n2n"),
    ("MK", "3n10c2n"),
    ("MN", "4n12n"),
    ("MR", "5n5n11n2n"),
    ("MT", "4a5n18c"),
    ("MU", "4a2n2n12n3n3a"),
    ("NI", "4a20n"),
    ("NL", "4a10n"),
    ("NO", "4n6n1n"),
    ("OM", "3n16c"),
    ("PK", "4a16c"),
    ("PL", "8n16n"),
    ("PS", "4a21c"),
    ("PT", "4n4n11n2n"),
    ("QA", "4a21c"),
    ("RO", "4a16c"),
    ("RS", "3n13n2n"),
    ("RU", "9n5n15c"),
    ("SA", "2n18c"),
    ("SC", "4a2n2n16n3a"),
    ("SD", "2n12n"),
    ("SE", "3n16n1n"),
    ("SI", "5n8n2n"),
    ("SK", "4n6n10n"),
    ("SM", "1a5n5n12c"),
    ("SO", "4n3n12n"),
    ("ST", "4n4n11n2n"),
    ("SV", "4a20n"),
    ("TL", "3n14n2n"),
    ("TN", "2n3n13n2n"),
    ("TR", "5n1n16c"),
    ("UA", "6n19c"),
    ("VA", "3n15n"),
    ("VG", "4a16n"),
    ("XK", "4n10n2n"),
    ("YE", "4a4n18c"),
];

/// Countries outside the registry whose banks use IBANs all the same, with the lengths in use
/// (the list of partial countries that bank directories publish).
const UNOFFICIAL: &[(&str, &[usize])] = &[
    ("AO", &[25]),
    ("BF", &[27, 28]),
    ("BJ", &[28]),
    ("CF", &[27]),
    ("CG", &[27]),
    ("CI", &[28]),
    ("CM", &[27]),
    ("CV", &[25]),
    ("DZ", &[26, 24]),
    ("GA", &[27]),
    ("GQ", &[27]),
    ("GW", &[25]),
    ("IR", &[26]),
    ("KM", &[27]),
    ("MA", &[28]),
    ("MG", &[27]),
    ("ML", &[28]),
    ("MZ", &[25]),
    ("NE", &[28]),
    ("SN", &[28]),
    ("TD", &[27]),
    ("TG", &[28]),
];

/// ISO 3166-1 alpha-2 codes, and `XK`.
const COUNTRIES: &str = concat!(
    "ADAEAFAGAIALAMAOAQARASATAUAWAXAZBABBBDBEBFBGBHBIBJBLBMBNBOBQBRBSBTBVBWBYBZCACCCDCFCGCHCI",
    "CKCLCMCNCOCRCUCVCWCXCYCZDEDJDKDMDODZECEEEGEHERESETFIFJFKFMFOFRGAGBGDGEGFGGGHGIGLGMGNGPGQGR",
    "GSGTGUGWGYHKHMHNHRHTHUIDIEILIMINIOIQIRISITJEJMJOJPKEKGKHKIKMKNKPKRKWKYKZLALBLCLILKLRLSLTLU",
    "LVLYMAMCMDMEMFMGMHMKMLMMMNMOMPMQMRMSMTMUMVMWMXMYMZNANCNENFNGNINLNONPNRNUNZOMPAPEPFPGPHPKPL",
    "PMPNPRPSPTPWPYQARERORSRURWSASBSCSDSESGSHSISJSKSLSMSNSOSRSSSTSVSXSYSZTCTDTFTGTHTJTKTLTMTNTO",
    "TRTTTVTWTZUAUGUMUSUYUZVAVCVEVGVIVNVUWFWSXKYEYTZAZMZW",
);

/// The shape of a country's number.
pub(super) fn shape(country: &str) -> Option<&'static str> {
    let at = REGISTRY.binary_search_by(|(code, _)| (*code).cmp(country)).ok()?;
    REGISTRY.get(at).map(|(_, shape)| *shape)
}

/// The lengths in use in a country outside the registry.
pub(super) fn unofficial_lengths(country: &str) -> &'static [usize] {
    UNOFFICIAL.iter().find(|(code, _)| *code == country).map_or(&[], |(_, lengths)| *lengths)
}

/// Whether `code`, two capitals, is an ISO 3166-1 alpha-2 code or `XK`.
pub(super) fn is_country(code: &str) -> bool {
    match code.as_bytes() {
        [first, second] => is_country_of(char::from(*first), char::from(*second)),
        _ => false,
    }
}

/// The same of the code's letters.
pub(super) fn is_country_of(first: char, second: char) -> bool {
    let index = |letter: char| u32::from(letter).wrapping_sub(u32::from('A'));
    let seconds = BY_LETTER.get(index(first) as usize).copied().unwrap_or(0);
    index(second) < 26 && seconds >> index(second) & 1 == 1
}

/// For each first letter the second ones, a bit for each: most numbers in prose follow a word.
const BY_LETTER: [u32; 26] = by_letter(COUNTRIES.as_bytes());

#[expect(clippy::indexing_slicing, reason = "at compile time; a code that is none stops the build")]
const fn by_letter(mut codes: &[u8]) -> [u32; 26] {
    let mut seconds = [0; 26];
    while let [first, second, rest @ ..] = codes {
        seconds[(*first - b'A') as usize] |= 1 << (*second - b'A');
        codes = rest;
    }
    seconds
}

/// The parts of a shape: how many characters, of which class (`n`, `a` or `c`).
pub(super) fn parts(shape: &str) -> impl Iterator<Item = (usize, u8)> + '_ {
    let mut length = 0;
    shape.bytes().filter_map(move |byte| {
        if byte.is_ascii_digit() {
            length = length * 10 + usize::from(byte - b'0');
            None
        } else {
            Some((std::mem::take(&mut length), byte))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_is_sorted_and_whole() {
        assert_eq!(REGISTRY.len(), 89);
        assert!(REGISTRY.is_sorted());
        let total =
            |country| 4 + parts(shape(country).unwrap()).map(|(length, _)| length).sum::<usize>();
        for (country, length) in
            [("DE", 22), ("NO", 15), ("MT", 31), ("LC", 32), ("RU", 33), ("PK", 24)]
        {
            assert_eq!(total(country), length, "{country}");
        }
        assert!(is_country("US") && is_country("XK") && !is_country("XX") && !is_country("UK"));
        assert_eq!(COUNTRIES.len(), 2 * 250);
    }
}
