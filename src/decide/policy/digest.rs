//! Digests that name what a decision was made under. They are stored: the same policy has the same
//! digest for ever, whatever the order of its members and rules, which mean nothing.

use super::{Effect, Lists, Policy};
use crate::decide::digest;

impl Policy {
    /// Digest of everything that the policy says, its lists included: 64 lower-case hex digits.
    #[must_use]
    pub fn digest(&self) -> String {
        let Self { classes, rules, default, modes, lists } = self;
        let mut classes: Vec<String> = classes
            .iter()
            .map(|(class, action)| digest(&["class", class.as_str(), action.as_str()]))
            .collect();
        let mut rules: Vec<String> = rules
            .iter()
            .map(|rule| match rule.effect {
                Effect::Class(class) => digest(&["rule", &rule.pattern, "class", class.as_str()]),
                Effect::Action(action) => {
                    digest(&["rule", &rule.pattern, "action", action.as_str()])
                }
            })
            .collect();
        let mut offered: Vec<String> =
            modes.offered.iter().map(|mode| mode.as_str().to_owned()).collect();
        for sorted in [&mut classes, &mut rules, &mut offered] {
            sorted.sort();
            sorted.dedup();
        }
        digest(&[
            "policy-1",
            &list(&classes),
            &list(&rules),
            default.map_or("", |action| action.as_str()),
            &list(&offered),
            modes.default.as_str(),
            &lists.digest(),
        ])
    }
}

impl Lists {
    /// Digest of the three lists, 64 lower-case hex digits. The judge names entries by their
    /// numbers, so their order counts.
    #[must_use]
    pub fn digest(&self) -> String {
        let Self { environment, allow, soft_deny } = self;
        digest(&["lists-1", &list(environment), &list(allow), &list(soft_deny)])
    }
}

fn list(entries: &[String]) -> String {
    let entries: Vec<&str> = entries.iter().map(String::as_str).collect();
    digest(&entries)
}

#[cfg(test)]
mod tests {
    use super::super::parse_text;
    use super::*;

    #[track_caller]
    fn digest_of(text: &str) -> String {
        parse_text(text).unwrap().digest()
    }

    const POLICY: &str = r#"{"version":1,"classes":{"read":"allow","write":"approve"},
        "tools":{"a*":"write","b":"approve"},"judge":{"allow":["One.","Two."]}}"#;

    #[test]
    fn notation_and_order_do_not_count() {
        let other = r#"{"judge":{"allow":["One.","Two."]},"tools":{"b":"approve","a*":"write"},
            "classes":{"write":"approve","read":"allow"},"version":1}"#;
        assert_eq!(digest_of(POLICY), digest_of(other));
        let block = POLICY.replace(r#""b":"approve""#, r#""b":"block""#);
        let deny = POLICY.replace(r#""b":"approve""#, r#""b":"deny""#);
        assert_eq!(digest_of(&block), digest_of(&deny));
    }

    #[test]
    fn everything_said_counts() {
        let changes = [
            (r#""read":"allow""#, r#""read":"approve""#),
            (r#""a*":"write""#, r#""a*":"destructive""#),
            (r#""a*":"write""#, r#""a*":"approve""#),
            (r#""b":"approve""#, r#""c":"approve""#),
            (r#"["One.","Two."]"#, r#"["Two.","One."]"#),
            (r#"{"allow":["#, r#"{"soft_deny":["#),
            (r#"{"version":1,"#, r#"{"version":1,"default":"deny","#),
            (
                r#"{"version":1,"#,
                r#"{"version":1,"conversation_modes":{"offered":["plan","ask","auto"]},"#,
            ),
            (
                r#"{"version":1,"#,
                r#"{"version":1,"conversation_modes":{"offered":["plan","ask"],"default":"plan"},"#,
            ),
        ];
        let mut seen = vec![digest_of(POLICY)];
        for (from, to) in changes {
            let changed = POLICY.replace(from, to);
            assert_ne!(changed, POLICY, "{from}");
            let digest = digest_of(&changed);
            assert!(!seen.contains(&digest), "{to}");
            seen.push(digest);
        }
    }

    /// Stored with every approval: a change here orphans them.
    #[test]
    fn a_policys_digest_stays() {
        let stays = "7189fb0e152f0943a3ab842855170dcc9f6432de0f2f40642c60e9f1907a3026";
        assert_eq!(Policy::default().digest(), stays);
    }
}
