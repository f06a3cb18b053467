//! Reading a text by byte offsets without ever panicking: what lies outside is empty.

/// The byte at `at`, or 0 past the end.
pub(super) fn byte(text: &str, at: usize) -> u8 {
    text.as_bytes().get(at).copied().unwrap_or(0)
}

/// The byte before `at`, or 0 at the start.
pub(super) fn byte_before(text: &str, at: usize) -> u8 {
    match at.checked_sub(1) {
        Some(before) => byte(text, before),
        None => 0,
    }
}

/// `text[from..to]`, or nothing where the bounds are not within the text or not at characters.
pub(super) fn slice(text: &str, from: usize, to: usize) -> &str {
    text.get(from..to).unwrap_or("")
}

/// The character that starts at `at`.
pub(super) fn char_at(text: &str, at: usize) -> Option<char> {
    let first = byte(text, at);
    if first < 0x80 {
        return (at < text.len()).then_some(char::from(first));
    }
    text.get(at..)?.chars().next()
}

/// The character that ends at `at`.
pub(super) fn char_before(text: &str, at: usize) -> Option<char> {
    let last = byte_before(text, at);
    if last < 0x80 {
        return (at > 0 && at <= text.len()).then_some(char::from(last));
    }
    text.get(..at)?.chars().next_back()
}

/// The end of the longest run of characters from `at` on for which `accept` holds.
pub(super) fn run_end(text: &str, at: usize, accept: impl Fn(char) -> bool) -> usize {
    let mut end = at;
    while let Some(character) = char_at(text, end) {
        if !accept(character) {
            break;
        }
        end += character.len_utf8();
    }
    end
}

/// The start of the longest run of characters up to `at` for which `accept` holds, not before
/// `floor`.
pub(super) fn run_start(
    text: &str,
    at: usize,
    floor: usize,
    accept: impl Fn(char) -> bool,
) -> usize {
    let mut start = at;
    while start > floor {
        match char_before(text, start) {
            Some(character) if accept(character) => start -= character.len_utf8(),
            _ => break,
        }
    }
    start
}

/// The largest character boundary at or below `at`.
pub(super) fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Han, kana, hangul and their punctuation: scripts written without spaces around Latin words.
pub(super) fn is_cjk(character: char) -> bool {
    matches!(u32::from(character),
        0x1100..=0x11FF | 0x2E80..=0x2FDF | 0x3000..=0x30FF | 0x3100..=0x31FF | 0x3200..=0x9FFF
        | 0xA960..=0xA97F | 0xAC00..=0xD7FF | 0xF900..=0xFAFF | 0xFE30..=0xFE4F | 0xFF00..=0xFFEF
        | 0x20000..=0x3FFFF)
}
