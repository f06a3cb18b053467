//! The key ring from a file that its owner alone may read, or from the environment.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use secrecy::ExposeSecret as _;

use crate::config::serve::KeysConfig;
use crate::decide::text::shown;
use crate::files;
use crate::service::keys::KeyRing;

/// The most bytes of a key file.
const MAX_FILE: u64 = 64 * 1024;

/// The key ring of the settings.
///
/// # Errors
/// None is set, or it cannot be used. No error shows a key.
pub(super) fn ring(keys: &KeysConfig) -> anyhow::Result<KeyRing> {
    match (&keys.file.value, &keys.root.value) {
        (Some(file), _) => from_file(file),
        (None, Some(root)) => {
            KeyRing::parse(root.expose_secret()).context("`keys.root` (APPROVER_KEYS_ROOT)")
        }
        (None, None) => bail!(
            "there is no key: name a file by `keys.file`, or set APPROVER_KEYS_ROOT\n  \
             hint: `printf 'k1:%s\\n' \"$(openssl rand -base64 32)\"` makes one"
        ),
    }
}

fn from_file(file: &Path) -> anyhow::Result<KeyRing> {
    let name = shown(&file.to_string_lossy());
    let opened = files::open(file).with_context(|| format!("cannot read `{name}`"))?;
    // Of the file that was opened: another one may stand there by now.
    let metadata = opened.metadata().map_err(|error| anyhow::anyhow!(error.kind()))?;
    if metadata.mode() & 0o077 != 0 {
        bail!("`{name}` holds keys and is open to group or others; `chmod 600` it");
    }
    let text = files::read(opened, MAX_FILE).with_context(|| format!("cannot read `{name}`"))?;
    KeyRing::parse(&text).with_context(|| format!("`{name}`"))
}

#[cfg(test)]
mod tests {
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const KEY: &str = "k2:AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=\n# older\n\
                       k1:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\n";

    #[test]
    fn only_its_owner_may_read_a_key_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("keys");
        write(&file, KEY).unwrap();
        for mode in [0o640, 0o604, 0o620, 0o666] {
            set_permissions(&file, Permissions::from_mode(mode)).unwrap();
            assert!(format!("{:#}", from_file(&file).unwrap_err()).contains("chmod 600"));
        }
        set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        assert_eq!(from_file(&file).unwrap().active(), "k2");
        write(&file, "k1:PLANTED").unwrap();
        let error = format!("{:#}", from_file(&file).unwrap_err());
        assert!(error.contains("key 1") && !error.contains("PLANTED"), "{error}");
    }
}
