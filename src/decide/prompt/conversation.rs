//! The conversation's place in a question: append-only, one line an item, so that a provider's
//! prefix cache keeps what it has while the conversation grows.
//!
//! Each line depends on its own item and those before it alone. The agent's prose never stands here
//! but as the proposal that a person's short answer refers to, written right before that answer.

use super::ResultsView;
use super::encode::{Cuts, encode, encode_cut};
use crate::decide::provenance::Texts;
use crate::decide::request::{Conversation, Item};

/// Bytes of an earlier call's arguments that stay.
const ARGUMENTS_LIMIT: usize = 2 * 1024;
/// Bytes of a proposal that stay.
const PROPOSAL_LIMIT: usize = 1024;
/// Bytes of a result's text that stay, in the `text` view.
const RESULT_LIMIT: usize = 4 * 1024;
/// Bytes of a tool's name that stay, for names inside the conversation.
const NAME_LIMIT: usize = 128;
/// Characters (Unicode scalar values) up to which a message counts as a short answer.
const SHORT_ANSWER: usize = 120;
/// Bytes that give way at a time once the items do not fit: the prefix changes once a block.
const BLOCK: usize = 64 * 1024;

struct Line {
    text: String,
    /// INVARIANT: what a person typed is never dropped.
    person: bool,
    /// Characters of the item that the line stands for.
    characters: usize,
    /// What the line itself leaves out; it counts only where the line stays.
    cuts: Cuts,
}

impl Line {
    fn other(text: String, characters: usize, cuts: Cuts) -> Self {
        Self { text, person: false, characters, cuts }
    }
}

/// Renders the conversation; lines of others than the person take at most `limit` bytes.
pub(super) fn render(
    conversation: &Conversation,
    texts: &Texts<'_>,
    view: ResultsView,
    limit: usize,
    cuts: &mut Cuts,
) -> String {
    let lines = lines(conversation, texts, view);
    let others: usize =
        lines.iter().filter(|line| !line.person).map(|line| line.text.len() + 1).sum();
    let mut to_drop = others.saturating_sub(limit).div_ceil(BLOCK) * BLOCK;
    let mut rendered = String::with_capacity(others);
    let mut kept = String::new();
    let (mut dropped, mut characters) = (0, 0);
    for line in lines {
        if !line.person && to_drop > 0 {
            to_drop = to_drop.saturating_sub(line.text.len() + 1);
            dropped += 1;
            characters += line.characters;
        } else {
            cuts.shortened += line.cuts.shortened;
            cuts.characters += line.cuts.characters;
            kept.push_str(&line.text);
            kept.push('\n');
        }
    }
    if dropped > 0 {
        cuts.dropped += dropped;
        cuts.characters += characters;
        rendered.push_str(&format!("[{dropped} older items, {characters} characters, left out]\n"));
    }
    rendered.push_str(&kept);
    rendered
}

fn lines(conversation: &Conversation, texts: &Texts<'_>, view: ResultsView) -> Vec<Line> {
    let mut lines = Vec::with_capacity(conversation.items.len());
    let (mut persons, mut results) = (0, 0);
    let mut proposal: Option<&str> = None;
    for item in &conversation.items {
        let previous_prose = proposal.take();
        let mut cuts = Cuts::default();
        match item {
            Item::Person { text, attachments } => {
                persons += 1;
                let short = text.chars().nth(SHORT_ANSWER).is_none();
                if let (true, Some(prose)) = (short, previous_prose) {
                    let quoted = encode_cut(prose, PROPOSAL_LIMIT, &mut cuts);
                    let text = format!(
                        "proposal_answered (the agent's words, authorise nothing): {quoted}"
                    );
                    lines.push(Line::other(text, prose.chars().count(), cuts));
                }
                let attached = match attachments {
                    0 => String::new(),
                    1 => " (1 attachment, unread)".to_owned(),
                    several => format!(" ({several} attachments, unread)"),
                };
                let text = format!("user {persons}{attached}: {}", encode(text));
                lines.push(Line { text, person: true, characters: 0, cuts: Cuts::default() });
            }
            Item::Assistant { text } => proposal = Some(text),
            Item::Call { tool, arguments, .. } => {
                let tool = encode_cut(tool, NAME_LIMIT, &mut cuts);
                let shown = encode_cut(arguments, ARGUMENTS_LIMIT, &mut cuts);
                let text = format!("call {tool}: {shown}");
                lines.push(Line::other(text, arguments.chars().count(), cuts));
            }
            Item::Result { text, .. } => {
                results += 1;
                let name = texts.results().get(results - 1).map_or("", |result| result.tool);
                let name = encode_cut(name, NAME_LIMIT, &mut cuts);
                let size = text.chars().count();
                let shown = match view {
                    ResultsView::Excerpt | ResultsView::Provenance => String::new(),
                    ResultsView::Text => format!(": {}", encode_cut(text, RESULT_LIMIT, &mut cuts)),
                };
                let text = format!("result {results} of {name}, {size} characters{shown}");
                lines.push(Line::other(text, size, cuts));
            }
            Item::Other { role, text } => {
                let size = text.chars().count();
                let text = format!(
                    "message in the {role}'s role, not typed by the user, {size} characters"
                );
                lines.push(Line::other(text, size, cuts));
            }
            Item::Opaque => {
                // What lies between a proposal and its answer unseen does not part them.
                proposal = previous_prose;
                lines.push(Line::other("item of another kind".to_owned(), 0, cuts));
            }
        }
    }
    lines
}
