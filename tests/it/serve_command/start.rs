//! How `approver serve` starts, and what keeps it from starting.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::{Ask, PATIENCE, Running, approver, made, refused};

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

/// The requests that a run with `--dev` prints work as they stand, in their order.
#[test]
fn dev_prints_requests_that_work() {
    let folder = tempfile::tempdir().unwrap();
    let running = Running::dev(folder.path(), &[]);
    let agent = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/frameworks/agent.json");
    assert!(running.before.contains("-d @examples/frameworks/agent.json"), "{}", running.before);
    let path = "/v1/agents/desk/versions/1";
    assert!(running.before.contains(&format!("http://{}{path} ", running.address)));
    let content = std::fs::read_to_string(agent).unwrap();
    let stored = running.put(path, running.token("policy_owner"), &content);
    assert!(stored.starts_with("HTTP/1.1 201"), "{stored}");
    let url = format!("# curl http://{}/v1/judgements ", running.address);
    let (_, judgement) = running.before.split_once(&url).unwrap();
    let (_, body) = judgement.split_once("-d '").unwrap();
    let (status, answer) = running.ask(Ask {
        method: "POST",
        path: "/v1/judgements",
        token: running.token("gateway"),
        key: Some("try-1"),
        body: body.split('\'').next().map(str::to_owned),
    });
    assert_eq!(status, 200, "{answer}");
    let result = &answer["results"][0];
    let found = (&result["outcome"], &result["pause_reason"]);
    assert_eq!(found, (&"pending".into(), &"judge_unavailable".into()), "{answer}");
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
