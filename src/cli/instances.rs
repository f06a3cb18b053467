//! `approver instances list|show|set`: instances of the approval protocol on a running service, in which
//! mode they run, and whether what they say of a conversation counts.

use std::io::Write;

use serde_json::{Value, json};

use super::client::{Client, Server};
use crate::decide::text::shown;

/// What to do with instances.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List every instance, oldest first
    List(List),
    /// Show one instance, and who set its mode and trust
    Show(Show),
    /// Set an instance's mode, or whether what it says of a conversation counts
    Set(Set),
}

/// Arguments of `approver instances list`.
#[derive(Debug, clap::Args)]
pub struct List {
    /// The service.
    #[command(flatten)]
    pub server: Server,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `approver instances show`.
#[derive(Debug, clap::Args)]
pub struct Show {
    /// The instance's id
    pub id: String,
    /// The service.
    #[command(flatten)]
    pub server: Server,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `approver instances set`.
#[derive(Debug, clap::Args)]
#[group(id = "setting", required = true, multiple = true, args = ["mode", "trusted_context"])]
pub struct Set {
    /// The instance's id
    pub id: String,
    /// The mode of its requests; `default` is the agent version's
    #[arg(long, value_parser = ["plan", "ask", "auto", "default"])]
    pub mode: Option<String>,
    /// Whether the conversation that it sends counts as a source for detectors and evidence: only
    /// for an agent whose process nobody but you controls
    #[arg(long, value_name = "BOOLEAN")]
    pub trusted_context: Option<bool>,
    /// The service.
    #[command(flatten)]
    pub server: Server,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs a command.
///
/// # Errors
/// The service cannot be reached or refuses, or the output takes no more.
pub async fn run(
    command: &Command,
    token: Option<&str>,
    output: &mut dyn Write,
) -> anyhow::Result<u8> {
    let client =
        |server| Client::with_token(server, token, "an administrator's token sets instances");
    let (json, answer) = match command {
        Command::List(list) => {
            (list.json, client(&list.server)?.get(&["v1", "instances"], &[]).await?)
        }
        Command::Show(show) => {
            let path = ["v1", "instances", &show.id];
            (show.json, client(&show.server)?.get(&path, &[]).await?)
        }
        Command::Set(set) => {
            let path = ["v1", "instances", &set.id];
            (set.json, client(&set.server)?.patch(&path, &set.body()).await?)
        }
    };
    if json {
        writeln!(output, "{answer:#}")?;
    } else {
        output.write_all(as_text(&answer).as_bytes())?;
    }
    Ok(0)
}

impl Set {
    fn body(&self) -> Value {
        let mut body = json!({});
        match self.mode.as_deref() {
            None => {}
            Some("default") => body["mode"] = Value::Null,
            Some(mode) => body["mode"] = json!(mode),
        }
        if let Some(trusted) = self.trusted_context {
            body["trusted_context"] = json!(trusted);
        }
        body
    }
}

/// One line an instance, with one a change below it where these are told, or one that says that there
/// is none.
fn as_text(answer: &Value) -> String {
    match answer["instances"].as_array() {
        None => {
            let changes = answer["changes"].as_array().into_iter().flatten();
            std::iter::once(line(answer)).chain(changes.map(change)).collect()
        }
        Some(instances) if instances.is_empty() => "there are no instances\n".to_owned(),
        Some(instances) => instances.iter().map(line).collect(),
    }
}

fn line(instance: &Value) -> String {
    let word = |name: &str| shown(instance[name].as_str().unwrap_or_default());
    let deleted = match instance["deleted_at"].as_str() {
        Some(at) => format!("; deleted {}", shown(at)),
        None => String::new(),
    };
    format!(
        "{} “{}”: {} {}; {}{deleted}\n",
        word("id"),
        word("name"),
        word("agent"),
        word("version"),
        settings(instance)
    )
}

fn change(change: &Value) -> String {
    let word = |name: &str| shown(change[name].as_str().unwrap_or_default());
    let (before, after) = (settings(&change["before"]), settings(&change["after"]));
    format!("  {} by {}: {after} (before: {before})\n", word("changed_at"), word("changed_by"))
}

fn settings(value: &Value) -> String {
    let mode = value["mode"].as_str().map_or("the version's default".to_owned(), shown);
    let trust = match value["trusted_context"].as_bool() {
        Some(true) => "what it says of a conversation counts",
        _ => "what it says of a conversation is a claim",
    };
    format!("mode {mode}; {trust}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_a_person_reads_it() {
        let instance = json!({
            "id": "7ab8c8ec", "name": "desk\u{1b}[2J", "agent": "desk", "version": "1",
            "mode": null, "trusted_context": false,
        });
        let text = as_text(&json!({"instances": [instance]}));
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(text.starts_with("7ab8c8ec “desk"), "{text}");
        let rest = "”: desk 1; mode the version's default; \
                    what it says of a conversation is a claim\n";
        assert!(text.ends_with(rest), "{text}");
        assert_eq!(as_text(&json!({"instances": []})), "there are no instances\n");
        let set = |mode: Value, trusted: bool| json!({"mode": mode, "trusted_context": trusted});
        let mut instance = set(json!("auto"), true);
        instance["deleted_at"] = json!("2027-01-16T08:00:00Z");
        instance["changes"] = json!([{
            "changed_by": "root\u{1b}", "changed_at": "2027-01-15T08:00:00Z",
            "before": set(Value::Null, false), "after": set(json!("auto"), true),
        }]);
        let text = as_text(&instance);
        let (first, second) = text.split_once('\n').unwrap();
        assert!(first.ends_with("counts; deleted 2027-01-16T08:00:00Z"), "{text}");
        assert!(!second.contains('\u{1b}'), "{text}");
        assert!(second.starts_with("  2027-01-15T08:00:00Z by root"), "{text}");
        assert!(
            second.ends_with(
                ": mode auto; what it says of a conversation counts (before: mode the version's \
                 default; what it says of a conversation is a claim)\n"
            ),
            "{text}"
        );
    }
}
