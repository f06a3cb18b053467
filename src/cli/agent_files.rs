//! Agent versions from a folder: `<agent>/<version>.json`, read at the service's start and when an
//! operator sends SIGHUP.
//!
//! What stands there decides what agents may do. So nobody but the owner may be able to write it:
//! folder, files and every folder above them belong to the service's account or to root, and are
//! writable for neither group nor others; nothing leads out of the folder.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};

use crate::decide::text::shown;
use crate::files;
use crate::service::names::check_plain;
use crate::service::{Put, Service};

/// The most bytes of a file.
const MAX_FILE: u64 = 8 * 1024 * 1024;
/// The most files of a folder.
const MAX_FILES: usize = 10_000;

/// Who stored what came from a file: a machine.
const BY: &str = "agents:file";

/// One version's text, by its place.
#[derive(Debug)]
struct AgentFile {
    agent: String,
    version: String,
    path: PathBuf,
    text: String,
}

/// What a reading came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Loaded {
    /// Versions that were not stored before.
    pub(super) new: usize,
    /// Versions that were.
    pub(super) known: usize,
}

/// Stores every version of the folder for the organisation. Nothing is stored unless all files can be
/// read.
///
/// # Errors
/// A folder or file that somebody else may write, that leads elsewhere, or that cannot be read; every
/// problem of every file; a version that is stored with other content.
pub(super) async fn load(
    service: &Service,
    organisation: &str,
    folder: &Path,
) -> anyhow::Result<Loaded> {
    let folder = folder.to_owned();
    let files = tokio::task::spawn_blocking(move || read(&folder))
        .await
        .context("reading agent files ended early")??;
    let mut loaded = Loaded::default();
    let mut problems = Vec::new();
    for AgentFile { agent, version, path, text } in &files {
        match service.put_version(organisation, agent, version, text, BY).await {
            Ok((Put::New, _)) => loaded.new += 1,
            Ok((Put::Same, _)) => loaded.known += 1,
            Err(refusal) => {
                let code = refusal.code.as_str();
                problems.push(format!("{}: {code}: {}", name(path), shown(&refusal.message)));
            }
        }
    }
    if problems.is_empty() { Ok(loaded) } else { bail!(problems.join("\n")) }
}

fn read(folder: &Path) -> anyhow::Result<Vec<AgentFile>> {
    // What the path leads to counts, and how it leads there does not.
    let root = fs::canonicalize(folder)
        .map_err(kind)
        .with_context(|| format!("cannot read `{}`", name(folder)))?;
    for above in root.ancestors().skip(1) {
        check_above(above)?;
    }
    let mut files = Vec::new();
    check_own(&root, true)?;
    for (agent, path) in entries(&root)? {
        check_own(&path, true)?;
        check_name(&path, &agent)?;
        for (file, path) in entries(&path)? {
            check_own(&path, false)?;
            let version = file
                .strip_suffix(".json")
                .with_context(|| format!("`{}` is no `<agent>/<version>.json`", name(&path)))?;
            check_name(&path, version)?;
            let text = files::read_file(&path, MAX_FILE)
                .and_then(files::without_mark)
                .with_context(|| format!("cannot read `{}`", name(&path)))?;
            if files.len() >= MAX_FILES {
                bail!("`{}` holds more than {MAX_FILES} files", name(&root));
            }
            files.push(AgentFile { agent: agent.clone(), version: version.to_owned(), path, text });
        }
    }
    Ok(files)
}

/// What a folder holds, by name. Hidden files are passed over: editors and mounts leave them.
fn entries(folder: &Path) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let cannot = || format!("cannot read `{}`", name(folder));
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder).map_err(kind).with_context(cannot)? {
        let path = entry.map_err(kind).with_context(cannot)?.path();
        let file = path.file_name().and_then(|file| file.to_str());
        let file = file.with_context(|| format!("`{}` is no name for a version", name(&path)))?;
        if !file.starts_with('.') {
            entries.push((file.to_owned(), path));
        }
    }
    entries.sort();
    Ok(entries)
}

fn check_name(path: &Path, word: &str) -> anyhow::Result<()> {
    check_plain("name", word)
        .map_err(|refusal| anyhow::anyhow!("`{}`: {}", name(path), refusal.message))
}

/// A folder or file of ours: no link, and writable for its owner alone, who is we or root.
fn check_own(path: &Path, folder: bool) -> anyhow::Result<()> {
    let metadata = looked_at(path)?;
    if metadata.is_symlink() {
        bail!("`{}` is a symbolic link; agent files are files and folders alone", name(path));
    }
    if metadata.is_dir() != folder || !(folder || metadata.is_file()) {
        bail!("`{}` is no {}", name(path), if folder { "folder" } else { "regular file" });
    }
    if metadata.mode() & 0o022 != 0 {
        bail!(
            "`{}` is writable for group or others, and so perhaps for an agent; `chmod go-w` it",
            name(path)
        );
    }
    check_owner(path, &metadata)
}

/// A folder above: whoever can write it can put another folder in place of ours, unless it is sticky.
fn check_above(path: &Path) -> anyhow::Result<()> {
    let metadata = looked_at(path)?;
    if metadata.mode() & 0o022 != 0 && metadata.mode() & 0o1000 == 0 {
        bail!("`{}`, which leads to the agent files, is writable for group or others", name(path));
    }
    check_owner(path, &metadata)
}

fn check_owner(path: &Path, metadata: &Metadata) -> anyhow::Result<()> {
    let own = rustix::process::geteuid().as_raw();
    if metadata.uid() == 0 || metadata.uid() == own {
        return Ok(());
    }
    bail!("`{}` belongs to another account than the service's", name(path))
}

fn looked_at(path: &Path) -> anyhow::Result<Metadata> {
    fs::symlink_metadata(path)
        .map_err(kind)
        .with_context(|| format!("cannot look at `{}`", name(path)))
}

/// Our own word for it; the system's sentence differs from one system to the next.
fn kind(error: io::Error) -> io::Error {
    error.kind().into()
}

fn name(path: &Path) -> String {
    shown(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("erp")).unwrap();
        fs::write(folder.path().join("erp/7.json"), "{}").unwrap();
        fs::write(folder.path().join("erp/.hidden"), "x").unwrap();
        for (path, mode) in [("", 0o755), ("erp", 0o755), ("erp/7.json", 0o644)] {
            set(&folder.path().join(path), mode);
        }
        folder
    }

    fn set(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[track_caller]
    fn refused(folder: &Path, why: &str) {
        let error = format!("{:#}", read(folder).unwrap_err());
        assert!(error.contains(why), "{error}");
    }

    #[test]
    fn versions_are_found_by_their_place() {
        let folder = folder();
        let files = read(folder.path()).unwrap();
        let [AgentFile { agent, version, .. }] = files.as_slice() else { panic!("{files:?}") };
        assert_eq!((agent.as_str(), version.as_str()), ("erp", "7"));
    }

    #[test]
    fn what_others_may_write_is_refused() {
        for path in ["", "erp", "erp/7.json"] {
            for bit in [0o020, 0o002] {
                let folder = folder();
                let place = folder.path().join(path);
                let mode = fs::metadata(&place).unwrap().permissions().mode();
                set(&place, mode | bit);
                refused(folder.path(), "writable for group or others");
            }
        }
        // A folder above, too.
        let folder = folder();
        set(folder.path(), 0o777);
        refused(&folder.path().join("erp"), "writable for group or others");
    }

    #[test]
    fn links_and_other_files_are_refused() {
        let (here, elsewhere) = (folder(), folder());
        symlink(elsewhere.path().join("erp"), here.path().join("other")).unwrap();
        refused(here.path(), "symbolic link");

        let here = folder();
        symlink(elsewhere.path().join("erp/7.json"), here.path().join("erp/8.json")).unwrap();
        refused(here.path(), "symbolic link");

        let here = folder();
        fs::write(here.path().join("erp/notes.txt"), "").unwrap();
        set(&here.path().join("erp/notes.txt"), 0o644);
        refused(here.path(), "<version>.json");

        let here = folder();
        fs::write(here.path().join("7.json"), "{}").unwrap();
        set(&here.path().join("7.json"), 0o644);
        refused(here.path(), "is no folder");
        refused(&here.path().join("missing"), "cannot read");
    }
}
