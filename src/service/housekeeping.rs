//! What happens without anybody asking: approvals expire, what has been kept long enough goes, and
//! signing secrets move to the key ring's first key.
//!
//! Every replica does this; the database lets exactly one of them end each approval, and that one
//! tells of it. A store that is away is waited for.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::{Resealed, Service};
use crate::store::{StoreError, Sweep, Swept};

/// How long the approval protocol has its ended requests kept, and records of instances.
const KEEP_PROTOCOL: Duration = Duration::from_secs(168 * 3_600);
/// And those whose notification was delivered, after that. A minute is for an attempt under way.
const KEEP_DELIVERIES: Duration = Duration::from_secs(24 * 3_600 + 60);

/// How often, and how long things are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HousekeepingSettings {
    /// Between two looks for approvals whose time is over; 1 s unless configured.
    pub expire_every: Duration,
    /// Between two looks for what has been kept long enough; 60 s unless configured.
    pub sweep_every: Duration,
    /// Between two looks for signing secrets that are sealed under an older key; an hour. The first is
    /// at the start, when a ring may be another; later ones find what a replica with its ring in
    /// another order has sealed since.
    pub reseal_every: Duration,
    /// `retention.inputs`: arguments, outputs and what the judge saw; 30 days unless configured.
    pub keep_inputs: Duration,
    /// `retention.records`: approvals and the rest; 365 days unless configured.
    pub keep_records: Duration,
    /// How long an `Idempotency-Key` makes a repeat a repeat; 24 h.
    pub keep_keys: Duration,
    /// Rows of one transaction; 500.
    pub batch: u32,
}

impl Default for HousekeepingSettings {
    fn default() -> Self {
        const DAY: u64 = 24 * 3600;
        Self {
            expire_every: Duration::from_secs(1),
            sweep_every: Duration::from_secs(60),
            reseal_every: Duration::from_secs(3_600),
            keep_inputs: Duration::from_secs(30 * DAY),
            keep_records: Duration::from_secs(365 * DAY),
            keep_keys: Duration::from_secs(DAY),
            batch: 500,
        }
    }
}

/// The running task. Dropping it without [`Housekeeping::stop`] stops it too, in the middle.
#[derive(Debug)]
pub struct Housekeeping {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Housekeeping {
    /// Starts it on the current runtime.
    #[must_use]
    pub fn start(service: Arc<Service>, settings: HousekeepingSettings) -> Self {
        let (stop, stopping) = watch::channel(false);
        let task = tokio::spawn(run(service, settings, stopping));
        Self { stop, task }
    }

    /// Stops it after the batch that it is at.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        // A panic in it was reported when it happened.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Housekeeping {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(
    service: Arc<Service>,
    settings: HousekeepingSettings,
    mut stopping: watch::Receiver<bool>,
) {
    let ticker = |every: Duration| {
        let mut ticker = tokio::time::interval(every.max(Duration::from_millis(10)));
        ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticker
    };
    let mut expire = ticker(settings.expire_every);
    let mut sweep = ticker(settings.sweep_every);
    let mut reseal = ticker(settings.reseal_every);
    let mut health = Health { is_well: true };
    // Asked between batches, while the other one waits.
    let asked = stopping.clone();
    loop {
        tokio::select! {
            biased;
            () = stopped(&mut stopping) => return,
            _ = expire.tick() => health.note(expire_all(&service, &settings, &asked).await),
            _ = sweep.tick() => health.note(sweep_all(&service, &settings, &asked).await),
            _ = reseal.tick() => {
                let resealed = reseal_all(&service, &settings, &asked).await;
                if resealed.is_err() {
                    reseal.reset_after(settings.sweep_every);
                }
                health.note(resealed);
            }
        }
    }
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // Without a sender nobody is left to stop it, and it is aborted.
    let _ = stopping.wait_for(|stop| *stop).await;
}

/// An outage is logged when it begins and when it ends, and not each second.
struct Health {
    is_well: bool,
}

impl Health {
    fn note(&mut self, result: Result<(), StoreError>) {
        match (&result, self.is_well) {
            (Err(error), true) => {
                let source = std::error::Error::source(error).map(ToString::to_string);
                tracing::error!(%error, source, "housekeeping failed and is tried again");
            }
            (Ok(()), false) => tracing::info!("housekeeping works again"),
            (Err(_), false) | (Ok(()), true) => {}
        }
        self.is_well = result.is_ok();
    }
}

async fn expire_all(
    service: &Service,
    settings: &HousekeepingSettings,
    stopping: &watch::Receiver<bool>,
) -> Result<(), StoreError> {
    while !*stopping.borrow() {
        if service.expire_due(settings.batch).await? < settings.batch as usize {
            break;
        }
    }
    Ok(())
}

async fn sweep_all(
    service: &Service,
    settings: &HousekeepingSettings,
    stopping: &watch::Receiver<bool>,
) -> Result<(), StoreError> {
    let limit = settings.batch;
    while !*stopping.borrow() {
        let now = service.now();
        let swept = service
            .store
            .sweep(Sweep {
                inputs_before: now.minus(settings.keep_inputs),
                records_before: now.minus(settings.keep_records),
                keys_before: now.minus(settings.keep_keys),
                protocol_before: now.minus(KEEP_PROTOCOL),
                deliveries_before: now.minus(KEEP_DELIVERIES),
                limit,
            })
            .await?;
        let Swept { inputs, records, keys } = swept;
        if inputs.max(records).max(keys) < u64::from(limit) {
            break;
        }
    }
    Ok(())
}

async fn reseal_all(
    service: &Service,
    settings: &HousekeepingSettings,
    stopping: &watch::Receiver<bool>,
) -> Result<(), StoreError> {
    let (mut after, mut count) = (None, 0);
    while !*stopping.borrow() {
        let Resealed { count: more, next } = service.reseal_secrets(after, settings.batch).await?;
        count += more;
        after = next;
        if after.is_none() {
            break;
        }
    }
    if count > 0 {
        let key = service.keys.active();
        tracing::info!(key, count, "signing secrets are sealed under the first key now");
    }
    Ok(())
}

impl Service {
    /// Ends at most `limit` pending approvals whose time is over, tells of them, and says how many
    /// it were.
    ///
    /// # Errors
    /// The store fails.
    pub async fn expire_due(&self, limit: u32) -> Result<usize, StoreError> {
        let expired = self.store.expire_due(self.now(), limit).await?;
        self.tell_ended(&expired);
        Ok(expired.len())
    }
}
