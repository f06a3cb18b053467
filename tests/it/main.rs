//! Integration tests, one binary.

mod approvals_command;
mod approvals_terminal;
mod cases;
mod crash;
mod doors;
mod eval;
mod eval_command;
mod eval_load;
mod eval_run;
mod faults;
mod fuzz;
mod gateway;
mod judge_command;
mod judge_conformance;
mod judge_http;
mod judge_wire;
#[cfg(feature = "live-tests")]
mod live;
mod novelty;
mod novelty_properties;
mod plan;
mod policy;
mod policy_command;
mod process;
mod prompts;
mod readme;
mod serve_command;
mod service;
mod settle;
mod store;
mod tidy;
mod trial;
