//! What instances of the approval protocol asked and were told, and of what their receivers heard:
//! the same bookkeeping as in [`super::ledger`], which also keeps what contradicts it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use super::ledger::Ledger;

pub(super) struct Requests {
    ledger: Arc<Ledger>,
    book: Mutex<Book>,
}

#[derive(Default)]
pub(super) struct Book {
    /// By idempotency key.
    pub(super) requests: BTreeMap<String, Request>,
    /// By request id.
    told: BTreeMap<String, Told>,
}

#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) tool: &'static str,
    pub(super) arguments: Value,
    /// Once anybody saw it.
    pub(super) id: Option<String>,
    created: Value,
    /// What somebody tried to make of it.
    tried: BTreeSet<String>,
    /// How it ended, as somebody was told.
    pub(super) ended: Option<String>,
    /// The whole decision, once it was shown.
    decision: Option<Value>,
    consumes_tried: BTreeSet<String>,
    /// The key that has the permission to run it, as its client was told.
    pub(super) consumed: Option<String>,
    consumption: Option<Value>,
    outcomes_tried: BTreeSet<String>,
}

/// What a receiver heard of a request.
#[derive(Debug, Clone)]
struct Told {
    message: Value,
    acknowledged: bool,
}

impl Request {
    pub(super) fn new(tool: &'static str, arguments: Value) -> Self {
        let ends_at_once = match tool {
            "find" => Some("approved"),
            "purge" => Some("denied"),
            _ => None,
        };
        Self {
            tool,
            arguments,
            id: None,
            created: Value::Null,
            tried: ends_at_once.map(str::to_owned).into_iter().collect(),
            ended: None,
            decision: None,
            consumes_tried: BTreeSet::new(),
            consumed: None,
            consumption: None,
            outcomes_tried: BTreeSet::new(),
        }
    }
}

impl Requests {
    pub(super) fn new(ledger: &Arc<Ledger>) -> Self {
        Self { ledger: Arc::clone(ledger), book: Mutex::default() }
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of what is known of a request.
    pub(super) fn of(&self, key: &str) -> Request {
        self.book().requests[key].clone()
    }

    pub(super) fn asked(&self, key: &str, request: Request) {
        let before = self.book().requests.insert(key.to_owned(), request);
        assert!(before.is_none(), "keys are unique");
    }

    fn change(&self, key: &str, change: impl FnOnce(&mut Request) -> Result<(), String>) {
        let changed = change(self.book().requests.get_mut(key).expect("a request that was asked"));
        if let Err(text) = changed {
            self.ledger.contradiction(format!("request {key}: {text}"));
        }
    }

    /// Somebody is about to try to end it so.
    pub(super) fn tries(&self, key: &str, status: &str) {
        self.change(key, |request| {
            request.tried.insert(status.to_owned());
            Ok(())
        });
    }

    pub(super) fn tries_consume(&self, key: &str, by: &str) {
        self.change(key, |request| {
            request.consumes_tried.insert(by.to_owned());
            Ok(())
        });
    }

    pub(super) fn tries_outcome(&self, key: &str, status: &str) {
        self.change(key, |request| {
            request.outcomes_tried.insert(status.to_owned());
            Ok(())
        });
    }

    /// Somebody was told how it ended.
    pub(super) fn ended(&self, key: &str, status: &str) {
        let ledger = Arc::clone(&self.ledger);
        self.change(key, |request| request.ends(status, &ledger));
    }

    /// A client was told that this key may run it.
    pub(super) fn consumed(&self, key: &str, by: &str) {
        let ledger = Arc::clone(&self.ledger);
        self.change(key, |request| match &request.consumed {
            Some(other) if other != by => Err(format!("consumed by {other} and by {by}")),
            Some(_) => Ok(()),
            None => {
                request.consumed = Some(by.to_owned());
                ledger.count("consumed");
                Ok(())
            }
        });
    }

    /// A client was told that another key has the permission.
    pub(super) fn taken(&self, key: &str, by: &str) {
        self.change(key, |request| {
            let mine = request.consumed.as_deref() == Some(by);
            if mine || request.consumes_tried.len() < 2 {
                return Err(format!("{by} was told that another key has it: {request:?}"));
            }
            Ok(())
        });
    }

    /// The protocol's resource, as a client was shown it who knew this `before` it asked. Nothing of
    /// that can be gone; what others were told since may have happened while the answer was on its
    /// way.
    pub(super) fn shown(&self, key: &str, resource: &Value, before: &Request) {
        let ledger = Arc::clone(&self.ledger);
        self.change(key, |request| request.shown(resource, before, &ledger));
    }

    /// A receiver gets a notification, and answers whether it acknowledges it: what it `refuses` when
    /// it hears it first, it takes when it hears it again.
    pub(super) fn told(&self, message: &Value, refuses: bool) -> bool {
        let id = message["request_id"].as_str().unwrap_or_default().to_owned();
        let mut book = self.book();
        let again = book.told.contains_key(&id);
        let acknowledged = again || !refuses;
        let told = book
            .told
            .entry(id)
            .or_insert_with(|| Told { message: message.clone(), acknowledged: false });
        told.acknowledged |= acknowledged;
        let same = told.message == *message;
        drop(book);
        self.ledger.count(if again { "told again" } else { "told" });
        if !same {
            self.ledger.contradiction(format!("{message} is told as another before"));
        }
        acknowledged
    }

    /// The service lists these, all it has, while nobody asks for anything.
    pub(super) fn listed(&self, listing: &[Value]) {
        let mut seen = BTreeSet::new();
        let keys: BTreeMap<String, String> = {
            let book = self.book();
            let by_text = |(key, request): (&String, &Request)| {
                (request.arguments["text"].as_str().unwrap().to_owned(), key.clone())
            };
            book.requests.iter().map(by_text).collect()
        };
        for listed in listing {
            let arguments: Value =
                serde_json::from_str(listed["arguments"].as_str().unwrap_or("null")).unwrap();
            let key = arguments["text"].as_str().and_then(|text| keys.get(text));
            let Some(key) = key else {
                self.ledger.contradiction(format!("no instance asked for {listed}"));
                continue;
            };
            if !seen.insert(key.clone()) {
                self.ledger.contradiction(format!("request {key} is there twice"));
            }
            let ledger = Arc::clone(&self.ledger);
            self.change(key, |request| request.listed(listed, &ledger));
        }
        let lost: Vec<_> = {
            let book = self.book();
            let lost = |(key, request): (&String, &Request)| {
                (request.id.is_some() && !seen.contains(key)).then(|| key.clone())
            };
            book.requests.iter().filter_map(lost).collect()
        };
        for key in lost {
            self.ledger.contradiction(format!("request {key} is lost"));
        }
    }

    /// Requests that ended, and of which no receiver acknowledged to have heard.
    pub(super) fn untold(&self) -> Vec<String> {
        let book = self.book();
        let untold = |(key, request): (&String, &Request)| {
            let id = request.id.as_ref().filter(|_| request.ended.is_some())?;
            (!book.told.get(id).is_some_and(|told| told.acknowledged)).then(|| key.clone())
        };
        book.requests.iter().filter_map(untold).collect()
    }

    /// Once everything was shown: receivers heard of what ended, when it ended, and of nothing else.
    pub(super) fn compare_told(&self) {
        let mut book = self.book();
        let Book { requests, told } = &mut *book;
        for (id, told) in told.iter() {
            let own = requests.values().find(|request| request.id.as_ref() == Some(id));
            let at =
                own.and_then(|own| own.decision.as_ref()).map(|decision| &decision["decided_at"]);
            if at != Some(&told.message["created_at"]) {
                self.ledger.contradiction(format!("{told:?} tells of {own:?}"));
            }
        }
    }
}

impl Request {
    fn is(&mut self, id: &Value) -> Result<(), String> {
        let id = id.as_str().ok_or("it has no id")?;
        let before = self.id.get_or_insert_with(|| id.to_owned());
        if before != id { Err(format!("it is {id}, and was {before}")) } else { Ok(()) }
    }

    fn ends(&mut self, status: &str, ledger: &Ledger) -> Result<(), String> {
        if !self.tried.contains(status) {
            return Err(format!("it ended as {status}, which nobody tried: {self:?}"));
        }
        if self.ended.as_deref().is_some_and(|before| before != status) {
            return Err(format!("it ended as {status} after {self:?}"));
        }
        if self.ended.is_none() {
            self.ended = Some(status.to_owned());
            ledger.count(match status {
                "approved" => "request approved",
                "denied" => "request denied",
                _ => "request cancelled",
            });
        }
        Ok(())
    }

    fn shown(&mut self, shown: &Value, before: &Self, ledger: &Ledger) -> Result<(), String> {
        self.is(&shown["id"])?;
        let created = json!([shown["created_at"], shown["deadline_at"]]);
        if self.created.is_null() {
            self.created = created.clone();
        }
        let same = shown["tool"] == self.tool && shown["arguments"] == self.arguments;
        if !same || self.created != created {
            return Err(format!("{shown} is shown of {self:?}"));
        }
        let status = shown["status"].as_str().unwrap_or_default();
        if status == "pending" {
            let waits = before.ended.is_none();
            return if waits { Ok(()) } else { Err(format!("it waits again: {self:?}")) };
        }
        self.ends(status, ledger)?;
        let decision = self.decision.get_or_insert_with(|| shown["decision"].clone());
        if *decision != shown["decision"] {
            return Err(format!("decided as {}, and before {decision}", shown["decision"]));
        }
        self.consumption_is(&shown["consumption"], before)
    }

    fn consumption_is(&mut self, shown: &Value, before: &Self) -> Result<(), String> {
        if shown.is_null() {
            let consumed = before.consumed.is_some() || before.consumption.is_some();
            return if consumed { Err(format!("consumed no more: {self:?}")) } else { Ok(()) };
        }
        if self.consumes_tried.is_empty() {
            return Err(format!("nobody consumed it: {shown}"));
        }
        let known = self.consumption.get_or_insert_with(|| shown.clone());
        if known["consumed_at"] != shown["consumed_at"] {
            return Err(format!("consumed as {shown}, and before {known}"));
        }
        let outcome = &shown["outcome"];
        let Some(status) = outcome["status"].as_str() else {
            let ran = before.consumption.as_ref().is_some_and(|known| !known["outcome"].is_null());
            return if ran { Err(format!("it ran no more: {self:?}")) } else { Ok(()) };
        };
        if !self.outcomes_tried.contains(status) {
            return Err(format!("it ran as {status}, which nobody reported"));
        }
        if known["outcome"].is_null() {
            *known = shown.clone();
        } else if known["outcome"] != *outcome {
            return Err(format!("it ran as {shown}, and before {known}"));
        }
        Ok(())
    }

    /// The same in the service's own words.
    fn listed(&mut self, listed: &Value, ledger: &Ledger) -> Result<(), String> {
        self.is(&listed["id"])?;
        if listed["tool"] != self.tool {
            return Err(format!("{listed} is listed of {self:?}"));
        }
        match listed["status"].as_str().unwrap_or_default() {
            "pending" if self.ended.is_some() => return Err(format!("it waits again: {self:?}")),
            "pending" => return Ok(()),
            status => self.ends(if status == "rejected" { "denied" } else { status }, ledger)?,
        }
        let claimed = !listed["claim"].is_null();
        let known = self.consumed.is_some() || self.consumption.is_some();
        if (known && !claimed) || (claimed && self.consumes_tried.is_empty()) {
            return Err(format!("consumed: {claimed}, and before {self:?}"));
        }
        let outcome = self.consumption.as_ref().map(|before| before["outcome"]["status"].clone());
        let ran = match listed["execution"]["status"].as_str() {
            Some("OK") => json!("succeeded"),
            Some(_) => json!("failed"),
            None => Value::Null,
        };
        match outcome {
            Some(before) if !before.is_null() && before != ran => {
                Err(format!("it ran as {ran}, and before as {before}"))
            }
            Some(_) | None => Ok(()),
        }
    }
}
