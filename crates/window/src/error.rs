use std::time::Duration;

/// What a buffer refuses, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WindowError {
    /// A buffer needs something to hold.
    #[error("a buffer needs at least one metric; none was named")]
    NoMetrics,
    /// Retention of no time keeps nothing.
    #[error("retention is zero; keep at least one sampling period, such as 30 s")]
    NoRetention,
    /// Capacity of no samples keeps nothing.
    #[error("capacity is zero samples; keep at least retention divided by the sampling period")]
    NoCapacity,
    /// The sample has another number of values than the buffer has metrics.
    #[error("sample has {got} values; the buffer holds {expected} metrics")]
    WrongWidth {
        /// Metrics of the buffer.
        expected: usize,
        /// Values of the sample.
        got: usize,
    },
    /// The sample ends no later than the one before it.
    #[error("sample ends at {end_ns} ns, not after the newest at {newest_ns} ns; it was dropped")]
    OutOfOrder {
        /// End of the refused sample.
        end_ns: u64,
        /// End of the newest sample held.
        newest_ns: u64,
    },
    /// The sample covers no time, so it can have no weight.
    #[error("sample at {end_ns} ns covers no time; give it the time since the previous sample")]
    NoLength {
        /// End of the refused sample.
        end_ns: u64,
    },
    /// The asked window has no length.
    #[error("window of zero length; ask for more than 0 s and at most {} s", .kept.as_secs_f64())]
    EmptyWindow {
        /// How far back the buffer reaches.
        kept: Duration,
    },
    /// The asked window is longer than what is kept.
    #[error(
        "window of {} s is longer than the {} s kept; ask for less or raise the retention",
        .asked.as_secs_f64(), .kept.as_secs_f64()
    )]
    TooLong {
        /// The length asked for.
        asked: Duration,
        /// How far back the buffer reaches.
        kept: Duration,
    },
}
