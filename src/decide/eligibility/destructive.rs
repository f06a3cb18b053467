//! Gate: what may destroy goes to a person, whatever anybody declares beside it.

use super::Subject;
use crate::decide::policy::{Class, declares_destructive};
use crate::decide::reason::Reason;

pub(super) fn check(subject: &Subject<'_>) -> Option<Reason> {
    let destructive =
        subject.effective.class == Some(Class::Destructive) || declares_destructive(subject.tool);
    destructive.then_some(Reason::Destructive)
}
