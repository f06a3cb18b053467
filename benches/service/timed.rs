//! A store that says how long a request waited for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use approver::store::{Answer, Begin, Begun, Record, Recorded, Store, StoredVersion, Token};

use crate::through::Around;

/// What a judgement waits for.
#[derive(Clone, Copy)]
pub(crate) enum Stage {
    Token,
    Version,
    Begin,
    Record,
}

impl Stage {
    pub(crate) const ALL: [(Self, &str); 4] = [
        (Self::Token, "token"),
        (Self::Version, "version"),
        (Self::Begin, "begin"),
        (Self::Record, "record"),
    ];
}

/// Nanoseconds by stage, over all requests.
pub(crate) struct Timed {
    pub(crate) inner: Arc<dyn Store>,
    pub(crate) waited: [AtomicU64; 4],
}

impl Timed {
    fn timed<'a, T: 'a>(&'a self, stage: Stage, answer: Answer<'a, T>) -> Answer<'a, T> {
        Box::pin(async move {
            let start = Instant::now();
            let output = answer.await;
            let nanos = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.waited[stage as usize].fetch_add(nanos, Relaxed);
            output
        })
    }
}

impl Around for Timed {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn begin(&self, begin: Begin) -> Answer<'_, Begun> {
        self.timed(Stage::Begin, self.inner.begin(begin))
    }

    fn record(&self, record: Record) -> Answer<'_, Recorded> {
        self.timed(Stage::Record, self.inner.record(record))
    }

    fn token_by_hash(&self, hash: [u8; 32]) -> Answer<'_, Option<Token>> {
        self.timed(Stage::Token, self.inner.token_by_hash(hash))
    }

    fn version<'a>(
        &'a self,
        organisation: &'a str,
        agent: &'a str,
        name: &'a str,
    ) -> Answer<'a, Option<StoredVersion>> {
        self.timed(Stage::Version, self.inner.version(organisation, agent, name))
    }
}
