//! A real model server: llama.cpp's own, with a model far too small to judge.
//!
//! `tests/run` starts the server and turns these tests on (feature `live-tests`); nothing here is
//! skipped without it. What a model says is never asserted, only the protocol: the form of its
//! answers, the server's figures, and that whatever it writes ends as an approval with evidence or
//! at a person.

mod cache;
mod formats;
mod harness;
mod outcomes;
