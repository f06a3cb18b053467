//! `approver token create|list|revoke`: bearer tokens, straight in the configured store. It is how
//! the first administrator comes about; whoever can write the store may do all of it anyway.

use std::io::Write;

use anyhow::bail;
use comfy_table::{Table, TableStyle};
use serde_json::{Value, json};

use super::open_store;
use crate::config::Config;
use crate::decide::text::shown;
use crate::http::time::rfc3339;
use crate::service::names::check_plain;
use crate::service::{Clock, Refusal, tokens};
use crate::store::{Token, TokenKind};

/// What to do with tokens.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Make a token and print it, once
    Create(Create),
    /// List all tokens of an organisation, revoked ones too; no token is shown
    List(List),
    /// End a token, by the id that `list` shows
    Revoke(Revoke),
}

/// Arguments of `approver token create`.
#[derive(Debug, clap::Args)]
pub struct Create {
    /// Whose rows the token may see
    #[arg(long, default_value = super::DEFAULT_ORGANISATION)]
    pub organisation: String,
    /// `gateway`, `operator`, `policy_owner`, `provisioner` or `admin`
    #[arg(long)]
    pub kind: String,
    /// Its name; an operator's stands as the decider on what that person decides
    #[arg(long)]
    pub name: String,
    /// Let a gateway hand in decisions, naming the person
    #[arg(long)]
    pub decide: bool,
    /// An agent's version or channel that a provisioner may bind; may be repeated
    #[arg(long = "versions", value_name = "AGENT:VERSION", value_parser = parse_version)]
    pub versions: Vec<(String, String)>,
}

/// Arguments of `approver token list`.
#[derive(Debug, clap::Args)]
pub struct List {
    /// Whose
    #[arg(long, default_value = super::DEFAULT_ORGANISATION)]
    pub organisation: String,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `approver token revoke`.
#[derive(Debug, clap::Args)]
pub struct Revoke {
    /// Whose
    #[arg(long, default_value = super::DEFAULT_ORGANISATION)]
    pub organisation: String,
    /// The token's id
    pub id: String,
}

/// `agent:version`.
pub(super) fn parse_version(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once(':').filter(|(agent, version)| {
        check_plain("agent", agent).is_ok() && check_plain("version", version).is_ok()
    });
    pair.map(|(agent, version)| (agent.to_owned(), version.to_owned()))
        .ok_or_else(|| "expected `AGENT:VERSION`".to_owned())
}

/// Runs a command on the configured store. The token goes to `output` and all else that is said
/// about it to `errors`.
///
/// # Errors
/// The store cannot be opened, the command is refused, or an output takes no more.
pub async fn run(
    command: &Command,
    config: &Config,
    output: &mut dyn Write,
    errors: &mut dyn Write,
) -> anyhow::Result<u8> {
    let store = open_store(&config.serve.store).await?;
    let now = Clock::system().now();
    match command {
        Command::Create(Create { organisation, kind, name, decide, versions }) => {
            let kind = tokens::kind(kind, *decide, versions.clone()).map_err(refused)?;
            let made = tokens::create(store.as_ref(), now, organisation, name, kind)
                .await
                .map_err(refused)?;
            writeln!(output, "{}", made.text)?;
            output.flush()?;
            let Token { id, kind, .. } = &made.token;
            writeln!(
                errors,
                "token {id} of kind {} for organisation {organisation}; it is shown only now",
                kind.as_str()
            )?;
        }
        Command::List(List { organisation, json }) => {
            check_plain("organisation", organisation).map_err(refused)?;
            let tokens = store.tokens(organisation).await?;
            if *json {
                let tokens: Vec<Value> = tokens.iter().map(as_json).collect();
                writeln!(output, "{:#}", json!(tokens))?;
            } else {
                writeln!(output, "{}", as_table(&tokens))?;
            }
        }
        Command::Revoke(Revoke { organisation, id }) => {
            tokens::revoke(store.as_ref(), now, organisation, id).await.map_err(refused)?;
            writeln!(errors, "token {} works no more", shown(id))?;
        }
    }
    Ok(0)
}

/// A refusal as the command's error.
fn refused(refusal: Refusal) -> anyhow::Error {
    let message = refusal.message.trim_end_matches('.');
    match refusal.param {
        Some(param) => anyhow::anyhow!("{}: {message}", param.trim_start_matches("$.")),
        None => anyhow::anyhow!("{message}"),
    }
}

fn more(kind: &TokenKind) -> String {
    match kind {
        TokenKind::Gateway { decide: true } => "decide".to_owned(),
        TokenKind::Instance { instance } => instance.clone(),
        TokenKind::Provisioner { versions } => {
            let pairs: Vec<_> =
                versions.iter().map(|(agent, version)| format!("{agent}:{version}")).collect();
            pairs.join(" ")
        }
        TokenKind::Gateway { decide: false }
        | TokenKind::Operator
        | TokenKind::PolicyOwner
        | TokenKind::Admin => String::new(),
    }
}

fn as_json(token: &Token) -> Value {
    json!({
        "id": token.id,
        "kind": token.kind.as_str(),
        "name": token.name,
        "may": more(&token.kind),
        "created_at": rfc3339(token.created_at),
        "revoked_at": token.revoked_at.map(rfc3339),
    })
}

fn as_table(tokens: &[Token]) -> String {
    let mut table = Table::new();
    table.load_style(TableStyle::new()).set_header(["ID", "KIND", "NAME", "MAY", "MADE", "ENDED"]);
    for token in tokens {
        table.add_row([
            token.id.clone(),
            token.kind.as_str().to_owned(),
            shown(&token.name),
            shown(&more(&token.kind)),
            rfc3339(token.created_at),
            token.revoked_at.map(rfc3339).unwrap_or_default(),
        ]);
    }
    table.trim_fmt()
}

/// Makes sure that a word of the command line is a plain name.
///
/// # Errors
/// When it is not.
pub(super) fn check_organisation(name: &str) -> anyhow::Result<()> {
    if check_plain("organisation", name).is_err() {
        bail!("`--organisation` is no plain name: letters, digits, `.`, `_` and `-`");
    }
    Ok(())
}
