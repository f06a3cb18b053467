//! What runs right now, so that a stop can wait for it.

use tokio::sync::watch;

use super::{Code, Refusal};

/// Counts what runs, and knows whether the service is stopping. One per service.
#[derive(Debug)]
pub struct Running {
    stopping: watch::Sender<bool>,
    count: watch::Sender<usize>,
}

/// One piece of work that runs; dropped when it is done.
#[derive(Debug)]
pub struct Work(watch::Sender<usize>);

impl Drop for Work {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Default for Running {
    fn default() -> Self {
        Self { stopping: watch::Sender::new(false), count: watch::Sender::new(0) }
    }
}

impl Running {
    /// Begins a piece of work, which a stop waits for.
    ///
    /// # Errors
    /// 503 once the service is stopping.
    pub fn begin(&self) -> Result<Work, Refusal> {
        // Counted before it is looked at: a stop that comes between waits for nothing, and one that
        // came before is seen.
        self.count.send_modify(|count| *count += 1);
        let work = Work(self.count.clone());
        if self.is_stopping() {
            return Err(Refusal::new(Code::Stopping, "The service is stopping. Try again."));
        }
        Ok(work)
    }

    /// Whether a stop has begun.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Begins a stop: nothing new runs from now on. It cannot be taken back.
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Waits until a stop begins. What only waits (a poll) ends then.
    pub async fn stopping(&self) {
        // The sender lives in `self`, so the channel stays open.
        let mut stopping = self.stopping.subscribe();
        drop(stopping.wait_for(|stopping| *stopping).await);
    }

    /// Waits until nothing runs.
    pub async fn idle(&self) {
        let mut counts = self.count.subscribe();
        drop(counts.wait_for(|count| *count == 0).await);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn a_stop_waits_for_what_runs_and_lets_nothing_begin() {
        let running = Running::default();
        let work = running.begin().unwrap();
        assert!(running.stopping().now_or_never().is_none());
        running.stop();
        assert!(running.stopping().now_or_never().is_some());
        assert_eq!(running.begin().unwrap_err().code, Code::Stopping);
        assert!(running.idle().now_or_never().is_none());
        drop(work);
        assert!(running.idle().now_or_never().is_some());
    }
}
