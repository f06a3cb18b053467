//! Settings: `approver.toml`, then the environment, then flags; resolved once, at the start.
//!
//! Every value knows where it comes from ([`Sourced`]). All problems are reported at once, each
//! with its key and its place, and none shows a secret. [`resolve`] is pure: file, environment and
//! flags are its arguments; only [`load`] touches the world. Nothing here is read a second time
//! while the program runs.
//!
//! | key in `approver.toml` | environment | flag |
//! |---|---|---|
//! | `deadline` under `[judge]` | `APPROVER_JUDGE_DEADLINE` | `--set judge.deadline=10s` |
//!
//! and so for every key. An empty variable counts as not set. Below the file stand three variables
//! that other programs know too: `OPENAI_BASE_URL`, `OPENAI_MODEL` and `OPENAI_API_KEY`. That key
//! goes to `OPENAI_BASE_URL` or to `https://api.openai.com` and never anywhere else.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::SecretString;

use crate::decide::Settings;
use crate::decide::policy::{Action, OperatorSettings};
use crate::decide::prompt::ResultsView;
use crate::decide::request::CatalogueEntry;
use crate::decide::text::shown;
use crate::files::{self, FileError};
use crate::judge::openai::{self, MaxTokensField, ReasoningEffort, StructuredOutput};
use crate::service::Timing;

mod entries;
mod layers;
pub mod serve;
mod values;

pub use entries::Entry;
use layers::Layers;
use serve::ServeConfig;

/// The file that is read when no other is named, if it exists.
pub const DEFAULT_FILE: &str = "approver.toml";

/// The most bytes of a settings file.
const MAX_FILE: u64 = 1024 * 1024;

/// The flags that every command with settings has.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Flags {
    /// Settings file [default: `approver.toml` in the current folder, if there is one]
    #[arg(long, global = true, value_name = "FILE", env = "APPROVER_CONFIG")]
    pub config: Option<PathBuf>,
    /// Sets one key for this run, such as `judge.deadline=20s`; may be repeated
    #[arg(long = "set", global = true, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// A variable that other programs know too, such as `OPENAI_BASE_URL`.
    StandardVariable(&'static str),
    /// The settings file.
    File(PathBuf),
    /// Our own environment variable.
    Environment(String),
    /// `--set` on the command line.
    Flag,
}

/// For a person's eyes: a file's or variable's name has no hidden character.
impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::StandardVariable(name) => formatter.write_str(name),
            Self::File(path) => formatter.write_str(&shown(&path.to_string_lossy())),
            Self::Environment(name) => formatter.write_str(&shown(name)),
            Self::Flag => formatter.write_str("--set"),
        }
    }
}

/// A value and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sourced<T> {
    /// The value.
    pub value: T,
    /// Where it comes from.
    pub origin: Origin,
}

/// Something wrong with the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key, such as `judge.deadline`; or the file or variable that could not be read.
    pub key: String,
    /// Where it was set.
    pub origin: Origin,
    /// What is wrong: lower case, no full stop, never a secret.
    pub text: String,
    /// What to do instead.
    pub hint: Option<String>,
}

/// For a person's eyes: whatever a file or variable brought has no hidden character.
impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "`{}` ({}): {}", shown(&self.key), self.origin, shown(&self.text))?;
        if let Some(hint) = &self.hint {
            write!(formatter, "\n  hint: {}", shown(hint))?;
        }
        Ok(())
    }
}

/// Everything wrong with the settings; one problem a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Problems(pub Vec<Problem>);

/// All settings, resolved.
#[derive(Debug, Clone)]
pub struct Config {
    /// `[judge]`
    pub judge: JudgeConfig,
    /// `[operator]`
    pub operator: OperatorConfig,
    /// All sections that only the service reads.
    pub serve: ServeConfig,
    /// What a person should know about the settings although nothing is wrong.
    pub notes: Vec<String>,
}

/// `[judge]`: whom to ask, and how long.
#[derive(Debug, Clone)]
pub struct JudgeConfig {
    /// The address before `/chat/completions`; OpenAI's own unless set.
    pub base_url: Sourced<String>,
    /// The model's name. Without one no judge is configured.
    pub model: Sourced<Option<String>>,
    /// Sent as a bearer token. From the environment only.
    pub api_key: Sourced<Option<SecretString>>,
    /// `json_schema` (default), `json_object`, `json_object_with_schema` or `text`.
    pub structured_output: Sourced<StructuredOutput>,
    /// 0 to 2; not sent unless set.
    pub temperature: Sourced<Option<f32>>,
    /// Not sent unless set.
    pub seed: Sourced<Option<i64>>,
    /// `none` to `max`; not sent unless set.
    pub reasoning_effort: Sourced<Option<ReasoningEffort>>,
    /// The most tokens of an answer, 1 to 1,000,000; 2,048 unless set.
    pub max_output_tokens: Sourced<u32>,
    /// `auto` (default), `max_tokens` or `max_completion_tokens`.
    pub max_tokens_field: Sourced<MaxTokensField>,
    /// Further headers, name to value.
    pub extra_headers: Sourced<Vec<(String, SecretString)>>,
    /// For one judgement with its retry, 1 ms to 1 h; 10 s unless set.
    pub deadline: Sourced<Duration>,
    /// For all calls of one request, 1 ms to 1 h; unless set 30 s, or `deadline` where that is
    /// longer.
    pub request_deadline: Sourced<Duration>,
    /// Calls of one request that are judged at once, 1 to 256; 4 unless set.
    pub max_concurrent: Sourced<usize>,
    /// Calls of one turn that the judge may see, 1 to 10,000; 16 unless set.
    pub max_judged_calls_per_turn: Sourced<u32>,
    /// `excerpt` (default), `provenance` or `text`.
    pub results_view: Sourced<ResultsView>,
}

/// `[operator]`: what holds above every organisation's policy.
#[derive(Debug, Clone)]
pub struct OperatorConfig {
    /// For tools without class and rule at the gateway's door; `allow` unless set.
    pub unclassified: Sourced<Action>,
    /// The same at every other door; `approve` unless set.
    pub unclassified_elsewhere: Sourced<Action>,
    /// More names that only a person may approve.
    pub human_only: Sourced<Vec<String>>,
    /// Built-in tools with their class floors.
    pub catalogue: Sourced<Vec<CatalogueEntry>>,
    /// Whether the offline sandbox may run the built-in `Bash` on its own; off unless set.
    pub sandbox_enabled: Sourced<bool>,
}

impl Config {
    /// The judge's endpoint, or nothing when no model is configured.
    #[must_use]
    pub fn judge_settings(&self) -> Option<openai::Settings> {
        let judge = &self.judge;
        let model = judge.model.value.clone()?;
        Some(openai::Settings {
            base_url: judge.base_url.value.clone(),
            model,
            api_key: judge.api_key.value.clone(),
            structured_output: judge.structured_output.value,
            temperature: judge.temperature.value,
            seed: judge.seed.value,
            reasoning_effort: judge.reasoning_effort.value.clone(),
            max_output_tokens: judge.max_output_tokens.value,
            max_tokens_field: judge.max_tokens_field.value,
            extra_headers: judge.extra_headers.value.clone(),
            prompt_cache_key: None,
        })
    }

    /// How long judging may take, and how much of it goes on at once.
    #[must_use]
    pub fn timing(&self) -> Timing {
        Timing {
            judgement: self.judge.deadline.value,
            request: self.judge.request_deadline.value,
            concurrent: self.judge.max_concurrent.value,
        }
    }

    /// What the core needs to know.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings {
            operator: OperatorSettings {
                catalogue: self.operator.catalogue.value.clone(),
                human_only: self.operator.human_only.value.clone(),
                unclassified: self.operator.unclassified.value,
                unclassified_elsewhere: self.operator.unclassified_elsewhere.value,
            },
            max_judged_calls_per_turn: self.judge.max_judged_calls_per_turn.value,
            results_view: self.judge.results_view.value,
            ..Settings::default()
        }
    }
}

/// Reads file and environment and resolves them with the flags.
///
/// # Errors
/// Everything wrong with them.
pub fn load(flags: &Flags) -> Result<Config, Problems> {
    let (path, is_named) = match &flags.config {
        Some(path) => (path.as_path(), true),
        None => (Path::new(DEFAULT_FILE), false),
    };
    let file = match files::read_file(path, MAX_FILE) {
        Ok(text) => Some((path, text)),
        Err(FileError::Unreadable(std::io::ErrorKind::NotFound)) if !is_named => None,
        Err(error) => {
            return Err(Problems(vec![Problem {
                key: path.display().to_string(),
                origin: Origin::File(path.to_owned()),
                text: format!("cannot be read: {error}"),
                hint: None,
            }]));
        }
    };
    let (environment, unreadable) = environment(std::env::vars_os());
    if !unreadable.is_empty() {
        return Err(Problems(unreadable));
    }
    let file = file.as_ref().map(|(path, text)| (*path, text.as_str()));
    let config = resolve(file, &environment, &flags.set)?;
    if !is_named {
        check_unnamed_file(&config)?;
    }
    Ok(config)
}

/// A file that is merely found in the current folder may have come with somebody else's work: it
/// says neither whom conversations and keys are sent to, nor what holds above every policy, nor who
/// can reach the service and where it keeps what.
fn check_unnamed_file(config: &Config) -> Result<(), Problems> {
    // Taken apart, so that a new setting of the operator cannot be forgotten here.
    let OperatorConfig {
        unclassified,
        unclassified_elsewhere,
        human_only,
        catalogue,
        sandbox_enabled,
    } = &config.operator;
    let problems: Vec<Problem> = [
        ("judge.base_url", &config.judge.base_url.origin),
        ("operator.unclassified", &unclassified.origin),
        ("operator.unclassified_elsewhere", &unclassified_elsewhere.origin),
        ("operator.human_only", &human_only.origin),
        ("operator.catalogue", &catalogue.origin),
        ("operator.sandbox_enabled", &sandbox_enabled.origin),
    ]
    .into_iter()
    .chain(config.serve.of_a_named_file())
    .filter(|(_, origin)| matches!(origin, Origin::File(_)))
    .map(|(key, origin)| Problem {
        key: key.to_owned(),
        origin: origin.clone(),
        text: "a file that was only found here may not set it".to_owned(),
        hint: Some(format!("name the file with `--config`, or set {}", layers::variable(key))),
    })
    .collect();
    if problems.is_empty() { Ok(()) } else { Err(Problems(problems)) }
}

/// The variables that are text; and one problem for each of ours that is not.
fn environment(
    variables: impl Iterator<Item = (OsString, OsString)>,
) -> (BTreeMap<String, String>, Vec<Problem>) {
    let mut texts = BTreeMap::new();
    let mut problems = Vec::new();
    for (name, value) in variables {
        // A name that is not Unicode is nobody's whom we know.
        let Ok(name) = name.into_string() else { continue };
        match value.into_string() {
            Ok(value) => {
                texts.insert(name, value);
            }
            Err(_value) if layers::is_known_variable(&name) => problems.push(Problem {
                key: name.clone(),
                origin: Origin::Environment(name),
                text: "is not valid Unicode".to_owned(),
                hint: None,
            }),
            Err(_value) => {}
        }
    }
    (texts, problems)
}

/// Resolves a file (path and text), environment variables and `KEY=VALUE` flags.
///
/// # Errors
/// Everything wrong with them.
pub fn resolve(
    file: Option<(&Path, &str)>,
    environment: &BTreeMap<String, String>,
    set: &[String],
) -> Result<Config, Problems> {
    let mut layers = Layers::read(file, environment, set);
    let mut notes = Vec::new();
    let judge = judge(&mut layers, environment, &mut notes);
    let operator = operator(&mut layers);
    let serve = serve::read(&mut layers);
    let problems = layers.into_problems();
    if problems.is_empty() {
        Ok(Config { judge, operator, serve, notes })
    } else {
        Err(Problems(problems))
    }
}

fn judge(
    layers: &mut Layers,
    environment: &BTreeMap<String, String>,
    notes: &mut Vec<String>,
) -> JudgeConfig {
    let base_url =
        layers.take("judge.base_url", openai::OPENAI_BASE_URL.to_owned(), values::base_url);
    let mut api_key = layers.take("judge.api_key", None, values::secret);
    if api_key.value.is_none()
        && let Some(key) = standard(environment, "OPENAI_API_KEY")
    {
        if may_have_openai_key(&base_url) {
            api_key = Sourced {
                value: Some(SecretString::from(key)),
                origin: Origin::StandardVariable("OPENAI_API_KEY"),
            };
        } else {
            notes.push(format!(
                "OPENAI_API_KEY is set and not used: it goes to OPENAI_BASE_URL or \
                 https://api.openai.com alone, and judge.base_url comes from {}; for another \
                 endpoint set APPROVER_JUDGE_API_KEY",
                base_url.origin
            ));
        }
    }
    let deadline = layers.take("judge.deadline", Duration::from_secs(10), values::duration);
    let mut request_deadline =
        layers.take("judge.request_deadline", Duration::from_secs(30), values::duration);
    if request_deadline.value < deadline.value {
        if request_deadline.origin == Origin::Default {
            request_deadline.value = deadline.value;
        } else {
            layers.report(
                "judge.request_deadline",
                request_deadline.origin.clone(),
                "is shorter than `judge.deadline`, which no judgement could then use",
            );
        }
    }
    let model = layers.take("judge.model", None, |raw| values::text(raw).map(Some));
    if model.value.is_none() {
        notes.push(
            "no judge is configured (judge.model is not set): every call that needs one waits \
             for a person"
                .to_owned(),
        );
    }
    JudgeConfig {
        base_url,
        model,
        api_key,
        structured_output: layers.take(
            "judge.structured_output",
            StructuredOutput::default(),
            values::structured_output,
        ),
        temperature: layers.take("judge.temperature", None, values::temperature),
        seed: layers
            .take("judge.seed", None, |raw| values::integer(raw, i64::MIN..=i64::MAX).map(Some)),
        reasoning_effort: layers.take("judge.reasoning_effort", None, values::reasoning_effort),
        max_output_tokens: layers.take(
            "judge.max_output_tokens",
            openai::DEFAULT_MAX_OUTPUT_TOKENS,
            |raw| values::integer(raw, 1..=1_000_000),
        ),
        max_tokens_field: layers.take(
            "judge.max_tokens_field",
            MaxTokensField::default(),
            values::max_tokens_field,
        ),
        extra_headers: layers.take("judge.extra_headers", Vec::new(), values::headers),
        deadline,
        request_deadline,
        max_concurrent: layers.take("judge.max_concurrent", 4, |raw| values::integer(raw, 1..=256)),
        max_judged_calls_per_turn: layers
            .take("judge.max_judged_calls_per_turn", 16, |raw| values::integer(raw, 1..=10_000)),
        results_view: layers.take(
            "judge.results_view",
            ResultsView::default(),
            values::results_view,
        ),
    }
}

fn operator(layers: &mut Layers) -> OperatorConfig {
    let defaults = OperatorSettings::default();
    OperatorConfig {
        unclassified: layers.take("operator.unclassified", defaults.unclassified, values::action),
        unclassified_elsewhere: layers.take(
            "operator.unclassified_elsewhere",
            defaults.unclassified_elsewhere,
            values::action,
        ),
        human_only: layers.take("operator.human_only", Vec::new(), values::tool_names),
        catalogue: layers.take("operator.catalogue", Vec::new(), values::catalogue),
        sandbox_enabled: layers.take("operator.sandbox_enabled", false, values::boolean),
    }
}

fn standard(environment: &BTreeMap<String, String>, name: &str) -> Option<String> {
    environment.get(name).filter(|value| !value.is_empty()).cloned()
}

/// OpenAI's key belongs to OpenAI, or to whoever stands in the variable that comes with it.
fn may_have_openai_key(base_url: &Sourced<String>) -> bool {
    if base_url.origin == Origin::StandardVariable("OPENAI_BASE_URL") {
        return true;
    }
    url::Url::parse(&base_url.value)
        .is_ok_and(|url| url.scheme() == "https" && url.host_str() == Some("api.openai.com"))
}

#[cfg(test)]
mod tests;
