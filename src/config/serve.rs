//! The sections that only the service reads: where it listens, what it keeps and for how long.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

use super::entries::{MASK, of};
use super::layers::Layers;
use super::values::{self, Invalid, Parsed, Raw, invalid, shown_duration};
use super::{Config, Origin, Sourced};
use crate::service::Limits;
use crate::service::events::webhook_key;

const HOUR: Duration = Duration::from_secs(3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);
const SECOND: Duration = Duration::from_secs(1);
const MIB: usize = 1024 * 1024;

/// The sections of the service.
#[derive(Debug, Clone)]
pub struct ServeConfig {
    /// `[server]`
    pub server: ServerConfig,
    /// `[store]`
    pub store: StoreConfig,
    /// `[keys]`
    pub keys: KeysConfig,
    /// `[approvals]`
    pub approvals: ApprovalsConfig,
    /// `[retention]`
    pub retention: RetentionConfig,
    /// `[events]`
    pub events: EventsConfig,
    /// `[metrics]`
    pub metrics: MetricsConfig,
    /// `[aap]`
    pub aap: AapConfig,
}

/// `[server]`: where the service listens, and what a connection may cost.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Address and port; `127.0.0.1:8080` unless set.
    pub listen: Sourced<SocketAddr>,
    /// Bytes of a request's body, 1 KiB to 256 MiB; 8 MiB unless set.
    pub max_body: Sourced<usize>,
    /// Header fields of a request, 1 to 1,000; 100 unless set.
    pub max_headers: Sourced<usize>,
    /// Bytes of a request's header fields together, 8 KiB to 1 MiB; 64 KiB unless set.
    pub max_header_bytes: Sourced<usize>,
    /// For a request's header to arrive, and so how long a connection may idle, 100 ms to 1 h;
    /// 30 s unless set.
    pub header_timeout: Sourced<Duration>,
    /// For a request's body to arrive, 100 ms to 1 h; 30 s unless set.
    pub body_timeout: Sourced<Duration>,
    /// Connections at once, 1 to 100,000; 1,024 unless set. More wait to be accepted.
    pub max_connections: Sourced<usize>,
    /// How long a stop waits for what runs, 1 ms to 1 h; unless set 15 s longer than
    /// `judge.request_deadline`.
    pub stop_timeout: Sourced<Option<Duration>>,
}

/// `[store]`: where everything is kept.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// `sqlite:PATH` or `postgres://…`; `sqlite:approver.db` unless set.
    pub url: Sourced<StoreUrl>,
    /// Connections, 1 to 1,000: PostgreSQL's, or SQLite's readers; 16 and 4 unless set.
    pub connections: Sourced<Option<usize>>,
    /// A PEM file of the root certificates that count for PostgreSQL; the machine's own unless set.
    pub root_certificates: Sourced<Option<PathBuf>>,
}

/// Which store.
#[derive(Debug, Clone)]
pub enum StoreUrl {
    /// The embedded one, in this file.
    Sqlite(PathBuf),
    /// A server's address, with its password.
    Postgres(SecretString),
}

impl StoreUrl {
    /// The kind's name.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "sqlite",
            Self::Postgres(_) => "postgres",
        }
    }
}

/// `[keys]`: the root secrets. One of the two must be set for a service that keeps anything.
#[derive(Debug, Clone)]
pub struct KeysConfig {
    /// A file with lines `id:base64`, the first for new things; only its owner may read it.
    pub file: Sourced<Option<PathBuf>>,
    /// The same lines. From the environment only.
    pub root: Sourced<Option<SecretString>>,
}

/// `[approvals]`: how long approvals wait and hold.
#[derive(Debug, Clone)]
pub struct ApprovalsConfig {
    /// How long an approval waits when the request does not say, 1 s to 168 h; 24 h unless set, or
    /// `max_pending_for` where that is shorter.
    pub pending_for: Sourced<Duration>,
    /// How long a request may ask it to wait, 1 s to 168 h; 168 h unless set.
    pub max_pending_for: Sourced<Duration>,
    /// How long after its approval a call may start, 1 s to 1 h; 5 min unless set.
    pub start_within: Sourced<Duration>,
    /// Long polls of one token at once, on each replica, 1 to 100,000; 1,000 unless set.
    pub max_polls_per_token: Sourced<u32>,
}

/// `[retention]`: how long things are kept.
#[derive(Debug, Clone)]
pub struct RetentionConfig {
    /// Arguments and what the judge saw, sealed: 1 h to 3,650 days; 30 days unless set.
    pub inputs: Sourced<Duration>,
    /// Records: 1 day to 3,650 days; 365 days unless set.
    pub records: Sourced<Duration>,
}

/// `[events]`: who is told.
#[derive(Debug, Clone)]
pub struct EventsConfig {
    /// Where events are posted; `https`, or `http` on this machine.
    pub webhook_url: Sourced<Option<String>>,
    /// Signs what is posted. From the environment only, and required with an address.
    pub webhook_secret: Sourced<Option<SecretString>>,
}

/// `[metrics]`: who may read them.
#[derive(Debug, Clone)]
pub struct MetricsConfig {
    /// A bearer token that reads metrics and nothing else, at least 16 characters. From the
    /// environment only; without it administrators' tokens alone read them.
    pub token: Sourced<Option<SecretString>>,
}

/// `[aap]`: the Agent Approval Protocol's door.
#[derive(Debug, Clone)]
pub struct AapConfig {
    /// Whether notifications may go to this machine itself; off unless set. For tests alone: whoever
    /// provisions an instance could reach what listens here.
    pub allow_loopback_webhooks: Sourced<bool>,
}

impl Config {
    /// Times and limits of approvals.
    #[must_use]
    pub fn limits(&self) -> Limits {
        let approvals = &self.serve.approvals;
        Limits {
            pending_for: approvals.pending_for.value,
            max_pending_for: approvals.max_pending_for.value,
            start_within: approvals.start_within.value,
            polls_per_token: approvals.max_polls_per_token.value,
        }
    }

    /// How long a stop waits for what runs.
    #[must_use]
    pub fn stop_timeout(&self) -> Duration {
        let longer = self.judge.request_deadline.value + Duration::from_secs(15);
        self.serve.server.stop_timeout.value.unwrap_or(longer)
    }

    pub(super) fn serve_entries(&self) -> Vec<(&'static str, (Value, String))> {
        // Taken apart, so that no setting is forgotten.
        let ServeConfig { server, store, keys, approvals, retention, events, metrics, aap } =
            &self.serve;
        let duration = |value: &Duration| json!(shown_duration(*value));
        let secret = |value: &Option<SecretString>| {
            value.as_ref().map_or(Value::Null, |_secret| json!(MASK))
        };
        let path = |value: &Option<PathBuf>| {
            value.as_ref().map_or(Value::Null, |path| json!(path.to_string_lossy()))
        };
        let count = |value: &usize| json!(value);
        vec![
            of("server.listen", &server.listen, |value| json!(value.to_string())),
            of("server.max_body", &server.max_body, |value| json!(shown_size(*value))),
            of("server.max_headers", &server.max_headers, count),
            of("server.max_header_bytes", &server.max_header_bytes, |value| {
                json!(shown_size(*value))
            }),
            of("server.header_timeout", &server.header_timeout, duration),
            of("server.body_timeout", &server.body_timeout, duration),
            of("server.max_connections", &server.max_connections, count),
            of("server.stop_timeout", &server.stop_timeout, |_| duration(&self.stop_timeout())),
            of("store.url", &store.url, |value| match value {
                StoreUrl::Sqlite(path) => json!(format!("sqlite:{}", path.to_string_lossy())),
                StoreUrl::Postgres(_) => json!(MASK),
            }),
            of("store.connections", &store.connections, |value| {
                json!(value.unwrap_or(match store.url.value {
                    StoreUrl::Sqlite(_) => 4,
                    StoreUrl::Postgres(_) => 16,
                }))
            }),
            of("store.root_certificates", &store.root_certificates, path),
            of("keys.file", &keys.file, path),
            of("keys.root", &keys.root, secret),
            of("approvals.pending_for", &approvals.pending_for, duration),
            of("approvals.max_pending_for", &approvals.max_pending_for, duration),
            of("approvals.start_within", &approvals.start_within, duration),
            of("approvals.max_polls_per_token", &approvals.max_polls_per_token, |value| {
                json!(value)
            }),
            of("retention.inputs", &retention.inputs, duration),
            of("retention.records", &retention.records, duration),
            of("events.webhook_url", &events.webhook_url, |value| json!(value)),
            of("events.webhook_secret", &events.webhook_secret, secret),
            of("metrics.token", &metrics.token, secret),
            of("aap.allow_loopback_webhooks", &aap.allow_loopback_webhooks, |value| json!(value)),
        ]
    }
}

impl ServeConfig {
    /// What a file that is merely found may not set.
    pub(super) fn of_a_named_file(&self) -> Vec<(&'static str, &Origin)> {
        // Taken apart, so that a new setting cannot be forgotten here. Limits of one connection may
        // stand in any file.
        let Self { server, store, keys, approvals, retention, events, metrics, aap } = self;
        let StoreConfig { url, connections, root_certificates } = store;
        let KeysConfig { file, root } = keys;
        let ApprovalsConfig { pending_for, max_pending_for, start_within, max_polls_per_token } =
            approvals;
        let RetentionConfig { inputs, records } = retention;
        let EventsConfig { webhook_url, webhook_secret } = events;
        let MetricsConfig { token } = metrics;
        let AapConfig { allow_loopback_webhooks } = aap;
        vec![
            ("server.listen", &server.listen.origin),
            ("store.url", &url.origin),
            ("store.connections", &connections.origin),
            ("store.root_certificates", &root_certificates.origin),
            ("keys.file", &file.origin),
            ("keys.root", &root.origin),
            ("approvals.pending_for", &pending_for.origin),
            ("approvals.max_pending_for", &max_pending_for.origin),
            ("approvals.start_within", &start_within.origin),
            ("approvals.max_polls_per_token", &max_polls_per_token.origin),
            ("retention.inputs", &inputs.origin),
            ("retention.records", &records.origin),
            ("events.webhook_url", &webhook_url.origin),
            ("events.webhook_secret", &webhook_secret.origin),
            ("metrics.token", &token.origin),
            ("aap.allow_loopback_webhooks", &allow_loopback_webhooks.origin),
        ]
    }
}

pub(super) fn read(layers: &mut Layers) -> ServeConfig {
    ServeConfig {
        server: server(layers),
        store: store(layers),
        keys: keys(layers),
        approvals: approvals(layers),
        retention: retention(layers),
        events: events(layers),
        metrics: MetricsConfig {
            token: layers.take("metrics.token", None, |raw| long_secret(raw).map(Some)),
        },
        aap: AapConfig {
            allow_loopback_webhooks: layers.take(
                "aap.allow_loopback_webhooks",
                false,
                values::boolean,
            ),
        },
    }
}

fn server(layers: &mut Layers) -> ServerConfig {
    let wait = |raw: &Raw| values::duration_within(raw, Duration::from_millis(100)..=HOUR);
    ServerConfig {
        listen: layers.take("server.listen", SocketAddr::from(([127, 0, 0, 1], 8080)), address),
        max_body: layers.take("server.max_body", 8 * MIB, |raw| size(raw, 1024, 256 * MIB)),
        max_headers: layers.take("server.max_headers", 100, |raw| values::integer(raw, 1..=1_000)),
        max_header_bytes: layers
            .take("server.max_header_bytes", 64 * 1024, |raw| size(raw, 8 * 1024, MIB)),
        header_timeout: layers.take("server.header_timeout", 30 * SECOND, wait),
        body_timeout: layers.take("server.body_timeout", 30 * SECOND, wait),
        max_connections: layers
            .take("server.max_connections", 1_024, |raw| values::integer(raw, 1..=100_000)),
        stop_timeout: layers
            .take("server.stop_timeout", None, |raw| values::duration(raw).map(Some)),
    }
}

fn store(layers: &mut Layers) -> StoreConfig {
    let default = StoreUrl::Sqlite(PathBuf::from("approver.db"));
    let url = layers.take("store.url", default, store_url);
    if let StoreUrl::Postgres(address) = &url.value
        && !matches!(url.origin, Origin::Environment(_))
        && url::Url::parse(address.expose_secret()).is_ok_and(|url| url.password().is_some())
    {
        let text =
            "holds a password, which comes from the environment only; set APPROVER_STORE_URL";
        layers.report("store.url", url.origin.clone(), text);
    }
    StoreConfig {
        url,
        connections: layers
            .take("store.connections", None, |raw| values::integer(raw, 1..=1_000).map(Some)),
        root_certificates: layers.take("store.root_certificates", None, path),
    }
}

fn keys(layers: &mut Layers) -> KeysConfig {
    let file = layers.take("keys.file", None, path);
    let root = layers.take("keys.root", None, |raw| {
        values::text(raw).map(|text| Some(SecretString::from(text)))
    });
    if file.value.is_some() && root.value.is_some() {
        layers.report("keys.root", root.origin.clone(), "`keys.file` is set as well");
    }
    KeysConfig { file, root }
}

fn approvals(layers: &mut Layers) -> ApprovalsConfig {
    let defaults = Limits::default();
    let wait = |raw: &Raw| values::duration_within(raw, SECOND..=168 * HOUR);
    let max_pending_for = layers.take("approvals.max_pending_for", defaults.max_pending_for, wait);
    let mut pending_for = layers.take("approvals.pending_for", defaults.pending_for, wait);
    if pending_for.value > max_pending_for.value {
        if pending_for.origin == Origin::Default {
            pending_for.value = max_pending_for.value;
        } else {
            let text = "is longer than `approvals.max_pending_for`";
            layers.report("approvals.pending_for", pending_for.origin.clone(), text);
        }
    }
    ApprovalsConfig {
        pending_for,
        max_pending_for,
        start_within: layers.take("approvals.start_within", defaults.start_within, |raw| {
            values::duration_within(raw, SECOND..=HOUR)
        }),
        max_polls_per_token: layers.take(
            "approvals.max_polls_per_token",
            defaults.polls_per_token,
            |raw| values::integer(raw, 1..=100_000),
        ),
    }
}

fn retention(layers: &mut Layers) -> RetentionConfig {
    let inputs = layers
        .take("retention.inputs", 30 * DAY, |raw| values::duration_within(raw, HOUR..=3_650 * DAY));
    let records = layers.take("retention.records", 365 * DAY, |raw| {
        values::duration_within(raw, DAY..=3_650 * DAY)
    });
    if inputs.value > records.value {
        let text = "is longer than `retention.records`, with which inputs go as well";
        layers.report("retention.inputs", inputs.origin.clone(), text);
    }
    RetentionConfig { inputs, records }
}

fn events(layers: &mut Layers) -> EventsConfig {
    let webhook_url = layers.take("events.webhook_url", None, webhook_url);
    let webhook_secret =
        layers.take("events.webhook_secret", None, |raw| webhook_secret(raw).map(Some));
    if webhook_url.value.is_some() && webhook_secret.value.is_none() {
        let text = "needs a secret to sign with; set APPROVER_EVENTS_WEBHOOK_SECRET";
        layers.report("events.webhook_url", webhook_url.origin.clone(), text);
    }
    EventsConfig { webhook_url, webhook_secret }
}

fn address(raw: &Raw) -> Parsed<SocketAddr> {
    values::text(raw)?.parse().map_err(|_error| {
        invalid("is not an address and port").hint("such as `127.0.0.1:8080` or `[::]:8080`")
    })
}

fn path(raw: &Raw) -> Parsed<Option<PathBuf>> {
    values::text(raw).map(|text| Some(PathBuf::from(text)))
}

fn store_url(raw: &Raw) -> Parsed<StoreUrl> {
    let text = values::text(raw)?;
    let wrong = || -> Invalid {
        invalid("is no store").hint("`sqlite:PATH`, or `postgres://user@host/database`")
    };
    match text.split_once(':') {
        Some(("sqlite", path)) if !path.trim_matches('/').is_empty() => {
            Ok(StoreUrl::Sqlite(PathBuf::from(path.strip_prefix("//").unwrap_or(path))))
        }
        Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
            Ok(StoreUrl::Postgres(SecretString::from(text)))
        }
        _ => Err(wrong()),
    }
}

/// What a stranger could guess is no secret.
fn long_secret(raw: &Raw) -> Parsed<SecretString> {
    let text = values::text(raw)?;
    if text.chars().count() < 16 || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(invalid("is not 16 or more visible ASCII characters")
            .hint("such as the output of `openssl rand -hex 32`"));
    }
    Ok(SecretString::from(text))
}

fn webhook_secret(raw: &Raw) -> Parsed<SecretString> {
    let text = values::text(raw)?;
    if webhook_key(&text).is_none() {
        return Err(invalid("is not `whsec_` and 24 to 64 bytes in base64")
            .hint("such as `whsec_` and the output of `openssl rand -base64 32`"));
    }
    Ok(SecretString::from(text))
}

fn webhook_url(raw: &Raw) -> Parsed<Option<String>> {
    let text = values::text(raw)?;
    let url = url::Url::parse(&text).map_err(|_error| invalid("is not an address"))?;
    let is_here = match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    if url.scheme() != "https" && !(url.scheme() == "http" && is_here) {
        return Err(invalid("is not an https address"));
    }
    if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
        // They would be shown.
        return Err(invalid("holds a user name, a password or a query"));
    }
    Ok(Some(text))
}

fn size(raw: &Raw, least: usize, most: usize) -> Parsed<usize> {
    let bytes = match raw {
        Raw::Toml(toml::Value::Integer(number)) => usize::try_from(*number).ok(),
        Raw::Toml(toml::Value::String(text)) | Raw::Text(text) => parse_size(text),
        Raw::Toml(_) => None,
    };
    bytes.filter(|bytes| (least..=most).contains(bytes)).ok_or_else(|| {
        invalid(format!("is not between {} and {}", shown_size(least), shown_size(most)))
            .hint("write bytes, or a number with its unit, such as `512 KiB` or `8 MiB`")
    })
}

fn parse_size(text: &str) -> Option<usize> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let unit = match unit.trim() {
        "" | "B" => 1,
        "KiB" => 1024,
        "MiB" => MIB,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_mul(unit)
}

fn shown_size(bytes: usize) -> String {
    match bytes {
        _ if bytes.is_multiple_of(MIB) => format!("{} MiB", bytes / MIB),
        _ if bytes.is_multiple_of(1024) => format!("{} KiB", bytes / 1024),
        _ => format!("{bytes} B"),
    }
}
