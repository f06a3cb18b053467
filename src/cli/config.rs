//! `approver config`: every setting with its origin, secrets masked.
//!
//! It asks no server and changes nothing.

use std::io::Write;

use anyhow::Context as _;
use comfy_table::{Table, TableStyle};
use serde_json::{Map, Value, json};

use crate::config::{Config, Flags, load};
use crate::decide::text::shown;

/// Arguments of `approver config`.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Args {
    /// Where settings come from.
    #[command(flatten)]
    pub flags: Flags,
    /// Prints JSON
    #[arg(long)]
    pub json: bool,
}

/// Prints the settings.
///
/// # Errors
/// Everything wrong with the settings, or an output that takes no more.
pub fn run(args: &Args, output: &mut dyn Write) -> anyhow::Result<()> {
    let config = load(&args.flags)?;
    let text = if args.json { as_json(&config) } else { as_table(&config) };
    output.write_all(text.as_bytes()).context("cannot write the settings")
}

/// One object: `settings` by key, each with `value` and `origin`, and `notes`.
#[must_use]
pub fn as_json(config: &Config) -> String {
    let settings: Map<String, Value> = config
        .entries()
        .into_iter()
        .map(|entry| (entry.key.to_owned(), json!({"value": entry.value, "origin": entry.origin})))
        .collect();
    format!("{:#}\n", json!({"settings": settings, "notes": config.notes}))
}

/// A table for people, and the notes below it.
#[must_use]
pub fn as_table(config: &Config) -> String {
    let mut table = Table::new();
    table.load_style(TableStyle::new()).set_header(["KEY", "VALUE", "ORIGIN"]);
    for entry in config.entries() {
        let value = match entry.value {
            Value::Null => "-".to_owned(),
            Value::String(text) => text,
            other => other.to_string(),
        };
        table.add_row([entry.key, &shown(&value), &shown(&entry.origin)]);
    }
    let mut text = table.trim_fmt();
    text.push('\n');
    for note in &config.notes {
        text.push_str("note: ");
        text.push_str(&shown(note));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;
    use crate::config::resolve;

    fn config() -> Config {
        let file = "[judge]\nmodel = \"small\"\nbase_url = \"http://localhost:8080/v1\"\n\
                    temperature = 0.1\nextra_headers = { X-Team = \"PLANTED\" }\n\
                    [operator]\nhuman_only = [\"PayInvoice\"]\n\
                    catalogue = [{ name = \"Read\", class = \"read\" }]\n";
        let environment = BTreeMap::from([
            ("APPROVER_JUDGE_API_KEY".to_owned(), "PLANTED".to_owned()),
            ("APPROVER_JUDGE_DEADLINE".to_owned(), "1m 30s".to_owned()),
        ]);
        let set = ["judge.seed=7".to_owned()];
        resolve(Some((Path::new("approver.toml"), file)), &environment, &set).unwrap()
    }

    #[test]
    fn as_people_read_it() {
        let text = as_table(&config());
        assert!(!text.contains("PLANTED"));
        insta::assert_snapshot!(text);
    }

    #[test]
    fn as_programs_read_it() {
        let text = as_json(&config());
        assert!(!text.contains("PLANTED"));
        insta::assert_snapshot!(text);
    }
}
