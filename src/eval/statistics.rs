//! Figures with their uncertainty: shares with Wilson's interval, percentiles.
//!
//! The reference values of the tests come from SciPy and NumPy (`fixtures/statistics`).

use serde::Serialize;

/// 97.5th percentile of the standard normal distribution: the half-width of a 95 % interval in
/// standard deviations.
const Z_95: f64 = 1.959_963_984_540_054;

/// How many of how many.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share {
    /// Of them, this many.
    pub count: u64,
    /// All.
    pub of: u64,
}

impl Share {
    /// Counts one more, which belongs or does not.
    pub fn add(&mut self, belongs: bool) {
        self.of += 1;
        self.count += u64::from(belongs);
    }

    /// The share, from 0 to 1; `None` of nothing.
    #[must_use]
    pub fn rate(self) -> Option<f64> {
        (self.of > 0).then(|| self.count as f64 / self.of as f64)
    }

    /// Wilson's score interval for the share at 95 %, without continuity correction (Wilson 1927);
    /// `None` of nothing. Unlike the textbook's interval it says something about 0 of n.
    #[must_use]
    pub fn interval(self) -> Option<(f64, f64)> {
        let rate = self.rate()?;
        let of = self.of as f64;
        let square = Z_95 * Z_95;
        let middle = (rate + square / (2.0 * of)) / (1.0 + square / of);
        let half = Z_95 / (1.0 + square / of)
            * (rate * (1.0 - rate) / of + square / (4.0 * of * of)).sqrt();
        // The bounds of 0 of n and of n of n are exact; rounding would leave a trace of dirt.
        let low = if self.count == 0 { 0.0 } else { middle - half };
        let high = if self.count == self.of { 1.0 } else { middle + half };
        Some((low, high))
    }
}

impl Serialize for Share {
    /// `{"count", "of", "rate", "low", "high"}`; the last three are null of nothing.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let interval = self.interval();
        let mut members = serializer.serialize_struct("Share", 5)?;
        members.serialize_field("count", &self.count)?;
        members.serialize_field("of", &self.of)?;
        members.serialize_field("rate", &self.rate())?;
        members.serialize_field("low", &interval.map(|(low, _)| low))?;
        members.serialize_field("high", &interval.map(|(_, high)| high))?;
        members.end()
    }
}

/// A percentile of values that are sorted upwards, by linear interpolation between the two nearest
/// ranks (type 7 of Hyndman and Fan, NumPy's default); `None` of nothing. `percent` from 0 to 100.
#[must_use]
pub fn percentile(sorted: &[f64], percent: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let rank = (percent / 100.0).clamp(0.0, 1.0) * last as f64;
    let below = rank.floor();
    let low = *sorted.get(below as usize)?;
    let high = *sorted.get((below as usize + 1).min(last))?;
    Some(low + (rank - below) * (high - low))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_has_no_figures() {
        assert_eq!(Share::default().rate(), None);
        assert_eq!(Share::default().interval(), None);
        assert_eq!(percentile(&[], 50.0), None);
        let text = serde_json::to_string(&Share::default()).unwrap();
        assert_eq!(text, r#"{"count":0,"of":0,"rate":null,"low":null,"high":null}"#);
    }

    #[test]
    fn bounds_are_exact_at_the_ends() {
        let none = Share { count: 0, of: 10 }.interval().unwrap();
        let all = Share { count: 10, of: 10 }.interval().unwrap();
        assert_eq!((none.0, all.1), (0.0, 1.0));
        assert!((none.1 - (1.0 - all.0)).abs() < 1e-12);
    }
}
