//! Every view of one text: cleaned (V1) and with its escapes undone to a fixpoint (V2).

use super::clean::clean;
use super::escapes::{self, Transform, Unescaped};
use super::outline::Outline;
use super::view::View;
use super::written_out;

/// Transforms after one another; text that still has escapes then runs the budget out.
pub(super) const UNESCAPE_DEPTH_MAX: usize = 5;
/// Views of one text, the first included.
pub(super) const VIEWS_MAX: usize = 64;

/// One view, and the stretches of it that escapes spelled out.
pub(super) struct Seen<'t> {
    pub(super) view: View<'t>,
    pub(super) spelled: Vec<(usize, usize)>,
    pub(super) outline: Outline,
    depth: usize,
}

/// Every view of a text.
pub(super) struct Views<'t> {
    pub(super) seen: Vec<Seen<'t>>,
    /// Escapes were left when the depth, the number of views or `bytes` ran out.
    pub(super) exhausted: bool,
}

/// Who wrote the text decides what is undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Escapes and refanging.
    Argument,
    /// Escapes only: a defanged link in a source says that it is bad.
    Source,
}

/// All views of `text`; `bytes` is what the views may cost together and is lowered by their size.
pub(super) fn all<'t>(text: &'t str, side: Side, bytes: &mut usize) -> Views<'t> {
    let raw = View::raw(text);
    let first = match clean(&raw) {
        Some(cleaned) => cleaned,
        None => raw,
    };
    let outline = Outline::of(&first.text);
    let escaped = has_escape(&first.text, &outline, side);
    let mut seen = vec![Seen { view: first, spelled: Vec::new(), outline, depth: 0 }];
    let mut exhausted = false;
    if !escaped {
        return Views { seen, exhausted };
    }
    let arguments: [Transform; 3] =
        [written_out::refang, written_out::spoken, written_out::letter_spaced];
    let more: &[Transform] = match side {
        Side::Argument => &arguments,
        Side::Source => &[],
    };
    let mut at = 0;
    while at < seen.len() && !exhausted {
        for transform in escapes::UNESCAPE.iter().chain(more) {
            let Some(parent) = seen.get(at) else {
                break;
            };
            let depth = parent.depth + 1;
            let Some(Unescaped { view, spelled }) = transform(&parent.view) else {
                continue;
            };
            let view = clean(&view).unwrap_or(view);
            if seen.iter().any(|other| other.view.text == view.text) {
                continue;
            }
            let cost = view.text.len();
            if depth > UNESCAPE_DEPTH_MAX || seen.len() >= VIEWS_MAX || cost > *bytes {
                exhausted = true;
                break;
            }
            *bytes -= cost;
            let outline = Outline::of(&view.text);
            seen.push(Seen { view, spelled, outline, depth });
        }
        at += 1;
    }
    Views { seen, exhausted }
}

/// Whether any transform could have something to do; most texts end here.
fn has_escape(text: &str, outline: &Outline, side: Side) -> bool {
    let bytes = text.as_bytes();
    memchr::memchr3(b'%', b'&', b'\\', bytes).is_some()
        || memchr::memchr2(b'=', b'+', bytes).is_some()
        || (side == Side::Argument
            && (outline.spaced_letters || written_out::has_spoken_or_fanged(text)))
}
