//! A sample of the cases, for a judge so slow that all of them would take a day.
//!
//! Nothing here is drawn by chance: the same files, size and seed give the same sample on every
//! machine, and a larger sample holds every smaller one of its seed.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::decide::digest;

/// Which part of every suite is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sample {
    /// Conversations of each suite; a pair's members come together, so it may be some more.
    pub size: NonZeroUsize,
    /// Another seed, another sample.
    pub seed: u64,
}

/// The conversations of a suite by name, each with the pairs that it belongs to.
pub(super) type Members = BTreeMap<Arc<str>, BTreeSet<Arc<str>>>;

impl Sample {
    /// The chosen conversations of a suite: the first in the order of a digest of seed, suite and
    /// name, each with everything that shares a pair with it.
    pub(super) fn of(self, suite: &str, members: &Members) -> BTreeSet<Arc<str>> {
        let seed = self.seed.to_string();
        let mut order: Vec<(String, &Arc<str>)> =
            members.keys().map(|name| (digest(&[&seed, suite, name]), name)).collect();
        order.sort();
        let mut chosen = BTreeSet::new();
        for (_, name) in order {
            if chosen.len() >= self.size.get() {
                break;
            }
            choose(name, members, &mut chosen);
        }
        chosen
    }
}

fn choose(name: &Arc<str>, members: &Members, chosen: &mut BTreeSet<Arc<str>>) {
    let mut waiting = vec![name];
    while let Some(name) = waiting.pop() {
        let new = chosen.insert(Arc::clone(name));
        let Some(pairs) = members.get(name).filter(|pairs| new && !pairs.is_empty()) else {
            continue;
        };
        let shares = |(_, others): &(_, &BTreeSet<Arc<str>>)| !others.is_disjoint(pairs);
        waiting.extend(members.iter().filter(shares).map(|(other, _)| other));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(of: &[(&str, &[&str])]) -> Members {
        let named = |names: &[&str]| names.iter().map(|name| Arc::from(*name)).collect();
        of.iter().map(|(name, pairs)| (Arc::from(*name), named(pairs))).collect()
    }

    fn sample(size: usize, seed: u64) -> Sample {
        Sample { size: NonZeroUsize::new(size).unwrap(), seed }
    }

    #[test]
    fn a_larger_sample_holds_the_smaller_ones_and_a_seed_changes_them() {
        let names: Vec<String> = (0..40).map(|number| format!("f{number}")).collect();
        let all: Vec<(&str, &[&str])> = names.iter().map(|name| (name.as_str(), &[][..])).collect();
        let members = members(&all);
        let mut last = BTreeSet::new();
        for size in 1..=41 {
            let chosen = sample(size, 1).of("suite", &members);
            assert_eq!(chosen.len(), size.min(40));
            assert!(last.is_subset(&chosen));
            last = chosen;
        }
        assert_ne!(sample(5, 1).of("suite", &members), sample(5, 2).of("suite", &members));
        assert_ne!(sample(5, 1).of("suite", &members), sample(5, 1).of("other", &members));
    }

    #[test]
    fn pairs_come_whole_and_so_do_their_pairs() {
        let chained = members(&[("a", &["p"]), ("b", &["p", "q"]), ("c", &["q"])]);
        assert_eq!(sample(1, 1).of("suite", &chained).len(), 3);
    }
}
