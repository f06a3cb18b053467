//! The server, conversations to ask it about, and a judge that remembers what was said.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use approver::decide::prompt::Prompt;
use approver::decide::verdict::{JudgeFailure, Reply};
use approver::decide::{Decision, State};
use approver::host::judgement_file;
use approver::judge::Judge;
use approver::judge::openai::{OpenAi, Settings, StructuredOutput};
use approver::service::{Approver, Timing};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::{Mutex as AsyncMutex, MutexGuard};
use tokio::time::Instant;

/// Tokens that an answer may have: more than the schema's bounds let a model write.
pub(super) const ANSWER_TOKENS: u32 = 3_500;

/// Tokens after which a model that no schema holds is cut off: it would go on to the limit.
pub(super) const RAMBLING_TOKENS: u32 = 200;

/// A model on shared cores answers when it can; the test runner ends what hangs.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// The server has one slot, and one test counts what it has cached.
static SLOT: AsyncMutex<()> = AsyncMutex::const_new(());

/// The model server that `tests/run` started.
pub(super) struct Server {
    pub(super) base_url: String,
    pub(super) model: String,
    /// Tokens of prompt and answer that it takes.
    pub(super) context: usize,
    _turn: MutexGuard<'static, ()>,
}

impl Server {
    /// The server, for this test alone until it is dropped.
    pub(super) async fn take() -> Self {
        Self {
            base_url: required("APPROVER_LIVE_BASE_URL"),
            model: required("APPROVER_LIVE_MODEL"),
            context: required("APPROVER_LIVE_CONTEXT_TOKENS").parse().unwrap(),
            _turn: SLOT.lock().await,
        }
    }

    pub(super) fn endpoint(&self, structured_output: StructuredOutput) -> OpenAi {
        OpenAi::new(self.settings(structured_output)).unwrap()
    }

    pub(super) fn settings(&self, structured_output: StructuredOutput) -> Settings {
        let mut settings = Settings::new(&self.base_url, &self.model);
        settings.structured_output = structured_output;
        settings.temperature = Some(0.0);
        settings.seed = Some(1);
        settings.max_output_tokens = ANSWER_TOKENS;
        settings
    }

    /// Judges every call of `file` by this endpoint: the decisions, and what was asked and said.
    pub(super) async fn judge(
        &self,
        endpoint: OpenAi,
        file: &Value,
    ) -> (Vec<Decision>, Vec<Exchange>) {
        let text = file.to_string();
        let file = judgement_file::parse(&text).unwrap_or_else(|problems| panic!("{problems:?}"));
        let policy = file.version.policy.as_ref();
        let modes = policy.map(|policy| policy.modes.clone()).unwrap_or_default();
        let request = file.body.into_request(None, &modes).unwrap();
        let judge = Arc::new(Remembering::new(endpoint));
        let timing = Timing { judgement: PATIENCE, request: PATIENCE, concurrent: 1 };
        let approver = Approver::new(judge.clone(), approver::decide::Settings::default(), timing);
        let agent = &file.version.agent;
        let judged = approver.judge(agent, policy, &request, &State::default()).await;
        let decisions = judged.into_iter().map(|judged| judged.decision).collect();
        (decisions, judge.exchanges.lock().unwrap().clone())
    }

    /// What the server's own endpoint `path` (outside `/v1`) answers.
    pub(super) async fn post(&self, path: &str, body: &Value) -> Value {
        let address = format!("{}{path}", self.base_url.trim_end_matches("/v1"));
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let request = client.post(address).header("content-type", "application/json");
        let response = request.body(body.to_string()).send().await.unwrap();
        let response = response.error_for_status().unwrap();
        serde_json::from_str(&response.text().await.unwrap()).unwrap()
    }
}

#[track_caller]
fn required(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| {
        panic!("`{name}` is not set: run `tests/run`, which starts the model server")
    })
}

/// A question and what came back.
#[derive(Debug, Clone)]
pub(super) struct Exchange {
    pub(super) prompt: Prompt,
    pub(super) reply: Result<Reply, JudgeFailure>,
}

struct Remembering {
    inner: OpenAi,
    exchanges: Mutex<Vec<Exchange>>,
}

impl Remembering {
    fn new(inner: OpenAi) -> Self {
        Self { inner, exchanges: Mutex::default() }
    }
}

impl Judge for Remembering {
    fn model(&self) -> &str {
        self.inner.model()
    }

    fn ask<'a>(
        &'a self,
        prompt: &'a Prompt,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Reply, JudgeFailure>> {
        Box::pin(async move {
            let reply = self.inner.ask(prompt, deadline).await;
            let exchange = Exchange { prompt: prompt.clone(), reply: reply.clone() };
            self.exchanges.lock().unwrap().push(exchange);
            reply
        })
    }
}

/// A person asks for a note; one call, which is judged.
pub(super) fn one_note() -> Value {
    let mut file: Value =
        serde_json::from_str(include_str!("../../../examples/trial/customer-note.json")).unwrap();
    file["request"]["calls"].as_array_mut().unwrap().retain(|call| call["tool"] == "note_add");
    file
}

/// The same conversation after the note: an earlier call, its result, prose, another wish.
pub(super) fn another_note() -> Value {
    let mut file = one_note();
    let conversation = &mut file["request"]["conversation"];
    let items = conversation["items"].as_array_mut().unwrap();
    let person = items.len() + 3;
    items.extend([
        json!({"type": "function_call", "call_id": "call_8", "name": "note_add",
            "arguments": r#"{"customer":"C-1042","text":"prefers delivery on Tuesdays"}"#}),
        json!({"type": "function_call_output", "call_id": "call_8", "output": "note 77 added"}),
        json!({"type": "message", "role": "assistant", "content": "I added the note."}),
        json!({"type": "message", "role": "user",
            "content": "Add another note to C-1042: the gate code is with the baker."}),
    ]);
    conversation["person_items"].as_array_mut().unwrap().push(person.into());
    file["request"]["calls"] = json!([{"call_id": "call_9", "tool": "note_add",
        "arguments": r#"{"customer":"C-1042","text":"the gate code is with the baker"}"#}]);
    file
}
