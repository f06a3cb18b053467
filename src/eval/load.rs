//! From paths to cases. Everything is read before anything is judged, so that all problems of all
//! files come at once and no run ends half-way over a misspelt key.
//!
//! Fixtures stay in memory; external files are checked here line by line, and read a second time
//! while they are judged. Nothing is skipped: a file that cannot be read is a problem.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::case::Case;
use super::external::External;
use super::fixture::{Fixture, read_fixture};
use super::sample::{Members, Sample};
use crate::decide::digest;
use crate::decide::text::shown;
use crate::decide::walk::{Problem, quoted};
use crate::files::{self, FileError, LineRead};

/// The most bytes of a fixture.
const MAX_FIXTURE: u64 = 16 * 1024 * 1024;
/// The most bytes of a line of external cases or recorded answers.
const MAX_LINE: u64 = 64 * 1024 * 1024;
/// The most bytes of a file of external cases or recorded answers.
const MAX_LINES_FILE: u64 = 1024 * 1024 * 1024;

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

/// For a person's eyes: whatever a file or its name brought has no hidden character.
impl fmt::Display for FileProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&name_of(&self.file))?;
        if let Some(line) = self.line {
            write!(formatter, ":{line}")?;
        }
        if self.key != "$" {
            write!(formatter, ": `{}`", shown(&self.key))?;
        }
        write!(formatter, ": {}", shown(&self.text))
    }
}

impl std::error::Error for FileProblem {}

fn name_of(file: &Path) -> String {
    shown(&file.to_string_lossy())
}

/// All that was loaded.
#[derive(Debug, Clone, Default)]
pub struct Suites {
    /// The fixtures, by suite and file name.
    pub fixtures: Vec<Fixture>,
    external: Vec<PathBuf>,
    /// The ids of external cases, by source; of a sample, those that are in it.
    ids: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    sampled: bool,
}

impl Suites {
    /// How many calls there are.
    #[must_use]
    pub fn len(&self) -> usize {
        let calls: usize = self.fixtures.iter().map(|fixture| fixture.calls.len()).sum();
        calls + self.ids.values().map(BTreeSet::len).sum::<usize>()
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
        of_fixtures.chain(of_files.filter(|case| case.as_ref().map_or(true, |one| self.holds(one))))
    }

    fn holds(&self, external: &Case) -> bool {
        let labels = &external.labels;
        !self.sampled
            || self.ids.get(&labels.suite).is_some_and(|ids| ids.contains(&labels.fixture))
    }

    /// Keeps a sample of every suite.
    #[must_use]
    pub fn sample(mut self, sample: Sample) -> Self {
        let mut suites: BTreeMap<Arc<str>, Members> = BTreeMap::new();
        for labels in self.fixtures.iter().flat_map(|one| &one.calls).map(|call| &call.labels) {
            let members = suites.entry(Arc::clone(&labels.suite)).or_default();
            let pairs = members.entry(Arc::clone(&labels.fixture)).or_default();
            pairs.extend(labels.pair.as_ref().map(|(pair, _)| Arc::clone(pair)));
        }
        let chosen: BTreeMap<_, _> =
            suites.iter().map(|(suite, members)| (suite, sample.of(suite, members))).collect();
        self.fixtures.retain(|fixture| {
            let labels = fixture.calls.first().map(|call| &call.labels);
            labels.is_some_and(|labels| {
                chosen.get(&labels.suite).is_some_and(|names| names.contains(&labels.fixture))
            })
        });
        for (source, ids) in &mut self.ids {
            let members = ids.iter().map(|id| (Arc::clone(id), BTreeSet::new())).collect();
            *ids = sample.of(source, &members);
        }
        self.sampled = true;
        self
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
                self.problems.push(FileProblem::of_file(path, cannot_read(error)));
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
                return self.problems.push(FileProblem::of_file(file, cannot_read(error)));
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
        let text = match files::read_file(file, MAX_FIXTURE) {
            Ok(text) => text,
            Err(error) => {
                return self.problems.push(FileProblem::of_file(file, cannot_read(error)));
            }
        };
        let suite = self.suite(file, root, canonical);
        match read_fixture(&suite, &text) {
            Ok(fixture) => {
                let key = (suite, Arc::clone(&fixture.name));
                if let Some(first) = self.names.get(&key) {
                    let (name, first) = (quoted(&fixture.name), name_of(first));
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
                    let key = (Arc::clone(&external.source), Arc::clone(&external.id));
                    if let Some((first, line)) = self.ids.get(&key) {
                        let (id, first) = (quoted(&external.id), name_of(first));
                        let text = format!("the id {id} stands in `{first}` already, line {line}");
                        let problem = Problem::new("$.id", text);
                        self.problems.push(FileProblem::new(file, Some(number), problem));
                    } else {
                        let ids = self.suites.ids.entry(Arc::clone(&key.0)).or_default();
                        ids.insert(Arc::clone(&key.1));
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

fn cannot_read(error: impl Into<FileError>) -> String {
    format!("cannot be read: {}", error.into())
}

/// The lines of a file that hold something, each with its number from 1. After a problem of the
/// file as such, or of reading it, there is no further line.
pub(super) fn lines(file: &Path) -> impl Iterator<Item = Result<(usize, String), FileProblem>> {
    let (mut input, mut failure) = match open_lines(file) {
        Ok(input) => (Some(input), None),
        Err(error) => (None, Some(FileProblem::of_file(file, cannot_read(error)))),
    };
    let file = file.to_owned();
    let mut number = 0;
    let mut line = Vec::new();
    let read = std::iter::from_fn(move || {
        if let Some(problem) = failure.take() {
            return Some(Some(Err(problem)));
        }
        number += 1;
        let problem =
            |text: String| Err(FileProblem::new(&file, Some(number), Problem::new("$", text)));
        let read = files::next_line(input.as_mut()?, MAX_LINE, &mut line);
        Some(match read {
            Ok(LineRead::End) => return None,
            Ok(LineRead::Line) => match std::str::from_utf8(&line).map(str::trim) {
                Ok("") => None,
                Ok(text) if number == 1 && files::begins_with_mark(text) => {
                    Some(problem(cannot_read(FileError::ByteOrderMark)))
                }
                Ok(text) => Some(Ok((number, text.to_owned()))),
                Err(_error) => {
                    Some(problem(cannot_read(io::Error::from(io::ErrorKind::InvalidData))))
                }
            },
            Ok(LineRead::TooLong) => {
                Some(problem(format!("a line has more than {MAX_LINE} bytes")))
            }
            Err(error) => {
                input = None;
                Some(problem(cannot_read(error)))
            }
        })
    });
    read.flatten()
}

fn open_lines(file: &Path) -> Result<BufReader<io::Take<std::fs::File>>, FileError> {
    let opened = files::open(file)?;
    if opened.metadata()?.len() > MAX_LINES_FILE {
        return Err(FileError::TooLong(MAX_LINES_FILE));
    }
    // It may grow while it is read.
    Ok(BufReader::new(opened.take(MAX_LINES_FILE)))
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
