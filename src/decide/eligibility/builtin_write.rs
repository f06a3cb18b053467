//! Gate: a built-in tool that writes reaches the machine itself, so a person decides.

use super::Subject;
use crate::decide::policy::Class;
use crate::decide::reason::Reason;
use crate::decide::request::Origin;

pub(super) fn check(subject: &Subject<'_>) -> Option<Reason> {
    let writes = subject.effective.class == Some(Class::Write);
    (subject.tool.origin == Origin::Builtin && writes).then_some(Reason::BuiltinWrite)
}
