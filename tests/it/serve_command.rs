//! `approver serve` as a process: how it starts, what it refuses, how it ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

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

#[test]
fn dev_prints_a_token_of_each_kind_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::dev(folder.path(), &[]);
    for kind in ["gateway", "operator", "policy_owner", "admin", "provisioner"] {
        let token = running.token(kind);
        assert!(token.starts_with(&format!("approver_{kind}_")), "{token}");
    }
    let line = running.before.lines().last().unwrap();
    for part in ["store sqlite", "judge none", "automatic approval is not available"] {
        assert!(line.contains(part), "{line}");
    }
    let health = running.get("/healthz", "");
    assert!(health.starts_with("HTTP/1.1 200"), "{health}");
    let tokens = running.get("/v1/tokens", running.token("admin"));
    assert!(tokens.starts_with("HTTP/1.1 200") && tokens.contains("dev-gateway"), "{tokens}");
    let secrets: Vec<String> =
        ["gateway", "admin"].map(|kind| running.token(kind).to_owned()).into();
    assert!(!made(folder.path()).is_empty());
    running.signal("-TERM");
    let (code, log) = running.ended();
    assert_eq!(code, Some(0), "{log}");
    for told in ["started", "/v1/tokens", "stopped"] {
        assert!(log.contains(told), "{log}");
    }
    assert!(!log.contains("/healthz"), "probes would fill the log: {log}");
    assert!(secrets.iter().all(|secret| !log.contains(secret)), "{log}");
    assert!(made(folder.path()).is_empty(), "the database is left behind");
}

/// What a run with `--dev` made beside the files of the test.
fn made(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("approver-dev-")).collect()
}

#[test]
fn dev_with_a_store_keeps_the_store_and_ends_its_tokens() {
    let folder = tempfile::tempdir().unwrap();
    let kept = ["--set", "store.url=sqlite:kept.db"];
    let running = Running::dev(folder.path(), &kept);
    let first = running.token("admin").to_owned();
    assert!(running.get("/v1/tokens", &first).starts_with("HTTP/1.1 200"));
    running.signal("-INT");
    assert_eq!(running.ended().0, Some(0));
    let running = Running::dev(folder.path(), &kept);
    assert!(running.get("/v1/tokens", &first).starts_with("HTTP/1.1 401"));
    assert!(running.get("/v1/tokens", running.token("admin")).starts_with("HTTP/1.1 200"));
}

#[test]
fn dev_listens_on_loopback_only() {
    let folder = tempfile::tempdir().unwrap();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let errors = refused(folder.path(), &["serve", "--dev", "--listen", address]);
        assert!(errors.contains("loopback"), "{errors}");
        let set = format!("server.listen={address}");
        let errors = refused(folder.path(), &["serve", "--dev", "--set", &set]);
        assert!(errors.contains("loopback"), "{errors}");
    }
    assert!(made(folder.path()).is_empty());
}

#[test]
fn settings_that_are_wrong_come_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let text = "[server]\nlisten = \"here\"\nmax_body = 1\n[store]\nurl = \"mysql://a\"\n\
                [keys]\nroot = \"PLANTED\"\n[judge]\ndeadline = 3\n";
    std::fs::write(folder.path().join("wrong.toml"), text).unwrap();
    let errors = refused(folder.path(), &["serve", "--config", "wrong.toml"]);
    for key in
        ["`server.listen`", "`server.max_body`", "`store.url`", "`keys.root`", "`judge.deadline`"]
    {
        assert!(errors.contains(key), "{key}\n{errors}");
    }
    assert!(!errors.contains("PLANTED"), "{errors}");
}

#[test]
fn keys_are_needed_and_only_their_owner_may_read_them() {
    let folder = tempfile::tempdir().unwrap();
    let errors = refused(folder.path(), &["serve"]);
    assert!(errors.contains("`keys.file`") && errors.contains("APPROVER_KEYS_ROOT"), "{errors}");
    let keys = folder.path().join("keys");
    std::fs::write(&keys, "k1:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=\n").unwrap();
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o644)).unwrap();
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--set", "keys.file=keys"];
    assert!(refused(folder.path(), &arguments).contains("chmod 600"));
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o600)).unwrap();
    let running = Running::start(&mut approver(folder.path(), &arguments));
    assert!(!running.before.contains("admin="), "a service that is no trial prints no token");
    assert!(running.get("/readyz", "").contains(r#""store":"ok""#));
    assert!(folder.path().join("approver.db").exists());
}

/// The way to the first administrator, and a service that then knows the token.
#[test]
fn tokens_are_made_in_the_store_and_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let create =
        ["token", "create", "--kind", "admin", "--name", "first", "--organisation", "acme"];
    let made = output(folder.path(), &create);
    assert_eq!(made.status.code(), Some(0), "{}", String::from_utf8_lossy(&made.stderr));
    let token = String::from_utf8(made.stdout).unwrap().trim().to_owned();
    assert!(token.starts_with("approver_admin_"), "{token}");
    assert!(!String::from_utf8(made.stderr).unwrap().contains(&token));
    let again = refused(folder.path(), &create);
    assert!(again.contains("has the name already"), "{again}");

    let keys = "k1:AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";
    let running = Running::start(
        approver(folder.path(), &["serve", "--listen", "127.0.0.1:0", "--log", "json"])
            .env("APPROVER_KEYS_ROOT", keys)
            .env("APPROVER_METRICS_TOKEN", "scraper-0123456789"),
    );
    assert!(running.get("/v1/tokens", &token).starts_with("HTTP/1.1 200"));
    // The token for metrics reads metrics and nothing else.
    assert!(running.get("/metrics", "scraper-0123456789").starts_with("HTTP/1.1 200"));
    assert!(running.get("/metrics", "scraper-012345678x").starts_with("HTTP/1.1 401"));
    assert!(running.get("/v1/tokens", "scraper-0123456789").starts_with("HTTP/1.1 401"));

    let url = format!("http://{}", running.address);
    let asked = |arguments: &[&str]| {
        let arguments = [arguments, &["--url", &url]].concat();
        approver(folder.path(), &arguments).env("APPROVER_TOKEN", &token).output().unwrap()
    };
    let auto = |arguments: &[&str]| asked(&[&["auto"], arguments].concat());
    let off = auto(&["off"]);
    let text = String::from_utf8(off.stdout).unwrap();
    assert!(
        text.starts_with("automatic approval: off since ") && text.contains(" by first;"),
        "{text}"
    );
    let status = auto(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["enabled"], false);
    let slip = auto(&["off", "--agent", "erpp"]);
    assert_eq!(slip.status.code(), Some(2));
    let errors = String::from_utf8(slip.stderr).unwrap();
    assert!(errors.contains("no such agent (not_found at $.agent, request "), "{errors}");
    let instances = asked(&["instances", "list"]);
    assert_eq!(String::from_utf8(instances.stdout).unwrap(), "there are no instances\n");
    let set = asked(&["instances", "set", "7ab8c8ec", "--mode", "plan"]);
    assert_eq!(set.status.code(), Some(2));
    assert!(String::from_utf8(set.stderr).unwrap().contains("(not_found"));
    let show = asked(&["instances", "show", "7ab8c8ec"]);
    assert_eq!(show.status.code(), Some(2));
    assert!(String::from_utf8(show.stderr).unwrap().contains("(not_found"));
    let nothing = asked(&["instances", "set", "7ab8c8ec"]);
    assert!(String::from_utf8(nothing.stderr).unwrap().contains("--trusted-context"));
    let nobody = output(folder.path(), &["auto", "status", "--url", &url]);
    assert!(String::from_utf8(nobody.stderr).unwrap().contains("APPROVER_TOKEN"));

    let list = output(folder.path(), &["token", "list", "--organisation", "acme", "--json"]);
    let list: serde_json::Value = serde_json::from_slice(&list.stdout).unwrap();
    let id = list[0]["id"].as_str().unwrap();
    let elsewhere = refused(folder.path(), &["token", "revoke", id]);
    assert!(elsewhere.contains("no such working token"), "{elsewhere}");
    let revoke = ["token", "revoke", "--organisation", "acme", id];
    assert_eq!(output(folder.path(), &revoke).status.code(), Some(0));
    assert!(running.get("/v1/tokens", &token).starts_with("HTTP/1.1 401"));

    running.signal("-TERM");
    let (_, log) = running.ended();
    for line in log.lines() {
        let line: serde_json::Value = serde_json::from_str(line).expect("every line is JSON");
        assert!(line["level"].is_string());
    }
    for secret in [token.as_str(), "scraper-0123456789", "AQEBAQEB"] {
        assert!(!log.contains(secret), "{log}");
    }
}

#[test]
fn tokens_that_make_no_sense_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, part) in [
        (&["--kind", "root", "--name", "a"][..], "kind"),
        (&["--kind", "operator", "--name", "auto:approver"], "name"),
        (&["--kind", "operator", "--name", "a", "--decide"], "decide"),
        (&["--kind", "provisioner", "--name", "a"], "versions"),
        (&["--kind", "admin", "--name", "a", "--organisation", "a b"], "organisation"),
    ] {
        let errors = refused(folder.path(), &[&["token", "create"], arguments].concat());
        assert!(errors.contains(part), "{part}: {errors}");
    }
    let made = output(
        folder.path(),
        &["token", "create", "--kind", "provisioner", "--name", "p", "--versions", "erp:7"],
    );
    assert_eq!(made.status.code(), Some(0));
}

fn agents(folder: &Path, text: &str) {
    let agents = folder.join("agents/erp");
    std::fs::create_dir_all(&agents).unwrap();
    std::fs::write(agents.join("7.json"), text).unwrap();
    for (path, mode) in [("agents", 0o755), ("agents/erp", 0o755), ("agents/erp/7.json", 0o644)] {
        std::fs::set_permissions(folder.join(path), std::fs::Permissions::from_mode(mode)).unwrap();
    }
}

#[test]
fn agent_files_are_stored_at_the_start_and_at_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    agents(folder.path(), r#"{"instructions":"Seven."}"#);
    let more = ["--agents", "agents", "--set", "store.url=sqlite:kept.db"];
    let running = Running::dev(folder.path(), &more);
    let token = running.token("operator").to_owned();
    let seven = running.get("/v1/agents/erp/versions/7", &token);
    assert!(seven.contains("Seven.") && seven.contains("agents:file"), "{seven}");
    let eight = folder.path().join("agents/erp/8.json");
    std::fs::write(&eight, r#"{"instructions":"Eight."}"#).unwrap();
    std::fs::set_permissions(&eight, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(running.get("/v1/agents/erp/versions/8", &token).starts_with("HTTP/1.1 404"));
    running.signal("-HUP");
    let begun = Instant::now();
    while !running.get("/v1/agents/erp/versions/8", &token).contains("Eight.") {
        assert!(begun.elapsed() < PATIENCE, "nothing was read again");
        std::thread::sleep(Duration::from_millis(50));
    }
    drop(running);
    // A version never changes, whoever writes it.
    agents(folder.path(), r#"{"instructions":"Changed."}"#);
    let arguments = [&["serve", "--dev", "--listen", "127.0.0.1:0"], &more[..]].concat();
    let errors = refused(folder.path(), &arguments);
    assert!(errors.contains("7.json") && errors.contains("version_exists"), "{errors}");
    // What others may write is not read at all.
    std::fs::set_permissions(folder.path().join("agents"), std::fs::Permissions::from_mode(0o777))
        .unwrap();
    let errors = refused(folder.path(), &arguments);
    assert!(errors.contains("writable for group or others"), "{errors}");
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

#[test]
fn a_stop_lets_what_runs_finish_and_takes_nothing_new() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::dev(folder.path(), &[]);
    let body = r#"{"instructions":"Seven."}"#;
    let mut stream = half_a_request(&running, body);
    running.signal("-TERM");
    let begun = Instant::now();
    let refused = loop {
        let reply = running.get("/v1/tokens", running.token("admin"));
        if reply.starts_with("HTTP/1.1 503") {
            break reply;
        }
        assert!(begun.elapsed() < PATIENCE, "{reply}");
    };
    assert!(refused.contains("\"stopping\"") && refused.contains("retry-after: 1"), "{refused}");
    assert!(running.get("/readyz", "").starts_with("HTTP/1.1 503"));
    stream.write_all(body.as_bytes()).unwrap();
    let reply = read_all(&mut stream);
    assert!(reply.starts_with("HTTP/1.1 201"), "{reply}");
    let (code, log) = running.ended();
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::dev(folder.path(), &[]);
    let _stream = half_a_request(&running, "{}");
    running.signal("-TERM");
    let begun = Instant::now();
    while !running.get("/readyz", "").starts_with("HTTP/1.1 503") {
        assert!(begun.elapsed() < PATIENCE);
    }
    running.signal("-TERM");
    let begun = Instant::now();
    let (code, log) = running.ended();
    assert_eq!(code, Some(130), "{log}");
    assert!(begun.elapsed() < Duration::from_secs(20), "it waited for a request: {log}");
    assert!(made(folder.path()).is_empty());
}

#[test]
fn a_stop_waits_no_longer_than_it_may() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::dev(folder.path(), &["--set", "server.stop_timeout=300ms"]);
    let _stream = half_a_request(&running, "{}");
    running.signal("-TERM");
    let (code, log) = running.ended();
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("what still runs is cut"), "{log}");
}

fn limited(folder: &TempDir) -> Running {
    Running::dev(
        folder.path(),
        &[
            "--set",
            "server.header_timeout=500ms",
            "--set",
            "server.body_timeout=500ms",
            "--set",
            "server.max_headers=20",
            "--set",
            "server.max_header_bytes=8 KiB",
            "--set",
            "server.max_body=1 KiB",
        ],
    )
}

#[test]
fn slow_headers_and_slow_bodies_end() {
    let folder = tempfile::tempdir().unwrap();
    let running = limited(&folder);
    // Nothing at all; the beginning of either HTTP; a header without an end.
    for begun in ["", "PRI * HTTP/2.0\r\n", "GE", "GET /healthz HTTP/1.1\r\nHost: a\r\nX-A: "] {
        let mut stream = running.connect();
        stream.write_all(begun.as_bytes()).unwrap();
        let answer = read_all(&mut stream);
        assert!(!answer.contains("200"), "{begun:?}: {answer}");
    }
    let mut stream = half_a_request(&running, "{}");
    stream.write_all(b"{").unwrap();
    let reply = read_all(&mut stream);
    assert!(reply.starts_with("HTTP/1.1 408") && reply.contains("request_timeout"), "{reply}");
    assert!(running.get("/healthz", "").starts_with("HTTP/1.1 200"));
}

/// An error in our own form, with an id that the header names too.
#[track_caller]
fn enveloped(reply: &str, status: u16, code: &str, text: &str) {
    assert!(reply.starts_with(&format!("HTTP/1.1 {status} ")), "{reply}");
    assert!(reply.contains(&format!("\"code\":\"{code}\"")) && reply.contains(text), "{reply}");
    let id = reply.split("x-request-id: ").nth(1).and_then(|rest| rest.get(..36)).unwrap();
    assert!(reply.contains(&format!("\"request_id\":\"{id}\"")), "{reply}");
}

#[test]
fn too_much_of_anything_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let running = limited(&folder);
    let get = |target: &str, fields: &str| {
        running.exchange(&format!("GET {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n"))
    };
    let many = "X-A: b\r\n".repeat(30);
    enveloped(&get("/healthz", &many), 431, "header_too_large", "at most 20 fields");
    let long = format!("X-A: {}\r\n", "a".repeat(10_000));
    enveloped(&get("/healthz", &long), 431, "header_too_large", "at most 8192 bytes");
    let target = format!("/v1/approvals?cursor={}", "a".repeat(8_192));
    enveloped(&get(&target, ""), 414, "uri_too_long", "at most 8192 bytes");
    // Beyond what HTTP itself reads here there is no request to name.
    let reply = get("/healthz", &"X-A: b\r\n".repeat(2_000));
    assert!(reply.starts_with("HTTP/1.1 431"), "{reply}");
    let token = running.token("policy_owner");
    let body = format!(r#"{{"instructions":"{}"}}"#, "a".repeat(2_000));
    let reply = running.put("/v1/agents/erp/versions/7", token, &body);
    enveloped(&reply, 413, "body_too_large", "at most 1024 bytes");
    // What says so itself is not asked for its body, whoever sends it.
    for (length, status) in [("1024", "100"), ("1025", "413"), ("99999999999999999999", "4")] {
        let mut stream = running.connect();
        write!(
            stream,
            "PUT /v1/agents/erp/versions/7 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\
             Expect: 100-continue\r\n\r\n"
        )
        .unwrap();
        let mut line = [0; 12];
        stream.read_exact(&mut line).unwrap();
        let line = String::from_utf8_lossy(&line).into_owned();
        assert!(line.starts_with(&format!("HTTP/1.1 {status}")), "{length}: {line}");
    }
    // And in parts, without a length.
    let mut stream = running.connect();
    write!(
        stream,
        "PUT /v1/agents/erp/versions/7 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
         Authorization: Bearer {token}\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n",
        body.len()
    )
    .unwrap();
    let reply = read_all(&mut stream);
    assert!(reply.starts_with("HTTP/1.1 413"), "{reply}");
}

#[test]
fn connections_over_the_limit_wait() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::dev(folder.path(), &["--set", "server.max_connections=2"]);
    let held = [half_a_request(&running, "{}"), half_a_request(&running, "{}")];
    let mut waiting = running.connect();
    waiting.write_all(b"GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    waiting.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(waiting.read(&mut [0; 16]).is_err(), "a third connection was served");
    drop(held);
    waiting.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(read_all(&mut waiting).starts_with("HTTP/1.1 200"));
}
