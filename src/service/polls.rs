//! Requests that wait for a change: how many a token may have, and who may go on waiting.
//!
//! A wake-up is a hint: whoever wakes reads again, and shows its token again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

use super::{Code, Refusal, Service};
use crate::store::Token;

/// The longest that a request waits; whoever asks for more waits this long.
pub const MAX_WAIT: Duration = Duration::from_secs(30);

/// Whoever waits: the token as it was when the request came, and its SHA-256, by which it is looked
/// up again.
#[derive(Debug, Clone, Copy)]
pub struct Poller<'a> {
    /// The token.
    pub token: &'a Token,
    /// SHA-256 of the token's bytes.
    pub hash: [u8; 32],
}

/// All requests that wait in this process.
#[derive(Debug, Default)]
pub(super) struct Polls {
    waiting: Arc<Mutex<HashMap<String, u32>>>,
    ended: watch::Sender<bool>,
}

/// A place among a token's waiting requests; dropping it gives it back.
#[derive(Debug)]
pub(super) struct Place {
    waiting: Arc<Mutex<HashMap<String, u32>>>,
    token: String,
}

impl Polls {
    /// A place for one more request of the token.
    ///
    /// # Errors
    /// 429 when `limit` of them wait already.
    pub(super) fn enter(&self, token: &str, limit: u32) -> Result<Place, Refusal> {
        let mut waiting = lock(&self.waiting);
        let count = waiting.entry(token.to_owned()).or_default();
        if *count >= limit {
            if *count == 0 {
                waiting.remove(token);
            }
            let text = format!("At most {limit} requests of a token may wait at once.");
            return Err(Refusal::new(Code::RateLimited, text));
        }
        *count += 1;
        Ok(Place { waiting: Arc::clone(&self.waiting), token: token.to_owned() })
    }

    /// Returns when [`Service::end_polls`] was called; dropping the future loses nothing.
    pub(super) async fn ended(&self) {
        // The sender lives as long as `self`.
        let _ = self.ended.subscribe().wait_for(|ended| *ended).await;
    }

    pub(super) fn have_ended(&self) -> bool {
        *self.ended.borrow()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut waiting = lock(&self.waiting);
        if let Some(count) = waiting.get_mut(&self.token) {
            *count -= 1;
            if *count == 0 {
                waiting.remove(&self.token);
            }
        }
    }
}

// Nothing here panics while it holds the lock, so a poisoned one is whole.
fn lock(waiting: &Mutex<HashMap<String, u32>>) -> std::sync::MutexGuard<'_, HashMap<String, u32>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Service {
    /// Ends every waiting request with what stands now, and lets none wait from here on: the first
    /// step of stopping.
    pub fn end_polls(&self) {
        self.polls.ended.send_replace(true);
    }

    /// Requests that wait in this process.
    #[must_use]
    pub fn waiting(&self) -> usize {
        lock(&self.polls.waiting).values().map(|count| *count as usize).sum()
    }

    /// Whether the token still works, is still of its organisation and still of its kind.
    ///
    /// # Errors
    /// 401 when it is not, or the store fails.
    pub(super) async fn check_again(&self, poller: Poller<'_>) -> Result<(), Refusal> {
        let now = self.store.token_by_hash(poller.hash).await?;
        let same = now.is_some_and(|now| {
            let then = poller.token;
            now.id == then.id && now.organisation == then.organisation && now.kind == then.kind
        });
        if same {
            Ok(())
        } else {
            Err(Refusal::new(Code::Unauthenticated, "The token does not work any more."))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_by_token_and_given_back() {
        let polls = Polls::default();
        let first = polls.enter("a", 2).unwrap();
        let second = polls.enter("a", 2).unwrap();
        assert_eq!(polls.enter("a", 2).unwrap_err().code, Code::RateLimited);
        let other = polls.enter("b", 2).unwrap();
        drop(first);
        let third = polls.enter("a", 2).unwrap();
        drop((second, third, other));
        assert!(lock(&polls.waiting).is_empty());
        assert_eq!(polls.enter("a", 0).unwrap_err().code, Code::RateLimited);
        assert!(lock(&polls.waiting).is_empty());
    }
}
