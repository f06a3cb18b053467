//! Times on the wire: RFC 3339 in UTC, with `Z`.

use std::time::SystemTime;

use crate::store::Timestamp;

/// `2026-12-01T10:05:00Z`; with milliseconds where there are some.
#[must_use]
pub fn rfc3339(time: Timestamp) -> String {
    let millis = time.unix_millis() % 1_000 != 0;
    let time = SystemTime::from(time);
    if millis {
        humantime::format_rfc3339_millis(time).to_string()
    } else {
        humantime::format_rfc3339_seconds(time).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_rfc_3339() {
        for (millis, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_709_164_800_007, "2024-02-29T00:00:00.007Z"),
            (1_800_000_000_000, "2027-01-15T08:00:00Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(Timestamp::from_unix_millis(millis)), expected);
        }
    }
}
