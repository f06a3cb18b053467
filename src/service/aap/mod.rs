//! The Agent Approval Protocol's door: instances that ask, their requests, and who is told when one
//! ends.
//!
//! What an agent says of itself is a claim here. Its instance, and with it the agent version, comes
//! from its token alone.

mod address;
pub mod deliveries;
pub mod instances;
mod rates;
mod receiver;
pub mod requests;
mod verification;

use std::time::SystemTime;

use crate::store::Timestamp;

pub use address::is_public;
pub(in crate::service) use rates::Rates;
pub use receiver::sign;
pub use verification::check_url;

/// The surface of every conversation at this door, and of no other's.
pub const SURFACE: &str = "aap";

/// As times are written on the wire.
fn rfc3339(time: Timestamp) -> String {
    let whole = time.unix_millis() % 1_000 == 0;
    let time = SystemTime::from(time);
    if whole {
        humantime::format_rfc3339_seconds(time).to_string()
    } else {
        humantime::format_rfc3339_millis(time).to_string()
    }
}
