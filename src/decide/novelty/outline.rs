//! Where in a text a detector could find anything: one pass over all of it.
//!
//! Prose is most of what is scanned: it has no capital or digit inside a word, no long stretch
//! without white space, and few numbers. So each byte is classed once, 64 at a time with wide
//! instructions, and what the detectors ask for is read off the bits of such a chunk. Only where
//! they say so is the text looked at byte by byte.

/// Bytes that are classed at once.
const CHUNK: usize = 64;
/// The shortest token that is listed.
pub(super) const TOKEN_MIN: usize = 4;
/// The shortest stretch of small letters alone that could be encoded.
const STRETCH_MIN: u32 = 16;
/// Single characters in a row that are joined.
pub(super) const LETTERS_MIN: usize = 7;
/// Bytes between two chunks of one wrapped run.
const GAP_MAX: usize = 8;

/// What stands out in a text.
#[derive(Debug, Clone, Default)]
pub(super) struct Outline {
    /// Stretches that could be encoded: their bounds, in order.
    pub(super) tokens: Vec<(usize, usize)>,
    pub(super) digits: Digits,
    /// Single characters stand between single spaces, [`LETTERS_MIN`] or more in a row.
    pub(super) spaced_letters: bool,
}

/// The runs of ASCII digits in a text: their bounds, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct Digits(Vec<(usize, usize)>);

impl Digits {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The runs from the first on, for a reader that only goes forward.
    pub(super) fn walk(&self) -> Walk<'_> {
        Walk { left: &self.0 }
    }
}

/// Runs of digits that a reader has not passed.
pub(super) struct Walk<'d> {
    left: &'d [(usize, usize)],
}

impl Walk<'_> {
    /// The offset of the first digit at or after `from`, which never goes back.
    pub(super) fn next(&mut self, from: usize) -> Option<usize> {
        while let [(start, end), rest @ ..] = self.left {
            if *end > from {
                return Some((*start).max(from));
            }
            self.left = rest;
        }
        None
    }
}

/// Characters of base64 in both alphabets; base32, hex and wallets use fewer.
pub(super) const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'_' | b'-')
}

/// The classes of a chunk's bytes, a bit for each, the first byte the lowest.
#[derive(Debug, Clone, Copy)]
struct Classes {
    /// White space and controls.
    space: u64,
    digit: u64,
    capital: u64,
}

impl Classes {
    const SPACE: u8 = 1;
    const DIGIT: u8 = 2;
    const CAPITAL: u8 = 4;

    fn of(bytes: &[u8; CHUNK]) -> Self {
        let classes = bytes.map(|byte| {
            (u8::from(byte <= b' ') * Self::SPACE)
                | (u8::from(byte.wrapping_sub(b'0') < 10) * Self::DIGIT)
                | (u8::from(byte.wrapping_sub(b'A') < 26) * Self::CAPITAL)
        });
        // Most chunks have no digit and no capital.
        let any = classes.iter().fold(0, |any, class| any | class);
        let bits_of = |class: u8| {
            if any & class == 0 { 0 } else { bits(&classes, class.trailing_zeros()) }
        };
        Classes {
            space: bits_of(Self::SPACE),
            digit: bits_of(Self::DIGIT),
            capital: bits_of(Self::CAPITAL),
        }
    }
}

/// A short last chunk with spaces behind it.
fn filled_up(chunk: &[u8]) -> [u8; CHUNK] {
    let mut bytes = [b' '; CHUNK];
    if let Some(filled) = bytes.get_mut(..chunk.len()) {
        filled.copy_from_slice(chunk);
    }
    bytes
}

/// Bit `class` of every byte, gathered.
fn bits(bytes: &[u8; CHUNK], class: u32) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // Each product moves the lowest bits of eight bytes into the highest byte.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let (eights, _) = bytes.as_chunks::<8>();
    eights.iter().rev().fold(0, |bits, eight| {
        let lowest = (u64::from_le_bytes(*eight) >> class) & ONES;
        (bits << 8) | (lowest.wrapping_mul(GATHER) >> 56)
    })
}

impl Outline {
    pub(super) fn of(text: &str) -> Self {
        let bytes = text.as_bytes();
        let mut outline = Outline::default();
        // How far tokens were listed.
        let mut listed = 0;
        let mut before = Classes { space: !0, digit: 0, capital: 0 };
        for (index, chunk) in bytes.chunks(CHUNK).enumerate() {
            let start = index * CHUNK;
            let end = start + chunk.len();
            let here = match chunk.first_chunk() {
                Some(chunk) => Classes::of(chunk),
                None => Classes::of(&filled_up(chunk)),
            };
            outline.add_digits(start, here.digit, before.digit);
            outline.spaced_letters |= has_spaced_letters(before.space, here.space);
            let near = outline.tokens.last().is_some_and(|(_, last)| last + GAP_MAX >= start);
            if listed < end
                && (near || has_inner_sign(before, here) || has_long_stretch(before, here))
            {
                let mut from = start.max(listed);
                while from > listed
                    && from
                        .checked_sub(1)
                        .and_then(|at| bytes.get(at))
                        .is_some_and(|byte| is_token(*byte))
                {
                    from -= 1;
                }
                listed = outline.add_tokens(bytes, from, end);
            }
            before = here;
        }
        outline
    }

    fn add_digits(&mut self, start: usize, digit: u64, before: u64) {
        let mut left = digit;
        let mut goes_on = before >> 63 == 1;
        while left != 0 {
            let from = left.trailing_zeros();
            let length = (left >> from).trailing_ones();
            let run = (start + from as usize, start + (from + length) as usize);
            match self.digits.0.last_mut() {
                Some((_, end)) if goes_on && from == 0 => *end = run.1,
                _ => self.digits.0.push(run),
            }
            goes_on = false;
            left = if from + length == u64::BITS {
                0
            } else {
                (left >> (from + length)) << (from + length)
            };
        }
    }

    /// Lists the tokens that begin before `limit`; returns where it stopped reading. Plain words are left
    /// out, unless they could go on with the chunks of a wrapped run.
    fn add_tokens(&mut self, bytes: &[u8], from: usize, limit: usize) -> usize {
        let mut at = from;
        while at < limit {
            while at < limit && !bytes.get(at).is_some_and(|byte| is_token(*byte)) {
                at += 1;
            }
            let start = at;
            let mut signs = false;
            while let Some(byte) = bytes.get(at).filter(|byte| is_token(**byte)) {
                signs |= at > start && (byte.is_ascii_uppercase() || byte.is_ascii_digit());
                at += 1;
            }
            let length = at - start;
            let goes_on = || {
                self.tokens
                    .last()
                    .is_some_and(|(first, last)| start - last <= GAP_MAX && length <= last - first)
            };
            if length >= TOKEN_MIN && (signs || length >= STRETCH_MIN as usize || goes_on()) {
                self.tokens.push((start, at));
            }
        }
        at
    }
}

/// A capital or a digit right after a character that is no white space. Of a number only the first
/// digit counts: digits alone say something only in long stretches.
const fn has_inner_sign(before: Classes, here: Classes) -> bool {
    let after_space = (here.space << 1) | (before.space >> 63);
    let after_digit = (here.digit << 1) | (before.digit >> 63);
    (here.capital | (here.digit & !after_digit)) & !after_space != 0
}

/// A stretch of [`STRETCH_MIN`] without white space that ends in the chunk or goes on after it.
const fn has_long_stretch(before: Classes, here: Classes) -> bool {
    let dark = !here.space;
    let twos = dark & (dark >> 1);
    let fours = twos & (twos >> 2);
    let eights = fours & (fours >> 4);
    let inside = eights & (eights >> 8) != 0;
    inside || before.space.leading_zeros() + here.space.trailing_zeros() >= STRETCH_MIN
}

/// [`LETTERS_MIN`] single characters have six spaces between them, every second byte.
fn has_spaced_letters(before: u64, here: u64) -> bool {
    // Most chunks have no two spaces around one character.
    if here & (here >> 2) & !(here >> 1) == 0 {
        return false;
    }
    let spaces = (u128::from(here) << 64) | u128::from(before);
    let two = spaces & (spaces >> 2) & !(spaces >> 1);
    let four = two & (two >> 4) & (two >> 2);
    four & (two >> 8) & (two >> 6) != 0
}
