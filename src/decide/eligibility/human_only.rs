//! Gate: tools that only a person may ever approve, by name.

use super::Subject;
use crate::decide::reason::Reason;

pub(super) fn check(subject: &Subject<'_>) -> Option<Reason> {
    subject.settings.is_human_only(subject.tool).then_some(Reason::HumanOnly)
}
