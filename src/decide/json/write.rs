//! Writing a value: compact, canonical, and in whatever notation another module brings.

use std::fmt;

use super::Json;

/// How a value is written: what becomes of its strings and numbers, and whether members are sorted.
pub(in crate::decide) struct Notation {
    pub(in crate::decide) string: fn(&str, &mut String),
    pub(in crate::decide) number: fn(&str, &mut String),
    pub(in crate::decide) sorted: bool,
}

/// Numbers as written, members in their order.
const COMPACT: Notation = Notation { string: write_string, number: write_number, sorted: false };

/// One text for all notations of a value.
pub(super) const CANONICAL: Notation =
    Notation { string: write_string, number: write_canonical_number, sorted: true };

impl Notation {
    /// Writes a value without white space.
    pub(in crate::decide) fn write(&self, value: &Json, text: &mut String) {
        match value {
            Json::Null => text.push_str("null"),
            Json::Bool(true) => text.push_str("true"),
            Json::Bool(false) => text.push_str("false"),
            Json::Number(number) => (self.number)(number, text),
            Json::String(string) => (self.string)(string, text),
            Json::Array(items) => {
                text.push('[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        text.push(',');
                    }
                    self.write(item, text);
                }
                text.push(']');
            }
            Json::Object(members) => {
                let mut members: Vec<&(String, Json)> = members.iter().collect();
                if self.sorted {
                    members.sort_by(|left, right| left.0.cmp(&right.0));
                }
                text.push('{');
                for (index, (key, member)) in members.into_iter().enumerate() {
                    if index > 0 {
                        text.push(',');
                    }
                    (self.string)(key, text);
                    text.push(':');
                    self.write(member, text);
                }
                text.push('}');
            }
        }
    }
}

pub(in crate::decide) fn write_number(number: &str, text: &mut String) {
    text.push_str(number);
}

fn write_canonical_number(number: &str, text: &mut String) {
    text.push_str(&canonical_number(number));
}

/// `1.50`, `15e-1` and `1.5` are one number: significant digits and a power of ten.
pub(super) fn canonical_number(number: &str) -> String {
    let (sign, unsigned) = match number.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", number),
    };
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0').trim_end_matches('0');
    if significant.is_empty() {
        return "0".to_owned();
    }
    // An exponent beyond this leaves a double's range, where only zero is read alike.
    let Ok(exponent) = exponent.parse::<i64>() else { return "0".to_owned() };
    let trailing = digits.len() - digits.trim_end_matches('0').len();
    let power = exponent.saturating_sub(fraction.len() as i64).saturating_add(trailing as i64);
    if power == 0 { format!("{sign}{significant}") } else { format!("{sign}{significant}e{power}") }
}

fn write_string(string: &str, text: &mut String) {
    text.push('"');
    for character in string.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            control if control < ' ' => text.push_str(&format!("\\u{:04x}", u32::from(control))),
            other => text.push(other),
        }
    }
    text.push('"');
}

/// Compact JSON: members in their order, numbers as written.
impl fmt::Display for Json {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        COMPACT.write(self, &mut text);
        formatter.write_str(&text)
    }
}
