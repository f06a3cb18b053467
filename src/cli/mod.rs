//! The command line: one command a file.

pub mod config;
pub mod judge;
pub mod policy;
pub mod readable;
