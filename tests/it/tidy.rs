//! Rules about the source itself that no lint holds.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn sources(folder: &str) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root()).unwrap().display().to_string();
                files.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(!files.is_empty(), "no source in {folder}");
    files.sort();
    files
}

/// What must not stand in the core beside what clippy's lists hold: the world by another name.
#[test]
fn the_core_is_pure() {
    let worlds = [
        "async fn",
        ".await",
        "tokio::",
        "reqwest",
        "async_openai",
        "std::fs",
        "std::env",
        "std::net::Tcp",
        "std::net::Udp",
        "ToSocketAddrs",
        "std::process",
        "std::thread",
        "std::time",
        "SystemTime",
        "rand::",
        "println!",
        "eprintln!",
        "tracing::",
        "unsafe ",
        "HashMap",
        "HashSet",
    ];
    for (name, text) in sources("src/decide") {
        for world in worlds {
            assert!(!text.contains(world), "{name} holds `{world}`");
        }
    }
}

/// The modules of ours that a text names, its own among them.
fn used(text: &str) -> Vec<&str> {
    text.split("crate::")
        .skip(1)
        .map(|rest| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap())
        .collect()
}

/// A module uses only those above it in the table of `src/lib.rs`; hosts and judges do not know each
/// other.
#[test]
fn modules_use_only_those_above_them() {
    let rows: [(&str, &[&str]); 9] = [
        ("decide", &[]),
        ("files", &[]),
        ("host", &["decide"]),
        ("judge", &["decide"]),
        ("store", &["decide"]),
        ("service", &["decide", "host", "judge", "store"]),
        ("http", &["decide", "host", "service", "store"]),
        ("eval", &["decide", "files", "host", "judge", "service"]),
        ("config", &["decide", "files", "judge", "service"]),
    ];
    for (module, others) in rows {
        let of_module = |name: &str| {
            name == format!("src/{module}.rs") || name.starts_with(&format!("src/{module}/"))
        };
        let files: Vec<_> =
            sources("src").into_iter().filter(|(name, _)| of_module(name)).collect();
        assert!(!files.is_empty(), "no source of {module}");
        for (name, text) in files {
            for other in used(&text) {
                // `crate::{…}` names no module here, and so it is refused as well.
                let may = other == module || others.contains(&other);
                assert!(may, "{name} uses `crate::{other}`");
            }
        }
    }
}

#[test]
fn no_file_has_more_than_800_lines() {
    for (name, text) in sources("src") {
        let lines = text.lines().count();
        assert!(lines <= 800, "{name} has {lines} lines");
    }
}

#[test]
fn every_module_says_what_it_is_for() {
    for (name, text) in sources("src") {
        assert!(text.starts_with("//! "), "{name} does not begin with `//!`");
    }
}

/// The scripted judge is for tests and evaluation: nothing that serves requests may reach it.
#[test]
fn nothing_serves_from_a_script() {
    for (name, text) in sources("src") {
        let may = name.starts_with("src/judge/scripted") || name.starts_with("src/eval");
        let served = text.split("#[cfg(test)]").next().unwrap();
        let uses = served.contains("scripted::") || served.contains("Scripted");
        assert!(may || !uses, "{name} uses the scripted judge");
    }
}

#[test]
fn exceptions_give_their_reason() {
    for (name, text) in sources("src").into_iter().chain(sources("tests")) {
        for (number, line) in text.lines().enumerate() {
            let line = line.trim_start();
            let place = format!("{name}:{}", number + 1);
            assert!(!line.starts_with("#[allow") && !line.starts_with("#![allow"), "{place}");
            assert!(!line.starts_with("#[ignore"), "{place}");
        }
    }
}

#[test]
fn the_top_level_stays_small() {
    let known = [
        "Cargo.toml",
        "Cargo.lock",
        "src",
        "prompts",
        "tests",
        "fixtures",
        "benches",
        "examples",
        "deploy",
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        "target",
    ];
    for entry in std::fs::read_dir(Path::new(&root())).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name.starts_with('.') || known.contains(&name.as_str()), "{name} at the top level");
    }
}

/// A file that no `mod` names is a test that never runs.
#[test]
fn every_test_file_is_part_of_the_binary() {
    let main = std::fs::read_to_string(root().join("tests/it/main.rs")).unwrap();
    for entry in std::fs::read_dir(root().join("tests/it")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let module = name.strip_suffix(".rs").unwrap_or(&name);
        let named = main.contains(&format!("mod {module};"));
        assert!(named || ["main", "snapshots"].contains(&module), "{name} is no module");
    }
}
