//! One test binary for everything that crosses modules.

mod judge_conformance;
mod judge_http;
mod faults;
mod plan;
mod settle;
mod prompts;
mod tidy;
