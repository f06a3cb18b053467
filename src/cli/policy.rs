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
use serde::Serialize;

use crate::decide::eligibility;
use crate::decide::json::{self, Json};
use crate::decide::policy::{
    self, ClassSource, Effective, Mode, Modes, Open, OperatorSettings, Policy, Verdict,
};
use crate::decide::request::{Agent, Door, Origin, Tool};
use crate::decide::text::shown;
use crate::decide::walk::{Problem, quoted};
use crate::files::{self, FileError};
use crate::host::agent::{self, AgentProblem, AgentVersion, ProblemCode, Reading};
use crate::host::tool::is_name;

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

const fn door_name(door: Door) -> &'static str {
    match door {
        Door::Gateway => "gateway",
        Door::Aap => "aap",
        Door::Proxy => "proxy",
        Door::Hook => "hook",
    }
}

fn parse_tool(name: &str) -> Result<String, String> {
    let known = hypothetical(name);
    let valid = is_name(&known.name) && known.server_label.as_deref().is_none_or(is_name);
    if valid { Ok(name.to_owned()) } else { Err("no tool can have this name".to_owned()) }
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

/// The answer of `policy show --json`. Members are stable; new ones may be added.
#[derive(Debug, Serialize)]
pub struct Shown {
    /// The mode that verdicts are for: `plan`, `ask` or `auto`.
    pub effective_mode: &'static str,
    /// `request` when it was named on the command line, else `default`.
    pub effective_mode_source: &'static str,
    /// The modes that the policy offers.
    pub offered_modes: Vec<&'static str>,
    /// The door: `gateway`, `aap`, `proxy` or `hook`.
    pub door: &'static str,
    /// What verdicts take for granted, because no file can say it: `automatic_approval` is
    /// available, and the organisation enabled the `offline_sandbox`.
    pub assumed: [&'static str; 2],
    /// The organisation's sentences.
    pub lists: ShownLists,
    /// The tools, in the file's order.
    pub tools: Vec<ShownTool>,
}

/// The organisation's sentences.
#[derive(Debug, Serialize)]
pub struct ShownLists {
    /// Background.
    pub environment: Vec<String>,
    /// What is routine.
    pub allow: Vec<String>,
    /// What goes to a person.
    pub soft_deny: Vec<String>,
}

/// One tool, as a conversation in the mode meets it.
#[derive(Debug, Serialize)]
pub struct ShownTool {
    /// The bare name.
    pub name: String,
    /// `builtin`, `catalog`, `function` or `connector`.
    pub origin: &'static str,
    /// The connector's label, else null.
    pub server_label: Option<String>,
    /// Whether the file defines it; if not, it is shown as a tool without annotations.
    pub defined: bool,
    /// `read`, `write`, `destructive`, or null for a tool without a class.
    pub class: Option<&'static str>,
    /// `annotations`, `unreliable_annotations`, `missing_annotations`, `catalogue`, `rule` or
    /// `none`.
    pub class_source: &'static str,
    /// The pattern of the rule that gives the class, else null.
    pub class_rule: Option<String>,
    /// `allow`, `approve` or `block`: policy and operator, before the mode.
    pub action: &'static str,
    /// `EXECUTE`, `JUDGE`, `PAUSE_APPROVAL` or `BLOCK`: in the mode.
    pub verdict: &'static str,
    /// In auto, the code of the gate that keeps its calls from the approver; else null.
    pub pause_reason: Option<&'static str>,
    /// What applied: `tools.<pattern>`, `classes.<class>`, `default`, `operator.unclassified`,
    /// `builtin.unnamed_class`, `builtin.sandbox_offline`, `conversation_mode.<mode>`.
    pub matched: Vec<String>,
}

fn present(
    show: &Show,
    document: &Document,
    operator: &OperatorSettings,
    output: &mut dyn Write,
    errors: &mut dyn Write,
) -> io::Result<u8> {
    let standard = Modes::default();
    let modes = document.policy().map_or(&standard, |policy| &policy.modes);
    let mode = show.mode.unwrap_or(modes.default);
    if !modes.offers(mode) {
        writeln!(
            errors,
            "error: conversation_mode_not_offered: mode {} is not offered (offered: {})",
            quoted(mode.as_str()),
            words(modes)
        )?;
        return Ok(FOUND_PROBLEMS);
    }
    let lists = document.policy().map(|policy| policy.lists.clone()).unwrap_or_default();
    let tool = |tool: &Tool, defined| {
        let effective = policy::effective(document.policy(), tool, show.door, operator);
        ShownTool::new(tool, defined, effective, operator, mode)
    };
    let tools = match &show.tool {
        None => document.tools().iter().map(|own| tool(own, true)).collect(),
        Some(name) => {
            let named = document
                .tools()
                .iter()
                .filter(|own| own.name == *name || own.qualified_name().as_ref() == Some(name))
                .map(|own| tool(own, true))
                .collect::<Vec<_>>();
            if named.is_empty() { vec![tool(&hypothetical(name), false)] } else { named }
        }
    };
    let answer = Shown {
        effective_mode: mode.as_str(),
        effective_mode_source: if show.mode.is_some() { "request" } else { "default" },
        offered_modes: modes.offered.iter().map(|mode| mode.as_str()).collect(),
        door: door_name(show.door),
        assumed: ["automatic_approval", "offline_sandbox"],
        lists: ShownLists {
            environment: lists.environment,
            allow: lists.allow,
            soft_deny: lists.soft_deny,
        },
        tools,
    };
    if show.json {
        serde_json::to_writer_pretty(&mut *output, &answer)?;
        writeln!(output)?;
    } else {
        answer.write_table(output)?;
    }
    Ok(0)
}

/// A tool of which nothing but the name is known.
fn hypothetical(name: &str) -> Tool {
    match name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
        Some((label, bare)) => {
            Tool { server_label: Some(label.to_owned()), ..Tool::new(bare, Origin::Connector) }
        }
        None => Tool::new(name, Origin::Function),
    }
}

impl ShownTool {
    fn new(
        tool: &Tool,
        defined: bool,
        effective: Effective,
        operator: &OperatorSettings,
        mode: Mode,
    ) -> Self {
        let gates = eligibility::check(tool, &effective, operator);
        let open = Open { judged: gates.is_ok(), sandbox: true };
        let ruling = policy::rule(&effective, tool, operator, mode, open);
        let waits = mode == Mode::Auto && ruling.verdict == Verdict::PauseApproval;
        let Effective { class, class_source, action, mut matched, .. } = effective;
        matched.extend(ruling.because.map(str::to_owned));
        Self {
            name: tool.name.clone(),
            origin: origin_name(tool.origin),
            server_label: tool.server_label.clone(),
            defined,
            class: class.map(|class| class.as_str()),
            class_source: class_source.as_str(),
            class_rule: match class_source {
                ClassSource::Rule(pattern) => Some(pattern),
                ClassSource::Annotations
                | ClassSource::UnreliableAnnotations
                | ClassSource::MissingAnnotations
                | ClassSource::Catalogue
                | ClassSource::None => None,
            },
            action: action.as_str(),
            verdict: ruling.verdict.as_str(),
            pause_reason: gates.err().filter(|_| waits).map(|reason| reason.code()),
            matched,
        }
    }

    fn row(&self) -> [String; 6] {
        let name = match &self.server_label {
            Some(label) => format!("mcp__{label}__{}", self.name),
            None => self.name.clone(),
        };
        let from = match &self.class_rule {
            Some(pattern) => format!("rule {}", shown(pattern)),
            None => self.class_source.replace('_', " "),
        };
        let verdict = match self.pause_reason {
            Some(code) => format!("{} ({code})", self.verdict),
            None => self.verdict.to_owned(),
        };
        [
            if self.defined { shown(&name) } else { format!("{} (not defined)", shown(&name)) },
            self.class.unwrap_or("-").to_owned(),
            from,
            self.action.to_owned(),
            verdict,
            shown(&self.matched.join(", ")),
        ]
    }
}

const fn origin_name(origin: Origin) -> &'static str {
    match origin {
        Origin::Builtin => "builtin",
        Origin::Catalog => "catalog",
        Origin::Function => "function",
        Origin::Connector => "connector",
    }
}

impl Shown {
    fn write_table(&self, output: &mut dyn Write) -> io::Result<()> {
        writeln!(
            output,
            "mode {} ({}), offered: {}",
            self.effective_mode,
            self.effective_mode_source,
            self.offered_modes.join(" ")
        )?;
        let ShownLists { environment, allow, soft_deny } = &self.lists;
        writeln!(
            output,
            "lists: {} in environment, {} in allow, {} in soft_deny",
            counted_entries(environment.len()),
            allow.len(),
            soft_deny.len()
        )?;
        writeln!(output, "as if automatic approval and the offline sandbox were available\n")?;
        if self.tools.is_empty() {
            return writeln!(output, "the file defines no tools; `--tool NAME` shows any name");
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header(["tool", "class", "class from", "action", "verdict", "matched"]);
        for tool in &self.tools {
            table.add_row(tool.row());
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        writeln!(output, "{}", table.trim_fmt())
    }
}

fn counted_entries(count: usize) -> String {
    if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") }
}
