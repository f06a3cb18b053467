//! Gate: a tool of which nobody said what it does.

use super::Subject;
use crate::decide::reason::Reason;

pub(super) fn check(subject: &Subject<'_>) -> Option<Reason> {
    subject.effective.class.is_none().then_some(Reason::Unclassified)
}
