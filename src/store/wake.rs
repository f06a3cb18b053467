//! Who waits for which change. A wake-up says "read again" and nothing else: no value passes here,
//! and a waiter may be woken for nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::decide::digest;

/// What somebody waits for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Watched {
    /// One approval, by its id.
    Approval(String),
    /// The approvals of one conversation, and its deletion.
    Conversation {
        /// Who owns it.
        organisation: String,
        /// Its surface.
        surface: String,
        /// Its id.
        id: String,
    },
    /// All approvals of an organisation.
    Organisation(String),
    /// A begun request, by its id. Other replicas' requests wake nobody here: begin again after a
    /// quarter of a second at the latest.
    Request(String),
}

/// A subscription. Dropping it ends it.
#[derive(Debug)]
pub struct Watch {
    waiter: Arc<Notify>,
    number: u64,
    keys: Vec<Key>,
    registry: Arc<Registry>,
}

impl Watch {
    /// Returns when something may have changed since the subscription or since this last returned;
    /// at once when that is so already. Dropping the future loses nothing.
    pub async fn changed(&mut self) {
        self.waiter.notified().await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let mut entries = self.registry.lock();
        for key in &self.keys {
            if let Some(entry) = entries.by_key.get_mut(key) {
                entry.waiters.remove(&self.number);
                if entry.waiters.is_empty() {
                    entries.by_key.remove(key);
                }
            }
        }
    }
}

/// The name of what changes, short enough for a notification. Conversations and organisations are
/// named by their digest: their own ids are other people's text.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Key {
    Approval(String),
    Conversation(String),
    Organisation(String),
    Request(String),
}

impl Key {
    pub(super) fn conversation(organisation: &str, surface: &str, id: &str) -> Self {
        Self::Conversation(digest(&["conversation", organisation, surface, id]))
    }

    pub(super) fn organisation(organisation: &str) -> Self {
        Self::Organisation(digest(&["organisation", organisation]))
    }

    /// The key as one line of a notification.
    pub(super) fn line(&self) -> String {
        match self {
            Self::Approval(id) => format!("a:{id}"),
            Self::Conversation(digest) => format!("c:{digest}"),
            Self::Organisation(digest) => format!("o:{digest}"),
            Self::Request(id) => format!("r:{id}"),
        }
    }

    /// The key that a line names; `None` for a line of a newer program.
    pub(super) fn from_line(line: &str) -> Option<Self> {
        let (kind, name) = line.split_once(':')?;
        let name = name.to_owned();
        match kind {
            "a" => Some(Self::Approval(name)),
            "c" => Some(Self::Conversation(name)),
            "o" => Some(Self::Organisation(name)),
            "r" => Some(Self::Request(name)),
            _ => None,
        }
    }
}

impl From<Watched> for Key {
    fn from(watched: Watched) -> Self {
        match watched {
            Watched::Approval(id) => Self::Approval(id),
            Watched::Conversation { organisation, surface, id } => {
                Self::conversation(&organisation, &surface, &id)
            }
            Watched::Organisation(organisation) => Self::organisation(&organisation),
            Watched::Request(id) => Self::Request(id),
        }
    }
}

/// All subscriptions of one store.
#[derive(Debug, Default)]
pub(super) struct Registry {
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    next: u64,
    by_key: HashMap<Key, Entry>,
}

#[derive(Debug, Default)]
struct Entry {
    waiters: BTreeMap<u64, Arc<Notify>>,
    /// The revision that the slow poll saw last.
    revision: Option<i64>,
}

impl Registry {
    pub(super) fn subscribe(self: &Arc<Self>, watched: Vec<Watched>) -> Watch {
        let waiter = Arc::new(Notify::new());
        let keys: Vec<Key> = watched.into_iter().map(Key::from).collect();
        let mut entries = self.lock();
        let number = entries.next;
        entries.next += 1;
        for key in &keys {
            let entry = entries.by_key.entry(key.clone()).or_default();
            entry.waiters.insert(number, Arc::clone(&waiter));
        }
        drop(entries);
        Watch { waiter, number, keys, registry: Arc::clone(self) }
    }

    /// Wakes whoever waits for `key`. A waiter that is not waiting right now finds out when it next
    /// does.
    pub(super) fn wake(&self, key: &Key) {
        if let Some(entry) = self.lock().by_key.get(key) {
            entry.wake();
        }
    }

    /// Wakes everybody: notifications may have been lost.
    pub(super) fn wake_all(&self) {
        for entry in self.lock().by_key.values() {
            entry.wake();
        }
    }

    /// The approvals that somebody waits for.
    pub(super) fn watched_approvals(&self) -> Vec<String> {
        let entries = self.lock();
        let approval = |key: &Key| match key {
            Key::Approval(id) => Some(id.clone()),
            Key::Conversation(_) | Key::Organisation(_) | Key::Request(_) => None,
        };
        entries.by_key.keys().filter_map(approval).collect()
    }

    /// What the slow poll found: wakes the waiters of every approval whose revision is new to it,
    /// and all that wait for more than one approval.
    pub(super) fn polled(&self, revisions: Vec<(String, i64)>) {
        let mut entries = self.lock();
        for (id, revision) in revisions {
            if let Some(entry) = entries.by_key.get_mut(&Key::Approval(id))
                && entry.revision != Some(revision)
            {
                entry.revision = Some(revision);
                entry.wake();
            }
        }
        for (key, entry) in &entries.by_key {
            match key {
                Key::Conversation(_) | Key::Organisation(_) | Key::Request(_) => entry.wake(),
                Key::Approval(_) => {}
            }
        }
    }

    // Nothing here panics while it holds the lock, so a poisoned one is whole.
    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    fn wake(&self) {
        for waiter in self.waiters.values() {
            waiter.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    fn approval(id: &str) -> Watched {
        Watched::Approval(id.to_owned())
    }

    fn fires(watch: &mut Watch) -> bool {
        watch.changed().now_or_never().is_some()
    }

    #[test]
    fn a_change_between_subscribing_and_waiting_is_not_missed() {
        let registry = Arc::new(Registry::default());
        let mut watch = registry.subscribe(vec![approval("a"), approval("b")]);
        assert!(!fires(&mut watch));
        registry.wake(&Key::Approval("b".to_owned()));
        registry.wake(&Key::Approval("c".to_owned()));
        assert!(fires(&mut watch));
        assert!(!fires(&mut watch));
    }

    #[test]
    fn the_slow_poll_wakes_for_what_is_new_to_it() {
        let registry = Arc::new(Registry::default());
        let mut watch = registry.subscribe(vec![approval("a")]);
        let mut all = registry.subscribe(vec![Watched::Organisation("o".to_owned())]);
        for (revision, expected) in [(1, true), (1, false), (2, true), (2, false)] {
            registry.polled(vec![("a".to_owned(), revision)]);
            assert_eq!(fires(&mut watch), expected, "revision {revision}");
            assert!(fires(&mut all));
        }
    }

    #[test]
    fn a_dropped_subscription_leaves_nothing_behind() {
        let registry = Arc::new(Registry::default());
        let first = registry.subscribe(vec![approval("a"), approval("b")]);
        let mut second = registry.subscribe(vec![approval("b")]);
        drop(first);
        assert_eq!(registry.watched_approvals(), ["b"]);
        registry.wake(&Key::Approval("b".to_owned()));
        assert!(fires(&mut second));
        drop(second);
        assert!(registry.lock().by_key.is_empty());
    }

    #[test]
    fn keys_survive_a_notification() {
        let keys = [
            Key::Approval("apreq_1:2".to_owned()),
            Key::conversation("o", "s", "c"),
            Key::organisation("o"),
            Key::Request("r".to_owned()),
        ];
        for key in keys {
            assert_eq!(Key::from_line(&key.line()), Some(key));
        }
        assert_eq!(Key::from_line("x:1"), None);
        assert_eq!(Key::from_line("nothing"), None);
    }
}
