//! Times on the wire.

use crate::store::Timestamp;

/// The last moment of the year 9999, after which RFC 3339 has no notation.
const LAST: i64 = 253_402_300_799_999;

/// `2026-12-01T10:05:00Z`; milliseconds stand after the seconds where there are some.
#[must_use]
pub fn rfc3339(time: Timestamp) -> String {
    let time = time.min(Timestamp::from_unix_millis(LAST));
    if time.unix_millis() % 1_000 == 0 {
        humantime::format_rfc3339_seconds(time.into()).to_string()
    } else {
        humantime::format_rfc3339_millis(time.into()).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_others_read_it() {
        let shown = |millis| rfc3339(Timestamp::from_unix_millis(millis));
        assert_eq!(shown(0), "1970-01-01T00:00:00Z");
        assert_eq!(shown(1_800_000_000_005), "2027-01-15T08:00:00.005Z");
        assert_eq!(shown(i64::MAX), "9999-12-31T23:59:59.999Z");
    }
}
