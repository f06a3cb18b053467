//! stub
pub mod cli;
pub mod decide;
pub mod judge;
