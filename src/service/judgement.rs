//! One request of calls, from its arrival to an answer that is durable: begin → plan, ask, settle →
//! record. Every door comes through [`Service::judge`].
//!
//! It runs in a task of its own, so that a caller who hangs up loses nothing: the judgement is
//! recorded, and a repeat of the request finds it. Nothing is answered that is not recorded, and what
//! was recorded for an earlier request is answered and never judged again.

mod attempt;
mod outcome;
mod stricter;

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, timeout};

pub use self::stricter::{InstanceLimit, Stricter};

use self::stricter::InForce;
use super::input::Echo;
use super::versions::LoadedVersion;
use super::{Code, Refusal, Service, definitions};
use crate::decide::policy::{Mode, Modes};
use crate::decide::request::{Call, Conversation, Door, Request, Tool};
use crate::decide::state::ToolIdentity;
use crate::decide::{Reserve, call_digest, digest, reserve};
use crate::store::{
    Begin, BeginCall, Begun, CallOutcome, Idempotency, ModeChoice, RecordedCall, Reserved,
    ToolDefinition, Watch, Watched,
};

/// How long to wait at most before looking again at what another request judges: its own replica may
/// be another one, whose end wakes nobody here.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// What an attempt may take beyond its deadline before another may take it over: to begin, to plan
/// and to record.
const LEASE_SLACK: Duration = Duration::from_secs(15);

/// Calls that want to be judged, whatever door they came through.
#[derive(Debug, Clone)]
pub struct JudgementRequest {
    /// Who owns everything in it.
    pub organisation: String,
    /// What makes a repeat of it a repeat.
    pub idempotency: Idempotency,
    /// The door it came through.
    pub door: Door,
    /// The instance of the approval protocol; `None` at the gateway's door.
    pub instance: Option<String>,
    /// The agent.
    pub agent: String,
    /// Its version, or a channel.
    pub version: String,
    /// The member that the turn runs for.
    pub user: Option<String>,
    /// The surface of the conversation.
    pub surface: String,
    /// The conversation's id.
    pub conversation_id: String,
    /// The turn.
    pub turn: String,
    /// The paused turn whose decisions this turn carries.
    pub continues: Option<String>,
    /// What the request says of the mode.
    pub mode: ModeChoice,
    /// How long a person may take to decide; `None` for the configured time.
    pub pending_for: Option<Duration>,
    /// All that came before the calls.
    pub conversation: Conversation,
    /// The caller's own list of tools.
    pub tools: Vec<Tool>,
    /// The calls, in call order; no two share an id.
    pub calls: Vec<Call>,
    /// What the approval protocol's door adds.
    pub stricter: Option<Stricter>,
    /// What the approval protocol echoes; it is sealed with the arguments.
    pub echo: Option<Echo>,
    /// Bytes that the request came in: a large one is looked through on a thread of its own.
    pub bytes: usize,
}

/// What became of a request's calls, as recorded.
#[derive(Debug, Clone)]
pub struct Judgement {
    /// The mode that the request ran in.
    pub mode: Mode,
    /// Whether a call of it was judged for an earlier request: what that request was told to start
    /// may have been started.
    pub replayed: bool,
    /// One result a call, in call order.
    pub calls: Vec<JudgedCall>,
}

/// What became of one call.
#[derive(Debug, Clone)]
pub struct JudgedCall {
    /// The caller's name for the call.
    pub call_id: String,
    /// The exact text of its arguments.
    pub arguments: String,
    /// Its outcome; an approval as it stands now.
    pub outcome: CallOutcome,
    /// For an approval: binds it to exactly these arguments, 64 lower-case hex digits.
    pub hmac: Option<String>,
}

impl Service {
    /// Judges a request and records what becomes of its calls.
    ///
    /// # Errors
    /// The request is refused, or could not be recorded: then nothing of it may run.
    pub async fn judge(self: &Arc<Self>, request: JudgementRequest) -> Result<Judgement, Refusal> {
        let service = Arc::clone(self);
        let judging = tokio::spawn(async move { service.judge_in_task(request).await });
        judging.await.unwrap_or_else(|_panic| {
            Err(Refusal::new(Code::InternalError, "Something is wrong here, and it is recorded."))
        })
    }

    async fn judge_in_task(&self, request: JudgementRequest) -> Result<Judgement, Refusal> {
        let arrived = Instant::now();
        let pending_for = self.pending_for(request.pending_for)?;
        let version = self.version(&request.organisation, &request.agent, &request.version).await?;
        let mut work = Work::new(self, request, version, pending_for, arrived);
        let give_up = arrived + self.approver.timing().request;
        let mut watched: Option<(String, Watch)> = None;
        loop {
            let begin = Begin { now: self.now(), ..work.begin.clone() };
            match self.store.begin(begin).await? {
                Begun::Judge(begun) => {
                    if let Some(judgement) = self.attempt(&mut work, *begun).await? {
                        return Ok(judgement);
                    }
                }
                Begun::Replayed { mode, calls } => return self.replay(&work, mode, calls).await,
                Begun::InProgress { request, .. } => match &mut watched {
                    Some((watched, watch)) if *watched == request => {
                        // Woken or not, the next look says what became of it.
                        let _woken = timeout(LOOK_AGAIN, watch.changed()).await;
                    }
                    Some(_) | None => {
                        let watch = self.store.subscribe(vec![Watched::Request(request.clone())]);
                        watched = Some((request, watch));
                    }
                },
                Begun::IdempotencyConflict => return Err(idempotency_conflict()),
                Begun::CallConflict { call_id } => return Err(work.call_conflict(&call_id)),
                Begun::ModeNotOffered { mode } => return Err(work.mode_not_offered(mode)),
                Begun::ConversationDeleted => {
                    let text = "The conversation was deleted; nothing of it is judged.";
                    return Err(Refusal::new(Code::ConversationDeleted, text));
                }
            }
            if Instant::now() >= give_up {
                let text = "The same request or call is still being judged. Try again.";
                return Err(Refusal::new(Code::JudgementInProgress, text));
            }
        }
    }

    /// How long a person may take, within what is configured.
    fn pending_for(&self, asked: Option<Duration>) -> Result<Duration, Refusal> {
        let most = self.limits.max_pending_for;
        match asked {
            None => Ok(self.limits.pending_for.min(most)),
            Some(asked) if asked <= most => Ok(asked),
            Some(_) => {
                let most = humantime::format_duration(most);
                Err(Refusal::invalid("$.pending_for", format!("An approval waits at most {most}.")))
            }
        }
    }

    /// What is recorded, with what the calls' own texts add to it.
    async fn replay(
        &self,
        work: &Work,
        mode: Mode,
        recorded: Vec<RecordedCall>,
    ) -> Result<Judgement, Refusal> {
        let mut calls = Vec::with_capacity(recorded.len());
        for (call, recorded) in work.calls.iter().zip(recorded) {
            calls.push(self.recorded(call, recorded).await?);
        }
        Ok(Judgement { mode, replayed: true, calls })
    }

    /// A call that was judged for an earlier request: the same bytes, so its `hmac` is the same.
    async fn recorded(&self, call: &Call, recorded: RecordedCall) -> Result<JudgedCall, Refusal> {
        let hmac = match &recorded.outcome {
            CallOutcome::Approval(approval) => {
                let facts = &approval.facts;
                let sealed = self.store.sealed(&facts.organisation, &facts.id).await?.input;
                let key_id = sealed.map_or_else(String::new, |sealed| sealed.key_id);
                Some(self.hmac(facts, &call.arguments_text, &key_id))
            }
            CallOutcome::Execute
            | CallOutcome::ExecuteSandboxed { .. }
            | CallOutcome::Blocked(_) => None,
        };
        Ok(JudgedCall {
            call_id: call.call_id.clone(),
            arguments: call.arguments_text.clone(),
            outcome: recorded.outcome,
            hmac,
        })
    }
}

/// A request with everything that its attempts share.
struct Work {
    arrived: Instant,
    begin: Begin,
    version: Arc<LoadedVersion>,
    user: Option<String>,
    pending_for: Duration,
    conversation: Conversation,
    tools: Vec<Tool>,
    calls: Vec<Call>,
    stricter: Option<InForce>,
    echo: Option<Echo>,
    bytes: usize,
}

impl Work {
    fn new(
        service: &Service,
        request: JudgementRequest,
        version: Arc<LoadedVersion>,
        pending_for: Duration,
        arrived: Instant,
    ) -> Self {
        let JudgementRequest { door, user, conversation, tools, calls, echo, bytes, .. } = request;
        let (modes, mode, stricter) = match request.stricter {
            None => (version.modes(), request.mode, None),
            Some(stricter) => {
                let in_force = stricter.in_force(&version, &calls);
                let modes = Modes { offered: Mode::ALL.to_vec(), default: in_force.mode };
                (modes, ModeChoice::Default, Some(in_force))
            }
        };
        let window = stricter.as_ref().and_then(|stricter| stricter.limit);
        let content = &version.content;
        let settings = service.approver.settings();
        let policy = content.policy.as_ref();
        let Reserve { judged, sandbox_calls, sandbox_seconds } =
            reserve(&content.agent, policy, door, &tools, &calls, settings);
        let begin = Begin {
            organisation: request.organisation,
            idempotency: request.idempotency,
            door,
            instance: request.instance,
            agent: request.agent,
            surface: request.surface,
            conversation: request.conversation_id,
            turn: request.turn,
            continues: request.continues,
            mode,
            modes,
            calls: calls
                .iter()
                .map(|call| begin_call(&version, &tools, user.as_deref(), call))
                .collect(),
            tools: met(&version, &tools, &calls),
            reserve: Reserved { judged, sandbox_calls, sandbox_seconds },
            instance_after: window.map(|limit| service.now().minus(limit.within)),
            now: service.now(),
            lease: service.approver.timing().request + LEASE_SLACK,
        };
        Self {
            arrived,
            begin,
            version,
            user,
            pending_for,
            conversation,
            tools,
            calls,
            stricter,
            echo,
            bytes,
        }
    }

    /// Takes the texts for one plan; [`Work::put_back`] returns them.
    fn take(&mut self, mode: Mode, calls: Vec<Call>) -> Request {
        Request {
            door: self.begin.door,
            mode,
            conversation: std::mem::take(&mut self.conversation),
            tools: std::mem::take(&mut self.tools),
            calls,
        }
    }

    fn put_back(&mut self, request: Request) -> Vec<Call> {
        let Request { conversation, tools, calls, .. } = request;
        (self.conversation, self.tools) = (conversation, tools);
        calls
    }

    fn call_conflict(&self, call_id: &str) -> Refusal {
        let text = "A call of this id was judged in this turn, with other bytes.";
        let refusal = Refusal::new(Code::CallConflict, text).with(json!({"call_id": call_id}));
        match self.calls.iter().position(|call| call.call_id == call_id) {
            Some(index) => refusal.at(&format!("$.calls[{index}]")),
            None => refusal,
        }
    }

    fn mode_not_offered(&self, mode: Mode) -> Refusal {
        let offered: Vec<&str> =
            self.begin.modes.offered.iter().map(|mode| mode.as_str()).collect();
        let mode = mode.as_str();
        let text = format!(
            "The agent version does not offer the mode `{mode}`; it offers {}.",
            offered.join(", ")
        );
        Refusal::new(Code::ConversationModeNotOffered, text)
            .with(json!({"mode": mode, "offered": offered}))
    }
}

fn idempotency_conflict() -> Refusal {
    let text = "This key was used with another request.";
    Refusal::new(Code::IdempotencyConflict, text).at("Idempotency-Key")
}

/// What identifies a call to the store. A connector's call runs as the member whose turn it is: for
/// another member it is another call.
fn begin_call(
    version: &LoadedVersion,
    tools: &[Tool],
    user: Option<&str>,
    call: &Call,
) -> BeginCall {
    let label = call.server_label.as_deref().unwrap_or_default();
    let timeout = call.timeout_seconds.map_or_else(String::new, |seconds| seconds.to_string());
    let identity = call.arguments.as_ref().ok().map(|arguments| {
        let defined = call.definition(&version.content.agent, tools);
        match defined {
            Some(tool) => call_digest(tool, arguments),
            None => call_digest(&call.undefined_tool(), arguments),
        }
    });
    let bytes = ["call-bytes-1", label, &call.tool, &call.arguments_text, &timeout];
    let digest = match (&call.server_label, user) {
        (Some(_), Some(user)) => digest(&[&bytes[..], &["as", user]].concat()),
        (None, _) | (_, None) => digest(&bytes),
    };
    BeginCall { call_id: call.call_id.clone(), digest, identity }
}

/// Definitions of the caller's list that the conversation meets with these calls.
fn met(version: &LoadedVersion, tools: &[Tool], calls: &[Call]) -> Vec<ToolDefinition> {
    let mut met: Vec<ToolDefinition> = Vec::new();
    for call in calls {
        let own = call.definition(&version.content.agent, &[]).is_some();
        let Some(tool) = call.definition(&version.content.agent, tools).filter(|_| !own) else {
            continue;
        };
        let identity = ToolIdentity::of(tool);
        if !met.iter().any(|known| known.tool == identity) {
            met.push(ToolDefinition { tool: identity, content: definitions::write(tool) });
        }
    }
    met
}
