//! How file, environment and flags resolve.

use secrecy::ExposeSecret as _;

use super::layers::{KEYS, variable};
use super::*;

fn resolve_all(file: &str, environment: &[(&str, &str)], set: &[&str]) -> Result<Config, Problems> {
    let environment =
        environment.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    let set: Vec<String> = set.iter().map(|text| (*text).to_owned()).collect();
    resolve(Some((Path::new("approver.toml"), file)), &environment, &set)
}

fn good(file: &str, environment: &[(&str, &str)], set: &[&str]) -> Config {
    resolve_all(file, environment, set).unwrap_or_else(|problems| panic!("{problems}"))
}

/// The problems as a person reads them.
fn bad(file: &str, environment: &[(&str, &str)], set: &[&str]) -> String {
    match resolve_all(file, environment, set) {
        Ok(_) => panic!("nothing is wrong with it"),
        Err(problems) => problems.to_string(),
    }
}

fn shown(config: &Config, key: &str) -> (String, String) {
    let entry = config.entries().into_iter().find(|entry| entry.key == key).unwrap();
    (entry.value.to_string(), entry.origin)
}

#[test]
fn nothing_set() {
    let config = good("", &[], &[]);
    assert!(config.judge_settings().is_none());
    assert!(config.entries().iter().all(|entry| entry.origin == "default"));
    assert_eq!(config.timing(), Timing::default());
    assert_eq!(config.settings().operator, OperatorSettings::default());
    assert_eq!(config.settings().max_judged_calls_per_turn, 16);
    assert_eq!(config.judge.max_output_tokens.value, 2_048);
    assert!(!config.operator.sandbox_enabled.value);
    assert!(config.notes[0].contains("judge.model"));
}

#[test]
fn every_key_is_shown_and_has_a_variable() {
    let config = good("", &[], &[]);
    let keys: Vec<&str> = config.entries().iter().map(|entry| entry.key).collect();
    assert_eq!(keys, KEYS.iter().map(|key| key.path).collect::<Vec<_>>());
    assert_eq!(variable("judge.base_url"), "APPROVER_JUDGE_BASE_URL");
    assert_eq!(variable("operator.human_only"), "APPROVER_OPERATOR_HUMAN_ONLY");
}

/// Each key as the file, a variable and a flag write it, and what it then is.
#[test]
fn every_key_can_be_set_everywhere() {
    let rows = [
        (
            "judge.base_url",
            r#""https://a.example/v1/""#,
            "https://a.example/v1/",
            r#""https://a.example/v1""#,
        ),
        ("judge.model", r#""small""#, " small ", r#""small""#),
        (
            "judge.structured_output",
            r#""json_object_with_schema""#,
            "json_object_with_schema",
            r#""json_object_with_schema""#,
        ),
        ("judge.temperature", "0.1", "0.1", "0.1"),
        ("judge.temperature", "0", "0", "0.0"),
        ("judge.seed", "-7", "-7", "-7"),
        ("judge.reasoning_effort", r#""xhigh""#, "xhigh", r#""xhigh""#),
        ("judge.max_output_tokens", "512", "512", "512"),
        ("judge.max_tokens_field", r#""max_tokens""#, "max_tokens", r#""max_tokens""#),
        (
            "judge.extra_headers",
            r#"{ X-Team = "red" }"#,
            r#"{ X-Team = "red" }"#,
            r#"{"X-Team":"********"}"#,
        ),
        ("judge.deadline", r#""90s""#, "90s", r#""1m 30s""#),
        ("judge.request_deadline", r#""2m""#, "2m", r#""2m""#),
        ("judge.max_concurrent", "8", "8", "8"),
        ("judge.max_judged_calls_per_turn", "3", "3", "3"),
        ("judge.results_view", r#""provenance""#, "provenance", r#""provenance""#),
        ("operator.unclassified", r#""deny""#, "deny", r#""block""#),
        ("operator.unclassified_elsewhere", r#""allow""#, "allow", r#""allow""#),
        (
            "operator.human_only",
            r#"["Pay", "mcp__crm__delete"]"#,
            "Pay, mcp__crm__delete",
            r#"["Pay","mcp__crm__delete"]"#,
        ),
        (
            "operator.catalogue",
            r#"[{ name = "Read", class = "read" }, { name = "Pay", class = "destructive", human_only = true }]"#,
            r#"[{ name = "Read", class = "read" }, { name = "Pay", class = "destructive", human_only = true }]"#,
            r#"[{"name":"Read","class":"read","human_only":false},{"name":"Pay","class":"destructive","human_only":true}]"#,
        ),
        ("operator.sandbox_enabled", "true", "true", "true"),
        ("server.listen", r#""[::]:9000""#, "[::]:9000", r#""[::]:9000""#),
        ("server.max_body", r#""512 KiB""#, "524288", r#""512 KiB""#),
        ("server.max_body", "8388608", "8 MiB", r#""8 MiB""#),
        ("server.max_headers", "64", "64", "64"),
        ("server.max_header_bytes", r#""16 KiB""#, "16KiB", r#""16 KiB""#),
        ("server.header_timeout", r#""5s""#, "5s", r#""5s""#),
        ("server.body_timeout", r#""100ms""#, "100ms", r#""100ms""#),
        ("server.max_connections", "9", "9", "9"),
        ("server.stop_timeout", r#""20s""#, "20s", r#""20s""#),
        ("store.url", r#""sqlite:/var/a.db""#, "sqlite:/var/a.db", r#""sqlite:/var/a.db""#),
        ("store.url", r#""postgres://a@b/c""#, "postgres://a@b/c", r#""********""#),
        ("store.connections", "3", "3", "3"),
        ("store.root_certificates", r#""/etc/ca.pem""#, "/etc/ca.pem", r#""/etc/ca.pem""#),
        ("keys.file", r#""/etc/keys""#, "/etc/keys", r#""/etc/keys""#),
        ("approvals.pending_for", r#""2h""#, "2h", r#""2h""#),
        ("approvals.max_pending_for", r#""48h""#, "48h", r#""2d""#),
        ("approvals.start_within", r#""1m""#, "1m", r#""1m""#),
        ("approvals.max_polls_per_token", "7", "7", "7"),
        ("retention.inputs", r#""7days""#, "7d", r#""7d""#),
        ("retention.records", r#""90d""#, "90d", r#""90d""#),
        ("aap.allow_loopback_webhooks", "true", "true", "true"),
    ];
    for (key, toml, text, expected) in rows {
        let (section, name) = key.split_once('.').unwrap();
        let config = good(&format!("[{section}]\n{name} = {toml}"), &[], &[]);
        assert_eq!(shown(&config, key), (expected.to_owned(), "approver.toml".to_owned()));

        let variable = variable(key);
        let config = good("", &[(&variable, text)], &[]);
        assert_eq!(shown(&config, key), (expected.to_owned(), variable));

        let config = good("", &[], &[&format!("{key}={text}")]);
        assert_eq!(shown(&config, key), (expected.to_owned(), "--set".to_owned()));
    }
    let tried: std::collections::BTreeSet<&str> = rows.iter().map(|row| row.0).collect();
    let untried: Vec<&str> =
        KEYS.iter().map(|key| key.path).filter(|path| !tried.contains(path)).collect();
    let elsewhere = [
        "judge.api_key",
        "keys.root",
        "events.webhook_url",
        "events.webhook_secret",
        "metrics.token",
    ];
    assert_eq!(untried, elsewhere, "which have tests of their own");
}

#[test]
fn later_layers_win() {
    let file = "[judge]\nmodel = \"from-file\"";
    let standard = ("OPENAI_MODEL", "from-standard");
    let ours = ("APPROVER_JUDGE_MODEL", "from-variable");
    let flag = "judge.model=from-flag";
    let model = |config: Config| config.judge.model.value.unwrap();
    assert_eq!(model(good("", &[standard], &[])), "from-standard");
    assert_eq!(model(good(file, &[standard], &[])), "from-file");
    assert_eq!(model(good(file, &[standard, ours], &[])), "from-variable");
    assert_eq!(model(good(file, &[standard, ours], &[flag])), "from-flag");
    let empty = ("APPROVER_JUDGE_MODEL", "");
    assert_eq!(model(good(file, &[empty], &[])), "from-file");
}

/// To whom OpenAI's key goes. A wrong answer here hands a credential to a stranger.
#[test]
fn openais_key_goes_to_openai_or_to_its_own_address() {
    let key = ("OPENAI_API_KEY", "sk-openai");
    type Variables = &'static [(&'static str, &'static str)];
    let rows: [(&str, Variables, bool); 10] = [
        ("", &[], true),
        ("", &[("OPENAI_BASE_URL", "http://gateway.example/v1")], true),
        ("", &[("APPROVER_JUDGE_BASE_URL", "https://api.openai.com/v1")], true),
        ("", &[("APPROVER_JUDGE_BASE_URL", "https://judge.example/v1")], false),
        ("", &[("APPROVER_JUDGE_BASE_URL", "http://api.openai.com/v1")], false),
        ("", &[("APPROVER_JUDGE_BASE_URL", "https://api.openai.com.example/v1")], false),
        ("", &[("APPROVER_JUDGE_BASE_URL", "https://example/api.openai.com/v1")], false),
        ("[judge]\nbase_url = \"https://judge.example/v1\"", &[], false),
        (
            "[judge]\nbase_url = \"https://judge.example/v1\"",
            &[("OPENAI_BASE_URL", "https://gateway.example/v1")],
            false,
        ),
        ("[judge]\nbase_url = \"https://api.openai.com/v1/\"", &[], true),
    ];
    for (file, environment, expected) in rows {
        let mut environment = environment.to_vec();
        environment.push(key);
        let config = good(file, &environment, &[]);
        assert_eq!(config.judge.api_key.value.is_some(), expected, "{file} {environment:?}");
        let is_noted = config.notes.iter().any(|note| note.contains("OPENAI_API_KEY"));
        assert_eq!(is_noted, !expected, "{file} {environment:?}");

        // Our own key goes wherever ours is told to go, and comes first.
        environment.push(("APPROVER_JUDGE_API_KEY", "sk-ours"));
        let config = good(file, &environment, &[]);
        assert_eq!(config.judge.api_key.value.unwrap().expose_secret(), "sk-ours");
    }
}

#[test]
fn no_secret_is_shown() {
    let file = "[judge]\nmodel = \"small\"";
    let config = good(
        file,
        &[
            ("APPROVER_JUDGE_API_KEY", "sk-planted"),
            ("APPROVER_JUDGE_EXTRA_HEADERS", r#"{ api-key = "planted", X-Team = "planted" }"#),
        ],
        &[],
    );
    let settings = config.judge_settings();
    let text = format!("{config:?} {:?} {settings:?}", config.entries());
    assert!(!text.contains("planted"), "{text}");
    assert_eq!(shown(&config, "judge.api_key").0, r#""********""#);

    // Nor is one in an error about it.
    let problems = [
        bad("[judge]\napi_key = \"sk-planted\"", &[], &[]),
        bad("[judge]\napi_key = \"sk-planted", &[], &[]),
        bad("", &[("APPROVER_JUDGE_API_KEY", "sk-planted\u{7f}")], &[]),
        bad("", &[], &["judge.api_key=sk-planted"]),
        bad("", &[("APPROVER_JUDGE_BASE_URL", "https://user:planted@judge.example")], &[]),
        bad("", &[("APPROVER_JUDGE_BASE_URL", "planted")], &[]),
        bad("", &[("APPROVER_JUDGE_EXTRA_HEADERS", "api-key: planted")], &[]),
        bad("", &[("APPROVER_JUDGE_EXTRA_HEADERS", r#"{ api-key = ["planted"] }"#)], &[]),
        bad("", &[("APPROVER_JUDGE_EXTRA_HEADERS", r#"{ Authorization = "planted" }"#)], &[]),
        bad("[judge]\nextra_headers = { x-api-key = \"planted\" }", &[], &[]),
    ];
    for problem in problems {
        assert!(!problem.contains("planted"), "{problem}");
    }
}

#[test]
fn all_problems_at_once() {
    let problems = bad(
        r#"
            colour = "blue"
            operator = 3

            [judge]
            base_url = "localhost:8080"
            modle = "small"
            api_key = "sk-secret"
            structured_output = "yaml"
            temperature = 3
            seed = 1.5
            reasoning_effort = "much"
            max_output_tokens = 0
            extra_headers = { Host = "elsewhere" }
            deadline = 10
            request_deadline = "2 weeks"
            max_concurrent = "four"
            results_view = ""
        "#,
        &[
            ("APPROVER_JUDGE_MAX_TOKENS", "5"),
            ("APPROVER_OPERATOR_UNCLASSIFIED", "ask"),
            ("APPROVER_OPERATOR_HUMAN_ONLY", "Pay,,Send"),
            ("APPROVER_OPERATOR_CATALOGUE", r#"[{ name = "Read", class = "reads" }]"#),
            ("APPROVER_OPERATOR_SANDBOX_ENABLED", "yes"),
            ("APPROVER_SOMETHING_ELSE", "is not ours to judge"),
        ],
        &["judge.model", "judge.colour=blue", "judge.seed=1", "judge.seed=2"],
    );
    insta::assert_snapshot!(problems);
}

#[test]
fn more_that_is_wrong() {
    let rows = [
        ("[judge]\nbase_url = \"https://a.example/v1?x=1\"", "query"),
        ("[judge]\nbase_url = \"https://a.example/v1/chat/completions\"", "hint: leave"),
        ("[judge]\nbase_url = \"ftp://a.example\"", "not an http or https address"),
        ("[judge]\nmodel = \" \"", "is blank"),
        ("[judge]\nmodel = 5", "is no string but integer"),
        ("[judge]\ndeadline = \"0s\"", "not between 1ms and 1h"),
        ("[judge]\ndeadline = \"2h\"", "not between 1ms and 1h"),
        (
            "[judge]\ndeadline = \"40s\"\nrequest_deadline = \"20s\"",
            "shorter than `judge.deadline`",
        ),
        ("[judge]\ntemperature = nan", "not a number from 0 to 2"),
        ("[judge]\nextra_headers = { X-A = \"1\", x-a = \"2\" }", "set twice"),
        ("[judge]\nextra_headers = { \"X A\" = \"1\" }", "invalid name or value"),
        ("[operator]\nhuman_only = [\"Pay\", \"Pay\"]", "names `Pay` twice"),
        ("[operator]\nhuman_only = [\"Pay me\"]", "not a tool's name"),
        (
            "[operator]\ncatalogue = [{ name = \"R\", class = \"read\", human = true }]",
            "not of the form",
        ),
        (
            "[operator]\ncatalogue = [{ name = \"R\", class = \"read\" }, { name = \"R\", class = \"write\" }]",
            "names `R` twice",
        ),
        ("[judge]\nmodel = \"a\"\nmodel = \"b\"", "line 3 is not TOML"),
    ];
    for (file, expected) in rows {
        let problems = bad(file, &[], &[]);
        assert!(problems.contains(expected), "{file}: {problems}");
    }
}

/// A single raised deadline must not be cut short by a default that nobody chose.
#[test]
fn a_long_deadline_raises_the_requests_default() {
    let config = good("[judge]\ndeadline = \"180s\"", &[], &[]);
    assert_eq!(config.timing().request, Duration::from_secs(180));
}

#[test]
fn a_file_that_was_named_has_to_exist() {
    let flags = Flags { config: Some("does/not/exist.toml".into()), set: Vec::new() };
    let problems = load(&flags).unwrap_err().to_string();
    assert!(problems.contains("does/not/exist.toml"), "{problems}");
}

#[cfg(unix)]
#[test]
fn a_variable_of_ours_that_is_no_text_is_not_overlooked() {
    use std::os::unix::ffi::OsStringExt as _;
    let odd = || OsString::from_vec(vec![0xff]);
    let variables = [
        (OsString::from("APPROVER_JUDGE_API_KEY"), odd()),
        (OsString::from("LESSOPEN"), odd()),
        (odd(), OsString::from("x")),
        (OsString::from("OPENAI_MODEL"), OsString::from("small")),
    ];
    let (texts, problems) = environment(variables.into_iter());
    assert_eq!(texts, BTreeMap::from([("OPENAI_MODEL".to_owned(), "small".to_owned())]));
    let keys: Vec<&str> = problems.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(keys, ["APPROVER_JUDGE_API_KEY"]);
}

#[test]
fn a_file_that_was_only_found_sets_neither_the_address_nor_the_operators_rules() {
    let file = r#"
        [judge]
        base_url = "https://judge.example/v1"
        model = "m"
        deadline = "20s"
        [operator]
        unclassified = "allow"
        unclassified_elsewhere = "allow"
        human_only = ["Pay"]
        catalogue = [{ name = "Read", class = "read" }]
        sandbox_enabled = true
    "#;
    let Problems(problems) = check_unnamed_file(&good(file, &[], &[])).unwrap_err();
    let mut refused: Vec<&str> = problems.iter().map(|problem| problem.key.as_str()).collect();
    let mut expected: Vec<&str> = KEYS
        .iter()
        .map(|key| key.path)
        .filter(|path| *path == "judge.base_url" || path.starts_with("operator."))
        .collect();
    refused.sort_unstable();
    expected.sort_unstable();
    assert_eq!(refused, expected);
    for problem in problems {
        let text = problem.to_string();
        let start = format!("`{}` (approver.toml): a file that was only found here", problem.key);
        assert!(text.starts_with(&start), "{text}");
        assert!(text.contains("`--config`"), "{text}");
    }
}

#[test]
fn all_else_in_a_file_that_was_only_found_counts() {
    let file = "[judge]\nmodel = \"m\"\ndeadline = \"20s\"\nextra_headers = { X-Team = \"a\" }\n\
                results_view = \"text\"\nmax_concurrent = 2\n";
    assert!(check_unnamed_file(&good(file, &[], &[])).is_ok());
    let key = ("APPROVER_JUDGE_API_KEY", "sk-secret");
    assert!(check_unnamed_file(&good(file, &[key], &[])).is_ok());
    // What the environment says instead is nobody else's.
    let file = "[judge]\nbase_url = \"https://judge.example/v1\"\n";
    let own = ("APPROVER_JUDGE_BASE_URL", "https://own.example/v1");
    assert!(check_unnamed_file(&good(file, &[key, own], &[])).is_ok());
}

#[test]
fn what_nobody_sets_of_the_service() {
    let config = good("", &[], &[]);
    assert_eq!(config.limits(), crate::service::Limits::default());
    assert_eq!(config.stop_timeout(), Duration::from_secs(45));
    for (key, value) in [
        ("server.listen", r#""127.0.0.1:8080""#),
        ("server.max_body", r#""8 MiB""#),
        ("store.url", r#""sqlite:approver.db""#),
        ("approvals.pending_for", r#""1d""#),
        ("approvals.max_pending_for", r#""7d""#),
        ("retention.inputs", r#""30d""#),
        ("retention.records", r#""365d""#),
        ("keys.root", "null"),
    ] {
        assert_eq!(shown(&config, key).0, value, "{key}");
    }
}

#[test]
fn secrets_of_the_service_come_from_the_environment_and_are_masked() {
    let planted = "PLANTED-0123456789";
    let environment = [
        ("APPROVER_KEYS_ROOT", "k1:PLANTED"),
        ("APPROVER_EVENTS_WEBHOOK_URL", "https://a.example/hook"),
        ("APPROVER_EVENTS_WEBHOOK_SECRET", "whsec_PLANTEDPLANTEDPLANTEDPLANTEDPLANTEDA"),
        ("APPROVER_METRICS_TOKEN", planted),
        ("APPROVER_STORE_URL", "postgres://a:PLANTED@b/c"),
    ];
    let config = good("", &environment, &[]);
    for (key, value) in [
        ("keys.root", r#""********""#),
        ("events.webhook_url", r#""https://a.example/hook""#),
        ("events.webhook_secret", r#""********""#),
        ("metrics.token", r#""********""#),
        ("store.url", r#""********""#),
    ] {
        assert_eq!(shown(&config, key).0, value, "{key}");
    }
    assert!(!format!("{config:?}").contains("PLANTED"));
    for (section, name) in [("keys", "root"), ("events", "webhook_secret"), ("metrics", "token")] {
        let text = bad(&format!("[{section}]\n{name} = \"{planted}\""), &[], &[]);
        assert!(text.contains("environment only") && !text.contains("PLANTED"), "{text}");
    }
    let text = bad("[store]\nurl = \"postgres://a:PLANTED@b/c\"", &[], &[]);
    assert!(text.contains("APPROVER_STORE_URL") && !text.contains("PLANTED"), "{text}");
}

#[test]
fn what_is_wrong_with_the_service_comes_at_once() {
    let text = bad(
        "[server]\nlisten = \"here\"\nmax_body = \"9 GB\"\nheader_timeout = \"1ms\"\n\
         [store]\nurl = \"mysql://PLANTED\"\n\
         [approvals]\npending_for = \"48h\"\nmax_pending_for = \"24h\"\nstart_within = \"2h\"\n\
         [retention]\ninputs = \"400d\"\n\
         [events]\nwebhook_url = \"http://a.example\"\n",
        &[
            ("APPROVER_METRICS_TOKEN", "PLANTED"),
            ("APPROVER_EVENTS_WEBHOOK_SECRET", "PLANTED-but-no-secret-of-that-form"),
            ("APPROVER_SERVER_PORT", "1"),
        ],
        &["keys.file=a"],
    );
    for key in [
        "`server.listen`",
        "`server.max_body`",
        "`server.header_timeout`",
        "`store.url`",
        "`approvals.pending_for`",
        "`approvals.start_within`",
        "`retention.inputs`",
        "`events.webhook_url`",
        "`events.webhook_secret`",
        "`metrics.token`",
        "`APPROVER_SERVER_PORT`",
    ] {
        assert!(text.contains(key), "{key}\n{text}");
    }
    assert!(!text.contains("PLANTED"), "{text}");
    let both = bad("", &[("APPROVER_KEYS_ROOT", "k:a"), ("APPROVER_KEYS_FILE", "a")], &[]);
    assert!(both.contains("`keys.root`"), "{both}");
}

#[test]
fn a_file_that_was_only_found_opens_and_keeps_nothing() {
    let file = "[server]\nlisten = \"0.0.0.0:80\"\nmax_body = 2048\n[store]\nurl = \"sqlite:a\"\n\
                [keys]\nfile = \"a\"\n[approvals]\nstart_within = \"1h\"\n\
                [retention]\nrecords = \"60d\"\n";
    let config = good(file, &[], &[]);
    let text = check_unnamed_file(&config).unwrap_err().to_string();
    for key in [
        "`server.listen`",
        "`store.url`",
        "`keys.file`",
        "`approvals.start_within`",
        "`retention.records`",
    ] {
        assert!(text.contains(key), "{key}\n{text}");
    }
    assert!(!text.contains("`server.max_body`"), "{text}");
}
