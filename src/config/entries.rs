//! Every setting as a person may see it: with its origin, and secrets masked.

use std::collections::BTreeMap;

use secrecy::SecretString;
use serde_json::{Value, json};

use super::layers::KEYS;
use super::values::{
    ACTIONS, CLASSES, MAX_TOKENS_FIELDS, REASONING_EFFORTS, RESULTS_VIEWS, STRUCTURED_OUTPUTS,
    name_of, shown_duration,
};
use super::{Config, Sourced};

/// What stands in a secret's place, whatever its length.
pub(super) const MASK: &str = "********";

/// One setting to show.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The key, such as `judge.deadline`.
    pub key: &'static str,
    /// The value as settings write it; `null` where nothing is set; secrets masked.
    pub value: Value,
    /// Where it comes from.
    pub origin: String,
}

impl Config {
    /// All settings, in the order of the documentation.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        let judge = &self.judge;
        let operator = &self.operator;
        let duration = |value: &std::time::Duration| json!(shown_duration(*value));
        let mut shown: BTreeMap<&str, (Value, String)> = BTreeMap::from([
            of("judge.base_url", &judge.base_url, |value| json!(value)),
            of("judge.model", &judge.model, |value| json!(value)),
            of("judge.api_key", &judge.api_key, |value| {
                value.as_ref().map_or(Value::Null, |_key| json!(MASK))
            }),
            of("judge.structured_output", &judge.structured_output, |value| {
                json!(name_of(&STRUCTURED_OUTPUTS, value))
            }),
            of("judge.temperature", &judge.temperature, number),
            of("judge.seed", &judge.seed, |value| json!(value)),
            of("judge.reasoning_effort", &judge.reasoning_effort, |value| {
                value
                    .as_ref()
                    .map_or(Value::Null, |value| json!(name_of(&REASONING_EFFORTS, value)))
            }),
            of("judge.max_output_tokens", &judge.max_output_tokens, |value| json!(value)),
            of("judge.max_tokens_field", &judge.max_tokens_field, |value| {
                json!(name_of(&MAX_TOKENS_FIELDS, value))
            }),
            of("judge.extra_headers", &judge.extra_headers, |value| masked(value)),
            of("judge.deadline", &judge.deadline, duration),
            of("judge.request_deadline", &judge.request_deadline, duration),
            of("judge.max_concurrent", &judge.max_concurrent, |value| json!(value)),
            of("judge.max_judged_calls_per_turn", &judge.max_judged_calls_per_turn, |value| {
                json!(value)
            }),
            of("judge.results_view", &judge.results_view, |value| {
                json!(name_of(&RESULTS_VIEWS, value))
            }),
            of("operator.unclassified", &operator.unclassified, |value| {
                json!(name_of(&ACTIONS, value))
            }),
            of("operator.unclassified_elsewhere", &operator.unclassified_elsewhere, |value| {
                json!(name_of(&ACTIONS, value))
            }),
            of("operator.human_only", &operator.human_only, |value| json!(value)),
            of("operator.catalogue", &operator.catalogue, |value| {
                value
                    .iter()
                    .map(|entry| {
                        json!({
                            "name": entry.name,
                            "class": name_of(&CLASSES, &entry.class),
                            "human_only": entry.human_only,
                        })
                    })
                    .collect()
            }),
            of("operator.sandbox_enabled", &operator.sandbox_enabled, |value| json!(value)),
        ]);
        shown.extend(self.serve_entries());
        KEYS.iter()
            .filter_map(|key| {
                let (value, origin) = shown.remove(key.path)?;
                Some(Entry { key: key.path, value, origin })
            })
            .collect()
    }
}

pub(super) fn of<T>(
    key: &'static str,
    sourced: &Sourced<T>,
    show: impl FnOnce(&T) -> Value,
) -> (&'static str, (Value, String)) {
    (key, (show(&sourced.value), sourced.origin.to_string()))
}

/// In single precision 0.1 would be shown as 0.10000000149011612.
fn number(value: &Option<f32>) -> Value {
    value
        .and_then(|value| value.to_string().parse::<f64>().ok())
        .map_or(Value::Null, |value| json!(value))
}

fn masked(headers: &[(String, SecretString)]) -> Value {
    headers.iter().map(|(name, _value)| (name.clone(), json!(MASK))).collect()
}
