//! From paths to cases. Everything is read before anything is judged, so that all problems of all
//! files come at once and no run ends half-way over a misspelt key.
//!
//! Fixtures stay in memory; external files are checked here line by line, and read a second time
//! while they are judged. Nothing is skipped: a file that cannot be read is a problem.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::case::Case;
use super::external::External;
use super::fixture::{Fixture, read_fixture};
use crate::decide::digest;
use crate::decide::walk::{Problem, quoted};

/// Something wrong with a file: its name, the line where that is known, and the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileProblem {
    /// The file, as it was named or found.
    pub file: PathBuf,
    /// Lines count from 1.
    pub line: Option<usize>,
    /// JSON path of the key; `$` for the file as such.
    pub key: String,
    /// One sentence fragment: lower case, no full stop.
    pub text: String,
}

impl FileProblem {
    fn of_file(file: &Path, text: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line: None, key: "$".to_owned(), text: text.into() }
    }

    fn new(file: &Path, line: Option<usize>, problem: Problem) -> Self {
        Self { file: file.to_owned(), line, key: problem.path, text: problem.text }
    }
}

impl fmt::Display for FileProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(formatter, ":{line}")?;
        }
        if self.key != "$" {
            write!(formatter, ": `{}`", self.key)?;
        }
        write!(formatter, ": {}", self.text)
    }
}

impl std::error::Error for FileProblem {}

/// All that was loaded.
#[derive(Debug, Clone, Default)]
pub struct Suites {
    /// The fixtures, by suite and file name.
    pub fixtures: Vec<Fixture>,
    external: Vec<PathBuf>,
    external_cases: usize,
}

impl Suites {
    /// How many calls there are.
    #[must_use]
    pub fn len(&self) -> usize {
        let calls: usize = self.fixtures.iter().map(|fixture| fixture.calls.len()).sum();
        calls + self.external_cases
    }

    /// Whether there is nothing to judge.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every case: the fixtures' first, then the external files', line by line. A line can have
    /// become unreadable since it was loaded.
    pub fn cases(&self) -> impl Iterator<Item = Result<Case, FileProblem>> {
        let of_fixtures = self
            .fixtures
            .iter()
            .flat_map(|fixture| fixture.calls.iter().map(|call| Ok(fixture.case(call))));
        let of_files = self.external.iter().flat_map(|file| external_cases(file));
        of_fixtures.chain(of_files)
    }

    /// Digest of all the organisations' lists that the cases bring along.
    #[must_use]
    pub fn lists_digest(&self) -> String {
        let lists: BTreeSet<String> = self
            .fixtures
            .iter()
            .filter_map(|fixture| fixture.policy.as_ref())
            .map(|policy| {
                let mut parts = Vec::new();
                let lists = &policy.lists;
                for (name, entries) in [
                    ("environment", &lists.environment),
                    ("allow", &lists.allow),
                    ("soft_deny", &lists.soft_deny),
                ] {
                    parts.push(name);
                    parts.extend(entries.iter().map(String::as_str));
                }
                digest(&parts)
            })
            .collect();
        let parts: Vec<&str> = lists.iter().map(String::as_str).collect();
        digest(&parts)
    }
}

/// Loads every fixture (`.toml`) and every file of external cases (`.jsonl`) at `paths`. A folder
/// is searched at any depth; one that has a folder `eval` stands for that folder. A fixture's suite
/// is named after its folder below the path that was given.
///
/// # Errors
/// All problems of all files, in the order of the paths.
pub fn load(paths: &[PathBuf]) -> Result<Suites, Vec<FileProblem>> {
    let mut loader = Loader::default();
    for path in paths {
        loader.path(path);
    }
    loader.finish()
}

#[derive(Default)]
struct Loader {
    suites: Suites,
    seen: BTreeSet<PathBuf>,
    /// The folder that has a suite's name, which is the first one that claimed it.
    folders: BTreeMap<String, PathBuf>,
    /// Where each fixture's name stands: no two of one suite share it.
    names: BTreeMap<(Arc<str>, Arc<str>), PathBuf>,
    ids: BTreeMap<(Arc<str>, Arc<str>), (PathBuf, usize)>,
    problems: Vec<FileProblem>,
}

impl Loader {
    fn path(&mut self, path: &Path) {
        if path.is_dir() {
            let below = path.join("eval");
            let root = if below.is_dir() { below } else { path.to_owned() };
            let mut files = Vec::new();
            if let Err(error) = find(&root, &mut files) {
                self.problems.push(FileProblem::of_file(path, cannot_read(&error)));
            }
            if files.is_empty() {
                let text = "no fixture (`.toml`) and no external cases (`.jsonl`) in this folder";
                self.problems.push(FileProblem::of_file(path, text));
            }
            for file in files {
                self.file(&file, &root);
            }
        } else {
            self.file(path, path.parent().unwrap_or(Path::new(".")));
        }
    }

    fn file(&mut self, file: &Path, root: &Path) {
        let canonical = match file.canonicalize() {
            Ok(canonical) => canonical,
            Err(error) => {
                return self.problems.push(FileProblem::of_file(file, cannot_read(&error)));
            }
        };
        // A file that is named and stands in a named folder as well is judged once.
        if !self.seen.insert(canonical.clone()) {
            return;
        }
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("toml") => self.fixture(file, root, &canonical),
            Some("jsonl") => self.external(file),
            Some(_) | None => {
                let text = "expected a fixture (`.toml`) or external cases (`.jsonl`)";
                self.problems.push(FileProblem::of_file(file, text));
            }
        }
    }

    fn fixture(&mut self, file: &Path, root: &Path, canonical: &Path) {
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) => {
                return self.problems.push(FileProblem::of_file(file, cannot_read(&error)));
            }
        };
        let suite = self.suite(file, root, canonical);
        match read_fixture(&suite, &text) {
            Ok(fixture) => {
                let key = (suite, Arc::clone(&fixture.name));
                if let Some(first) = self.names.get(&key) {
                    let (name, first) = (quoted(&fixture.name), first.display());
                    let text = format!("the name {name} stands in `{first}` already");
                    let problem = Problem::new("$.name", text);
                    self.problems.push(FileProblem::new(file, None, problem));
                } else {
                    self.names.insert(key, file.to_owned());
                    self.suites.fixtures.push(fixture);
                }
            }
            Err(problems) => self.problems.extend(
                problems.into_iter().map(|(line, problem)| FileProblem::new(file, line, problem)),
            ),
        }
    }

    /// The suite's name: the folder below the root, or the root's own name; the whole path where
    /// another folder has that name.
    fn suite(&mut self, file: &Path, root: &Path, canonical: &Path) -> Arc<str> {
        let folder = file.parent().unwrap_or(Path::new("."));
        let own = canonical.parent().unwrap_or(canonical);
        let below = folder.strip_prefix(root).unwrap_or(folder);
        let short = if below.as_os_str().is_empty() {
            own.file_name().unwrap_or_default().to_string_lossy().into_owned()
        } else {
            below.to_string_lossy().into_owned()
        };
        let claimed = self.folders.entry(short.clone()).or_insert_with(|| own.to_owned());
        if claimed == own { short.into() } else { folder.to_string_lossy().into() }
    }

    fn external(&mut self, file: &Path) {
        self.suites.external.push(file.to_owned());
        for entry in lines(file) {
            let (number, read) = match entry {
                Ok((number, line)) => (number, External::read(&line)),
                Err(problem) => {
                    self.problems.push(problem);
                    continue;
                }
            };
            match read {
                Ok(external) => {
                    self.suites.external_cases += 1;
                    let key = (Arc::clone(&external.source), Arc::clone(&external.id));
                    if let Some((first, line)) = self.ids.get(&key) {
                        let (id, first) = (quoted(&external.id), first.display());
                        let text = format!("the id {id} stands in `{first}` already, line {line}");
                        let problem = Problem::new("$.id", text);
                        self.problems.push(FileProblem::new(file, Some(number), problem));
                    } else {
                        self.ids.insert(key, (file.to_owned(), number));
                    }
                }
                Err(problems) => self.problems.extend(
                    problems
                        .into_iter()
                        .map(|problem| FileProblem::new(file, Some(number), problem)),
                ),
            }
        }
    }

    fn finish(mut self) -> Result<Suites, Vec<FileProblem>> {
        if self.suites.is_empty() && self.problems.is_empty() {
            self.problems.push(FileProblem::of_file(Path::new("."), "nothing to judge"));
        }
        if self.problems.is_empty() { Ok(self.suites) } else { Err(self.problems) }
    }
}

/// The files of a folder at any depth, in the order of their names. Other files may lie beside
/// them: a guide, licence texts.
fn find(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            find(&entry, files)?;
        } else if entry.extension().is_some_and(|name| name == "toml" || name == "jsonl") {
            files.push(entry);
        }
    }
    Ok(())
}

fn cannot_read(error: &io::Error) -> String {
    // The kind is our own word for it; the system's sentence differs from one system to the next.
    format!("cannot be read: {}", error.kind())
}

/// The lines of a file that hold something, each with its number from 1.
pub(super) fn lines(file: &Path) -> impl Iterator<Item = Result<(usize, String), FileProblem>> {
    let (reader, failure) = match File::open(file) {
        Ok(opened) => (Some(BufReader::new(opened)), None),
        Err(error) => (None, Some(FileProblem::of_file(file, cannot_read(&error)))),
    };
    let file = file.to_owned();
    let read = reader.into_iter().flat_map(BufRead::lines).enumerate();
    let read = read.filter_map(move |(index, line)| match line {
        Ok(line) if line.trim().is_empty() => None,
        Ok(line) => Some(Ok((index + 1, line))),
        Err(error) => {
            let problem = Problem::new("$", cannot_read(&error));
            Some(Err(FileProblem::new(&file, Some(index + 1), problem)))
        }
    });
    failure.into_iter().map(Err).chain(read)
}

fn external_cases(file: &Path) -> impl Iterator<Item = Result<Case, FileProblem>> {
    let name = file.to_owned();
    lines(file).map(move |entry| {
        let (number, line) = entry?;
        match External::read(&line) {
            Ok(external) => Ok(external.into_case()),
            Err(problems) => {
                let first = problems.into_iter().next();
                let problem = first.unwrap_or_else(|| Problem::new("$", "cannot be read"));
                Err(FileProblem::new(&name, Some(number), problem))
            }
        }
    })
}
