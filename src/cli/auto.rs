//! `approver auto on|off|status`: the switch of automatic approval, on a running service.

use std::io::Write;

use serde_json::{Value, json};

use super::client::{Client, Server};
use crate::decide::text::shown;

/// What to do with the switch.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Let calls be approved automatically again
    On(Target),
    /// Let every call that needs approval wait for a person, from the next judgement on
    Off(Target),
    /// Show whether automatic approval is available, and why not
    Status(Status),
}

/// Whose calls.
#[derive(Debug, clap::Args)]
pub struct Target {
    /// One agent [default: the whole organisation]
    #[arg(long)]
    pub agent: Option<String>,
    /// The service.
    #[command(flatten)]
    pub server: Server,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `approver auto status`.
#[derive(Debug, clap::Args)]
pub struct Status {
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
    const PATH: [&str; 2] = ["v1", "automatic-approval"];
    let client = |server| {
        Client::with_token(server, token, "an administrator's token switches automatic approval")
    };
    let (json, answer) = match command {
        Command::On(target) | Command::Off(target) => {
            let mut body = json!({"enabled": matches!(command, Command::On(_))});
            if let Some(agent) = &target.agent {
                body["agent"] = json!(agent);
            }
            (target.json, client(&target.server)?.put(&PATH, &body).await?)
        }
        Command::Status(status) => (status.json, client(&status.server)?.get(&PATH, &[]).await?),
    };
    if json {
        writeln!(output, "{answer:#}")?;
    } else {
        output.write_all(as_text(&answer).as_bytes())?;
    }
    Ok(0)
}

/// One line for the organisation, and one for every agent with a switch of its own.
fn as_text(answer: &Value) -> String {
    let mut text = line("automatic approval", answer);
    for agent in answer["agents"].as_array().into_iter().flatten() {
        let name = agent["agent"].as_str().unwrap_or_default();
        text.push_str(&line(&format!("agent {}", shown(name)), agent));
    }
    text
}

fn line(of: &str, answer: &Value) -> String {
    let switched = if answer["enabled"] == true { "on" } else { "off" };
    let by = match (answer["changed_by"].as_str(), answer["changed_at"].as_str()) {
        (Some(by), Some(at)) => format!(" since {} by {}", shown(at), shown(by)),
        _ => String::new(),
    };
    let available = match answer["reason"].as_str() {
        None => "available".to_owned(),
        Some(reason) => format!("not available ({})", shown(reason)),
    };
    format!("{of}: {switched}{by}; {available}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_a_person_reads_it() {
        let answer = json!({
            "enabled": true, "changed_by": null, "changed_at": null,
            "available": true, "reason": null,
            "agents": [{
                "agent": "erp", "enabled": false, "changed_by": "Ana",
                "changed_at": "2026-12-01T10:00:00Z", "available": false, "reason": "switched_off",
            }],
        });
        assert_eq!(
            as_text(&answer),
            "automatic approval: on; available\n\
             agent erp: off since 2026-12-01T10:00:00Z by Ana; not available (switched_off)\n"
        );
    }
}
