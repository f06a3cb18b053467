//! Encoded runs: told, and what they say scanned in turn.

use super::super::Kind;
use super::super::encoded::{self, Encoded, Says};
use super::super::outline::Outline;
use super::super::place::Place;
use super::{DECODE_DEPTH_MAX, Holds, Scanner, Spent, Text};

impl Scanner<'_> {
    pub(super) fn encoded(&mut self, run: &Encoded, found: &str, text: Text<'_>) -> Holds {
        if self.known.has_run(&run.run, &mut self.look_up_bytes) {
            return Holds::Item;
        }
        match &run.says {
            Says::Maybe(says) => return self.decoded(says, found, text),
            // Identifiers next to each other are as many identifiers.
            Says::Bytes(_) if text.seams.is_some() => return Holds::Nothing,
            Says::Bytes(count) => self.push(Kind::Encoded, format!("bytes:{count}"), found, None),
            Says::Text(says) => {
                if text.depth >= DECODE_DEPTH_MAX {
                    self.spend(Spent::DecodeDepth);
                    self.push(Kind::Encoded, says.clone(), found, None);
                    return Holds::Fragment;
                }
                let known = self.known.has_text(says, &mut self.look_up_bytes);
                if !known && !is_one_run(says) {
                    self.push(Kind::Encoded, says.clone(), found, None);
                }
                self.decoded(says, found, text);
                if known {
                    return Holds::Item;
                }
            }
        }
        Holds::Fragment
    }

    /// Scans what a run or a channel says.
    pub(super) fn decoded(&mut self, says: &str, found: &str, text: Text<'_>) -> Holds {
        let Some(left) = self.decoded_bytes.checked_sub(says.len()) else {
            self.spend(Spent::DecodedBytes);
            return Holds::Nothing;
        };
        self.decoded_bytes = left;
        if text.depth >= DECODE_DEPTH_MAX {
            self.spend(Spent::DecodeDepth);
            return Holds::Nothing;
        }
        let place = Place { is_key: false, identifier: false, ..text.place };
        let depth = text.depth + 1;
        self.text(Text { text: says, place, original: Some(found), seams: None, depth })
    }
}

/// Whether a decoded text is nothing but one more encoded run: then only that is told.
fn is_one_run(says: &str) -> bool {
    let mut whole = false;
    encoded::find(says, &Outline::of(says), &mut |run| {
        whole |= matches!(run.says, Says::Text(_)) && (run.end - run.start) * 10 >= says.len() * 9;
    });
    whole
}
