//! File, environment and flags, one above the other.
//!
//! This module knows the keys and which layer wins; what a value means is [`super::values`]' matter.

use std::collections::BTreeMap;
use std::path::Path;

use super::values::{Invalid, Raw};
use super::{Origin, Problem, Sourced};

/// A setting's key.
pub(super) struct Key {
    pub(super) path: &'static str,
    /// The variable of other programs that counts when nothing of ours is set.
    standard: Option<&'static str>,
    /// Whether only the environment may hold it.
    environment_only: bool,
}

const fn key(path: &'static str) -> Key {
    Key { path, standard: None, environment_only: false }
}

/// Every key, in the order in which they are shown. `OPENAI_API_KEY` is missing on purpose: whether
/// it counts depends on the address.
pub(super) const KEYS: [Key; 43] = [
    Key { standard: Some("OPENAI_BASE_URL"), ..key("judge.base_url") },
    Key { standard: Some("OPENAI_MODEL"), ..key("judge.model") },
    Key { environment_only: true, ..key("judge.api_key") },
    key("judge.structured_output"),
    key("judge.temperature"),
    key("judge.seed"),
    key("judge.reasoning_effort"),
    key("judge.max_output_tokens"),
    key("judge.max_tokens_field"),
    key("judge.extra_headers"),
    key("judge.deadline"),
    key("judge.request_deadline"),
    key("judge.max_concurrent"),
    key("judge.max_judged_calls_per_turn"),
    key("judge.results_view"),
    key("operator.unclassified"),
    key("operator.unclassified_elsewhere"),
    key("operator.human_only"),
    key("operator.catalogue"),
    key("operator.sandbox_enabled"),
    key("server.listen"),
    key("server.max_body"),
    key("server.max_headers"),
    key("server.max_header_bytes"),
    key("server.header_timeout"),
    key("server.body_timeout"),
    key("server.max_connections"),
    key("server.stop_timeout"),
    key("store.url"),
    key("store.connections"),
    key("store.root_certificates"),
    key("keys.file"),
    Key { environment_only: true, ..key("keys.root") },
    key("approvals.pending_for"),
    key("approvals.max_pending_for"),
    key("approvals.start_within"),
    key("approvals.max_polls_per_token"),
    key("retention.inputs"),
    key("retention.records"),
    key("events.webhook_url"),
    Key { environment_only: true, ..key("events.webhook_secret") },
    Key { environment_only: true, ..key("metrics.token") },
    key("aap.allow_loopback_webhooks"),
];

/// Whether a variable begins like those of a section: unknown ones among them are mistakes.
fn is_ours(name: &str) -> bool {
    KEYS.iter().any(|key| {
        let section = key.path.split('.').next().unwrap_or_default();
        name.starts_with(&format!("{}_", variable(section)))
    })
}

/// The environment variable of a key.
pub(super) fn variable(path: &str) -> String {
    format!("APPROVER_{}", path.replace('.', "_").to_uppercase())
}

/// Whether a variable is one that settings are read from.
pub(super) fn is_known_variable(name: &str) -> bool {
    let is_standard = KEYS.iter().any(|key| key.standard == Some(name));
    is_standard || name == "OPENAI_API_KEY" || KEYS.iter().any(|key| variable(key.path) == name)
}

/// The highest value of each key, and what went wrong so far.
pub(super) struct Layers {
    values: BTreeMap<&'static str, Sourced<Raw>>,
    problems: Vec<Problem>,
}

impl Layers {
    /// Lays them one above the other: later layers replace what earlier ones say.
    pub(super) fn read(
        file: Option<(&Path, &str)>,
        environment: &BTreeMap<String, String>,
        set: &[String],
    ) -> Self {
        let mut layers = Self { values: BTreeMap::new(), problems: Vec::new() };
        layers.read_standard_variables(environment);
        if let Some((path, text)) = file {
            layers.read_file(path, text);
        }
        layers.read_variables(environment);
        layers.read_flags(set);
        layers
    }

    /// The value of a key, or its default where nobody set it or what they set is wrong.
    pub(super) fn take<T>(
        &mut self,
        path: &'static str,
        default: T,
        parse: impl FnOnce(&Raw) -> Result<T, Invalid>,
    ) -> Sourced<T> {
        debug_assert!(KEYS.iter().any(|key| key.path == path), "{path}");
        let Some(Sourced { value, origin }) = self.values.remove(path) else {
            return Sourced { value: default, origin: Origin::Default };
        };
        match parse(&value) {
            Ok(value) => Sourced { value, origin },
            Err(Invalid { text, hint }) => {
                self.problems.push(Problem {
                    key: path.to_owned(),
                    origin: origin.clone(),
                    text,
                    hint,
                });
                Sourced { value: default, origin }
            }
        }
    }

    pub(super) fn report(&mut self, key: &str, origin: Origin, text: &str) {
        self.problems.push(Problem {
            key: key.to_owned(),
            origin,
            text: text.to_owned(),
            hint: None,
        });
    }

    /// All problems, by key.
    pub(super) fn into_problems(mut self) -> Vec<Problem> {
        self.problems.sort_by(|one, other| one.key.cmp(&other.key));
        self.problems
    }

    fn read_standard_variables(&mut self, environment: &BTreeMap<String, String>) {
        for key in &KEYS {
            if let Some(name) = key.standard
                && let Some(text) = environment.get(name).filter(|text| !text.is_empty())
            {
                self.put(key, Origin::StandardVariable(name), Raw::Text(text.to_owned()));
            }
        }
    }

    fn read_file(&mut self, path: &Path, text: &str) {
        let origin = Origin::File(path.to_owned());
        let file = match text.parse::<toml::Table>() {
            Ok(file) => file,
            Err(error) => {
                // The error's own text would show the line, and a secret may stand there.
                let line = error.span().map_or(0, |span| {
                    text.get(..span.start).map_or(0, |before| before.matches('\n').count())
                });
                let text = format!("line {} is not TOML: {}", line + 1, error.message());
                self.report(&path.display().to_string(), origin, &text);
                return;
            }
        };
        for (section, value) in file {
            let is_section = KEYS
                .iter()
                .any(|key| key.path.split_once('.').is_some_and(|(head, _)| head == section));
            match value {
                toml::Value::Table(members) if is_section => {
                    for (name, value) in members {
                        self.read_file_key(&format!("{section}.{name}"), &origin, value);
                    }
                }
                _ if is_section => self.report(&section, origin.clone(), "is not a table"),
                _ => self.report(&section, origin.clone(), "unknown key"),
            }
        }
    }

    fn read_file_key(&mut self, path: &str, origin: &Origin, value: toml::Value) {
        match KEYS.iter().find(|key| key.path == path) {
            Some(key) if key.environment_only => self.refuse_secret(key, origin.clone()),
            Some(key) => self.put(key, origin.clone(), Raw::Toml(value)),
            None => self.report(path, origin.clone(), "unknown key"),
        }
    }

    fn read_variables(&mut self, environment: &BTreeMap<String, String>) {
        for (name, text) in environment {
            if text.is_empty() || !is_ours(name) {
                continue;
            }
            let origin = Origin::Environment(name.clone());
            match KEYS.iter().find(|key| variable(key.path) == *name) {
                Some(key) => self.put(key, origin, Raw::Text(text.clone())),
                None => self.report(name, origin, "unknown variable"),
            }
        }
    }

    fn read_flags(&mut self, set: &[String]) {
        let mut seen = Vec::new();
        for flag in set {
            let Some((path, text)) = flag.split_once('=') else {
                self.report("--set", Origin::Flag, "is not of the form `KEY=VALUE`");
                continue;
            };
            match KEYS.iter().find(|key| key.path == path) {
                Some(_) if seen.contains(&path) => {
                    self.report(path, Origin::Flag, "is set twice");
                }
                Some(key) if key.environment_only => self.refuse_secret(key, Origin::Flag),
                Some(key) => self.put(key, Origin::Flag, Raw::Text(text.to_owned())),
                None => self.report(path, Origin::Flag, "unknown key"),
            }
            seen.push(path);
        }
    }

    fn put(&mut self, key: &Key, origin: Origin, value: Raw) {
        self.values.insert(key.path, Sourced { value, origin });
    }

    fn refuse_secret(&mut self, key: &Key, origin: Origin) {
        self.problems.push(Problem {
            key: key.path.to_owned(),
            origin,
            text: "is a secret and comes from the environment only".to_owned(),
            hint: Some(format!("set {} instead", variable(key.path))),
        });
    }
}
