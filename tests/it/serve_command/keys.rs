//! What a service says of a key ring that lacks a key.

use super::{K1, Site};

const K2: &str = "k2:AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=";

#[test]
fn a_start_names_the_keys_that_are_needed_and_missing() {
    let site = Site::new(K1);
    let running = site.serve(K1, &[]);
    site.waiting(&running, "c1");
    running.signal("-TERM");
    let (code, log) = running.ended();
    assert_eq!(code, Some(0), "{log}");
    assert!(!log.contains("key ring") && !log.contains("an older key"), "{log}");

    for (keys, level, said) in [
        (K2.to_owned(), "WARN", "missing from the key ring"),
        (format!("{K2}\n{K1}"), "INFO", "an older key is needed"),
    ] {
        let running = site.serve(&keys, &["--log", "json"]);
        running.signal("-TERM");
        let (_, log) = running.ended();
        let line = log.lines().find(|line| line.contains(said)).unwrap_or_else(|| panic!("{log}"));
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["level"], level);
        let fields = &line["fields"];
        assert_eq!(
            (&fields["key"], &fields["pending"], &fields["signing_secrets"]),
            (&"k1".into(), &1.into(), &0.into())
        );
        assert!(!log.contains("AQEBAQ") && !log.contains("AgICAg"), "{log}");
    }
}
