//! What work costs, whatever else runs on the machine.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Time that this thread had a processor, so that other work on the machine does not count; where
/// the system does not tell, time on the clock.
pub(crate) fn now() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    // Linux counts a thread's time at its ticks, and exactly when it gives the processor up.
    std::thread::yield_now();
    let on_processor = std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| text.split(' ').next()?.parse().ok())
        .map(Duration::from_nanos);
    on_processor.unwrap_or_else(|| START.elapsed())
}
