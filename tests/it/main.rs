//! Integration tests, one binary.

mod faults;
mod judge_conformance;
mod judge_http;
mod judge_wire;
mod plan;
mod policy;
mod prompts;
mod settle;
mod store;
mod tidy;
