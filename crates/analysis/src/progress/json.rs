//! Progress as JSON: lines of `crosstalk workload`, records of a log shipper, and the processor's answer.

use super::Progress;
use super::log::join;
use crosstalk_training_log::{Metric, Performance, timestamp};
use serde::Deserialize;
use serde_json::Value;

/// What a line was.
pub(super) enum Line {
    /// Progress, or an event of a workload that is none.
    Taken,
    /// A log line that a shipper wrapped, with its time.
    Log(String, Option<u64>),
    /// Not JSON.
    Other,
}

/// Takes a line such as `{"event":"progress","unix_ns":1794779000000000000,"pieces":300,"pid":4711}`: `pieces` counts
/// from the start, `units` since the line before.
pub(super) fn line(text: &str, total: &mut Total, progress: &mut Progress) -> Line {
    let Some(Value::Object(said)) =
        text.trim_start().starts_with('{').then(|| serde_json::from_str(text).ok()).flatten()
    else {
        return Line::Other;
    };
    let time = ["unix_ns", "time", "timestamp", "date"].iter().find_map(|key| said.get(*key));
    let at_ns = time.and_then(when);
    if let Some(log) = ["log", "message", "msg"].iter().find_map(|key| said.get(*key)?.as_str()) {
        return Line::Log(log.to_owned(), at_ns);
    }
    if let Some(pid) = said.get("pid").and_then(Value::as_i64) {
        progress.pid = Some(pid);
    }
    let number = |key: &str| said.get(key).and_then(Value::as_f64);
    match (at_ns, number("pieces"), number("units")) {
        (Some(at_ns), Some(pieces), _) => progress.add(at_ns, total.since(pieces)),
        (Some(at_ns), None, Some(units)) => progress.add(at_ns, units),
        _ => {}
    }
    Line::Taken
}

fn when(value: &Value) -> Option<u64> {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    timestamp::parse(&text).ok().map(i64::unsigned_abs)
}

/// A count from the start; where it falls, somebody began anew.
#[derive(Default)]
pub(super) struct Total(Option<f64>);

impl Total {
    /// How many since the time before.
    fn since(&mut self, total: f64) -> f64 {
        let before = self.0.replace(total);
        before.map_or(0.0, |before| if total >= before { total - before } else { total })
    }
}

#[derive(Deserialize)]
struct Series {
    points: Vec<SeriesPoint>,
}

#[derive(Deserialize)]
struct SeriesPoint {
    iteration: u64,
    created_at: u64,
    #[serde(default)]
    performance: Performance,
}

/// Takes the answer of `GET /workloads/UID/training`.
pub(super) fn series(text: &str, progress: &mut Progress) -> Result<(), String> {
    let series: Series = serde_json::from_str(text).map_err(|error| {
        format!("neither JSON lines nor the answer of GET /workloads/UID/training: {error}")
    })?;
    let said = series.points.iter().map(|point| {
        let ms = point.performance.get(Metric::ElapsedTimePerIterationMs);
        (point.iteration, point.created_at, ms.map(|ms| ms / 1e3))
    });
    progress.add_iterations(join(said));
    Ok(())
}
