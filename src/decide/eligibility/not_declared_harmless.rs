//! Gate: a write must be declared neither destructive nor open-world. A missing hint declares
//! nothing: under MCP's defaults such a tool is both.

use super::Subject;
use crate::decide::policy::{Class, declared_harmless};
use crate::decide::reason::Reason;

pub(super) fn check(subject: &Subject<'_>) -> Option<Reason> {
    let read = subject.effective.class == Some(Class::Read);
    (!read && !declared_harmless(subject.tool)).then_some(Reason::NotDeclaredHarmless)
}
