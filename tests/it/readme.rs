//! The README's tables and commands say what the program does.

use std::path::Path;

use approver::config::Config;

fn readme() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap()
}

/// The first cells of the table under a heading, without backticks.
fn first_cells(heading: &str) -> Vec<String> {
    let readme = readme();
    let section = readme.split(&format!("\n## {heading}\n")).nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    section
        .lines()
        .filter(|line| line.starts_with("| "))
        .skip(1)
        .map(|line| line.split('|').nth(1).unwrap().trim().trim_matches('`').to_owned())
        .collect()
}

#[test]
fn the_table_of_reasons_is_the_list_of_codes_in_its_order() {
    let snapshot = include_str!("snapshots/it__settle__the_list_of_reasons.snap");
    let mut codes: Vec<&str> = snapshot
        .lines()
        .filter_map(|line| line.split_once(" (")?.0.split(' ').next())
        .filter(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '_'))
        .collect();
    codes.dedup();
    assert_eq!(first_cells("Why a call waits"), codes);
}

#[test]
fn the_table_of_settings_has_every_key_and_variable() {
    let config: Config = approver::config::resolve(None, &Default::default(), &[]).unwrap();
    let cells = first_cells("Settings");
    let readme = readme();
    for entry in config.entries() {
        // Secrets come from the environment alone, and their rows say so.
        let secrets = ["judge.api_key", "keys.root", "events.webhook_secret", "metrics.token"];
        let listed = secrets.contains(&entry.key) || cells.contains(&entry.key.to_owned());
        assert!(listed, "{} has no row", entry.key);
        let variable = format!("`APPROVER_{}`", entry.key.to_uppercase().replace('.', "_"));
        assert!(readme.contains(&variable), "{variable} has no row");
    }
    assert_eq!(cells.len(), config.entries().len());
}

#[test]
fn every_command_in_the_table_exists() {
    use clap::CommandFactory;
    let command = approver::cli::Cli::command();
    let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
    let listed = first_cells("Commands");
    for name in &names {
        assert!(
            listed.iter().any(|cell| cell.starts_with(&format!("approver {name}"))),
            "`{name}` is not in the table"
        );
    }
    for cell in listed {
        let name = cell.split(' ').nth(1).unwrap();
        assert!(names.contains(&name), "the table has `{cell}`");
    }
}

#[test]
fn the_two_commands_are_executable_files() {
    use std::os::unix::fs::PermissionsExt;
    for file in ["examples/trial/run", "examples/trial/evaluate", "tests/run", ".ci/run"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert!(mode & 0o111 != 0, "{file}");
    }
    let readme = readme();
    let start = readme.split("\n## ").next().unwrap();
    for command in ["\nexamples/trial/run\n", "\ntests/run\n"] {
        assert!(start.contains(command), "{command:?} does not stand at the top");
    }
}

/// `@@NAME@@` stands where figures or an example are still to be filled in.
#[test]
fn nothing_is_left_to_be_filled_in() {
    let open = regex::Regex::new("@@[A-Z_]+@@").unwrap();
    for (number, line) in readme().lines().enumerate() {
        assert!(!open.is_match(line), "line {}: {line}", number + 1);
    }
}
