//! Host adapters: what others send, as values of [`crate::decide`], and decisions in their words.
//!
//! Each adapter knows one wire format. None of them decides anything, and none knows another's
//! format; what several formats share (one tool's definition, one agent's) has a file of its own.

pub mod aap;
pub mod agent;
pub mod effective_policy;
pub mod gateway;
pub mod items;
pub mod judgement_file;
pub mod report;
pub mod tool;
