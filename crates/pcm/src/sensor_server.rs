//! The JSON of `pcm-sensor-server`.

use crate::error::PcmError;
use crate::metrics::{NodeMetrics, share};
use serde_json::Value;

/// Reads an answer of `/persecond` or `/persecond/N`: counters over the interval it states.
///
/// ```
/// let answer = br#"{
///     "Interval us": 1000000,
///     "Core Aggregate": {"Core Counters": {
///         "Instructions Retired Any": 3000, "Clock Unhalted Thread": 2000
///     }},
///     "Uncore Aggregate": {"Uncore Counters": {"DRAM Reads": 64, "DRAM Writes": 32}}
/// }"#;
/// let metrics = crosstalk_pcm::parse_sensor_server(answer)?;
/// assert_eq!(metrics.ipc, Some(1.5));
/// assert_eq!(metrics.mem_bw_total, Some(96.0));
/// assert_eq!(metrics.llc_occupancy, None);
/// # Ok::<(), crosstalk_pcm::PcmError>(())
/// ```
///
/// # Errors
/// If the answer is not JSON, or lacks the interval or the aggregates.
pub fn parse_sensor_server(answer: &[u8]) -> Result<NodeMetrics, PcmError> {
    let answer: Value = serde_json::from_slice(answer)
        .map_err(|error| PcmError::NotJson { reason: error.to_string() })?;
    let seconds = count(&answer, "Interval us")
        .filter(|interval| *interval > 0.0)
        .ok_or(PcmError::NotASensorAnswer { missing: "Interval us" })?
        / 1e6;
    let (core, uncore) = (&answer["Core Aggregate"], &answer["Uncore Aggregate"]);
    if !core.is_object() && !uncore.is_object() {
        return Err(PcmError::NotASensorAnswer { missing: "Core Aggregate" });
    }
    let core_counters = &core["Core Counters"];
    let uncore_counters = &uncore["Uncore Counters"];
    let instructions = count(core_counters, "Instructions Retired Any");
    let misses = count(core_counters, "L3 Cache Misses");
    let look_ups = misses.zip(count(core_counters, "L3 Cache Hits")).map(|(m, h)| m + h);
    let rate = |name| count(uncore_counters, name).map(|bytes| bytes / seconds);
    Ok(NodeMetrics {
        cpu_util: count(&core["Energy Counters"], "CStateResidency[0]").and_then(share),
        ipc: ratio(instructions, count(core_counters, "Clock Unhalted Thread")),
        freq_mhz: count(core_counters, "Core Frequency")
            .filter(|hertz| *hertz > 0.0)
            .map(|hertz| hertz / 1e6),
        mem_bw_read: rate("DRAM Reads"),
        mem_bw_write: rate("DRAM Writes"),
        mem_bw_total: None,
        cache_miss: ratio(misses, look_ups),
        llc_mpki: ratio(misses, instructions).map(|misses| misses * 1e3),
        llc_occupancy: occupancy(&answer),
    }
    .with_total())
}

/// KiB per socket; the system's aggregate does not add them up.
fn occupancy(answer: &Value) -> Option<f64> {
    let sockets = answer["Sockets"].as_array().filter(|sockets| !sockets.is_empty())?;
    let of_socket =
        |socket: &Value| count(&socket["Core Aggregate"]["Core Counters"], "L3 Cache Occupancy");
    let kib: Option<f64> = sockets.iter().map(of_socket).sum();
    kib.map(|kib| kib * 1024.0)
}

/// A counter, unless it is absent or one of the marks PCM prints for "not available": all bits
/// set, or a large negative number.
fn count(object: &Value, name: &str) -> Option<f64> {
    let not_available = 2_f64.powi(63);
    object[name].as_f64().filter(|value| (0.0..not_available).contains(value))
}

fn ratio(part: Option<f64>, whole: Option<f64>) -> Option<f64> {
    let (part, whole) = part.zip(whole)?;
    (whole > 0.0).then(|| part / whole)
}
