//! A text as a reader might see it, with the way back to the text as it stands.
//!
//! Every rewriting (invisible characters dropped, escapes decoded) makes a new [`View`] that maps
//! each of its offsets to the original text, and remembers where something invisible was dropped,
//! so that a finding can show what really stands in the argument.

use std::borrow::Cow;

use super::bytes::{floor_boundary, slice};

/// One stretch of a view: from `out` up to the next piece.
#[derive(Debug, Clone, Copy)]
struct Piece {
    out: u32,
    raw_start: u32,
    /// [`EXACT`] where the stretch stands in the original byte for byte.
    raw_end: u32,
}

const EXACT: u32 = u32::MAX;

impl Piece {
    // Offsets are 32 bits wide to halve the memory; a text past 4 GiB is cut off long before.
    fn new(out: usize, raw_start: usize, raw_end: usize, exact: bool) -> Self {
        let narrow = |offset: usize| u32::try_from(offset).unwrap_or(u32::MAX);
        let raw_end = if exact { EXACT } else { narrow(raw_end) };
        Piece { out: narrow(out), raw_start: narrow(raw_start), raw_end }
    }

    const fn is_exact(self) -> bool {
        self.raw_end == EXACT
    }

    const fn out(self) -> usize {
        self.out as usize
    }

    const fn raw_start(self) -> usize {
        self.raw_start as usize
    }

    const fn raw_end(self) -> usize {
        self.raw_end as usize
    }
}

/// A text to search, and where its parts stand in the original.
#[derive(Debug, Clone)]
pub(super) struct View<'t> {
    pub(super) text: Cow<'t, str>,
    /// Empty where the view is the original itself.
    pieces: Vec<Piece>,
    /// Offsets in `text` at which invisible characters were dropped, ascending.
    pub(super) hidden: Vec<usize>,
}

impl<'t> View<'t> {
    pub(super) fn raw(text: &'t str) -> Self {
        View { text: Cow::Borrowed(text), pieces: Vec::new(), hidden: Vec::new() }
    }

    /// Whether something invisible was dropped strictly inside `start..end`.
    pub(super) fn hides(&self, start: usize, end: usize) -> bool {
        let first = self.hidden.partition_point(|at| *at <= start);
        self.hidden.get(first).is_some_and(|at| *at < end)
    }

    /// The stretch of the original from which `start..end` was made.
    pub(super) fn original(&self, start: usize, end: usize) -> (usize, usize) {
        if self.pieces.is_empty() {
            return (start, end);
        }
        let from = match self.piece_at(start) {
            Some(piece) if piece.is_exact() => piece.raw_start() + (start - piece.out()),
            Some(piece) => piece.raw_start(),
            None => start,
        };
        let to = match self.piece_at(end.saturating_sub(1)) {
            Some(piece) if piece.is_exact() => piece.raw_start() + (end - piece.out()),
            Some(piece) => piece.raw_end(),
            None => end,
        };
        (from, to.max(from))
    }

    fn piece_at(&self, at: usize) -> Option<&Piece> {
        let after = self.pieces.partition_point(|piece| piece.out() <= at);
        self.pieces.get(after.checked_sub(1)?)
    }
}

/// Builds a view from another: what is kept is copied, what is replaced is mapped.
pub(super) struct Rewriter<'v, 't> {
    from: &'v View<'t>,
    out: String,
    pieces: Vec<Piece>,
    hidden: Vec<usize>,
    cursor: usize,
    piece_cursor: usize,
    hidden_cursor: usize,
    changed: bool,
}

impl<'v, 't> Rewriter<'v, 't> {
    pub(super) fn new(from: &'v View<'t>) -> Self {
        Rewriter {
            from,
            out: String::new(),
            pieces: Vec::new(),
            hidden: Vec::new(),
            cursor: 0,
            piece_cursor: 0,
            hidden_cursor: 0,
            changed: false,
        }
    }

    /// How far the parent has been read.
    pub(super) const fn cursor(&self) -> usize {
        self.cursor
    }

    /// What was written so far.
    pub(super) fn written(&self) -> &str {
        &self.out
    }

    /// Copies the parent up to `to`.
    pub(super) fn keep_to(&mut self, to: usize) {
        if to <= self.cursor {
            return;
        }
        let start = self.cursor;
        let base = self.out.len();
        while let Some(mark) = self.from.hidden.get(self.hidden_cursor) {
            if *mark > to {
                break;
            }
            self.hidden.push(base + mark.saturating_sub(start));
            self.hidden_cursor += 1;
        }
        self.out.push_str(slice(&self.from.text, start, to));
        if self.from.pieces.is_empty() {
            self.pieces.push(Piece::new(base, start, to, true));
        } else {
            let mut at = start;
            while at < to {
                self.advance_piece(at);
                let Some(piece) = self.from.pieces.get(self.piece_cursor) else {
                    break;
                };
                let end = self
                    .from
                    .pieces
                    .get(self.piece_cursor + 1)
                    .map_or(to, |next| next.out().min(to));
                let inside = at.saturating_sub(piece.out());
                let raw_start =
                    if piece.is_exact() { piece.raw_start() + inside } else { piece.raw_start() };
                self.pieces.push(Piece::new(
                    base + (at - start),
                    raw_start,
                    piece.raw_end(),
                    piece.is_exact(),
                ));
                at = end.max(at + 1);
            }
        }
        self.cursor = to;
    }

    fn advance_piece(&mut self, at: usize) {
        while self.from.pieces.get(self.piece_cursor + 1).is_some_and(|next| next.out() <= at) {
            self.piece_cursor += 1;
        }
    }

    /// Writes `with` in place of the parent's text up to `to`.
    pub(super) fn replace_to(&mut self, to: usize, with: &str) {
        let (raw_start, raw_end) = if self.from.pieces.is_empty() {
            (self.cursor, to)
        } else {
            self.from.original(self.cursor, to)
        };
        let base = self.out.len();
        while let Some(mark) = self.from.hidden.get(self.hidden_cursor) {
            if *mark > to {
                break;
            }
            let inside = mark.saturating_sub(self.cursor).min(with.len());
            self.hidden.push(base + inside);
            self.hidden_cursor += 1;
        }
        if !with.is_empty() {
            self.pieces.push(Piece::new(base, raw_start, raw_end, false));
            self.out.push_str(with);
        }
        self.cursor = to;
        self.changed = true;
    }

    /// Drops the parent's text up to `to` and remembers that something invisible stood there.
    pub(super) fn hide_to(&mut self, to: usize) {
        self.replace_to(to, "");
        self.hidden.push(self.out.len());
    }

    /// The new view, or `None` where nothing was replaced.
    pub(super) fn finish(mut self) -> Option<View<'static>> {
        if !self.changed {
            return None;
        }
        self.keep_to(self.from.text.len());
        self.hidden.sort_unstable();
        Some(View { text: Cow::Owned(self.out), pieces: self.pieces, hidden: self.hidden })
    }
}

/// The text of the original from which `start..end` of `view` was made.
pub(super) fn found<'o>(original: &'o str, view: &View<'_>, start: usize, end: usize) -> &'o str {
    let (from, to) = view.original(start, end);
    slice(original, floor_boundary(original, from), floor_boundary(original, to))
}
