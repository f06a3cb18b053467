//! Approvals as people, gateways and auditors read them: one, a page of them, and waiting for a
//! change.

use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use tokio::time::{Instant, sleep, sleep_until};

use super::input::{Echo, Missing, Provenance, Quote, SealedInput};
use super::keys::Part;
use super::{MAX_WAIT, Poller, Refusal, Service};
use crate::decide::digest;
use crate::store::{Approval, Facts, Listing, Position, Sealed, Status, Watched};

/// Approvals of one page.
pub const MAX_PAGE: u32 = 100;
/// Overdue approvals that one reader ends before it reads on.
const OVERDUE: u32 = 100;
/// Sealed parts of a page that are read at once.
const AT_ONCE: usize = 4;
/// Changes of an organisation within this time wake a waiting listing once.
const BREATH: Duration = Duration::from_millis(100);

/// An approval with its sealed parts opened, as far as they are still kept.
#[derive(Debug, Clone)]
pub struct ApprovalView {
    /// The approval.
    pub approval: Approval,
    /// What was sealed when it was raised; `None` where `missing` says why, and where nobody looked.
    pub input: Option<OpenedInput>,
    /// Why what was sealed cannot be read.
    pub missing: Option<Missing>,
    /// What the call answered; `None` before it ran, without an output, and once swept.
    pub output: Option<String>,
}

/// An approval's opened input.
#[derive(Debug, Clone)]
pub struct OpenedInput {
    /// The exact text of the arguments.
    pub arguments: String,
    /// Where each argument was first seen.
    pub provenance: Vec<Provenance>,
    /// The judge's checked quotes.
    pub evidence: Vec<Quote>,
    /// For a request of the approval protocol: what it says besides, all of it claims.
    pub aap: Option<Echo>,
    /// Binds the approval to exactly these arguments: 64 hex digits.
    pub hmac: String,
}

/// A page of a listing.
#[derive(Debug, Clone)]
pub struct Page {
    /// Newest first.
    pub approvals: Vec<ApprovalView>,
    /// Where the next page begins; `None` on the last.
    pub next: Option<Position>,
    /// Names what the page shows: it changes when one of its approvals does.
    pub state: String,
}

/// What a waiting listing waits for.
#[derive(Debug, Clone, Copy)]
pub struct WaitForChange<'a> {
    /// How long, at most [`MAX_WAIT`].
    pub wait: Duration,
    /// The state that the caller has seen.
    pub seen: &'a str,
}

impl Service {
    /// One approval.
    ///
    /// # Errors
    /// 404, or the store fails.
    pub async fn approval(&self, organisation: &str, id: &str) -> Result<ApprovalView, Refusal> {
        let approval = self.current(organisation, id).await?;
        self.view(approval).await
    }

    /// One approval, once it is decided or `wait` is over. Only what is pending is waited for.
    ///
    /// # Errors
    /// 404; 401 when the token ended meanwhile; 429 when too many of the token's requests wait; or
    /// the store fails.
    pub async fn await_decision(
        &self,
        poller: Poller<'_>,
        id: &str,
        wait: Duration,
    ) -> Result<ApprovalView, Refusal> {
        let end = Instant::now() + wait.min(MAX_WAIT);
        let mut watch = self.store.subscribe(vec![Watched::Approval(id.to_owned())]);
        let mut place = None;
        loop {
            // Boxed, and gone before the wait: thousands wait at once, and each holds what stands here.
            let approval = Box::pin(self.current(&poller.token.organisation, id)).await?;
            let over = Instant::now() >= end || self.polls.have_ended();
            if approval.status != Status::Pending || over {
                return Box::pin(self.view(approval)).await;
            }
            drop(approval);
            if place.is_none() {
                let limit = self.limits.polls_per_token;
                place = Some(self.polls.enter(&poller.token.id, limit)?);
            }
            tokio::select! {
                () = watch.changed() => {}
                () = sleep_until(end) => {}
                () = self.polls.ended() => {}
            }
            Box::pin(self.check_again(poller)).await?;
        }
    }

    /// A page of approvals, newest first; with `change`, once the page is another than the one that
    /// the caller has seen, or the time is over. `limit` is brought within 1 and [`MAX_PAGE`].
    ///
    /// # Errors
    /// 404 for an agent that the organisation does not have; as [`Service::await_decision`].
    pub async fn approvals(
        &self,
        poller: Poller<'_>,
        listing: &Listing,
        change: Option<WaitForChange<'_>>,
    ) -> Result<Page, Refusal> {
        let organisation = &poller.token.organisation;
        let Some(WaitForChange { wait, seen }) = change else {
            let (approvals, next, state) = self.page(organisation, listing).await?;
            return self.open_page(approvals, next, state).await;
        };
        let end = Instant::now() + wait.min(MAX_WAIT);
        let mut watch = self.store.subscribe(vec![Watched::Organisation(organisation.clone())]);
        let mut place = None;
        loop {
            let (approvals, next, state) = Box::pin(self.page(organisation, listing)).await?;
            let over = Instant::now() >= end || self.polls.have_ended();
            if state != seen || over {
                return Box::pin(self.open_page(approvals, next, state)).await;
            }
            drop((approvals, next, state));
            if place.is_none() {
                let limit = self.limits.polls_per_token;
                place = Some(self.polls.enter(&poller.token.id, limit)?);
            }
            tokio::select! {
                () = async { watch.changed().await; sleep(BREATH).await } => {}
                () = sleep_until(end) => {}
                () = self.polls.ended() => {}
            }
            Box::pin(self.check_again(poller)).await?;
        }
    }

    /// An approval as it stands: one whose time is over has expired, whether or not somebody came
    /// by to say so.
    pub(super) async fn current(&self, organisation: &str, id: &str) -> Result<Approval, Refusal> {
        let mut nothing_left = false;
        loop {
            let found = self.store.approval(organisation, id).await?;
            let approval = found.ok_or_else(|| Refusal::not_found("approval"))?;
            if !self.is_overdue(&approval) || nothing_left {
                return Ok(approval);
            }
            nothing_left = self.expire_due(OVERDUE).await? == 0;
        }
    }

    fn is_overdue(&self, approval: &Approval) -> bool {
        approval.status == Status::Pending && approval.facts.deadline_at <= self.now()
    }

    async fn page(
        &self,
        organisation: &str,
        listing: &Listing,
    ) -> Result<(Vec<Approval>, Option<Position>, String), Refusal> {
        let limit = listing.limit.clamp(1, MAX_PAGE);
        let more = Listing { limit: limit + 1, ..listing.clone() };
        let mut approvals = self.store.approvals(organisation, more.clone()).await?;
        if approvals.iter().any(|approval| self.is_overdue(approval))
            && self.expire_due(OVERDUE).await? > 0
        {
            approvals = self.store.approvals(organisation, more).await?;
        }
        if approvals.is_empty()
            && let Some(agent) = &listing.agent
            && self.store.versions(organisation, agent).await?.is_empty()
        {
            return Err(Refusal::not_found("agent"));
        }
        let limit = limit as usize;
        let has_more = approvals.len() > limit;
        approvals.truncate(limit);
        let last = approvals
            .last()
            .filter(|_| has_more)
            .map(|last| Position { created_at: last.facts.created_at, id: last.facts.id.clone() });
        let shown: Vec<String> = approvals
            .iter()
            .map(|approval| format!("{}:{}", approval.facts.id, approval.revision))
            .collect();
        let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
        Ok((approvals, last, digest(&shown)))
    }

    async fn open_page(
        &self,
        approvals: Vec<Approval>,
        next: Option<Position>,
        state: String,
    ) -> Result<Page, Refusal> {
        let views = stream::iter(approvals).map(|approval| self.view(approval)).buffered(AT_ONCE);
        Ok(Page { approvals: views.try_collect().await?, next, state })
    }

    /// An approval with its sealed parts opened. A reader learns the rest even where they cannot be,
    /// and why.
    pub(super) async fn view(&self, approval: Approval) -> Result<ApprovalView, Refusal> {
        let facts = &approval.facts;
        let sealed = self.store.sealed(&facts.organisation, &facts.id).await?;
        let (input, missing) = match self.read_input(facts, sealed.input.as_ref()) {
            Ok(input) => (Some(self.opened(facts, input)), None),
            Err(missing) => (None, Some(missing)),
        };
        let output = sealed.output.and_then(|sealed| self.open_output(&approval, &sealed));
        Ok(ApprovalView { approval, input, missing, output })
    }

    fn opened(&self, facts: &Facts, input: SealedInput) -> OpenedInput {
        let SealedInput { arguments, provenance, evidence, aap, key_id, .. } = input;
        let hmac = self.hmac(facts, &arguments, &key_id);
        OpenedInput { arguments, provenance, evidence, aap, hmac }
    }

    fn open_output(&self, approval: &Approval, sealed: &Sealed) -> Option<String> {
        let facts = &approval.facts;
        let opened = self.keys.open(&facts.organisation, &facts.id, Part::Output, sealed);
        let opened = opened.inspect_err(|error| {
            tracing::error!(approval = facts.id, %error, "a sealed output cannot be opened");
        });
        String::from_utf8(opened.ok()?).ok()
    }
}
