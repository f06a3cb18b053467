//! `approver serve`: the service, until a signal ends it.
//!
//! The first SIGTERM or SIGINT begins a stop: nothing new is taken (503 `stopping`), what only waits
//! ends, what runs is let finish. The second ends the process at once. SIGHUP reads the agent files
//! again.

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use secrecy::ExposeSecret as _;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::time::timeout;

use super::{agent_files, keys_file, open_store, token};
use crate::config::Config;
use crate::config::serve::{EventsConfig, RetentionConfig};
use crate::decide::text::shown;
use crate::decide::verdict::JudgeFailure;
use crate::http::limits::HeaderLimits;
use crate::http::server::{self, Connections};
use crate::http::{Doors, Settings, router};
use crate::judge::breaker::Breakers;
use crate::service::aap::deliveries::Deliveries;
use crate::service::events::{Events, WebhookSettings};
use crate::service::housekeeping::{Housekeeping, HousekeepingSettings};
use crate::service::keys::{KeyRing, token_hash};
use crate::service::{Approver, Clock, Parts, Service};
use crate::store::Store;

mod dev;

/// How long open connections may take for their last bytes once nothing runs any more.
const GRACE: Duration = Duration::from_secs(5);
/// How long a webhook may take for the last events.
const LAST_EVENTS: Duration = Duration::from_secs(5);
/// The exit code after a second signal, as shells give it for SIGINT.
const CUT_SHORT: u8 = 130;

/// Arguments of `approver serve`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Address and port, instead of `server.listen`
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Try it out: on loopback only, with throw-away keys, tokens and database
    #[arg(long)]
    pub dev: bool,
    /// With `--dev`: an agent's version that the provisioner's token may bind; may be repeated
    #[arg(
        long = "provision",
        value_name = "AGENT:VERSION",
        value_parser = token::parse_version,
        default_value = "desk:1",
        requires = "dev"
    )]
    pub provision: Vec<(String, String)>,
    /// Store the agent versions of this folder (`<agent>/<version>.json`), now and at SIGHUP
    #[arg(long, value_name = "DIR")]
    pub agents: Option<PathBuf>,
    /// Whose the versions of `--agents` are
    #[arg(long, default_value = super::DEFAULT_ORGANISATION)]
    pub organisation: String,
    /// How log lines are written: `text` or `json`
    #[arg(long, value_enum, default_value = "text")]
    pub log: super::LogFormat,
}

/// Serves until a signal ends it.
///
/// # Errors
/// Whatever keeps the service from starting: settings, keys, store, agent files, address.
pub async fn run(args: &Args, config: &Config, output: &mut dyn Write) -> anyhow::Result<u8> {
    super::check_organisation(&args.organisation)?;
    let listen = args.listen.unwrap_or(config.serve.server.listen.value);
    if args.dev && !listen.ip().is_loopback() {
        bail!("`--dev` listens on loopback only, and {listen} is none");
    }
    // Before anything is made, so that a signal that comes early is not lost.
    let mut signals = Signals::watch()?;
    let temporary = if args.dev { dev::Folder::unless_stored(config)? } else { None };
    let keys = if args.dev {
        KeyRing::throw_away().context("no keys")?
    } else {
        keys_file::ring(&config.serve.keys)?
    };
    let store = match &temporary {
        Some(folder) => folder.store().await?,
        None => open_store(&config.serve.store).await?,
    };
    let served = serve(args, config, keys, store, listen, &mut signals, output).await;
    if let Some(folder) = temporary {
        folder.remove();
    }
    served
}

async fn serve(
    args: &Args,
    config: &Config,
    keys: KeyRing,
    store: Arc<dyn Store>,
    listen: SocketAddr,
    signals: &mut Signals,
    output: &mut dyn Write,
) -> anyhow::Result<u8> {
    let service = Arc::new(service(config, keys, store)?);
    service.check_keys().await.context("cannot look which keys the store needs")?;
    let organisation = args.organisation.as_str();
    if let Some(folder) = &args.agents {
        let loaded = agent_files::load(&service, organisation, folder).await?;
        tracing::info!(new = loaded.new, known = loaded.known, "agent files are stored");
    }
    let listener = TcpListener::bind(listen)
        .await
        .map_err(|error| anyhow::anyhow!("cannot listen on {listen}: {}", error.kind()))?;
    let address = listener.local_addr().context("the address that was taken is unknown")?;
    let tokens = if args.dev {
        let tokens = dev::Tokens::create(&service, organisation, &args.provision).await?;
        output.write_all(tokens.shown(address).as_bytes())?;
        Some(tokens)
    } else {
        None
    };
    started(config, &service, address, output)?;

    let doors = Doors { service: Arc::clone(&service), settings: Arc::new(settings(config)) };
    let reload = tokio::spawn(reload(
        Arc::clone(&service),
        organisation.to_owned(),
        args.agents.clone(),
        signals.hangup.take(),
    ));
    let housekeeping =
        Housekeeping::start(Arc::clone(&service), housekeeping(&config.serve.retention));
    let deliveries = Deliveries::start(Arc::clone(&service));
    let (mut first, mut second) = (signals.ends.clone(), signals.ends.clone());
    let stopped = async {
        // What it returns holds a lock, which the next signal needs.
        drop(first.wait_for(|ends| *ends >= 1).await);
        tracing::info!("stopping: nothing new is taken");
        service.running.stop();
        service.end_polls();
        if timeout(config.stop_timeout(), service.running.idle()).await.is_err() {
            tracing::warn!("what still runs is cut");
        }
    };
    let code = tokio::select! {
        () = server::serve(listener, router(doors), connections(config), stopped, GRACE) => 0,
        _watched = second.wait_for(|ends| *ends >= 2) => CUT_SHORT,
    };
    reload.abort();
    if code != CUT_SHORT {
        deliveries.stop().await;
        housekeeping.stop().await;
        if timeout(LAST_EVENTS, service.events.drained()).await.is_err() {
            tracing::warn!("events that nobody took are dropped");
        }
    }
    if let Some(tokens) = tokens {
        tokens.revoke(&service).await;
    }
    tracing::info!("stopped");
    Ok(code)
}

/// The service that the settings describe.
fn service(config: &Config, keys: KeyRing, store: Arc<dyn Store>) -> anyhow::Result<Service> {
    let endpoint = config.judge_settings();
    let breakers = Breakers::new();
    let breaker = endpoint.as_ref().map(|endpoint| breakers.of(&endpoint.identity()));
    let automatic_approval = match endpoint {
        Some(_) => Ok(()),
        None => Err(JudgeFailure::NotConfigured),
    };
    let judge = crate::judge::build(endpoint, &breakers)?;
    let service = Service::new(Parts {
        store,
        approver: Approver::new(judge, config.settings(), config.timing()),
        automatic_approval,
        sandbox_enabled: config.operator.sandbox_enabled.value,
        keys,
        limits: config.limits(),
        allow_loopback_webhooks: config.serve.aap.allow_loopback_webhooks.value,
        clock: Clock::system(),
    });
    if let Some(breaker) = breaker {
        service.metrics.watch_breaker(breaker);
    }
    Ok(service.with_events(events(&config.serve.events)?))
}

fn events(config: &EventsConfig) -> anyhow::Result<Events> {
    match (&config.webhook_url.value, &config.webhook_secret.value) {
        (Some(url), Some(secret)) => {
            let settings = WebhookSettings::new(url, secret.clone());
            Events::to_webhook(settings).context("events.webhook_url")
        }
        // Settings refuse an address without a secret.
        (None, _) | (Some(_), None) => Ok(Events::to_log()),
    }
}

fn housekeeping(config: &RetentionConfig) -> HousekeepingSettings {
    HousekeepingSettings {
        keep_inputs: config.inputs.value,
        keep_records: config.records.value,
        ..HousekeepingSettings::default()
    }
}

fn settings(config: &Config) -> Settings {
    let token = config.serve.metrics.token.value.as_ref();
    Settings {
        max_body: config.serve.server.max_body.value,
        headers: headers(config),
        body_timeout: config.serve.server.body_timeout.value,
        metrics_token: token.map(|token| token_hash(token.expose_secret())),
    }
}

fn connections(config: &Config) -> Connections {
    let server = &config.serve.server;
    Connections {
        most: server.max_connections.value,
        header_timeout: server.header_timeout.value,
        headers: headers(config),
    }
}

fn headers(config: &Config) -> HeaderLimits {
    let server = &config.serve.server;
    HeaderLimits { fields: server.max_headers.value, bytes: server.max_header_bytes.value }
}

/// One line for whoever started it, and the same for the log.
fn started(
    config: &Config,
    service: &Service,
    address: SocketAddr,
    output: &mut dyn Write,
) -> anyhow::Result<()> {
    let store = config.serve.store.url.value.kind();
    let judge = match &config.judge.model.value {
        Some(model) => {
            format!("{} at {}", shown(model), shown(&config.judge.base_url.value))
        }
        None => "none".to_owned(),
    };
    let automatic = match service.automatic_approval {
        Ok(()) => "automatic approval is available",
        Err(_) => "automatic approval is not available, so calls that need one wait for a person",
    };
    for note in &config.notes {
        tracing::warn!("{}", shown(note));
    }
    tracing::info!(%address, store, judge, automatic, "started");
    writeln!(
        output,
        "approver {}: store {store}; judge {judge}; {automatic}; listening on http://{address}",
        env!("CARGO_PKG_VERSION")
    )?;
    output.flush().context("cannot write the first line")
}

/// Reads the agent files again at every SIGHUP. What cannot be read changes nothing.
async fn reload(
    service: Arc<Service>,
    organisation: String,
    folder: Option<PathBuf>,
    hangup: Option<Signal>,
) {
    let Some(mut hangup) = hangup else { return };
    while hangup.recv().await.is_some() {
        let Some(folder) = &folder else {
            tracing::info!("nothing to read again: there are no agent files");
            continue;
        };
        match agent_files::load(&service, &organisation, folder).await {
            Ok(loaded) => {
                tracing::info!(new = loaded.new, known = loaded.known, "agent files are stored");
            }
            Err(error) => tracing::error!("agent files: {error:#}"),
        }
    }
}

/// The signals that a service lives by.
struct Signals {
    /// How often somebody asked it to end.
    ends: watch::Receiver<u32>,
    hangup: Option<Signal>,
}

impl Signals {
    fn watch() -> anyhow::Result<Self> {
        let of = |kind| signal(kind).context("signals cannot be watched");
        let (mut terminate, mut interrupt) =
            (of(SignalKind::terminate())?, of(SignalKind::interrupt())?);
        let hangup = Some(of(SignalKind::hangup())?);
        let (sender, ends) = watch::channel(0);
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _signal = terminate.recv() => {}
                    _signal = interrupt.recv() => {}
                }
                sender.send_modify(|ends| *ends += 1);
            }
        });
        Ok(Self { ends, hangup })
    }
}
