//! `approver policy check FILE` and `approver policy show FILE`: what a policy says, from files.
//!
//! FILE is an agent version (`instructions`, `tools`, `policy`) or a bare policy; `-` is standard
//! input. Nothing is judged here and nothing is asked: no model, no store, no network.
//!
//! Exit codes: 0 when all is well; 1 when the file has problems, or the mode is not offered; 2 when
//! the file cannot be read.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use comfy_table::{Table, presets};

use crate::decide::json::{self, Json};
use crate::decide::policy::{self, Mode, Modes, OperatorSettings, Policy};
use crate::decide::request::{Agent, Door, Tool};
use crate::decide::text::shown;
use crate::decide::walk::{Problem, quoted};
use crate::files::{self, FileError};
use crate::host::agent::{self, AgentProblem, AgentVersion, ProblemCode, Reading};
use crate::host::effective_policy::{
    self, EffectiveLists, EffectivePolicy, EffectiveTool, NotOffered, View,
};

const FOUND_PROBLEMS: u8 = 1;
const CANNOT_READ: u8 = 2;

/// The most bytes of a file.
const MAX_FILE: u64 = 16 * 1024 * 1024;

/// What to do with a policy.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List every problem of an agent file or a bare policy, one a line.
    Check(Check),
    /// Show what the policy makes of each tool in a conversation mode.
    Show(Show),
}

/// Arguments of `policy check`.
#[derive(Debug, clap::Args)]
pub struct Check {
    /// Agent file or bare policy; `-` reads standard input.
    pub file: PathBuf,
}

/// Arguments of `policy show`.
#[derive(Debug, clap::Args)]
pub struct Show {
    /// Agent file or bare policy; `-` reads standard input.
    pub file: PathBuf,
    /// `plan`, `ask` or `auto`; without it, the policy's default mode.
    #[arg(long, value_parser = parse_mode)]
    pub mode: Option<Mode>,
    /// Only this tool, by name or as `mcp__<label>__<name>`. A name that the file does not define
    /// is shown as a tool without annotations.
    #[arg(long, value_name = "NAME", value_parser = parse_tool)]
    pub tool: Option<String>,
    /// The door that calls come through: `gateway`, `aap`, `proxy` or `hook`.
    #[arg(long, default_value = "gateway", value_parser = parse_door)]
    pub door: Door,
    /// Write JSON instead of a table.
    #[arg(long)]
    pub json: bool,
}

fn parse_mode(word: &str) -> Result<Mode, String> {
    Mode::from_word(word).ok_or_else(|| "expected `plan`, `ask` or `auto`".to_owned())
}

fn parse_door(word: &str) -> Result<Door, String> {
    match word {
        "gateway" => Ok(Door::Gateway),
        "aap" => Ok(Door::Aap),
        "proxy" => Ok(Door::Proxy),
        "hook" => Ok(Door::Hook),
        _ => Err("expected `gateway`, `aap`, `proxy` or `hook`".to_owned()),
    }
}

fn parse_tool(name: &str) -> Result<String, String> {
    if effective_policy::may_be_named(name) {
        Ok(name.to_owned())
    } else {
        Err("no tool can have this name".to_owned())
    }
}

/// Runs a command and answers its exit code. Problems of `check` are its output; every other
/// message goes to `errors`.
///
/// # Errors
/// Writing failed.
pub fn run(
    command: &Command,
    operator: &OperatorSettings,
    input: &mut dyn Read,
    output: &mut dyn Write,
    errors: &mut dyn Write,
) -> io::Result<u8> {
    let file = match command {
        Command::Check(check) => &check.file,
        Command::Show(show) => &show.file,
    };
    let text = match read(file, input) {
        Ok(text) => text,
        Err(error) => {
            writeln!(errors, "error: cannot read `{}`: {error}", name_of(file))?;
            return Ok(CANNOT_READ);
        }
    };
    match command {
        Command::Check(_) => match load(&text, Reading::Save) {
            Ok(document) => {
                writeln!(output, "{}: {}", name_of(file), document.summary())?;
                Ok(0)
            }
            Err(problems) => {
                list(&problems, output)?;
                Ok(FOUND_PROBLEMS)
            }
        },
        Command::Show(show) => match load(&text, Reading::Stored) {
            Ok(document) => present(show, &document, operator, output, errors),
            Err(problems) => {
                list(&problems, errors)?;
                Ok(FOUND_PROBLEMS)
            }
        },
    }
}

fn name_of(file: &Path) -> String {
    match file.to_str() {
        Some("-") => "standard input".to_owned(),
        _ => shown(&file.to_string_lossy()),
    }
}

fn read(file: &Path, input: &mut dyn Read) -> Result<String, FileError> {
    let text = if file == Path::new("-") {
        files::read(input, MAX_FILE)
    } else {
        files::read_file(file, MAX_FILE)
    };
    text.and_then(files::without_mark)
}

fn list(problems: &[AgentProblem], to: &mut dyn Write) -> io::Result<()> {
    problems.iter().try_for_each(|problem| writeln!(to, "{problem}"))
}

/// What a file holds.
enum Document {
    Agent(AgentVersion),
    Policy(Policy),
}

/// Tells the two kinds of files apart by their members: only an agent has `instructions` or
/// `policy`, and only an agent's `tools` are a list.
fn load(text: &str, reading: Reading) -> Result<Document, Vec<AgentProblem>> {
    let of_policy = |problem| AgentProblem { code: ProblemCode::InvalidHitlPolicy, problem };
    let value = match json::read_document(text) {
        Ok(document) => document.value,
        Err(unreadable) => {
            return Err(vec![of_policy(Problem::new("$", unreadable.to_string()))]);
        }
    };
    let is_agent = value.get("instructions").is_some()
        || value.get("policy").is_some()
        || matches!(value.get("tools"), Some(Json::Array(_)));
    if is_agent {
        agent::parse(&value, "$", reading).map(Document::Agent)
    } else {
        policy::parse(&value)
            .map(Document::Policy)
            .map_err(|problems| problems.into_iter().map(of_policy).collect())
    }
}

impl Document {
    fn policy(&self) -> Option<&Policy> {
        match self {
            Self::Agent(version) => version.policy.as_ref(),
            Self::Policy(policy) => Some(policy),
        }
    }

    fn tools(&self) -> &[Tool] {
        match self {
            Self::Agent(AgentVersion { agent: Agent { tools, .. }, .. }) => tools,
            Self::Policy(_) => &[],
        }
    }

    fn summary(&self) -> String {
        let policy = match self.policy() {
            Some(policy) => format!(
                "{}, modes {}, default mode {}",
                counted(policy.rules.len(), "rule"),
                words(&policy.modes),
                policy.modes.default.as_str()
            ),
            None => "no policy".to_owned(),
        };
        match self {
            Self::Agent(_) => {
                format!("valid agent: {}; {policy}", counted(self.tools().len(), "tool"))
            }
            Self::Policy(_) => format!("valid policy: {policy}"),
        }
    }
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn words(modes: &Modes) -> String {
    modes.offered.iter().map(|mode| mode.as_str()).collect::<Vec<_>>().join(" ")
}

fn present(
    show: &Show,
    document: &Document,
    operator: &OperatorSettings,
    output: &mut dyn Write,
    errors: &mut dyn Write,
) -> io::Result<u8> {
    let view = View {
        policy: document.policy(),
        tools: document.tools(),
        operator,
        mode: show.mode,
        tool: show.tool.as_deref(),
        door: show.door,
        // No file can say it.
        automatic_approval: Ok(()),
        sandbox_enabled: true,
        assumed: true,
    };
    let answer = match effective_policy::show(&view) {
        Ok(answer) => answer,
        Err(NotOffered { mode, offered }) => {
            writeln!(
                errors,
                "error: conversation_mode_not_offered: mode {} is not offered (offered: {})",
                quoted(mode.as_str()),
                words(&offered)
            )?;
            return Ok(FOUND_PROBLEMS);
        }
    };
    if show.json {
        serde_json::to_writer_pretty(&mut *output, &answer)?;
        writeln!(output)?;
    } else {
        write_table(&answer, output)?;
    }
    Ok(0)
}

fn row(tool: &EffectiveTool) -> [String; 6] {
    let name = match &tool.server_label {
        Some(label) => format!("mcp__{label}__{}", tool.name),
        None => tool.name.clone(),
    };
    let from = match &tool.class_rule {
        Some(pattern) => format!("rule {}", shown(pattern)),
        None => tool.class_source.replace('_', " "),
    };
    let verdict = match tool.pause_reason {
        Some(code) => format!("{} ({code})", tool.verdict),
        None => tool.verdict.to_owned(),
    };
    [
        if tool.defined { shown(&name) } else { format!("{} (not defined)", shown(&name)) },
        tool.class.unwrap_or("-").to_owned(),
        from,
        tool.action.to_owned(),
        verdict,
        shown(&tool.matched_rules.join(", ")),
    ]
}

fn write_table(answer: &EffectivePolicy, output: &mut dyn Write) -> io::Result<()> {
    writeln!(
        output,
        "mode {} ({}), offered: {}",
        answer.effective_mode,
        answer.effective_mode_source,
        answer.offered_modes.join(" ")
    )?;
    let EffectiveLists { environment, allow, soft_deny } = &answer.lists;
    writeln!(
        output,
        "lists: {} in environment, {} in allow, {} in soft_deny",
        counted_entries(environment.len()),
        allow.len(),
        soft_deny.len()
    )?;
    writeln!(output, "as if automatic approval and the offline sandbox were available\n")?;
    if answer.tools.is_empty() {
        return writeln!(output, "the file defines no tools; `--tool NAME` shows any name");
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["tool", "class", "class from", "action", "verdict", "matched"]);
    for tool in &answer.tools {
        table.add_row(row(tool));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    writeln!(output, "{}", table.trim_fmt())
}

fn counted_entries(count: usize) -> String {
    if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") }
}
