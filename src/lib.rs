//! stub
pub mod cli;
pub mod config;
pub mod decide;
pub mod eval;
pub mod host;
pub mod judge;
pub mod service;
