//! Who decides: a person's name, and what that person writes.

use super::names::may_be_a_person;
use super::{Code, Refusal};
use crate::store::{Token, TokenKind};

/// Bytes of a person's name.
pub(super) const MAX_NAME: usize = 256;
/// Characters (Unicode scalar values) of a reason.
pub(super) const MAX_REASON: usize = 1_000;

/// The person who decides. An operator's token is a person; a gateway's names one, if it may decide
/// at all.
///
/// # Errors
/// 403 for tokens that may not decide; 400 for a name that is missing, that may not be given, or
/// that could pass for a machine's.
pub(super) fn decider(token: &Token, given: Option<&str>) -> Result<String, Refusal> {
    const PARAM: &str = "$.decided_by";
    match (&token.kind, given) {
        (TokenKind::Operator, None) if is_name(&token.name) => Ok(token.name.clone()),
        (TokenKind::Operator, None) => {
            let text = "This token's name cannot stand for a person.";
            Err(Refusal::new(Code::Forbidden, text))
        }
        (TokenKind::Operator, Some(_)) => {
            Err(Refusal::invalid(PARAM, "An operator decides under the token's own name."))
        }
        (TokenKind::Gateway { decide: true }, None) => {
            Err(Refusal::invalid(PARAM, "A gateway must name the person who decided."))
        }
        (TokenKind::Gateway { decide: true }, Some(name)) if is_name(name) => Ok(name.to_owned()),
        (TokenKind::Gateway { decide: true }, Some(_)) => {
            let text = format!(
                "A person's name has 1 to {MAX_NAME} bytes of visible text, no space around it, no \
                 colon nor what looks like one, and cannot be taken for the automatic approver's."
            );
            Err(Refusal::invalid(PARAM, text))
        }
        (TokenKind::Gateway { decide: false }, _) => {
            let text = "This gateway's token may not decide.";
            Err(Refusal::new(Code::Forbidden, text))
        }
        (
            TokenKind::Instance { .. }
            | TokenKind::Provisioner { .. }
            | TokenKind::PolicyOwner
            | TokenKind::Admin,
            _,
        ) => {
            let text = format!("A token of kind `{}` may not decide.", token.kind.as_str());
            Err(Refusal::new(Code::Forbidden, text))
        }
    }
}

fn is_name(name: &str) -> bool {
    name.len() <= MAX_NAME && may_be_a_person(name)
}

/// Checks what a person wrote.
///
/// # Errors
/// 400 for what is blank or too long.
pub(super) fn check_reason(reason: Option<&str>, param: &str) -> Result<(), Refusal> {
    let fits = |text: &str| !text.trim().is_empty() && text.chars().count() <= MAX_REASON;
    if reason.is_none_or(fits) {
        return Ok(());
    }
    let text = format!("A reason has 1 to {MAX_REASON} characters, not all of them blank.");
    Err(Refusal::invalid(param, text))
}
