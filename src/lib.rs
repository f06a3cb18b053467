//! stub
pub mod decide;
pub mod host;
pub mod judge;
pub mod service;
