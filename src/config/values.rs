//! What the text or TOML of one key means.
//!
//! No message repeats a value that could be a secret: addresses (they may hold a password), keys
//! and headers are named and never shown.

use std::ops::RangeInclusive;
use std::time::Duration;

use reqwest::header::{HeaderName, HeaderValue};
use secrecy::SecretString;
use serde::de::DeserializeOwned;

use crate::decide::policy::{Action, Class};
use crate::decide::prompt::ResultsView;
use crate::decide::request::CatalogueEntry;
use crate::decide::walk::quoted;
use crate::judge::openai::{MaxTokensField, ReasoningEffort, StructuredOutput};

/// A value as it came.
pub(super) enum Raw {
    /// From a variable or a flag.
    Text(String),
    /// From the file.
    Toml(toml::Value),
}

/// Why a value cannot be used.
#[derive(Debug)]
pub(super) struct Invalid {
    pub(super) text: String,
    pub(super) hint: Option<String>,
}

pub(super) type Parsed<T> = Result<T, Invalid>;

pub(super) fn invalid(text: impl Into<String>) -> Invalid {
    Invalid { text: text.into(), hint: None }
}

impl Invalid {
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The longest deadline that makes sense.
const LONGEST_DEADLINE: Duration = Duration::from_secs(3_600);

/// Names in settings, for parsing and for showing.
pub(super) const STRUCTURED_OUTPUTS: [(&str, StructuredOutput); 4] = [
    ("json_schema", StructuredOutput::JsonSchema),
    ("json_object", StructuredOutput::JsonObject),
    ("json_object_with_schema", StructuredOutput::JsonObjectWithSchema),
    ("text", StructuredOutput::Text),
];
pub(super) const MAX_TOKENS_FIELDS: [(&str, MaxTokensField); 3] = [
    ("auto", MaxTokensField::Auto),
    ("max_tokens", MaxTokensField::MaxTokens),
    ("max_completion_tokens", MaxTokensField::MaxCompletionTokens),
];
pub(super) const RESULTS_VIEWS: [(&str, ResultsView); 3] = [
    ("excerpt", ResultsView::Excerpt),
    ("provenance", ResultsView::Provenance),
    ("text", ResultsView::Text),
];
pub(super) const REASONING_EFFORTS: [(&str, ReasoningEffort); 7] = [
    ("none", ReasoningEffort::None),
    ("minimal", ReasoningEffort::Minimal),
    ("low", ReasoningEffort::Low),
    ("medium", ReasoningEffort::Medium),
    ("high", ReasoningEffort::High),
    ("xhigh", ReasoningEffort::Xhigh),
    ("max", ReasoningEffort::Max),
];
/// `deny` is another word for `block`; the first name is the one that is shown.
pub(super) const ACTIONS: [(&str, Action); 4] = [
    ("allow", Action::Allow),
    ("approve", Action::Approve),
    ("block", Action::Block),
    ("deny", Action::Block),
];
pub(super) const CLASSES: [(&str, Class); 3] =
    [("read", Class::Read), ("write", Class::Write), ("destructive", Class::Destructive)];

/// The setting's name of a value.
pub(super) fn name_of<T: PartialEq>(names: &[(&'static str, T)], value: &T) -> &'static str {
    names.iter().find(|(_, known)| known == value).map_or("", |(name, _)| name)
}

fn choice<T: Clone>(raw: &Raw, names: &[(&'static str, T)]) -> Parsed<T> {
    let text = text(raw)?;
    names.iter().find(|(name, _)| *name == text).map(|(_, value)| value.clone()).ok_or_else(|| {
        let known: Vec<String> = names.iter().map(|(name, _)| format!("`{name}`")).collect();
        invalid(format!("{} is none of {}", quoted(&text), known.join(", ")))
    })
}

/// Text that is not blank.
pub(super) fn text(raw: &Raw) -> Parsed<String> {
    let text = match raw {
        Raw::Text(text) => text,
        Raw::Toml(toml::Value::String(text)) => text,
        Raw::Toml(other) => {
            return Err(invalid(format!("is no string but {}", other.type_str())));
        }
    };
    let text = text.trim();
    if text.is_empty() {
        return Err(invalid("is blank"));
    }
    Ok(text.to_owned())
}

pub(super) fn secret(raw: &Raw) -> Parsed<Option<SecretString>> {
    let text = text(raw)?;
    HeaderValue::from_str(&text)
        .map_err(|_error| invalid("holds characters that a header cannot carry"))?;
    Ok(Some(SecretString::from(text)))
}

pub(super) fn base_url(raw: &Raw) -> Parsed<String> {
    let text = text(raw)?;
    let url = url::Url::parse(&text)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
        .ok_or_else(|| {
            invalid("is not an http or https address")
                .hint("write it in full, such as `http://localhost:8080/v1`")
        })?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("holds a user name or password").hint(
            "put the credential into APPROVER_JUDGE_API_KEY or APPROVER_JUDGE_EXTRA_HEADERS",
        ));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(invalid("holds a query or a fragment"));
    }
    let text = text.trim_end_matches('/');
    if text.ends_with("/chat/completions") {
        return Err(invalid("names the method as well")
            .hint("leave `/chat/completions` away; it is added to every request"));
    }
    Ok(text.to_owned())
}

pub(super) fn boolean(raw: &Raw) -> Parsed<bool> {
    match raw {
        Raw::Toml(toml::Value::Boolean(value)) => Ok(*value),
        Raw::Text(text) if text == "true" => Ok(true),
        Raw::Text(text) if text == "false" => Ok(false),
        Raw::Toml(_) | Raw::Text(_) => Err(invalid("is neither `true` nor `false`")),
    }
}

pub(super) fn integer<T: TryFrom<i64>>(raw: &Raw, range: RangeInclusive<i64>) -> Parsed<T> {
    let number = match raw {
        Raw::Toml(toml::Value::Integer(number)) => Some(*number),
        Raw::Text(text) => text.trim().parse().ok(),
        Raw::Toml(_) => None,
    };
    number
        .filter(|number| range.contains(number))
        .and_then(|number| T::try_from(number).ok())
        .ok_or_else(|| {
            invalid(format!("is not a whole number from {} to {}", range.start(), range.end()))
        })
}

pub(super) fn temperature(raw: &Raw) -> Parsed<Option<f32>> {
    let number = match raw {
        // The text of the number, so that 0.1 stays 0.1 in single precision.
        Raw::Toml(toml::Value::Float(number)) => number.to_string().parse().ok(),
        Raw::Toml(toml::Value::Integer(number)) => number.to_string().parse().ok(),
        Raw::Text(text) => text.trim().parse::<f32>().ok(),
        Raw::Toml(_) => None,
    };
    number
        .filter(|number| (0.0..=2.0).contains(number))
        .map(Some)
        .ok_or_else(|| invalid("is not a number from 0 to 2"))
}

/// A deadline.
pub(super) fn duration(raw: &Raw) -> Parsed<Duration> {
    duration_within(raw, Duration::from_millis(1)..=LONGEST_DEADLINE)
}

pub(super) fn duration_within(raw: &Raw, range: RangeInclusive<Duration>) -> Parsed<Duration> {
    let form = "write a number with its unit, such as `10s` or `1m 30s`";
    if matches!(raw, Raw::Toml(toml::Value::Integer(_) | toml::Value::Float(_))) {
        return Err(invalid("has no unit").hint(form));
    }
    let text = text(raw)?;
    let duration = humantime::parse_duration(&text)
        .map_err(|_error| invalid(format!("{} is not a duration", quoted(&text))).hint(form))?;
    if !range.contains(&duration) {
        let (least, most) = (shown_duration(*range.start()), shown_duration(*range.end()));
        return Err(invalid(format!("{} is not between {least} and {most}", quoted(&text))));
    }
    Ok(duration)
}

/// A duration as settings write it; whole days as such, because `humantime` would count months.
pub(super) fn shown_duration(duration: Duration) -> String {
    let day = 24 * 3_600;
    match duration.as_secs() {
        whole if duration.subsec_nanos() == 0 && whole > 0 && whole % day == 0 => {
            format!("{}d", whole / day)
        }
        _ => humantime::format_duration(duration).to_string(),
    }
}

pub(super) fn structured_output(raw: &Raw) -> Parsed<StructuredOutput> {
    choice(raw, &STRUCTURED_OUTPUTS)
}

pub(super) fn max_tokens_field(raw: &Raw) -> Parsed<MaxTokensField> {
    choice(raw, &MAX_TOKENS_FIELDS)
}

pub(super) fn results_view(raw: &Raw) -> Parsed<ResultsView> {
    choice(raw, &RESULTS_VIEWS)
}

pub(super) fn reasoning_effort(raw: &Raw) -> Parsed<Option<ReasoningEffort>> {
    choice(raw, &REASONING_EFFORTS).map(Some)
}

pub(super) fn action(raw: &Raw) -> Parsed<Action> {
    choice(raw, &ACTIONS)
}

/// A TOML value, or the same written into a variable or a flag. Its errors show nothing of it.
fn structured<T: DeserializeOwned>(raw: &Raw, form: &str) -> Parsed<T> {
    let value = match raw {
        Raw::Toml(value) => Some(value.clone()),
        Raw::Text(text) => format!("value = {text}")
            .parse::<toml::Table>()
            .ok()
            .and_then(|mut table| table.remove("value")),
    };
    value
        .and_then(|value| value.try_into().ok())
        .ok_or_else(|| invalid(format!("is not of the form `{form}`")))
}

/// In the file a list, in variables and flags names with commas between them.
pub(super) fn tool_names(raw: &Raw) -> Parsed<Vec<String>> {
    let names: Vec<String> = match raw {
        Raw::Text(text) => text.split(',').map(|name| name.trim().to_owned()).collect(),
        Raw::Toml(_) => structured(raw, r#"["Name", "Other"]"#)?,
    };
    let mut seen = std::collections::BTreeSet::new();
    for name in &names {
        check_tool_name(name)?;
        if !seen.insert(name) {
            return Err(invalid(format!("names {} twice", quoted(name))));
        }
    }
    Ok(names)
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct RawEntry {
    name: String,
    class: String,
    #[serde(default)]
    human_only: bool,
}

pub(super) fn catalogue(raw: &Raw) -> Parsed<Vec<CatalogueEntry>> {
    let entries: Vec<RawEntry> = structured(
        raw,
        r#"[{ name = "Name", class = "read|write|destructive", human_only = false }]"#,
    )?;
    let mut seen = std::collections::BTreeSet::new();
    entries
        .into_iter()
        .map(|entry| {
            check_tool_name(&entry.name)?;
            if !seen.insert(entry.name.clone()) {
                return Err(invalid(format!("names {} twice", quoted(&entry.name))));
            }
            let class = choice(&Raw::Text(entry.class), &CLASSES).map_err(|wrong| {
                invalid(format!("class of {}: {}", quoted(&entry.name), wrong.text))
            })?;
            Ok(CatalogueEntry { name: entry.name, class, human_only: entry.human_only })
        })
        .collect()
}

/// `[A-Za-z0-9_./-]{1,128}`, as for every tool; connectors' names may carry their label.
fn check_tool_name(name: &str) -> Parsed<()> {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_./-".contains(&byte);
    if (1..=256).contains(&name.len()) && name.bytes().all(is_allowed) {
        Ok(())
    } else {
        Err(invalid(format!("{} is not a tool's name", quoted(name))))
    }
}

/// Headers that the client itself writes.
const OWN_HEADERS: [&str; 6] =
    ["connection", "content-length", "content-type", "host", "te", "transfer-encoding"];

/// Headers that carry credentials: never in a file.
const CREDENTIAL_HEADERS: [&str; 4] = ["api-key", "cookie", "proxy-authorization", "x-api-key"];

pub(super) fn headers(raw: &Raw) -> Parsed<Vec<(String, SecretString)>> {
    let headers: std::collections::BTreeMap<String, String> =
        structured(raw, r#"{ "X-Name" = "value" }"#)?;
    let mut seen = std::collections::BTreeSet::new();
    headers
        .into_iter()
        .map(|(name, value)| {
            let lower = name.to_ascii_lowercase();
            let is_valid = HeaderName::from_bytes(name.as_bytes()).is_ok()
                && HeaderValue::from_str(&value).is_ok();
            if !is_valid {
                return Err(invalid(format!("{} has an invalid name or value", quoted(&name))));
            }
            if lower == "authorization" {
                return Err(invalid("`authorization` is not set here")
                    .hint("set APPROVER_JUDGE_API_KEY, which is sent as a bearer token"));
            }
            if OWN_HEADERS.contains(&lower.as_str()) {
                return Err(invalid(format!("`{name}` is written by the client itself")));
            }
            if matches!(raw, Raw::Toml(_)) && CREDENTIAL_HEADERS.contains(&lower.as_str()) {
                return Err(invalid(format!("`{name}` carries a secret, which no file may hold"))
                    .hint("set APPROVER_JUDGE_EXTRA_HEADERS instead"));
            }
            if !seen.insert(lower) {
                return Err(invalid(format!("`{name}` is set twice")));
            }
            Ok((name, SecretString::from(value)))
        })
        .collect()
}
