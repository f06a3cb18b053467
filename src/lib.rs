//! stub
pub mod cli;
pub mod config;
pub mod decide;
pub mod host;
pub mod judge;
pub mod service;
pub mod store;
