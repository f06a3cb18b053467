//! The README's tables and commands say what the program does.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::Path;

use approver::config::Config;
use approver::service::Code;

fn readme() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap()
}

/// What stands under a heading.
fn section(heading: &str) -> String {
    let readme = readme();
    let section = readme.split(&format!("\n## {heading}\n")).nth(1).unwrap();
    section.split("\n## ").next().unwrap().to_owned()
}

/// The first cells of the table under a heading, without backticks.
fn first_cells(heading: &str) -> Vec<String> {
    section(heading)
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
fn the_table_of_endpoints_has_every_path_and_method() {
    let document = include_str!("../../src/http/openapi.json");
    let document: serde_json::Value = serde_json::from_str(document).unwrap();
    let mut described = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            if methods.get(method.to_lowercase()).is_some() {
                described.insert(format!("{method} {path}"));
            }
        }
    }
    let section = section("Endpoints");
    let mut listed = BTreeSet::new();
    for row in section.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        for method in cells[2].split(", ") {
            listed.insert(format!("{method} {}", cells[1].trim_matches('`')));
        }
    }
    assert_eq!(listed, described);
}

#[test]
fn the_table_of_errors_has_every_code_at_its_status() {
    let section = section("Errors");
    for code in Code::ALL {
        let start = format!("| {} |", code.status());
        let row = section.lines().find(|line| line.starts_with(&start));
        let row = row.unwrap_or_else(|| panic!("{} has no row", code.status()));
        assert!(row.contains(&format!("`{}`", code.as_str())), "{row} lacks {}", code.as_str());
    }
}

#[test]
fn the_two_commands_are_executable_files() {
    use std::os::unix::fs::PermissionsExt;
    for file in [
        "examples/trial/run",
        "examples/trial/evaluate",
        "examples/walkthrough/run",
        "tests/run",
        ".ci/run",
    ] {
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

/// Tests are named in the last column of the tables: Rust's, and those of the frameworks.
#[test]
fn every_test_that_the_conformance_page_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = root.join("examples/frameworks/CONFORMANCE.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut source = String::new();
    let mut folders = vec![root.join("src"), root.join("tests")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if matches!(path.extension().and_then(OsStr::to_str), Some("rs" | "py")) {
                source.push_str(&std::fs::read_to_string(path).unwrap());
            }
        }
    }
    let rows = page.lines().filter(|line| line.starts_with("| ")).filter(|line| line.contains('`'));
    let named: Vec<&str> = rows
        .filter_map(|row| row.trim_end_matches(" |").rsplit('|').next())
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .collect();
    assert!(named.len() > 50, "{named:?}");
    for name in named {
        let is_there =
            source.contains(&format!("fn {name}(")) || source.contains(&format!("def {name}("));
        assert!(is_there, "there is no test `{name}`");
    }
}

/// `@@NAME@@` stands where figures or an example are still to be filled in.
#[test]
fn nothing_is_left_to_be_filled_in() {
    for (number, line) in readme().lines().enumerate() {
        let mut after = line.split("@@").skip(1);
        let left = after.any(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()));
        assert!(!left, "line {}: {line}", number + 1);
    }
}
