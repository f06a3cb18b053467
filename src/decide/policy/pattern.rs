//! Tool names with `*`: the whole of the pattern language.
//!
//! Own code, because the crates that do this give further characters a meaning (`?`, `[`, `{`), and
//! a pattern that means more than its author thinks is a hole. Case counts, and nothing is trimmed.

/// Whether `name` is what `pattern` says, `*` standing for any number of any characters.
///
/// Each literal piece is taken at its first place, which finds a match whenever there is one, so
/// the work grows with the lengths and never with the number of ways to split the name.
#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut left) = name.strip_prefix(first) else {
        return false;
    };
    let mut pieces = rest.split('*').peekable();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return left.ends_with(piece);
        }
        let Some((_, after)) = left.split_once(piece) else {
            return false;
        };
        left = after;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::matches;
    use proptest::prelude::*;

    #[track_caller]
    fn check(pattern: &str, name: &str, expected: bool) {
        assert_eq!(matches(pattern, name), expected, "`{pattern}` on `{name}`");
    }

    #[test]
    fn stars_stand_for_any_characters() {
        for (pattern, name) in [
            ("*", "anything"),
            ("*", ""),
            ("erp_*", "erp_"),
            ("erp_*", "erp_orders_create"),
            ("*_create", "erp_orders_create"),
            ("erp*create", "erp_orders_create"),
            ("a*b*c", "abc"),
            ("a*b*c", "a_b_b_c_c"),
            ("**a**", "cab"),
            ("a*a", "aa"),
            ("lookup_order", "lookup_order"),
            ("a.b/c-d", "a.b/c-d"),
        ] {
            check(pattern, name, true);
        }
        for (pattern, name) in [
            ("erp_*", "xerp_a"),
            ("*_create", "erp_create_x"),
            ("a*a", "a"),
            ("ab*ba", "aba"),
            ("Lookup", "lookup"),
            ("lookup", "lookup_order"),
            ("", "a"),
            ("a?c", "abc"),
            ("[a]", "a"),
            ("a.c", "abc"),
            (" erp_*", "erp_a"),
        ] {
            check(pattern, name, false);
        }
    }

    #[test]
    fn many_stars_stay_cheap() {
        let pattern = "a*".repeat(50_000) + "b";
        check(&pattern, &"a".repeat(100_000), false);
    }

    /// The definition, as slow as it is plain.
    fn by_definition(pattern: &[u8], name: &[u8]) -> bool {
        match pattern.split_first() {
            None => name.is_empty(),
            Some((b'*', rest)) => (0..=name.len()).any(|skip| by_definition(rest, &name[skip..])),
            Some((literal, rest)) => name
                .split_first()
                .is_some_and(|(first, name)| first == literal && by_definition(rest, name)),
        }
    }

    proptest! {
        #[test]
        fn agrees_with_the_definition(pattern in "[ab*]{0,7}", name in "[ab]{0,8}") {
            let expected = by_definition(pattern.as_bytes(), name.as_bytes());
            prop_assert_eq!(matches(&pattern, &name), expected);
        }
    }
}
