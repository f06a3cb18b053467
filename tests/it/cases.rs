//! Files of cases: TOML with one table `[[case]]` for each.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde::de::DeserializeOwned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File<C> {
    case: Vec<C>,
}

/// A case has a name, by which a failed test calls it.
pub(crate) trait Named {
    /// The name; no two cases of a file share one.
    fn name(&self) -> &str;
}

/// Reads a file's text: at least one case, and no two of one name.
#[track_caller]
pub(crate) fn cases<C: DeserializeOwned + Named>(text: &str) -> Vec<C> {
    let File { case: cases } = toml::from_str::<File<C>>(text).unwrap();
    let mut names = BTreeSet::new();
    for case in &cases {
        assert!(names.insert(case.name()), "`{}` stands twice", case.name());
    }
    assert!(!cases.is_empty(), "no case");
    cases
}
