//! approver: decides which tool calls of AI agents may run without a person, and hands all others to
//! one. This page is the map of the code.
//!
//! A judgement has three steps, and only the middle one touches the world:
//!
//! ```text
//! plan (pure)  →  ask (a judge)  →  settle (pure)
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`decide`] | the pure core: a whole judgement but for the question itself. Start here: [`decide::plan`], [`decide::settle()`] |
//! | [`decide::policy`] | an organisation's policy: from JSON to a [`decide::policy::Policy`] or every problem at once; what it makes of a tool and a mode |
//! | [`decide::eligibility`] | which calls a machine may look at: one gate a file, and the proof [`decide::eligibility::Eligible`] |
//! | [`decide::novelty`] | what an argument carries that nobody asked for: one detector a file |
//! | [`decide::prompt`] | what a judge is asked, byte for byte; its text is in `prompts/` |
//! | [`decide::verdict`] | what a judge's reply comes to, and whether its evidence is there |
//! | [`decide::reason`] | every reason to wait for a person: code and sentence |
//! | [`files`] | files that a person names, read up to a limit |
//! | [`host`] | others' formats in and out, one adapter a file |
//! | [`judge`] | the trait of whoever answers a question, and its implementations |
//! | [`store`] | what the service keeps, on SQLite and PostgreSQL: approvals, decisions, turns, grants, tokens |
//! | [`service`] | what the doors share: plan → ask → settle, recording, decisions, claims, keys |
//! | [`http`] | the doors over HTTP: one resource a file |
//! | [`eval`] | fixtures and external cases → runs → figures |
//! | [`config`] | file, environment and flags, resolved once |
//! | [`cli`] | one command a file |
//!
//! A module uses only those above it in this table, down to [`decide`], which uses nothing of ours;
//! `host`, `judge` and `store` know [`decide`] and not each other, and [`files`] is for the last three alone (`tests/it/tidy.rs` holds that).
//!
//! To add a detector or a gate: a file in its folder, a line in its `mod.rs`, a fixture. A reason: a
//! variant in [`decide::reason::Reason`], and the compiler finds the rest. A judge: a file in
//! [`judge`], and the conformance tests in `tests/it`. A command: a file in [`cli`].
//!
//! What the types prove: only [`decide::eligibility::check`] makes an `Eligible`, a question is made
//! only of one and of a scan that found nothing, and an
//! [`AutomaticApproval`](decide::approval::AutomaticApproval) only of these and of evidence that
//! code looked up. There is no other way to an approval, and no failure on the way is one.

pub mod cli;
pub mod config;
pub mod decide;
pub mod eval;
pub mod files;
pub mod host;
pub mod http;
pub mod judge;
pub mod service;
pub mod store;
