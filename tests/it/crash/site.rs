//! The real binary on a store: one process or several, killed and started again at will.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::RwLock;
use tokio::task::block_in_place;

/// Longer than anything here takes on a busy machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(180);

const KEYS: &str = "k1:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

/// A store, the processes that serve it, and a token of everybody who comes.
pub(super) struct Site {
    folder: TempDir,
    replicas: Vec<Replica>,
    http: reqwest::Client,
    pub(super) tokens: Tokens,
    /// Held by every attempt of a client, and whole by whoever compares: nothing moves then.
    pub(super) gate: RwLock<()>,
    /// Answers that clients still get before the process that gave the last of them is killed; 0
    /// when none is to be.
    answers_left: AtomicUsize,
}

pub(super) struct Tokens {
    pub(super) gateway: String,
    pub(super) ana: String,
    pub(super) ben: String,
    pub(super) provisioner: String,
}

/// One process, or the place of one that was killed.
struct Replica {
    name: String,
    running: Mutex<Option<Running>>,
}

/// A running process; killed when it is dropped.
struct Running {
    child: Child,
    address: SocketAddr,
}

impl Drop for Running {
    fn drop(&mut self) {
        // SIGKILL. One that has ended is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Ask {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) token: String,
    pub(super) key: Option<String>,
    pub(super) body: Option<Value>,
}

impl Ask {
    pub(super) fn get(path: impl Into<String>, token: &str) -> Self {
        let (path, token) = (path.into(), token.to_owned());
        Self { method: Method::GET, path, token, key: None, body: None }
    }

    pub(super) fn delete(path: impl Into<String>, token: &str) -> Self {
        Self { method: Method::DELETE, ..Self::get(path, token) }
    }

    pub(super) fn post(path: impl Into<String>, token: &str, body: Value) -> Self {
        Self { method: Method::POST, body: Some(body), ..Self::get(path, token) }
    }

    pub(super) fn under(self, key: &str) -> Self {
        Self { key: Some(key.to_owned()), ..self }
    }
}

/// An answer that came whole.
#[derive(Debug, Clone)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) retry_after: bool,
    pub(super) json: Value,
    /// Whether an earlier attempt may have done it, and nobody was told.
    pub(super) repeated: bool,
}

impl Answer {
    pub(super) fn code(&self) -> &str {
        self.json["error"]["code"].as_str().unwrap_or_default()
    }

    /// The body of an answer with that status.
    #[track_caller]
    pub(super) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.json);
        self.json
    }
}

impl Site {
    /// Starts a process on each of these stores, which are one by several addresses. An address
    /// without a scheme is a file in a temporary folder.
    pub(super) async fn start(stores: &[String]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let replicas = stores.iter().enumerate().map(|(index, store)| {
            let name = format!("replica-{index}");
            // Without a judge nothing waits for one. The lease of a judgement that was cut off
            // follows from the deadline.
            let settings = format!(
                "[server]\nlisten = \"127.0.0.1:0\"\n\n[store]\nurl = {}\n\n[judge]\n\
                 deadline = \"1s\"\nrequest_deadline = \"1s\"\n\n[approvals]\n\
                 start_within = \"1h\"\n\n[aap]\nallow_loopback_webhooks = true\n",
                json!(store)
            );
            let path = folder.path().join(format!("{name}.toml"));
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(path).unwrap();
            std::io::Write::write_all(&mut file, settings.as_bytes()).unwrap();
            Replica { name, running: Mutex::default() }
        });
        let replicas: Vec<_> = replicas.collect();
        let token = |arguments: &[&str]| {
            let arguments = [&["token", "create", "--kind"], arguments].concat();
            let mut command = command(folder.path(), &replicas[0].name, &arguments);
            let made = block_in_place(|| command.output()).unwrap();
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            String::from_utf8(made.stdout).unwrap().trim().to_owned()
        };
        let tokens = Tokens {
            gateway: token(&["gateway", "--name", "gw", "--decide"]),
            ana: token(&["operator", "--name", "ana"]),
            ben: token(&["operator", "--name", "ben"]),
            provisioner: token(&["provisioner", "--name", "rollout", "--versions", "erp:7"]),
        };
        let owner = token(&["policy_owner", "--name", "owner"]);
        // Another test of this process may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
        let site = Self {
            folder,
            replicas,
            http,
            tokens,
            gate: RwLock::default(),
            answers_left: AtomicUsize::new(0),
        };
        for index in 0..site.replicas.len() {
            site.restart(index);
        }
        let mut put = Ask::post("/v1/agents/erp/versions/7", &owner, content());
        put.method = Method::PUT;
        site.send(0, &put).await.expect("the service answers").expect(201);
        site
    }

    /// SIGKILL, in the middle of whatever the process does.
    pub(super) fn kill(&self, index: usize) {
        let running = self.running(index).take();
        assert!(running.is_some(), "the process was killed before");
        block_in_place(|| drop(running));
    }

    /// Has the process that gives the answer after `answers` others killed on its heels: what is told
    /// before it is recorded is lost then.
    pub(super) fn kill_after(&self, answers: usize) {
        self.answers_left.store(answers + 1, Ordering::SeqCst);
    }

    /// A client got a whole answer of the process.
    pub(super) fn answered(&self, index: usize) {
        let one_less = |left: usize| left.checked_sub(1);
        if self.answers_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less) == Ok(1) {
            self.kill(index);
        }
    }

    /// Waits for that.
    pub(super) async fn until_killed(&self) {
        let begun = Instant::now();
        while self.killed().is_none() {
            assert!(begun.elapsed() < PATIENCE, "clients get no answers");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    /// A process that was killed.
    pub(super) fn killed(&self) -> Option<usize> {
        (0..self.replicas.len()).find(|index| !self.runs(*index))
    }

    /// Starts the process on its store again.
    pub(super) fn restart(&self, index: usize) {
        let name = &self.replicas[index].name;
        let mut command = command(self.folder.path(), name, &["serve"]);
        let log = self.folder.path().join(format!("{name}.log"));
        let log = std::fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
        command.stdout(Stdio::piped()).stderr(log);
        let running = block_in_place(|| Running::start(&mut command))
            .unwrap_or_else(|| panic!("it did not start:\n{}", self.last_lines(index)));
        *self.running(index) = Some(running);
    }

    /// The end of a process's log.
    pub(super) fn last_lines(&self, index: usize) -> String {
        let path = self.folder.path().join(format!("{}.log", self.replicas[index].name));
        let log = std::fs::read_to_string(path).unwrap_or_default();
        let lines: Vec<_> = log.lines().rev().take(20).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    fn runs(&self, index: usize) -> bool {
        self.running(index).is_some()
    }

    pub(super) const fn len(&self) -> usize {
        self.replicas.len()
    }

    fn running(&self, index: usize) -> std::sync::MutexGuard<'_, Option<Running>> {
        self.replicas[index].running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One attempt at one process; `None` when no whole answer came.
    pub(super) async fn send(&self, index: usize, ask: &Ask) -> Option<Answer> {
        let address = self.running(index).as_ref()?.address;
        let url = format!("http://{address}{}", ask.path);
        let mut request = self.http.request(ask.method.clone(), url).bearer_auth(&ask.token);
        if let Some(key) = &ask.key {
            request = request.header("Idempotency-Key", key);
        }
        if let Some(body) = &ask.body {
            let body = body.to_string();
            request = request.header("Content-Type", "application/json").body(body);
        }
        let response = request.send().await.ok()?;
        let status = response.status().as_u16();
        let retry_after = response.headers().contains_key("retry-after");
        let json = serde_json::from_str(&response.text().await.ok()?).unwrap_or(Value::Null);
        Some(Answer { status, retry_after, json, repeated: false })
    }

    /// Attempts at one process until it answers anything but 503.
    pub(super) async fn insist(&self, index: usize, ask: &Ask) -> Answer {
        let begun = Instant::now();
        loop {
            match self.send(index, ask).await {
                Some(answer) if answer.status != 503 => return answer,
                answer => assert!(begun.elapsed() < PATIENCE, "{ask:?}: {answer:?}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Running {
    /// `None` when it ends before it listens.
    fn start(command: &mut Command) -> Option<Self> {
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut running = Self { child: command.spawn().unwrap(), address };
        let mut stdout = BufReader::new(running.child.stdout.as_mut()?);
        running.address = loop {
            let mut line = String::new();
            if stdout.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if let Some((_, address)) = line.trim_end().rsplit_once("listening on http://") {
                break address.parse().unwrap();
            }
        };
        Some(running)
    }
}

fn command(folder: &Path, settings: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_approver"));
    command.args(arguments).current_dir(folder).env_clear().stdin(Stdio::null());
    command.env("TMPDIR", folder);
    command.env("APPROVER_CONFIG", folder.join(format!("{settings}.toml")));
    command.env("APPROVER_KEYS_ROOT", KEYS);
    command
}

/// An agent version with a tool of every outcome: what runs, what waits, what is blocked.
fn content() -> Value {
    let tool = |name: &str, read: bool, destroys: bool| {
        json!({"name": name, "origin": "function", "annotations":
            {"readOnlyHint": read, "destructiveHint": destroys, "openWorldHint": false}})
    };
    json!({
        "instructions": "You keep the notes of a sales team.",
        "tools": [
            tool("find", true, false),
            tool("note_add", false, false),
            tool("wipe", false, true),
            tool("purge", false, false),
        ],
        "policy": {
            "version": 1,
            "classes": {"read": "allow", "write": "approve", "destructive": "approve"},
            "tools": {"purge": "block"},
            "conversation_modes": {"offered": ["plan", "ask", "auto"], "default": "ask"},
        },
    })
}
