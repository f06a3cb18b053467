//! it
mod policy;
mod policy_command;
