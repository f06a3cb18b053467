//! A running service with everything in a test's hands.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use approver::decide::Settings;
use approver::http::{Doors, router};
use approver::judge::scripted::{Move, Scripted};
use approver::service::keys::{KeyRing, token_hash};
use approver::service::{Approver, Clock, Limits, Parts, Service, Timing};
use approver::store::{
    Created, NewToken, Postgres, PostgresSettings, Sqlite, SqliteSettings, Store, Timestamp, Token,
    TokenKind,
};
use reqwest::Method;
use serde_json::Value;

/// When every test begins.
const START: u64 = 1_800_000_000;

/// The organisation of every token that a test does not make itself.
pub(crate) const ORGANISATION: &str = "maple";

/// A running service.
pub(crate) struct World {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) service: Arc<Service>,
    /// Its address, `http://127.0.0.1:…`.
    pub(crate) url: String,
    pub(crate) client: reqwest::Client,
    clock: Arc<AtomicU64>,
    judge: Arc<Script>,
    /// Opens the store once more, as another process would.
    reopen: Option<Reopen>,
}

/// How the store of a test is opened once more.
#[derive(Clone)]
pub(crate) enum Reopen {
    Sqlite(SqliteSettings),
    Postgres(PostgresSettings),
}

/// The judge's next moves; without any it answers nothing readable.
struct Script(Mutex<Box<Choose>>);

type Choose = dyn Fn(&str) -> Move + Send;

/// An answer, read.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
    pub(crate) json: Value,
}

impl Reply {
    /// The body of an answer with that status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.json
    }

    /// The code of an error with that status.
    #[track_caller]
    pub(crate) fn error(self, status: u16) -> String {
        assert_eq!(self.status, status, "{}", self.text);
        self.json["error"]["code"].as_str().expect("an error has a code").to_owned()
    }
}

impl World {
    /// Starts a service on `store`, on a free port.
    pub(crate) async fn start(store: Arc<dyn Store>) -> Self {
        let judge = Arc::new(Script(Mutex::new(Box::new(|_| Move::say("no answer")))));
        let clock = Arc::new(AtomicU64::new(START * 1000));
        Self::with(store, judge, clock, Timing::default()).await
    }

    /// The same, and [`World::replica`] works.
    pub(crate) fn reopened_by(self, reopen: Reopen) -> Self {
        Self { reopen: Some(reopen), ..self }
    }

    /// Another replica of the service: on a connection of its own to the same store, with the same
    /// clock and judge.
    pub(crate) async fn replica(&self) -> Self {
        let store: Arc<dyn Store> = match self.reopen.clone().expect("a world with a place") {
            Reopen::Sqlite(settings) => Arc::new(Sqlite::open(settings).await.unwrap()),
            Reopen::Postgres(settings) => Arc::new(Postgres::open(settings).await.unwrap()),
        };
        self.on(store, Timing::default()).await
    }

    /// Another service on that store, with the same clock and judge.
    pub(crate) async fn on(&self, store: Arc<dyn Store>, timing: Timing) -> Self {
        let (judge, clock) = (Arc::clone(&self.judge), Arc::clone(&self.clock));
        Self { reopen: self.reopen.clone(), ..Self::with(store, judge, clock, timing).await }
    }

    /// Another service on the same store, with the same clock and judge, and with parts of its own.
    pub(crate) async fn with_parts(&self, change: impl FnOnce(&mut Parts)) -> Self {
        let (judge, clock) = (Arc::clone(&self.judge), Arc::clone(&self.clock));
        let mut parts = parts(Arc::clone(&self.store), &judge, &clock, Timing::default());
        change(&mut parts);
        Self { reopen: self.reopen.clone(), ..Self::of(parts, judge, clock).await }
    }

    async fn with(
        store: Arc<dyn Store>,
        judge: Arc<Script>,
        clock: Arc<AtomicU64>,
        timing: Timing,
    ) -> Self {
        let parts = parts(store, &judge, &clock, timing);
        Self::of(parts, judge, clock).await
    }

    async fn of(parts: Parts, judge: Arc<Script>, clock: Arc<AtomicU64>) -> Self {
        let store = Arc::clone(&parts.store);
        let service = Arc::new(Service::new(parts));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let doors = router(Doors { service: Arc::clone(&service), settings: Arc::default() });
        tokio::spawn(async move { axum::serve(listener, doors).await.unwrap() });
        // Another test of this process may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { store, service, url, client, clock, judge, reopen: None }
    }

    /// The test's own time.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from(SystemTime::UNIX_EPOCH + self.elapsed())
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.clock.load(Ordering::SeqCst))
    }

    /// Moves the clock forward.
    pub(crate) fn pass(&self, time: Duration) {
        let millis = u64::try_from(time.as_millis()).unwrap();
        self.clock.fetch_add(millis, Ordering::SeqCst);
    }

    /// From now on the judge makes the move that `choose` finds for a question's text.
    pub(crate) fn judge(&self, choose: impl Fn(&str) -> Move + Send + 'static) {
        *self.judge.0.lock().unwrap() = Box::new(choose);
    }

    /// A new token of a kind for [`ORGANISATION`].
    pub(crate) async fn token(&self, name: &str, kind: TokenKind) -> String {
        self.token_of(ORGANISATION, name, kind).await
    }

    /// A new token of a kind.
    pub(crate) async fn token_of(&self, organisation: &str, name: &str, kind: TokenKind) -> String {
        let text = format!("test-{organisation}-{name}-{}", kind.as_str());
        let token = Token {
            id: format!("tok-{organisation}-{name}-{}", kind.as_str()),
            organisation: organisation.to_owned(),
            name: name.to_owned(),
            kind,
            created_at: self.now(),
            revoked_at: None,
        };
        let new = NewToken { token, hash: token_hash(&text) };
        assert_eq!(self.store.create_token(new).await.unwrap(), Created::Done);
        text
    }

    /// Sends a request; `body` is JSON text as it is.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        token: Option<&str>,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> Reply {
        let mut request = self.client.request(method, format!("{}{path}", self.url));
        if let Some(token) = token {
            request = request.bearer_auth(token);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.header("Content-Type", "application/json").body(body);
        }
        let response = request.send().await.unwrap();
        let status = response.status();
        let headers = response.headers().clone();
        assert!(headers.contains_key("x-request-id"), "every answer has a request id");
        let text = response.text().await.unwrap();
        let json = serde_json::from_str(&text).unwrap_or(Value::Null);
        if status.is_client_error() || status.is_server_error() {
            let id = headers["x-request-id"].to_str().unwrap();
            assert_eq!(json["error"]["request_id"], id, "{text}");
        }
        Reply { status: status.as_u16(), headers, text, json }
    }

    pub(crate) async fn get(&self, path: &str, token: &str) -> Reply {
        self.send(Method::GET, path, Some(token), &[], None).await
    }

    pub(crate) async fn delete(&self, path: &str, token: &str) -> Reply {
        self.send(Method::DELETE, path, Some(token), &[], None).await
    }

    pub(crate) async fn put(&self, path: &str, token: &str, body: &Value) -> Reply {
        self.send(Method::PUT, path, Some(token), &[], Some(body.to_string())).await
    }

    pub(crate) async fn post(&self, path: &str, token: &str, body: &Value) -> Reply {
        self.send(Method::POST, path, Some(token), &[], Some(body.to_string())).await
    }

    /// A `POST` with an `Idempotency-Key`.
    pub(crate) async fn post_once(
        &self,
        path: &str,
        token: &str,
        key: &str,
        body: &Value,
    ) -> Reply {
        let headers = [("Idempotency-Key", key)];
        self.send(Method::POST, path, Some(token), &headers, Some(body.to_string())).await
    }
}

/// What every service of a test is made of.
fn parts(
    store: Arc<dyn Store>,
    judge: &Arc<Script>,
    clock: &Arc<AtomicU64>,
    timing: Timing,
) -> Parts {
    let asked = Arc::clone(judge);
    let scripted = Scripted::function(move |prompt| {
        // A move may panic or take its time: nothing is held then.
        asked.0.lock().unwrap_or_else(PoisonError::into_inner)(&prompt.user)
    });
    let ticking = Arc::clone(clock);
    let now = move || UNIX_EPOCH + Duration::from_millis(ticking.load(Ordering::SeqCst));
    Parts {
        store,
        approver: Approver::new(Arc::new(scripted), Settings::default(), timing),
        automatic_approval: Ok(()),
        sandbox_enabled: true,
        keys: KeyRing::new(&[("k1".to_owned(), [7; 32])]).unwrap(),
        limits: Limits::default(),
        allow_loopback_webhooks: true,
        clock: Clock::of(now),
    }
}
