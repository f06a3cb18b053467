//! stub
pub mod decide;
pub mod judge;
