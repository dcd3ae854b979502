//! Times as people read them.

use jiff::Timestamp;

/// `2026-11-15T21:59:00Z`.
pub(crate) fn clock(unix_ns: u64) -> String {
    moment(unix_ns).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// `2026-11-15`.
pub(crate) fn day(unix_ns: u64) -> String {
    moment(unix_ns).strftime("%Y-%m-%d").to_string()
}

/// `21:59:00`.
pub(crate) fn of_day(unix_ns: u64) -> String {
    moment(unix_ns).strftime("%H:%M:%S").to_string()
}

fn moment(unix_ns: u64) -> Timestamp {
    Timestamp::from_nanosecond(unix_ns.into()).unwrap_or(Timestamp::UNIX_EPOCH)
}
