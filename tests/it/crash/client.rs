//! A gateway and the people behind it: it asks, decides, claims, runs and deletes without a pause,
//! repeats under the same key whatever got no answer, and writes down all it is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde_json::{Value, json};

use super::ledger::{Call, Ledger, Turn};
use super::site::{Answer, Ask, PATIENCE, Site};

/// Who decides for a whole turn, through the gateway.
const CHO: &str = "cho";

#[derive(Clone)]
pub(super) struct Client {
    pub(super) site: Arc<Site>,
    pub(super) ledger: Arc<Ledger>,
    pub(super) name: String,
    pub(super) random: Rng,
}

/// A person with a token.
#[derive(Clone, Copy)]
enum Person {
    Ana,
    Ben,
}

impl Client {
    pub(super) async fn live(mut self, stop: Arc<AtomicBool>) {
        for number in 0.. {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let conversation = format!("conv-{}-{number}", self.name);
            let turn = self.turn(&conversation);
            self.ledger.asked(&conversation, turn);
            if self.judge(&conversation).await {
                self.go_on(&conversation).await;
            }
        }
    }

    fn turn(&mut self, conversation: &str) -> Turn {
        let calls = (0..self.random.usize(1..=3)).map(|index| Call {
            id: format!("call-{conversation}-{index}"),
            tool: self.random.choice(["find", "note_add", "note_add", "wipe", "purge"]).unwrap(),
            arguments: format!("{{\"text\":\"note {} of {conversation}\"}}", self.random.u64(..)),
            approval: None,
        });
        let calls: Vec<_> = calls.collect();
        let mode = self.random.choice(["ask", "auto"]).unwrap();
        let listed = calls.iter().map(
            |call| json!({"call_id": call.id, "tool": call.tool, "arguments": call.arguments}),
        );
        let body = json!({
            "agent": "erp", "version": "7",
            "conversation": {
                "id": conversation, "surface": "responses",
                "items": [{"type": "message", "role": "user", "content": "Take a note."}],
                "person_items": [0],
            },
            "turn": {"id": "turn-1"},
            "input": [{"type": "backbone:mode", "mode": mode}],
            "tools": [],
            "calls": listed.collect::<Vec<_>>(),
        });
        let key = format!("key-{conversation}");
        Turn {
            key,
            body,
            mode,
            calls,
            answered: false,
            together: false,
            deleting: false,
            deleted: false,
        }
    }

    /// Has a request judged; false while another attempt at it, which was killed, holds it.
    pub(super) async fn judge(&mut self, conversation: &str) -> bool {
        let (body, key, answered) = {
            let turn = &self.ledger.book().turns[conversation];
            (turn.body.clone(), turn.key.clone(), turn.answered)
        };
        // The same bytes under any key are a replay.
        let other = answered && self.random.bool();
        let key = if other { format!("{key}-other") } else { key };
        let ask = Ask::post("/v1/judgements", &self.site.tokens.gateway, body).under(&key);
        let over = self.ledger.over(conversation);
        let answer = self.ask(&ask).await;
        match (answer.status, answer.code()) {
            (200, _) => self.ledger.judged(conversation, &answer.json, &over),
            (503, "judgement_in_progress") if !answered => return false,
            // A deleted conversation takes no new key.
            (409, "conversation_deleted")
                if other && self.ledger.book().turns[conversation].deleting => {}
            _ => self.unexpected(&ask, &answer),
        }
        true
    }

    async fn go_on(&mut self, conversation: &str) {
        if self.random.u8(..4) == 0 {
            self.judge(conversation).await;
        }
        let mut pending = Vec::new();
        let calls = self.ledger.book().turns[conversation].calls.clone();
        pending.extend(calls.into_iter().filter_map(|call| call.approval));
        match self.random.u8(..10) {
            // Nobody decides.
            0 => {}
            1..=4 => {
                for id in pending {
                    let person = if self.random.bool() { Person::Ana } else { Person::Ben };
                    self.decide(&id, person).await;
                    self.run(&id).await;
                }
            }
            5 | 6 => {
                for id in pending {
                    let mut rival = self.another();
                    tokio::join!(self.decide(&id, Person::Ana), rival.decide(&id, Person::Ben));
                    self.run(&id).await;
                }
            }
            7 | 8 if !pending.is_empty() => self.decide_together(conversation, &pending).await,
            _ => {
                let mut rival = self.another();
                let deciding = async {
                    if let Some(first) = pending.first() {
                        rival.decide(first, Person::Ana).await;
                    }
                };
                tokio::join!(self.delete(conversation, &pending), deciding);
            }
        }
    }

    fn another(&mut self) -> Self {
        Self { random: self.random.fork(), ..self.clone() }
    }

    async fn decide(&mut self, id: &str, person: Person) {
        let tokens = &self.site.tokens;
        let (by, token) = match person {
            Person::Ana => ("ana", &tokens.ana),
            Person::Ben => ("ben", &tokens.ben),
        };
        let approves = self.random.u8(..3) > 0;
        let (word, status) =
            if approves { ("approve", "approved") } else { ("reject", "rejected") };
        let hmac = self.ledger.book().approvals[id].hmac.clone();
        let body = json!({"decision": word, "hmac": hmac});
        let ask = Ask::post(format!("/v1/approvals/{id}/decision"), token, body);
        self.ledger.tries(id, status, by);
        let answer = self.ask(&ask).await;
        let detail = &answer.json["error"]["detail"];
        match (answer.status, answer.code()) {
            (200, _) if answer.json["status"] == status => {
                self.ledger.ended(id, status, by, &answer.json["start_by"]);
            }
            // Its own decision can only be in its way when nobody was told of it.
            (409, "approval_already_decided") if answer.repeated || detail["decided_by"] != by => {
                let decider = detail["decided_by"].as_str().unwrap_or_default();
                let status = detail["status"].as_str().unwrap_or_default();
                self.ledger.ended(id, status, decider, &Value::Null);
            }
            _ => self.unexpected(&ask, &answer),
        }
    }

    /// Two keys claim what was approved, and whoever gets it reports how it ran.
    async fn run(&mut self, id: &str) {
        let ended = self.ledger.book().approvals[id].ended.clone();
        if ended.is_none_or(|(status, _)| status != "approved") || self.random.u8(..5) == 0 {
            return;
        }
        let mut rival = self.another();
        let (one, two) = (format!("claim-{id}-1"), format!("claim-{id}-2"));
        let (mine, other) = tokio::join!(self.claim(id, &one), rival.claim(id, &two));
        if mine == other {
            let text = format!("{id}: of two keys, both or none may run it: {mine}");
            self.ledger.contradiction(text);
        }
        if self.random.u8(..5) > 0 {
            self.report(id).await;
        }
    }

    /// Whether the key may run it.
    pub(super) async fn claim(&mut self, id: &str, key: &str) -> bool {
        let token = &self.site.tokens.gateway;
        let ask = Ask::post(format!("/v1/approvals/{id}/claim"), token, json!({})).under(key);
        self.ledger.tries_claim(id, key);
        let answer = self.ask(&ask).await;
        match (answer.status, answer.code()) {
            (200, _) if answer.json["release"] == true => {
                self.ledger.released(id, key, &answer.json["start_by"]);
                return true;
            }
            (409, "already_claimed") => self.ledger.taken(id, key),
            _ => self.unexpected(&ask, &answer),
        }
        false
    }

    async fn report(&mut self, id: &str) {
        let status = self.random.choice(["OK", "FAILED", "TIMEOUT"]).unwrap();
        let body = json!({"status": status, "output": format!("the output of {id}")});
        let token = &self.site.tokens.gateway;
        let ask = Ask::post(format!("/v1/approvals/{id}/execution"), token, body);
        self.ledger.tries_run(id, status);
        let answer = self.ask(&ask).await;
        let told = match (answer.status, answer.code()) {
            (200, _) => &answer.json["execution"]["status"],
            (409, "execution_already_reported") if answer.repeated => {
                &answer.json["error"]["detail"]["status"]
            }
            _ => return self.unexpected(&ask, &answer),
        };
        self.ledger.ran(id, told.as_str().unwrap_or_default());
    }

    /// Decides on all of a turn, and claims what is approved, at once.
    async fn decide_together(&mut self, conversation: &str, pending: &[String]) {
        let continuation = format!("continues-{conversation}");
        let mut endings = Vec::new();
        let mut input = Vec::new();
        for id in pending {
            let approves = self.random.bool();
            let (word, status) =
                if approves { ("approve", "approved") } else { ("reject", "rejected") };
            let hmac = self.ledger.book().approvals[id].hmac.clone();
            input.push(json!({"type": "backbone:approval_response", "approval_id": id,
                "decision": word, "hmac": hmac}));
            self.ledger.tries(id, status, CHO);
            if approves {
                self.ledger.tries_claim(id, &continuation);
            }
            endings.push((id, status));
        }
        let body = json!({"turn_id": "turn-1", "conversation_id": conversation,
            "continuation_id": continuation, "decided_by": CHO, "input": input});
        let ask = Ask::post("/v1/decisions", &self.site.tokens.gateway, body);
        if let Some(turn) = self.ledger.book().turns.get_mut(conversation) {
            turn.together = true;
        }
        let answer = self.ask(&ask).await;
        let detail = &answer.json["error"]["detail"];
        match (answer.status, answer.code()) {
            (200, _) => {
                let results = answer.json["results"].as_array().cloned().unwrap_or_default();
                for (id, status) in &endings {
                    let own = results.iter().find(|result| result["approval_id"] == id.as_str());
                    let release = own.map(|own| own["release"] == true);
                    if results.len() != endings.len() || release != Some(*status == "approved") {
                        self.unexpected(&ask, &answer);
                        return;
                    }
                }
                self.ledger.count("decided together");
            }
            (409, "approval_already_decided")
                if answer.repeated && detail["continuation_id"] == continuation.as_str() =>
            {
                self.ledger.count("decided together, and told late");
            }
            _ => return self.unexpected(&ask, &answer),
        }
        for (id, status) in endings {
            self.ledger.ended(id, status, CHO, &Value::Null);
            if status == "approved" {
                self.ledger.released(id, &continuation, &Value::Null);
                self.report(id).await;
            }
        }
    }

    async fn delete(&mut self, conversation: &str, pending: &[String]) {
        for id in pending {
            self.ledger.tries(id, "cancelled", "");
        }
        if let Some(turn) = self.ledger.book().turns.get_mut(conversation) {
            turn.deleting = true;
        }
        let path = format!("/v1/conversations/{conversation}");
        let ask = Ask::delete(path, &self.site.tokens.gateway);
        let answer = self.ask(&ask).await;
        match (answer.status, answer.code()) {
            (200, _) => {
                for id in answer.json["cancelled"].as_array().into_iter().flatten() {
                    self.ledger.ended(id.as_str().unwrap(), "cancelled", "", &Value::Null);
                }
            }
            // It was deleted by an attempt that nobody was told of.
            (404, _) if answer.repeated => {}
            _ => return self.unexpected(&ask, &answer),
        }
        self.ledger.count("deleted");
        if let Some(turn) = self.ledger.book().turns.get_mut(conversation) {
            turn.deleted = true;
        }
    }

    pub(super) fn unexpected(&self, ask: &Ask, answer: &Answer) {
        let Ask { method, path, body, .. } = ask;
        self.ledger.contradiction(format!("{method} {path} {body:?} is answered {answer:?}"));
    }

    /// Repeats a request, at any process, until it is answered.
    pub(super) async fn ask(&mut self, ask: &Ask) -> Answer {
        let begun = Instant::now();
        let mut repeated = false;
        loop {
            let index = self.random.usize(..self.site.len());
            let answer = {
                let _moving = self.site.gate.read().await;
                self.site.send(index, ask).await
            };
            match answer {
                Some(answer) if answer.status != 503 => {
                    self.site.answered(index);
                    return Answer { repeated, ..answer };
                }
                Some(answer) => {
                    self.ledger.count("503");
                    if !answer.retry_after {
                        self.unexpected(ask, &answer);
                    }
                    if answer.code() == "judgement_in_progress" {
                        return answer;
                    }
                }
                None => self.ledger.count("unanswered"),
            }
            assert!(begun.elapsed() < PATIENCE, "nobody answers {ask:?}");
            repeated = true;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}
