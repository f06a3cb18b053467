//! Tokens, made on the machine and used on a running service.

use super::{Running, approver, output, refused};

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
