//! A judge that does what a test or an evaluation tells it, without any server.
//!
//! It never opens a socket, and nothing that serves requests makes one: `judge::build` does not
//! know it, and a test searches the source for other users.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;

use super::Judge;
use super::retry::{Attempt, Setback};
use crate::decide::prompt::Prompt;
use crate::decide::verdict::{JudgeFailure, Reply, Tokens};

/// What a scripted judge does with one prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    /// Answers at once.
    Answer(Reply),
    /// Answers with this text after a while, or fails with a timeout when the deadline comes first.
    AnswerAfter(Duration, Reply),
    /// Fails at once.
    Fail(JudgeFailure),
    /// Never answers: a timeout at the deadline.
    Stall,
    /// Panics, as a bug in a judge would.
    Panic,
}

impl Move {
    /// Answers at once with this text, as the model `scripted`, without token counts.
    #[must_use]
    pub fn say(text: impl Into<String>) -> Self {
        Self::Answer(Reply {
            text: text.into(),
            model: "scripted".to_owned(),
            tokens: Tokens::default(),
        })
    }
}

/// A judge that follows a script and remembers what it was asked.
pub struct Scripted {
    script: Script,
    asked: Mutex<Vec<Prompt>>,
}

enum Script {
    Queue(Mutex<VecDeque<Move>>),
    Function(Box<dyn Fn(&Prompt) -> Move + Send + Sync>),
}

impl Scripted {
    /// Makes these moves in this order, one a prompt. It panics when none is left: the script is
    /// too short, which is the test's mistake and no failure of a judge.
    #[must_use]
    pub fn queue(moves: impl IntoIterator<Item = Move>) -> Self {
        Self::new(Script::Queue(Mutex::new(moves.into_iter().collect())))
    }

    /// Makes the move that the function finds for the prompt.
    #[must_use]
    pub fn function(choose: impl Fn(&Prompt) -> Move + Send + Sync + 'static) -> Self {
        Self::new(Script::Function(Box::new(choose)))
    }

    /// Makes the same move every time.
    #[must_use]
    pub fn always(same: Move) -> Self {
        Self::function(move |_| same.clone())
    }

    /// Every prompt so far, in the order of asking.
    #[must_use]
    pub fn asked(&self) -> Vec<Prompt> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn new(script: Script) -> Self {
        Self { script, asked: Mutex::default() }
    }

    fn next_move(&self, prompt: &Prompt) -> Move {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(prompt.clone());
        match &self.script {
            Script::Function(choose) => choose(prompt),
            Script::Queue(moves) => {
                let next = moves.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                let Some(next) = next else {
                    panic!("the scripted judge has no move left");
                };
                next
            }
        }
    }
}

impl Judge for Scripted {
    fn model(&self) -> &str {
        "scripted"
    }

    fn ask<'a>(
        &'a self,
        prompt: &'a Prompt,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Reply, JudgeFailure>> {
        Box::pin(async move {
            match self.next_move(prompt) {
                Move::Answer(reply) => Ok(reply),
                Move::AnswerAfter(pause, reply) => {
                    tokio::time::timeout_at(deadline, tokio::time::sleep(pause))
                        .await
                        .map_err(|_elapsed| JudgeFailure::Timeout)?;
                    Ok(reply)
                }
                Move::Fail(failure) => Err(failure),
                Move::Stall => {
                    tokio::time::sleep_until(deadline).await;
                    Err(JudgeFailure::Timeout)
                }
                Move::Panic => panic!("the scripted judge was told to panic"),
            }
        })
    }
}

impl Attempt for Scripted {
    fn attempt<'a>(
        &'a self,
        prompt: &'a Prompt,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Reply, Setback>> {
        Box::pin(async move { Ok(self.ask(prompt, deadline).await?) })
    }
}
