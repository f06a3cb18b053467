//! A store that fails where a test wants it to: the others' work is done by a real one.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use approver::store::{Answer, Record, Recorded, Store, StoreError};

use super::through::{Around, Through};

/// A store of which the next `failures` records fail; `recorded_all_the_same` they are stored, and
/// only the answer is lost.
pub(crate) fn broken(
    inner: &Arc<dyn Store>,
    failures: usize,
    recorded_all_the_same: bool,
) -> Arc<dyn Store> {
    let failures = AtomicUsize::new(failures);
    Arc::new(Through(Broken { inner: Arc::clone(inner), failures, recorded_all_the_same }))
}

struct Broken {
    inner: Arc<dyn Store>,
    failures: AtomicUsize,
    recorded_all_the_same: bool,
}

impl Around for Broken {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn record(&self, record: Record) -> Answer<'_, Recorded> {
        let fails = self.failures.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_ok();
        if !fails {
            return self.inner.record(record);
        }
        let recorded = self.recorded_all_the_same.then(|| self.inner.record(record));
        Box::pin(async move {
            if let Some(recorded) = recorded {
                recorded.await?;
            }
            let source = "the test says so".into();
            Err(StoreError::Unavailable { doing: "recording a judgement", source })
        })
    }
}
