//! What every judge keeps, whatever is behind it: it honours its deadline, a failure is a value,
//! dropping a question half-way leaves it usable, and questions do not wait for each other.

use std::sync::Arc;
use std::time::Duration;

use approver::decide::verdict::{JudgeFailure, Reply, Tokens};
use approver::judge::breaker::{Breaker, Breakers, Guarded};
use approver::judge::openai::{OpenAi, Settings};
use approver::judge::retry::Retrying;
use approver::judge::scripted::{Move, Scripted};
use approver::judge::{Judge, Unavailable, build};
use futures::future::join_all;
use tokio::time::Instant;

use crate::faults::{Fault, FaultServer};
use crate::judge_http::prompt;

/// A judge under test. To add one: a variant here, an arm in [`Kind::make`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Endpoint,
    Whole,
    Scripted,
    RetryingScripted,
    GuardedScripted,
}

const KINDS: [Kind; 5] =
    [Kind::Endpoint, Kind::Whole, Kind::Scripted, Kind::RetryingScripted, Kind::GuardedScripted];

/// What is behind it: moves, the last of which repeats.
#[derive(Debug, Clone, Copy)]
enum Behind {
    Answers,
    Refuses,
    Stalls,
    StallsThenAnswers,
}

impl Kind {
    async fn make(self, behind: Behind) -> (Arc<dyn Judge>, Option<FaultServer>) {
        let scripted = || {
            let stalls_first = std::sync::Mutex::new(matches!(behind, Behind::StallsThenAnswers));
            Scripted::function(move |_| match behind {
                Behind::Answers => Move::say("{}"),
                Behind::Refuses => Move::Fail(JudgeFailure::Refused),
                Behind::Stalls => Move::Stall,
                Behind::StallsThenAnswers => {
                    if std::mem::take(&mut *stalls_first.lock().unwrap()) {
                        Move::Stall
                    } else {
                        Move::say("{}")
                    }
                }
            })
        };
        match self {
            Self::Scripted => (Arc::new(scripted()), None),
            Self::RetryingScripted => (Arc::new(Retrying::new(scripted())), None),
            Self::GuardedScripted => {
                (Arc::new(Guarded::new(scripted(), Arc::<Breaker>::default())), None)
            }
            Self::Endpoint | Self::Whole => {
                let faults = match behind {
                    Behind::Answers => vec![Fault::says("{}")],
                    Behind::Refuses => vec![Fault::choice(serde_json::json!({
                        "message": {"content": null, "refusal": "no"},
                    }))],
                    Behind::Stalls => vec![Fault::Silence],
                    Behind::StallsThenAnswers => vec![Fault::Silence, Fault::says("{}")],
                };
                let server = FaultServer::start(faults).await;
                let settings = Settings::new(server.base_url(), "model");
                let judge: Arc<dyn Judge> = if self == Self::Endpoint {
                    Arc::new(OpenAi::new(settings).unwrap())
                } else {
                    build(Some(settings), &Breakers::new()).unwrap()
                };
                (judge, Some(server))
            }
        }
    }
}

const AMPLE: Duration = Duration::from_secs(600);

async fn ask(judge: &dyn Judge, budget: Duration) -> Result<Reply, JudgeFailure> {
    judge.ask(&prompt(), Instant::now() + budget).await
}

/// A judge that ignored its deadline would never come back here.
#[tokio::test]
async fn it_honours_its_deadline() {
    for kind in KINDS {
        let (judge, _server) = kind.make(Behind::Stalls).await;
        let (began, budget) = (Instant::now(), Duration::from_millis(100));
        assert_eq!(ask(&*judge, budget).await, Err(JudgeFailure::Timeout), "{kind:?}");
        assert!(began.elapsed() >= budget, "{kind:?}");
        // A deadline already past is one too.
        assert_eq!(ask(&*judge, Duration::ZERO).await, Err(JudgeFailure::Timeout), "{kind:?}");
    }
}

#[tokio::test]
async fn a_failure_is_a_value_and_the_judge_stays_usable() {
    for kind in KINDS {
        let (judge, _server) = kind.make(Behind::Refuses).await;
        for _ in 0..3 {
            assert_eq!(ask(&*judge, AMPLE).await, Err(JudgeFailure::Refused), "{kind:?}");
        }
    }
}

#[tokio::test]
async fn a_question_dropped_half_way_leaves_it_usable() {
    for kind in KINDS {
        let (judge, server) = kind.make(Behind::StallsThenAnswers).await;
        let waiting = tokio::spawn({
            let judge = Arc::clone(&judge);
            async move { ask(&*judge, AMPLE).await }
        });
        match &server {
            Some(server) => server.wait_for_requests(1).await,
            None => tokio::task::yield_now().await,
        }
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled(), "{kind:?}");
        assert!(ask(&*judge, AMPLE).await.is_ok(), "{kind:?}");
    }
}

#[tokio::test]
async fn questions_do_not_wait_for_each_other() {
    for kind in KINDS {
        let (judge, _server) = kind.make(Behind::Answers).await;
        let replies = join_all((0..32).map(|_| ask(&*judge, AMPLE))).await;
        assert!(replies.iter().all(Result::is_ok), "{kind:?}");

        // One that stalls holds up nobody.
        let (judge, server) = kind.make(Behind::StallsThenAnswers).await;
        let stalled = tokio::spawn({
            let judge = Arc::clone(&judge);
            async move { ask(&*judge, AMPLE).await }
        });
        match &server {
            Some(server) => server.wait_for_requests(1).await,
            None => tokio::task::yield_now().await,
        }
        let replies = join_all((0..8).map(|_| ask(&*judge, AMPLE))).await;
        assert!(replies.iter().all(Result::is_ok), "{kind:?}");
        assert!(!stalled.is_finished(), "{kind:?}");
        stalled.abort();
    }
}

#[tokio::test]
async fn every_judge_can_be_warmed_up_or_says_why_not() {
    for kind in KINDS {
        let (judge, _server) = kind.make(Behind::Answers).await;
        let outcome = judge.warm_up(&prompt(), Instant::now() + AMPLE).await;
        assert!(outcome.is_ok(), "{kind:?}");
    }
}

/// The judge where there is none has one answer to everything.
#[tokio::test]
async fn no_judge_at_all() {
    for (judge, expected) in [
        (Unavailable::not_configured(), JudgeFailure::NotConfigured),
        (Unavailable::switched_off(), JudgeFailure::SwitchedOff),
    ] {
        let replies = join_all((0..8).map(|_| ask(&judge, AMPLE))).await;
        assert!(replies.iter().all(|reply| *reply == Err(expected)));
        let warm: Result<Tokens, _> = judge.warm_up(&prompt(), Instant::now() + AMPLE).await;
        assert_eq!(warm, Err(expected));
    }
}

/// Nothing but tests and the evaluation may make a scripted judge.
#[test]
fn the_scripted_judge_is_used_nowhere_else() {
    fn walk(folder: &std::path::Path, users: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, users);
                continue;
            }
            let source = std::fs::read_to_string(&path).unwrap();
            let product = source.split("#[cfg(test)]").next().unwrap_or_default();
            if product.contains("Scripted") || product.contains("scripted::") {
                let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
                users.push(path.strip_prefix(root).unwrap().display().to_string());
            }
        }
    }
    let mut users = Vec::new();
    walk(&std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut users);
    users.retain(|user| !user.starts_with("eval/"));
    assert_eq!(users, ["judge/scripted.rs"]);
}
