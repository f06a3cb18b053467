//! How often within a minute something may happen, in one process: by name, whatever the names are.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::store::Timestamp;

const MINUTE: Duration = Duration::from_secs(60);

/// How often each name came in the minute at hand.
#[derive(Debug, Default)]
pub(in crate::service) struct Rates(Mutex<(Timestamp, BTreeMap<String, u32>)>);

impl Rates {
    /// Counts the name, unless it came `most` times already.
    pub(super) fn enter(&self, name: String, most: u32, now: Timestamp) -> bool {
        // Nothing here panics while it holds the lock, so a poisoned one is whole.
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.0.plus(MINUTE) <= now || now < counted.0 {
            *counted = (now, BTreeMap::new());
        }
        let count = counted.1.entry(name).or_default();
        if *count >= most {
            return false;
        }
        *count += 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_so_often_in_a_minute() {
        let rates = Rates::default();
        let at = |seconds: i64| Timestamp::from_unix_millis(1_700_000_000_000 + seconds * 1_000);
        let enter = |name: &str, seconds| rates.enter(name.to_owned(), 2, at(seconds));
        assert!(enter("a", 0) && enter("a", 1));
        assert!(!enter("a", 59));
        assert!(enter("b", 59));
        assert!(enter("a", 60));
        // A clock that was set back begins anew.
        assert!(enter("a", 0) && enter("a", 0) && !enter("a", 0));
    }
}
