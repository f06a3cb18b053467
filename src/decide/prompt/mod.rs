//! The question that a judge is asked, byte for byte.
//!
//! The order serves providers' prefix caches: what changes least comes first. The rules are the
//! system message; the user message holds the organisation's lists, the agent's instructions, the
//! conversation, then the tail that belongs to one call. Text lives in `prompts/*.md`; every string
//! that somebody else wrote is encoded by [`encode()`], so nothing they write can leave its place.

mod conversation;
mod encode;
mod facts;
mod schema;

use std::sync::LazyLock;

pub use encode::{Cuts, encode, encode_json};
pub use schema::{MAX_BASIS, MAX_NUMBERS, MAX_QUOTE, MAX_REASON, MAX_SOFT_DENY, answer_schema};

use super::digest;
use super::eligibility::{Eligible, EligibleClass};
use super::json::{Json, Leaf};
use super::policy::Lists;
use super::provenance::{FirstSeen, Texts};
use super::reason::TooLarge;
use super::request::{Agent, Call, Conversation, Tool};

/// The prompt's version: raised with every change to `prompts/*.md` or to the layout.
pub const VERSION: &str = "1";
/// Bytes of a call's arguments; a larger call goes to a person.
pub const MAX_CALL: usize = 64 * 1024;
/// Bytes of all that the person wrote; more goes to a person.
pub const MAX_PERSON_TEXT: usize = 256 * 1024;
/// Bytes of the agent's instructions; longer ones send every call to a person.
pub const MAX_INSTRUCTIONS: usize = 64 * 1024;
/// Bytes of everything in the user message but the person's text.
pub const MAX_OTHER_TEXT: usize = 256 * 1024;
/// Bytes of [`MAX_OTHER_TEXT`] kept free for the tail, whatever the call is, so that the
/// conversation is cut alike for every call.
const TAIL_RESERVE: usize = 96 * 1024;

const RULES: &str = include_str!("../../../prompts/rules.md");
const QUESTION: &str = include_str!("../../../prompts/question.md");

/// What the judge sees of earlier tool results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResultsView {
    /// Name and size; in the facts, a few characters around a pending value's first place.
    #[default]
    Excerpt,
    /// Name and size; in the facts, the place without the characters.
    Provenance,
    /// The text itself, bounded.
    Text,
}

/// What a judge is sent: two messages and the schema of the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The system message: the rules of judging. The same for every call.
    pub system: String,
    /// The user message: lists, instructions, conversation, tool, facts, call, in that order.
    pub user: String,
    /// Bytes at the start of `user` that stay the same for the agent version: the lists and the
    /// instructions.
    pub fixed_prefix: usize,
    /// SHA-256 over everything that is sent, 64 lower-case hex digits.
    pub digest: String,
}

/// Digest of the prompt's own text: rules, layout, answer schema. It names what judged.
#[must_use]
pub fn text_digest() -> String {
    digest(&["prompt-text", VERSION, RULES, QUESTION, &answer_schema().to_string()])
}

/// The part of a question that all calls of one request share: rendered once.
#[derive(Debug, Clone)]
pub struct Prefix {
    /// Lists, instructions and conversation, or what does not fit.
    rendered: Result<Rendered, TooLarge>,
    view: ResultsView,
}

#[derive(Debug, Clone)]
struct Rendered {
    text: String,
    fixed: usize,
    person_bytes: usize,
    cuts: Cuts,
}

impl Prefix {
    /// Renders lists, instructions and conversation.
    #[must_use]
    pub fn new(
        agent: &Agent,
        lists: &Lists,
        conversation: &Conversation,
        texts: &Texts<'_>,
        view: ResultsView,
    ) -> Self {
        Self { rendered: render_prefix(agent, lists, conversation, texts, view), view }
    }
}

fn render_prefix(
    agent: &Agent,
    lists: &Lists,
    conversation: &Conversation,
    texts: &Texts<'_>,
    view: ResultsView,
) -> Result<Rendered, TooLarge> {
    let typed: usize = texts.persons().iter().map(|text| text.len()).sum();
    if typed > MAX_PERSON_TEXT {
        return Err(TooLarge::PersonText);
    }
    if agent.instructions.len() > MAX_INSTRUCTIONS {
        return Err(TooLarge::Instructions);
    }
    let template = &*TEMPLATE;
    let mut cuts = Cuts::default();
    let mut text = template.before_lists.to_owned();
    text.push_str(&render_lists(lists));
    text.push_str(template.before_instructions);
    text.push_str(&encode(&agent.instructions));
    text.push_str(template.before_conversation);
    let fixed = text.len();
    let limit = MAX_OTHER_TEXT.saturating_sub(fixed + TAIL_RESERVE);
    text.push_str(&conversation::render(conversation, texts, view, limit, &mut cuts));
    let person_bytes = texts.persons().iter().map(|text| encode(text).len()).sum();
    Ok(Rendered { text, fixed, person_bytes, cuts })
}

fn render_lists(lists: &Lists) -> String {
    let mut text = String::new();
    for (name, entries) in [
        ("environment", &lists.environment),
        ("allow", &lists.allow),
        ("soft_deny", &lists.soft_deny),
    ] {
        if entries.is_empty() {
            text.push_str(&format!("{name}: none\n"));
        }
        for (index, entry) in entries.iter().enumerate() {
            text.push_str(&format!("{name} {}: {}\n", index + 1, encode(entry)));
        }
    }
    text
}

/// What belongs to the one call that is asked about.
#[derive(Debug, Clone, Copy)]
pub struct Pending<'a> {
    /// The call.
    pub call: &'a Call,
    /// Its arguments, read.
    pub arguments: &'a Json,
    /// The tool's definition.
    pub tool: &'a Tool,
    /// The arguments' first leaves, in order: those that an answer can number.
    pub leaves: &'a [Leaf<'a>],
    /// How many leaves there are in all.
    pub leaf_count: usize,
    /// Where each leaf's value was first seen.
    pub first_seen: &'a [FirstSeen],
    /// Every call of the request, this one among them.
    pub request_calls: &'a [Call],
}

/// Builds the question about one eligible call.
///
/// # Errors
/// What does not fit and must not be cut.
pub fn build(
    eligible: &Eligible,
    prefix: &Prefix,
    texts: &Texts<'_>,
    pending: Pending<'_>,
) -> Result<(Prompt, Cuts), TooLarge> {
    if pending.call.arguments_text.len() > MAX_CALL {
        return Err(TooLarge::Call);
    }
    if eligible.class() == EligibleClass::Write && pending.leaf_count > MAX_NUMBERS {
        return Err(TooLarge::Leaves);
    }
    let rendered = prefix.rendered.as_ref().map_err(|too_large| *too_large)?;
    let template = &*TEMPLATE;
    let mut cuts = rendered.cuts;
    let mut user = rendered.text.clone();
    user.push_str(template.before_tool);
    user.push_str(&facts::tool(pending.tool, &mut cuts));
    user.push_str(template.before_facts);
    user.push_str(&facts::facts(eligible.class(), &pending, texts, prefix.view, &mut cuts));
    let others = pending.request_calls.iter().filter(|other| !std::ptr::eq(*other, pending.call));
    user.push_str(&facts::other_calls(others, &mut cuts));
    user.push_str(template.before_call);
    user.push_str(&facts::pending_call(pending.tool, pending.arguments));
    user.push_str(template.after_call);
    if user.len().saturating_sub(rendered.person_bytes) > MAX_OTHER_TEXT {
        return Err(TooLarge::Question);
    }
    let digest = digest(&["prompt", VERSION, RULES, &user, &answer_schema().to_string()]);
    Ok((Prompt { system: RULES.to_owned(), user, fixed_prefix: rendered.fixed, digest }, cuts))
}

/// The pieces of `prompts/question.md` between its variables.
struct Template {
    before_lists: &'static str,
    before_instructions: &'static str,
    before_conversation: &'static str,
    before_tool: &'static str,
    before_facts: &'static str,
    before_call: &'static str,
    after_call: &'static str,
}

/// A variable's line ends with its line break where the value brings its own; the instructions'
/// value is one string without a break, so its break stays in the template.
static TEMPLATE: LazyLock<Template> = LazyLock::new(|| {
    let (before_lists, rest) = cut(QUESTION, "{{lists}}\n");
    let (before_instructions, rest) = cut(rest, "{{instructions}}");
    let (before_conversation, rest) = cut(rest, "{{conversation}}\n");
    let (before_tool, rest) = cut(rest, "{{tool}}\n");
    let (before_facts, rest) = cut(rest, "{{facts}}\n");
    let (before_call, after_call) = cut(rest, "{{call}}\n");
    Template {
        before_lists,
        before_instructions,
        before_conversation,
        before_tool,
        before_facts,
        before_call,
        after_call,
    }
});

/// Parts a text at a variable; a test holds that each stands in the file exactly once.
fn cut(text: &'static str, variable: &str) -> (&'static str, &'static str) {
    text.split_once(variable).unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_names_every_variable_once_and_no_other() {
        let names = ["lists", "instructions", "conversation", "tool", "facts", "call"];
        for name in names {
            assert_eq!(QUESTION.matches(&format!("{{{{{name}}}}}")).count(), 1, "{name}");
        }
        assert_eq!(QUESTION.matches("{{").count(), names.len());
        let template = &*TEMPLATE;
        let pieces = [
            template.before_lists,
            template.before_instructions,
            template.before_conversation,
            template.before_tool,
            template.before_facts,
            template.before_call,
            template.after_call,
        ];
        assert!(pieces.iter().all(|piece| piece.starts_with('#') || piece.starts_with("\n#")));
        assert!(pieces.iter().all(|piece| !piece.contains("{{")));
    }
}
