//! How replicas wake each other: notifications with ids alone, and a slow poll where one was lost.
//!
//! Notifications are sent after the transaction that they tell of, many at once, because PostgreSQL
//! lets transactions that notify commit only one by one.

use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::Pool;
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::store::wake::{Key, Registry};

const CHANNEL: &str = "approver_changes";
/// Keys of one notification statement, at most.
const SENT_AT_ONCE: usize = 500;
/// Approvals that one statement of the slow poll asks about.
const POLLED: usize = 1000;
/// Between attempts to listen again.
const BACK_OFF: [Duration; 5] = [
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(3),
];

/// Tells other replicas what changed.
#[derive(Debug)]
pub(super) struct Notifier {
    queue: mpsc::UnboundedSender<Vec<Key>>,
}

impl Notifier {
    /// A notifier, and the task that sends what it is given.
    pub(super) fn new(pool: Pool) -> (Self, impl Future<Output = ()> + Send) {
        let (queue, waiting) = mpsc::unbounded_channel();
        (Self { queue }, send_all(pool, waiting))
    }

    pub(super) fn send(&self, keys: Vec<Key>) {
        let keys: Vec<Key> = keys.into_iter().filter(is_news).collect();
        if !keys.is_empty() {
            // Without its task the store is being dropped.
            let _unsent = self.queue.send(keys);
        }
    }
}

/// Requests are waited for with a short time limit, so that not every judgement is news.
fn is_news(key: &Key) -> bool {
    match key {
        Key::Approval(_) | Key::Conversation(_) | Key::Organisation(_) => true,
        Key::Request(_) => false,
    }
}

async fn send_all(pool: Pool, mut waiting: mpsc::UnboundedReceiver<Vec<Key>>) {
    while let Some(mut keys) = waiting.recv().await {
        while keys.len() < SENT_AT_ONCE
            && let Ok(more) = waiting.try_recv()
        {
            keys.extend(more);
        }
        keys.sort();
        keys.dedup();
        let lines: Vec<String> = keys.iter().map(Key::line).collect();
        if send(&pool, &lines).await.is_err() {
            tracing::debug!("a notification was lost; the slow poll makes up for it");
        }
    }
}

async fn send(pool: &Pool, lines: &[String]) -> Result<(), Lost> {
    let connection = pool.get().await.map_err(|_| Lost)?;
    let statement = "SELECT pg_notify($1, line) FROM unnest($2::text[]) AS lines (line)";
    let statement = connection.prepare_cached(statement).await.map_err(|_| Lost)?;
    connection.query(&statement, &[&CHANNEL, &lines]).await.map_err(|_| Lost)?;
    Ok(())
}

/// Something here did not work this time.
struct Lost;

/// Listens for as long as the store lives, on a connection of its own.
pub(super) async fn listen(config: Config, tls: MakeRustlsConnect, registry: Arc<Registry>) {
    let mut failures = 0;
    loop {
        if listen_once(&config, tls.clone(), &registry, &mut failures).await.is_err() {
            tracing::warn!("the connection that waits for notifications is lost");
        }
        let pause = BACK_OFF.get(failures).or(BACK_OFF.last()).copied().unwrap_or_default();
        failures += 1;
        // Replicas that lost the same database do not all come back at once.
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
    }
}

async fn listen_once(
    config: &Config,
    tls: MakeRustlsConnect,
    registry: &Registry,
    failures: &mut usize,
) -> Result<(), Lost> {
    let (client, mut connection) = config.connect(tls).await.map_err(|_| Lost)?;
    let (lines, mut arrived) = mpsc::unbounded_channel();
    // Ends with the connection.
    let driver = async move {
        while let Some(message) =
            std::future::poll_fn(|context| connection.poll_message(context)).await
        {
            match message {
                Ok(AsyncMessage::Notification(notification)) => {
                    if lines.send(notification.payload().to_owned()).is_err() {
                        return;
                    }
                }
                Ok(_) => {}
                Err(_) => return,
            }
        }
    };
    let handle = async {
        client.batch_execute(&format!("LISTEN {CHANNEL}")).await.map_err(|_| Lost)?;
        *failures = 0;
        // What was sent before is lost: whoever waits reads again.
        registry.wake_all();
        while let Some(line) = arrived.recv().await {
            if let Some(key) = Key::from_line(&line) {
                registry.wake(&key);
            }
        }
        Err(Lost)
    };
    tokio::select! {
        () = driver => Err(Lost),
        handled = handle => handled,
    }
}

/// Looks for changes whose notification was lost.
pub(super) async fn poll(pool: Pool, registry: Arc<Registry>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let mut found = Vec::new();
        for ids in registry.watched_approvals().chunks(POLLED) {
            // What fails now is looked for again next time.
            found.extend(revisions(&pool, ids).await.unwrap_or_default());
        }
        registry.polled(found);
    }
}

async fn revisions(pool: &Pool, ids: &[String]) -> Result<Vec<(String, i64)>, Lost> {
    let connection = pool.get().await.map_err(|_| Lost)?;
    let statement = "SELECT id, revision FROM approvals WHERE id = ANY ($1)";
    let statement = connection.prepare_cached(statement).await.map_err(|_| Lost)?;
    let rows = connection.query(&statement, &[&ids]).await.map_err(|_| Lost)?;
    rows.iter()
        .map(|row| Ok((row.try_get(0).map_err(|_| Lost)?, row.try_get(1).map_err(|_| Lost)?)))
        .collect()
}
