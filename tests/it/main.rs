//! Integration tests, one binary.

mod eval;
mod eval_command;
mod eval_load;
mod eval_run;
mod faults;
mod judge_conformance;
mod judge_http;
mod judge_wire;
mod plan;
mod policy;
mod prompts;
mod service;
mod settle;
mod tidy;
