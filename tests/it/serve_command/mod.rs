//! `approver serve` as a process: how it starts, what it refuses, what it tells, how it ends.

mod events;
mod judge;
mod keys;
mod limits;
mod postgres;
mod start;
mod stop;
mod tokens;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use judge::SlowJudge;

use crate::doors::judgements;

/// A root secret.
const K1: &str = "k1:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn approver(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_approver"));
    command.args(arguments).current_dir(folder).env_clear().stdin(Stdio::null());
    command.env("TMPDIR", folder);
    command
}

fn output(folder: &Path, arguments: &[&str]) -> Output {
    approver(folder, arguments).output().unwrap()
}

#[track_caller]
fn refused(folder: &Path, arguments: &[&str]) -> String {
    let output = output(folder, arguments);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    errors
}

/// A running service; ended when it is dropped.
struct Running {
    child: Child,
    stdout: BufReader<ChildStdout>,
    address: SocketAddr,
    /// What stood before the line that says where it listens.
    before: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut before = String::new();
        let address = loop {
            let mut line = String::new();
            if stdout.read_line(&mut line).unwrap() == 0 {
                let mut errors = String::new();
                child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
                panic!("it did not start: {errors}");
            }
            if let Some((_, address)) = line.trim_end().rsplit_once("listening on http://") {
                before.push_str(&line);
                break address.parse().unwrap();
            }
            before.push_str(&line);
        };
        Self { child, stdout, address, before }
    }

    fn dev(folder: &Path, more: &[&str]) -> Self {
        let arguments = [&["serve", "--dev", "--listen", "127.0.0.1:0"], more].concat();
        Self::start(&mut approver(folder, &arguments))
    }

    fn token(&self, kind: &str) -> &str {
        let start = format!("{kind}=");
        self.before.lines().find_map(|line| line.strip_prefix(start.as_str())).unwrap()
    }

    fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([name, id.as_str()]).status().unwrap().success());
    }

    /// Waits for its end; the exit code and the log.
    fn ended(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        let mut errors = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (self.child.wait().unwrap().code(), errors)
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// One request on a connection of its own: status line and all that follows.
    fn exchange(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        read_all(&mut stream)
    }

    /// Sends a request and leaves its answer for later.
    fn begin(&self, ask: &Ask<'_>) -> TcpStream {
        let mut stream = self.connect();
        stream.write_all(ask.text().as_bytes()).unwrap();
        stream
    }

    #[track_caller]
    fn ask(&self, ask: Ask<'_>) -> (u16, Value) {
        read_answer(&mut self.begin(&ask))
    }

    fn get(&self, path: &str, token: &str) -> String {
        self.exchange(&format!(
            "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\r\n"
        ))
    }

    fn put(&self, path: &str, token: &str, body: &str) -> String {
        self.exchange(&format!(
            "PUT {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    }
}

/// A service of a folder that outlives it: its store, its tokens, an agent's version 7.
struct Site {
    folder: TempDir,
    gateway: String,
    operator: String,
}

impl Site {
    /// On SQLite; `keys` as [`Site::serve`] takes them.
    fn new(keys: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let token = |kind: &str| {
            let create = ["token", "create", "--kind", kind, "--name", kind];
            let made = output(folder.path(), &create);
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
            String::from_utf8(made.stdout).unwrap().trim().to_owned()
        };
        let (gateway, operator) = (token("gateway"), token("operator"));
        let owner = token("policy_owner");
        let site = Self { folder, gateway, operator };
        let running = site.serve(keys, &[]);
        let content = judgements::content().to_string();
        let (status, answer) = running.ask(Ask {
            method: "PUT",
            path: "/v1/agents/erp/versions/7",
            token: &owner,
            body: Some(content),
            ..Ask::default()
        });
        assert_eq!(status, 201, "{answer}");
        site
    }

    /// Starts a process on it, with these keys (lines `id:base64`) and further arguments.
    fn serve(&self, keys: &str, more: &[&str]) -> Running {
        let arguments = [&["serve", "--listen", "127.0.0.1:0"], more].concat();
        Running::start(approver(self.folder.path(), &arguments).env("APPROVER_KEYS_ROOT", keys))
    }

    /// The same, with what a judge asks for.
    fn serve_judged_by(&self, judge: &SlowJudge, more: &[&str]) -> Running {
        let settings = judge.settings();
        let settings = settings.iter().map(String::as_str).chain(more.iter().copied());
        self.serve(K1, &settings.collect::<Vec<_>>())
    }

    /// A judgement of one note, which the person asked for, in a turn and under a key of that name.
    fn judgement<'a>(&'a self, name: &'a str) -> Ask<'a> {
        let mut body = judgements::request(&[judgements::note(name)]);
        body["turn"]["id"] = name.into();
        Ask {
            method: "POST",
            path: judgements::PATH,
            token: &self.gateway,
            key: Some(name),
            body: Some(body.to_string()),
        }
    }

    /// Has a call wait for a person, where no judge is; the approval's id.
    fn waiting(&self, running: &Running, name: &str) -> String {
        let (status, answer) = running.ask(self.judgement(name));
        assert_eq!(status, 200, "{answer}");
        assert_eq!(answer["results"][0]["outcome"], "pending");
        id(&answer)
    }

    fn read<'a>(&'a self, path: &'a str) -> Ask<'a> {
        Ask { path, token: &self.operator, ..Ask::default() }
    }

    /// An approval as an operator sees it.
    fn approval(&self, running: &Running, id: &str) -> Value {
        let (status, answer) = running.ask(self.read(&format!("/v1/approvals/{id}")));
        assert_eq!(status, 200, "{answer}");
        answer
    }
}

/// The id of the approval of a judgement's only call.
fn id(judgement: &Value) -> String {
    judgement["results"][0]["item"]["id"].as_str().expect("an approval").to_owned()
}

/// A request.
#[derive(Debug, Clone)]
struct Ask<'a> {
    method: &'a str,
    path: &'a str,
    token: &'a str,
    key: Option<&'a str>,
    body: Option<String>,
}

impl Default for Ask<'_> {
    fn default() -> Self {
        Self { method: "GET", path: "/", token: "", key: None, body: None }
    }
}

impl Ask<'_> {
    fn text(&self) -> String {
        let Self { method, path, token, key, body } = self;
        let key = key.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
        let body = body.as_deref().unwrap_or_default();
        format!(
            "{method} {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
             Authorization: Bearer {token}\r\n{key}Content-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }
}

/// The status and the body of an answer.
#[track_caller]
fn read_answer(stream: &mut TcpStream) -> (u16, Value) {
    let text = read_all(stream);
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text}")))
}

/// Everything until the other side closes; a connection that is cut ends it too.
fn read_all(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    let mut part = [0; 4096];
    loop {
        match stream.read(&mut part) {
            Ok(0) => break,
            Ok(read) => bytes.extend_from_slice(&part[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => break,
            Err(error) => panic!("nothing came in time: {error}"),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What a run with `--dev` made beside the files of the test.
fn made(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("approver-dev-")).collect()
}

/// A request that has begun and whose body is still to come.
fn half_a_request(running: &Running, body: &str) -> TcpStream {
    let mut stream = running.connect();
    let token = running.token("policy_owner");
    write!(
        stream,
        "PUT /v1/agents/erp/versions/7 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        body.len()
    )
    .unwrap();
    // The handler asks for the body: from here on the request runs.
    let mut line = [0; 25];
    stream.read_exact(&mut line).unwrap();
    assert_eq!(&line, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream
}
