//! The form of an answer: evidence before verdict, every list bounded.

use serde_json::{Value, json};

/// Entries of `soft_deny` in one answer.
pub const MAX_SOFT_DENY: usize = 20;
/// Entries of `basis` in one answer.
pub const MAX_BASIS: usize = 8;
/// Leaf numbers in one list of an answer; a write with more leaves is never asked about.
pub const MAX_NUMBERS: usize = 64;
/// Characters (Unicode scalar values) of a quote.
pub const MAX_QUOTE: usize = 160;
/// Characters (Unicode scalar values) of a reason, once cleaned.
pub const MAX_REASON: usize = 300;

/// JSON Schema of the answer. Its members stand in the order in which a judge shall write them,
/// for servers that generate in schema order; without the bounds a weak model never ends its lists.
#[must_use]
pub fn answer_schema() -> Value {
    let numbers = |least: u32| {
        json!({
            "type": "array",
            "items": {"type": "integer", "minimum": least},
            "maxItems": MAX_NUMBERS,
        })
    };
    json!({
        "type": "object",
        "properties": {
            "soft_deny": {
                "type": "array",
                "items": {"type": "integer", "minimum": 1},
                "maxItems": MAX_SOFT_DENY,
            },
            "basis": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "source": {"type": "string", "enum": ["user", "instructions", "allow"]},
                        "index": {"type": "integer", "minimum": 1},
                        "quote": {"type": "string", "maxLength": MAX_QUOTE},
                        "covers": numbers(0),
                    },
                    "required": ["source", "index", "quote", "covers"],
                    "additionalProperties": false,
                },
                "maxItems": MAX_BASIS,
            },
            "unsupported_arguments": numbers(0),
            "reason": {"type": "string", "maxLength": MAX_REASON},
            "decision": {"type": "string", "enum": ["approve", "escalate"]},
        },
        "required": ["soft_deny", "basis", "unsupported_arguments", "reason", "decision"],
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_keep_their_order_in_the_schemas_text() {
        let text = answer_schema().to_string();
        let order = [
            "soft_deny",
            "basis",
            "source",
            "index",
            "quote",
            "covers",
            "unsupported_arguments",
            "reason",
            "decision",
        ];
        let places: Vec<_> =
            order.iter().map(|name| text.find(&format!("\"{name}\":")).unwrap()).collect();
        assert!(places.is_sorted(), "{text}");
    }
}
