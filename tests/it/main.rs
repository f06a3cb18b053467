//! it
mod policy;
