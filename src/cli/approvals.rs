//! `approver approvals list|show|watch|approve|reject`: approvals of a running service, for a person
//! at a terminal or for a script.
//!
//! The service's address comes from `--url` or `APPROVER_URL`, the token from `APPROVER_TOKEN` alone:
//! a flag would stand in everybody's list of processes. Whatever others wrote is shown with its
//! hidden characters as escapes.
//!
//! Exit codes: 0 when it is done; 1 when the service refused a decision; 2 when it could not be asked.

mod render;

use std::collections::BTreeSet;
use std::io::{BufRead, IsTerminal, Write};
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

use super::client::{Client, Failure, Server};
use crate::decide::text::shown;

/// The service refused a decision.
const REFUSED: u8 = 1;
/// How long one request of `watch` waits; the service's most.
const WAIT: &str = "30s";
/// What `--status` may be.
const STATUSES: [&str; 6] = ["pending", "approved", "rejected", "cancelled", "expired", "all"];
/// Pauses between attempts of `watch` while the service is away.
const PAUSES: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(15),
];

/// Looks at approvals of a running service, and decides them.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// List approvals, newest first
    List(List),
    /// Show one approval: the call, why it waits, where each argument came from
    Show(Show),
    /// Follow what waits for a person
    Watch(Watch),
    /// Approve a call
    Approve(Approve),
    /// Reject a call
    Reject(Reject),
}

/// Arguments of `list`.
#[derive(Debug, clap::Args)]
pub struct List {
    /// Where the service is.
    #[command(flatten)]
    pub server: Server,
    /// Of this agent alone
    #[arg(long)]
    pub agent: Option<String>,
    /// `pending` (default), `approved`, `rejected`, `cancelled`, `expired` or `all`
    #[arg(long, default_value = "pending", value_parser = STATUSES, hide_possible_values = true)]
    pub status: String,
    /// At most this many
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub limit: u32,
    /// Those after this place: the `next_cursor` of a listing before
    #[arg(long)]
    pub cursor: Option<String>,
    /// Print the service's JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `show`.
#[derive(Debug, clap::Args)]
pub struct Show {
    /// Where the service is.
    #[command(flatten)]
    pub server: Server,
    /// The approval's id
    pub id: String,
    /// Print the service's JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `watch`.
#[derive(Debug, clap::Args)]
pub struct Watch {
    /// Where the service is.
    #[command(flatten)]
    pub server: Server,
    /// Of this agent alone
    #[arg(long)]
    pub agent: Option<String>,
    /// Print one JSON object a line: each approval as it comes, and again when it ends
    #[arg(long)]
    pub json: bool,
    /// End once this many approvals came
    #[arg(long, value_name = "COUNT")]
    pub count: Option<usize>,
}

/// Arguments of `approve`.
#[derive(Debug, clap::Args)]
pub struct Approve {
    /// What a decision needs.
    #[command(flatten)]
    pub decision: Decision,
    /// Approve later calls of the tool in this conversation too
    #[arg(long)]
    pub remember: bool,
}

/// Arguments of `reject`.
#[derive(Debug, clap::Args)]
pub struct Reject {
    /// What a decision needs.
    #[command(flatten)]
    pub decision: Decision,
}

/// What both decisions need.
#[derive(Debug, clap::Args)]
pub struct Decision {
    /// Where the service is.
    #[command(flatten)]
    pub server: Server,
    /// The approval's id
    pub id: String,
    /// Why, for the record
    #[arg(long)]
    pub reason: Option<String>,
    /// Do not ask whether this is the call that is meant
    #[arg(long)]
    pub yes: bool,
    /// Print the service's JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command. `token` is `APPROVER_TOKEN`'s value.
///
/// # Errors
/// The service cannot be asked, or has another answer than one about the decision.
pub async fn run(
    args: Args,
    token: Option<String>,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
) -> anyhow::Result<u8> {
    let server = match &args.command {
        Command::List(List { server, .. })
        | Command::Show(Show { server, .. })
        | Command::Watch(Watch { server, .. })
        | Command::Approve(Approve { decision: Decision { server, .. }, .. })
        | Command::Reject(Reject { decision: Decision { server, .. } }) => server,
    };
    let hint = "an operator's token reads and decides";
    let client = Client::with_token(server, token.as_deref(), hint)?;
    match args.command {
        Command::List(args) => list(&args, &client, output).await,
        Command::Show(args) => {
            let approval = client.get(&["v1", "approvals", &args.id], &[]).await?;
            if args.json {
                write_json(output, &approval)?;
            } else {
                output.write_all(render::whole(&approval).as_bytes())?;
            }
            Ok(0)
        }
        Command::Watch(args) => watch(&args, &client, output).await,
        Command::Approve(Approve { decision, remember }) => {
            decide("approve", &decision, remember, &client, input, output).await
        }
        Command::Reject(Reject { decision }) => {
            decide("reject", &decision, false, &client, input, output).await
        }
    }
}

fn write_json(output: &mut dyn Write, value: &Value) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *output, value).context("cannot write the answer")?;
    Ok(writeln!(output)?)
}

async fn list(args: &List, client: &Client, output: &mut dyn Write) -> anyhow::Result<u8> {
    let limit = args.limit.to_string();
    let mut query = vec![("limit", limit.as_str())];
    if args.status != "all" {
        query.push(("status", &args.status));
    }
    query.extend(args.agent.as_deref().map(|agent| ("agent", agent)));
    query.extend(args.cursor.as_deref().map(|cursor| ("cursor", cursor)));
    let page = client.get(&["v1", "approvals"], &query).await?;
    if args.json {
        write_json(output, &page)?;
        return Ok(0);
    }
    let approvals = page["approvals"].as_array().map(Vec::as_slice).unwrap_or_default();
    if approvals.is_empty() {
        writeln!(output, "nothing")?;
    }
    for approval in approvals {
        output.write_all(render::brief(approval).as_bytes())?;
    }
    if let Some(next) = page["next_cursor"].as_str() {
        writeln!(output, "more: --cursor {}", shown(next))?;
    }
    Ok(0)
}

async fn decide(
    decision: &'static str,
    args: &Decision,
    remember: bool,
    client: &Client,
    input: &mut dyn BufRead,
    output: &mut dyn Write,
) -> anyhow::Result<u8> {
    let path = ["v1", "approvals", &args.id];
    let approval = client.get(&path, &[]).await?;
    if !args.yes && !confirm(decision, remember, &approval, input)? {
        writeln!(output, "nothing was decided")?;
        return Ok(0);
    }
    let mut body = json!({"decision": decision, "hmac": approval["hmac"]});
    if approval["hmac"].is_null() {
        // The service would refuse a decision without one; its own answer says why there is none.
        body["hmac"] = json!("");
    }
    if let Some(reason) = &args.reason {
        body["reason"] = json!(reason);
    }
    if remember {
        body["remember"] = json!("conversation");
    }
    match client.post(&[&path[..], &["decision"]].concat(), &body).await {
        Ok(answer) if args.json => write_json(output, &answer)?,
        Ok(answer) => output.write_all(render::decided(&answer).as_bytes())?,
        Err(Failure::Refused { status: 400 | 409, ref sentence }) => {
            // Both streams may be closed; the code says it all the same.
            let _ = writeln!(std::io::stderr(), "refused: {sentence}");
            return Ok(REFUSED);
        }
        Err(failure) => return Err(failure.into()),
    }
    Ok(0)
}

/// Shows the call and asks. Where nobody can answer nothing is decided.
fn confirm(
    decision: &str,
    remember: bool,
    approval: &Value,
    input: &mut dyn BufRead,
) -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        anyhow::bail!("nobody can be asked here\nhint: `--yes` decides without asking");
    }
    // The question goes where a person reads it, whatever becomes of the output.
    let mut errors = std::io::stderr();
    errors.write_all(render::whole(approval).as_bytes())?;
    let later = if remember { " and all later calls of the tool in this conversation" } else { "" };
    write!(errors, "{decision} this call{later}? [y/N] ")?;
    errors.flush()?;
    let mut line = String::new();
    input.read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

async fn watch(args: &Watch, client: &Client, output: &mut dyn Write) -> anyhow::Result<u8> {
    let bell = !args.json && std::io::stdout().is_terminal();
    let mut waiting: BTreeSet<String> = BTreeSet::new();
    let mut came = 0;
    let mut state: Option<String> = None;
    let mut failures = 0;
    loop {
        let mut query = vec![("status", "pending"), ("limit", "100")];
        query.extend(args.agent.as_deref().map(|agent| ("agent", agent)));
        if let Some(state) = &state {
            query.extend([("state", state.as_str()), ("wait", WAIT)]);
        }
        let page = match client.get(&["v1", "approvals"], &query).await {
            Ok(page) => page,
            Err(failure) if failure.may_pass() => {
                if failures == 0 {
                    let _ = writeln!(std::io::stderr(), "waiting for the service: {failure}");
                }
                let pause = PAUSES.get(failures).or(PAUSES.last()).copied().unwrap_or_default();
                tokio::time::sleep(failure.retry_after().unwrap_or(pause)).await;
                failures += 1;
                continue;
            }
            Err(failure) => return Err(failure.into()),
        };
        failures = 0;
        let approvals = page["approvals"].as_array().cloned().unwrap_or_default();
        let ids: BTreeSet<String> = approvals
            .iter()
            .filter_map(|approval| approval["id"].as_str())
            .map(str::to_owned)
            .collect();
        for gone in waiting.clone().difference(&ids) {
            // One that only left the page waits on.
            let approval = client.get(&["v1", "approvals", gone], &[]).await?;
            if approval["status"] != "pending" {
                waiting.remove(gone);
                tell(args, &approval, &render::ended(&approval), output)?;
            }
        }
        // The oldest of them came first.
        for approval in approvals.iter().rev() {
            let Some(id) = approval["id"].as_str() else { continue };
            if waiting.insert(id.to_owned()) {
                came += 1;
                let bell = if bell { "\u{7}" } else { "" };
                tell(args, approval, &format!("{bell}{}", render::brief(approval)), output)?;
            }
        }
        if args.count.is_some_and(|count| came >= count) {
            return Ok(0);
        }
        state = page["state"].as_str().map(str::to_owned);
    }
}

fn tell(args: &Watch, approval: &Value, text: &str, output: &mut dyn Write) -> anyhow::Result<()> {
    if args.json {
        writeln!(output, "{approval}")?;
    } else {
        output.write_all(text.as_bytes())?;
    }
    Ok(output.flush()?)
}
