//! A point in time as the store keeps it. Nothing here reads a clock: times are arguments.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The last time that has four digits for its year.
const LAST: i64 = 253_402_300_799_999;

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The time that many milliseconds after 1970.
    #[must_use]
    pub const fn from_unix_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub const fn unix_millis(self) -> i64 {
        self.0
    }

    /// The time `duration` later; the last representable time where there is none.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// The time `duration` earlier; the first representable time where there is none.
    #[must_use]
    pub fn minus(self, duration: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)))
    }

    /// RFC 3339 in UTC: `2026-12-01T10:05:00Z`; milliseconds stand after the seconds where there are
    /// some. Times outside the years 1970 to 9999 become the nearest inside.
    #[must_use]
    pub fn rfc3339(self) -> String {
        let millis = self.0.clamp(0, LAST);
        let time = SystemTime::from(Self(millis));
        if millis % 1_000 == 0 {
            humantime::format_rfc3339_seconds(time).to_string()
        } else {
            humantime::format_rfc3339_millis(time).to_string()
        }
    }
}

/// Times before 1970 become 1970.
impl From<SystemTime> for Timestamp {
    fn from(time: SystemTime) -> Self {
        Self::default().plus(time.duration_since(UNIX_EPOCH).unwrap_or_default())
    }
}

impl From<Timestamp> for SystemTime {
    fn from(time: Timestamp) -> Self {
        UNIX_EPOCH + Duration::from_millis(u64::try_from(time.0).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (millis, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (951_868_800_000, "2000-03-01T00:00:00Z"),
            (1_709_164_800_000, "2024-02-29T00:00:00Z"),
            (1_796_119_500_000, "2026-12-01T10:05:00Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
            (LAST, "9999-12-31T23:59:59.999Z"),
            (i64::MAX, "9999-12-31T23:59:59.999Z"),
            (-1, "1970-01-01T00:00:00Z"),
        ] {
            assert_eq!(Timestamp::from_unix_millis(millis).rfc3339(), expected);
        }
    }
}
