//! What clients asked and what they were told, kept apart from the service, and what the service
//! must therefore still say. Everything written here only grows: a second telling that differs from
//! the first is a contradiction, whether it comes to a client or stands in a listing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

/// A person's or nobody's name, beside the status that came of it.
pub(super) type Ending = (String, String);

#[derive(Default)]
pub(super) struct Ledger(Mutex<Book>);

#[derive(Default)]
pub(super) struct Book {
    /// By conversation: each has one turn of one request.
    pub(super) turns: BTreeMap<String, Turn>,
    /// By id.
    pub(super) approvals: BTreeMap<String, Known>,
    contradictions: Vec<String>,
    /// How often something happened, so that a run in which nothing happens does not pass.
    pub(super) counts: BTreeMap<&'static str, usize>,
}

/// A request of calls.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    pub(super) key: String,
    pub(super) body: Value,
    pub(super) mode: &'static str,
    pub(super) calls: Vec<Call>,
    /// Whether a client was told what became of it.
    pub(super) answered: bool,
    /// The decisions that were sent for the whole turn at once.
    pub(super) together: bool,
    /// Whether somebody tried to delete the conversation.
    pub(super) deleting: bool,
    /// Whether a client was told that the conversation is deleted.
    pub(super) deleted: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) tool: &'static str,
    pub(super) arguments: String,
    /// Its approval, once anybody saw one.
    pub(super) approval: Option<String>,
}

impl Call {
    pub(super) fn outcome(&self) -> &'static str {
        match self.tool {
            "find" => "execute",
            "purge" => "blocked",
            _ => "pending",
        }
    }
}

/// An approval that was seen.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    pub(super) conversation: String,
    pub(super) hmac: String,
    /// What somebody tried to make of it.
    tried: BTreeSet<Ending>,
    pub(super) ended: Option<Ending>,
    start_by: Option<Value>,
    claims_tried: BTreeSet<String>,
    /// The key that has the permission to run it, as its client was told.
    pub(super) released: Option<String>,
    claimed: bool,
    runs_tried: BTreeSet<String>,
    pub(super) run: Option<String>,
}

impl Ledger {
    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails if anything was ever told that cannot be.
    #[track_caller]
    pub(super) fn check(&self, when: &str) {
        let book = self.book();
        let found = &book.contradictions;
        let shown: Vec<_> = found.iter().take(20).cloned().collect();
        assert!(found.is_empty(), "{when}: {} contradictions\n{}", found.len(), shown.join("\n"));
    }

    pub(super) fn contradiction(&self, text: String) {
        self.book().contradictions.push(text);
    }

    pub(super) fn count(&self, what: &'static str) {
        *self.book().counts.entry(what).or_default() += 1;
    }

    /// A request is about to be sent.
    pub(super) fn asked(&self, conversation: &str, turn: Turn) {
        let before = self.book().turns.insert(conversation.to_owned(), turn);
        assert!(before.is_none(), "conversations are unique");
    }

    /// Approvals of a conversation of which a client was told that they ended.
    pub(super) fn over(&self, conversation: &str) -> BTreeSet<String> {
        let book = self.book();
        let ids = book.turns[conversation].calls.iter().filter_map(|call| call.approval.clone());
        ids.filter(|id| book.approvals[id].ended.is_some()).collect()
    }

    /// A client was told what became of a request. Those that were `over` when it asked cannot wait;
    /// others may end while the answer is on its way.
    pub(super) fn judged(&self, conversation: &str, answer: &Value, over: &BTreeSet<String>) {
        self.book().judged(conversation, answer, over);
    }

    /// Somebody is about to try to end it so.
    pub(super) fn tries(&self, approval: &str, status: &str, by: &str) {
        let mut book = self.book();
        let known = book.approvals.get_mut(approval).expect("a known approval");
        known.tried.insert((status.to_owned(), by.to_owned()));
    }

    pub(super) fn tries_claim(&self, approval: &str, key: &str) {
        let mut book = self.book();
        let known = book.approvals.get_mut(approval).expect("a known approval");
        known.claims_tried.insert(key.to_owned());
    }

    pub(super) fn tries_run(&self, approval: &str, status: &str) {
        let mut book = self.book();
        let known = book.approvals.get_mut(approval).expect("a known approval");
        known.runs_tried.insert(status.to_owned());
    }

    /// A client was told how it ended, and until when it may start.
    pub(super) fn ended(&self, approval: &str, status: &str, by: &str, start_by: &Value) {
        self.book().ended(approval, status, by, start_by);
    }

    /// A client was told that the key may run it.
    pub(super) fn released(&self, approval: &str, key: &str, start_by: &Value) {
        let mut book = self.book();
        book.starts(approval, start_by);
        let known = book.approvals.get_mut(approval).expect("a known approval");
        known.claimed = true;
        match &known.released {
            Some(other) if other != key => {
                let text = format!("{approval}: released to {other} and to {key}");
                book.contradictions.push(text);
            }
            Some(_) => {}
            None => {
                known.released = Some(key.to_owned());
                *book.counts.entry("released").or_default() += 1;
            }
        }
    }

    /// A client was told that another key has the permission.
    pub(super) fn taken(&self, approval: &str, key: &str) {
        let mut book = self.book();
        let known = book.approvals.get_mut(approval).expect("a known approval");
        known.claimed = true;
        let mine = known.released.as_deref() == Some(key);
        if mine || known.claims_tried.len() < 2 {
            let text = format!("{approval}: {key} was told that another key has it: {known:?}");
            book.contradictions.push(text);
        }
    }

    /// A client was told how it ran.
    pub(super) fn ran(&self, approval: &str, status: &str) {
        self.book().ran(approval, status);
    }

    /// The service lists these, all it has, while nobody asks for anything.
    pub(super) fn listed(&self, listing: &[Value]) {
        self.book().listed(listing);
    }
}

impl Book {
    fn judged(&mut self, conversation: &str, answer: &Value, over: &BTreeSet<String>) {
        let turn = self.turns.get_mut(conversation).expect("a turn that was asked");
        let first = !std::mem::replace(&mut turn.answered, true);
        let turn = turn.clone();
        let results = answer["results"].as_array().cloned().unwrap_or_default();
        let complete = results.len() == turn.calls.len();
        let replayed = first || answer["replayed"] == true;
        if !complete || !replayed || answer["conversation_mode"] != turn.mode {
            self.contradictions.push(format!("{conversation}: answered {answer} to {turn:?}"));
            return;
        }
        for (call, result) in turn.calls.iter().zip(&results) {
            if first {
                *self.counts.entry(call.outcome()).or_default() += 1;
            }
            let item = &result["item"];
            let same = match call.outcome() {
                "pending" => {
                    item["arguments"] == call.arguments.as_str()
                        && item["tool"] == call.tool
                        && item["call_id"] == call.id.as_str()
                }
                outcome => item.is_null() && result["outcome"] == outcome,
            };
            if !same || result["call_id"] != call.id.as_str() {
                self.contradictions.push(format!("{conversation}: {result} answers {call:?}"));
            } else if call.outcome() == "pending" {
                let by = &item["decided_by"];
                self.stands(conversation, call, &item["id"], &item["hmac"]);
                let (id, outcome) = (&item["id"], &result["outcome"]);
                let waits = outcome == "pending";
                if !waits || id.as_str().is_some_and(|id| over.contains(id)) {
                    self.status(id, outcome, by, &result["start_by"]);
                }
            }
        }
    }

    /// A call's approval is this one, and no other.
    fn stands(&mut self, conversation: &str, call: &Call, id: &Value, hmac: &Value) {
        let (Some(id), Some(hmac)) = (id.as_str(), hmac.as_str()) else {
            self.contradictions.push(format!("{conversation}: {} has no approval", call.id));
            return;
        };
        let known = self.approvals.entry(id.to_owned()).or_insert_with(|| Known {
            conversation: conversation.to_owned(),
            hmac: hmac.to_owned(),
            ..Known::default()
        });
        let turn = self.turns.get_mut(conversation).expect("a turn that was asked");
        let own = turn.calls.iter_mut().find(|own| own.id == call.id).expect("a call of the turn");
        let before = own.approval.get_or_insert_with(|| id.to_owned());
        if before != id || known.conversation != conversation || known.hmac != hmac {
            let text =
                format!("{conversation}: {} is {id} now, and was {before}: {known:?}", call.id);
            self.contradictions.push(text);
        }
    }

    /// As it is shown: it waits, or it ended so.
    fn status(&mut self, id: &Value, status: &Value, by: &Value, start_by: &Value) {
        let (id, status) = (id.as_str().unwrap(), status.as_str().unwrap_or_default());
        if status != "pending" {
            self.ended(id, status, by.as_str().unwrap_or_default(), start_by);
        } else if let Some(ended) = &self.approvals[id].ended {
            self.contradictions.push(format!("{id} waits again after {ended:?}"));
        }
    }

    fn ended(&mut self, id: &str, status: &str, by: &str, start_by: &Value) {
        self.starts(id, start_by);
        let ending = (status.to_owned(), by.to_owned());
        let known = self.approvals.get_mut(id).expect("a known approval");
        if !known.tried.contains(&ending) {
            let text = format!("{id} ended as {ending:?}, which nobody tried: {known:?}");
            self.contradictions.push(text);
        } else if known.ended.as_ref().is_some_and(|before| *before != ending) {
            let text = format!("{id} ended as {ending:?} after {known:?}");
            self.contradictions.push(text);
        } else if known.ended.is_none() {
            let kind = match status {
                "approved" => "approved",
                "rejected" => "rejected",
                _ => "cancelled",
            };
            known.ended = Some(ending);
            *self.counts.entry(kind).or_default() += 1;
        }
    }

    fn starts(&mut self, id: &str, start_by: &Value) {
        let known = self.approvals.get_mut(id).expect("a known approval");
        if start_by.is_null() {
            return;
        }
        let before = known.start_by.get_or_insert_with(|| start_by.clone());
        if before != start_by {
            let text = format!("{id} must start by {start_by}, and before by {before}");
            self.contradictions.push(text);
        }
    }

    fn ran(&mut self, id: &str, status: &str) {
        let known = self.approvals.get_mut(id).expect("a known approval");
        if !known.runs_tried.contains(status) || !known.claimed {
            let text = format!("{id} ran: {status}, which nobody reported: {known:?}");
            self.contradictions.push(text);
        } else if known.run.as_ref().is_some_and(|before| before != status) {
            self.contradictions.push(format!("{id} ran: {status} after {known:?}"));
        } else if known.run.is_none() {
            known.run = Some(status.to_owned());
            *self.counts.entry("executed").or_default() += 1;
        }
    }

    fn listed(&mut self, listing: &[Value]) {
        let mut seen = BTreeSet::new();
        for resource in listing {
            let id = resource["id"].as_str().unwrap_or_default();
            if !seen.insert(id) {
                self.contradictions.push(format!("{id} is listed twice"));
            }
            self.resource(id, resource);
        }
        for (id, known) in &self.approvals {
            if !seen.contains(id.as_str()) {
                self.contradictions.push(format!("{id} is lost: {known:?}"));
            }
        }
        for (conversation, turn) in &self.turns {
            let all: Vec<_> =
                turn.calls.iter().filter(|call| call.outcome() == "pending").collect();
            let ids: Vec<_> = all.iter().filter_map(|call| call.approval.as_ref()).collect();
            // Recorded with all its calls, or not at all.
            if !(ids.is_empty() && !turn.answered) && ids.len() != all.len() {
                let text = format!("{conversation} is there in part: {ids:?} of {turn:?}");
                self.contradictions.push(text);
            }
            if !turn.answered && !ids.is_empty() {
                *self.counts.entry("recorded and untold").or_default() += 1;
            }
            let pending = |id: &&&String| self.approvals[**id].ended.is_none();
            let waiting = ids.iter().filter(pending).count();
            // Decided with all its approvals, or not at all.
            if turn.together && waiting != 0 && waiting != ids.len() {
                let text = format!("{conversation} was decided in part: {waiting} of {ids:?} wait");
                self.contradictions.push(text);
            }
            if turn.deleted && waiting != 0 {
                let text = format!("{conversation} was deleted, and {waiting} of {ids:?} wait");
                self.contradictions.push(text);
            }
        }
    }

    fn resource(&mut self, id: &str, resource: &Value) {
        let conversation = resource["conversation"].as_str().unwrap_or_default();
        let call = self.turns.get(conversation).and_then(|turn| {
            turn.calls.iter().find(|call| resource["call_id"] == call.id.as_str()).cloned()
        });
        let asked = call.filter(|call| {
            call.outcome() == "pending"
                && resource["tool"] == call.tool
                && resource["arguments"] == call.arguments.as_str()
        });
        let Some(call) = asked else {
            self.contradictions.push(format!("nobody asked for {resource}"));
            return;
        };
        let decision = &resource["decision"];
        self.stands(conversation, &call, &json!(id), &resource["hmac"]);
        let start_by = &decision["start_by"];
        self.status(&json!(id), &resource["status"], &decision["decided_by"], start_by);
        let known = self.approvals.get_mut(id).expect("a known approval");
        let claimed = !resource["claim"].is_null();
        if (known.claimed && !claimed) || (claimed && known.claims_tried.is_empty()) {
            let text = format!("claimed: {claimed}, and before {known:?}");
            self.contradictions.push(text);
        } else {
            known.claimed = claimed;
        }
        match (resource["execution"]["status"].as_str(), &known.run) {
            (Some(status), _) => self.ran(id, status),
            (None, Some(_)) => {
                let text = format!("{id} ran, and nobody knows any more: {known:?}");
                self.contradictions.push(text);
            }
            (None, None) => {}
        }
    }
}
