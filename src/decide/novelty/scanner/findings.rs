//! What the scan lists: findings with their pointers, what they resemble, and budgets that ran out.

use super::super::link_form::Link;
use super::super::{Finding, Kind, Resemblance, email, resemblance};
use super::{FINDINGS_MAX, ITEM_MAX, NEAR, POINTER_MAX, Scanner, Spent, Step};
use crate::decide::json::pointer_to;
use crate::decide::text::head;

impl Scanner<'_> {
    /// Whether a trusted source names the host, in a link or behind an `@`.
    pub(in super::super) fn knows_host(&self, host: &str) -> bool {
        let host = email::canonical_domain(host);
        self.known.links.contains_key(&host) || self.known.email_domains.contains(&host)
    }

    pub(super) fn resembling_email(&self, address: &str, hides: bool) -> Option<Resemblance> {
        if hides && self.known.has_email(address) {
            return Some(Resemblance::LookAlike(address.to_owned()));
        }
        resemblance::email(self.known, address)
    }

    pub(super) fn resembling_link(&self, link: &Link, hides: bool) -> Option<Resemblance> {
        if hides && self.known.has_link(link, "") {
            return Some(Resemblance::LookAlike(link.item()));
        }
        resemblance::link(self.known, link)
    }

    pub(super) fn resembling_number(&self, number: &str, hides: bool) -> Option<Resemblance> {
        if hides && self.known.has_iban(number) {
            return Some(Resemblance::LookAlike(number.to_owned()));
        }
        resemblance::iban(self.known, number)
    }

    pub(super) fn pointer(&self) -> String {
        let mut pointer = String::new();
        for step in &self.path {
            let longer = match step {
                Step::Key(key) if pointer.len() + key.len() > POINTER_MAX => break,
                Step::Key(key) => pointer_to(&pointer, key),
                Step::Index(index) => format!("{pointer}/{index}"),
            };
            if longer.len() > POINTER_MAX {
                break;
            }
            pointer = longer;
        }
        pointer
    }

    pub(in super::super) fn spend(&mut self, spent: Spent) {
        if self.spent.insert(spent) {
            let pointer = self.pointer();
            self.findings.push(Finding {
                kind: Kind::Budget,
                item: spent.item().to_owned(),
                pointer,
                found: String::new(),
                resembles: None,
            });
        }
    }

    pub(in super::super) fn push(
        &mut self,
        kind: Kind,
        item: String,
        found: &str,
        resembles: Option<Resemblance>,
    ) {
        if self.is_full() || !self.list(kind, &item) {
            return;
        }
        let pointer = self.pointer();
        self.add(kind, &item, pointer, found, resembles);
    }

    pub(super) fn push_at(&mut self, kind: Kind, item: String, pointer: String, found: &str) {
        let told = |finding: &Finding| {
            finding.kind == kind && finding.item == item && finding.pointer == pointer
        };
        if self.is_full() || self.findings.iter().rev().take(NEAR).any(told) {
            return;
        }
        self.add(kind, &item, pointer, found, None);
    }

    pub(super) fn is_full(&mut self) -> bool {
        let full = self.findings.len() >= FINDINGS_MAX;
        if full {
            self.spend(Spent::Findings);
        }
        full
    }

    /// Whether the item is new for this text.
    pub(super) fn list(&mut self, kind: Kind, item: &str) -> bool {
        self.listed.insert((kind, head(item, ITEM_MAX).to_owned(), self.texts))
    }

    pub(super) fn add(
        &mut self,
        kind: Kind,
        item: &str,
        pointer: String,
        found: &str,
        resembles: Option<Resemblance>,
    ) {
        self.findings.push(Finding {
            kind,
            item: head(item, ITEM_MAX).to_owned(),
            pointer,
            found: head(found, ITEM_MAX).to_owned(),
            resembles,
        });
    }

    /// `git@host:path` is a link; the address in front of it is no second finding.
    pub(super) fn drop_shadowed(&mut self) {
        let remotes: Vec<(String, String)> = self
            .findings
            .iter()
            .filter(|finding| finding.kind == Kind::Link)
            .filter_map(|finding| {
                let address = finding.item.strip_prefix("ssh://")?.split('/').next()?;
                Some((finding.pointer.clone(), address.to_owned()))
            })
            .collect();
        self.findings.retain(|finding| {
            finding.kind != Kind::Email
                || !remotes.iter().any(|(pointer, address)| {
                    *pointer == finding.pointer && *address == finding.item
                })
        });
    }
}
