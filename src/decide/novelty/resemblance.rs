//! What a novel item resembles, for the person who decides.
//!
//! Resemblance is a reason to look twice, never a reason to trust: nothing here makes an item known.

use unicode_security::confusable_detection::skeleton;

use super::Resemblance;
use super::link_form::Link;
use super::sources::Known;

/// Known items that are compared; resemblance is a courtesy, so it has its limit.
const COMPARED_MAX: usize = 256;
/// Letters that two items of the same length may differ in.
const DIFFERENT_MAX: usize = 2;

pub(super) fn email(known: &Known, address: &str) -> Option<Resemblance> {
    if let Some(other) = look_alike(known.emails.iter().map(String::as_str), address) {
        return Some(Resemblance::LookAlike(other));
    }
    let (_, domain) = address.rsplit_once('@')?;
    if known.email_domains.contains(domain) {
        return Some(Resemblance::HostKnown(domain.to_owned()));
    }
    look_alike(known.email_domains.iter().map(String::as_str), domain).map(Resemblance::LookAlike)
}

pub(super) fn link(known: &Known, link: &Link) -> Option<Resemblance> {
    if known.has_host(link) {
        return Some(Resemblance::HostKnown(format!("{}{}", link.host, link.port)));
    }
    let hosts = known
        .links
        .keys()
        .map(String::as_str)
        .chain(known.email_domains.iter().map(String::as_str));
    look_alike(hosts, &link.authority()).map(Resemblance::LookAlike)
}

pub(super) fn iban(known: &Known, number: &str) -> Option<Resemblance> {
    look_alike(known.ibans.iter().map(String::as_str), number).map(Resemblance::LookAlike)
}

/// The known item whose drawing is the same, or that differs in a letter or two.
fn look_alike<'k>(known: impl Iterator<Item = &'k str>, item: &str) -> Option<String> {
    if item.is_empty() {
        return None;
    }
    let drawn = drawing(item);
    known
        .take(COMPARED_MAX)
        .filter(|other| *other != item)
        .find(|other| drawing(other) == drawn || few_differ(other, item))
        .map(str::to_owned)
}

/// How an item looks: confusable characters as one, A-labels as what they stand for.
fn drawing(item: &str) -> String {
    let shown = if item.contains("xn--") {
        let (local, domain) = item.rsplit_once('@').unwrap_or(("", item));
        format!("{local}@{}", idna::domain_to_unicode(domain).0)
    } else if item.contains('@') {
        item.to_owned()
    } else {
        format!("@{item}")
    };
    skeleton(&shown.to_lowercase()).collect()
}

fn few_differ(left: &str, right: &str) -> bool {
    let long = left.len() >= 8;
    let different = left.chars().zip(right.chars()).filter(|(a, b)| a != b).count();
    long && left.chars().count() == right.chars().count() && different <= DIFFERENT_MAX
}
