//! The files of SQL, with what differs from run to run put in.

use crosstalk_analysis::{Asked, Statistic, SubjectKind};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::ops::Range;

/// The columns that `tasks` has: older recordings have fewer.
#[derive(Clone, Debug, Default)]
pub struct Columns(pub BTreeSet<String>);

/// Columns that may be lacking: then nothing of them was measured.
const OPTIONAL: [&str; 7] = [
    "runq_wait_ns",
    "voluntary_switches",
    "cycles",
    "instructions",
    "llc_misses",
    "freq_mhz",
    "cgroup_id",
];

/// Slots that are looked back on from a wait.
pub(crate) const LOOK_BACK: u64 = 64;
/// The longest time that a reading of stolen time is divided over.
pub(crate) const STEAL_NS: u64 = 2_000_000_000;
/// What a quota did so long before a stretch may explain waits in it: ten readings.
pub(crate) const QUOTA_NS: u64 = 1_000_000_000;

/// The SQL of a statistic, as its file has it.
pub const fn file(what: Statistic) -> &'static str {
    match what {
        Statistic::Coverage => include_str!("coverage.sql"),
        Statistic::Bins => include_str!("bins.sql"),
        Statistic::Names => include_str!("names.sql"),
        Statistic::Sums => include_str!("sums.sql"),
        Statistic::Exposures => include_str!("exposures.sql"),
        Statistic::Throttled => include_str!("throttled.sql"),
        Statistic::ThrottledWaits => include_str!("throttled_waits.sql"),
        Statistic::Waits => include_str!("waits.sql"),
        Statistic::Probe => include_str!("probe.sql"),
        Statistic::ProbeExposures => include_str!("probe_exposures.sql"),
        Statistic::Steal => include_str!("steal.sql"),
    }
}

/// The SQL of a statistic of a run.
pub fn statement(what: Statistic, of: &Asked<'_>) -> String {
    let ranges = |before: u64, after: u64| within(&of.stretches, before, after);
    let (waiting, wait_ns) = match what {
        Statistic::Waits => waiting(&own_quota(of)),
        _ => Default::default(),
    };
    file(what)
        .replace("{waiting}", &waiting)
        .replace("{wait_ns}", wait_ns)
        .replace("{kept}", &ranges(0, 0))
        .replace("{near}", &ranges(LOOK_BACK * of.slot_ns, 0))
        .replace("{told}", &ranges(0, STEAL_NS))
        .replace("{looked}", &ranges(QUOTA_NS, 0))
        .replace("{run}", &run(of, ""))
        .replace("{slot_ns}", &of.slot_ns.to_string())
        .replace("{bin_ns}", &of.bin_ns.to_string())
}

/// The views that the statistics of a run stand on, in order.
pub fn prepare(of: &Asked<'_>, columns: &Columns, has_losses: bool) -> Vec<String> {
    let activity = activity(of, columns, &run(of, "t."), has_losses);
    let mut views = vec![
        format!("CREATE OR REPLACE VIEW lossy AS {}", lossy(of, &run(of, ""))),
        format!("CREATE OR REPLACE VIEW cores AS {}", cores(of)),
        format!("CREATE OR REPLACE VIEW activity AS {activity}"),
    ];
    if of.datasets.contains(&"probe") {
        views.push(format!("CREATE OR REPLACE VIEW bursts AS {}", bursts(of, &run(of, "p."))));
    }
    views
}

pub(crate) fn lossy(of: &Asked<'_>, run: &str) -> String {
    if of.datasets.contains(&"slots") {
        include_str!("lossy.sql").replace("{run}", run)
    } else {
        "SELECT CAST(0 AS BIGINT) AS lossy_ns WHERE 1 = 0".to_owned()
    }
}

pub(crate) fn bursts(of: &Asked<'_>, run: &str) -> String {
    let text = include_str!("bursts.sql").replace("{run}", run);
    text.replace("{bin_ns}", &of.bin_ns.to_string())
}

/// A query that counts the slots of which rows were lost.
pub fn losses(of: &Asked<'_>) -> String {
    format!("SELECT count(*) AS lossy FROM ({}) l", lossy(of, &run(of, "")))
}

/// Without losses there is nothing to join with. With some, they are the side that the join holds in memory, which is the
/// first where nothing is known of how large both are: it does not go to disk, and all rows of an hour are a gigabyte.
pub(crate) fn activity(of: &Asked<'_>, columns: &Columns, run: &str, has_losses: bool) -> String {
    let (lost, tasks) = match has_losses {
        true => (
            "CASE WHEN l.lossy_ns IS NULL THEN 0 ELSE 1 END",
            "lossy l RIGHT JOIN tasks t ON l.lossy_ns = t.slot_start_ns",
        ),
        false => ("0", "tasks t"),
    };
    let mut text = include_str!("activity.sql")
        .replace("{lost}", lost)
        .replace("{tasks}", tasks)
        .replace("{run}", run)
        .replace("{bin_ns}", &of.bin_ns.to_string())
        .replace("{subject}", subject(of.subject));
    for name in OPTIONAL {
        let has = columns.0.contains(name);
        let value = if has { format!("t.{name}") } else { "CAST(NULL AS BIGINT)".to_owned() };
        text = text.replace(&format!("{{{name}}}"), &value);
    }
    text
}

/// Who a row's subject is.
fn subject(kind: SubjectKind) -> &'static str {
    match kind {
        SubjectKind::Process => "t.process_start_ns - t.process_start_ns % 10000000 + t.pid",
        SubjectKind::Container => {
            "coalesce(t.container_name, substr(t.container_id, 1, 12), \
             concat('process/', CAST(t.pid AS STRING), '/', CAST(t.process_start_ns AS STRING)))"
        }
        SubjectKind::Pod => {
            "coalesce(CASE WHEN t.pod_namespace IS NULL OR t.pod_name IS NULL THEN t.pod_name \
             ELSE concat(t.pod_namespace, '/', t.pod_name) END, \
             t.container_name, substr(t.container_id, 1, 12), \
             concat('process/', CAST(t.pid AS STRING), '/', CAST(t.process_start_ns AS STRING)))"
        }
        SubjectKind::Workload => {
            "coalesce(t.workload, CASE WHEN t.pod_namespace IS NULL OR t.pod_name IS NULL THEN t.pod_name \
             ELSE concat(t.pod_namespace, '/', t.pod_name) END, \
             t.container_name, substr(t.container_id, 1, 12), \
             concat('process/', CAST(t.pid AS STRING), '/', CAST(t.process_start_ns AS STRING)))"
        }
    }
}

/// Where each core is, as a query.
pub(crate) fn cores(of: &Asked<'_>) -> String {
    let names = "core, physical, cache, memory";
    if of.cores.is_empty() {
        let none = "CAST(0 AS BIGINT)";
        return format!(
            "SELECT {none} AS core, {none} AS physical, {none} AS cache, {none} AS memory WHERE 1 = 0"
        );
    }
    let mut rows = String::new();
    for (core, place) in of.cores.iter().enumerate() {
        let comma = if core == 0 { "" } else { ", " };
        let _ =
            write!(rows, "{comma}({core}, {}, {}, {})", place.physical, place.cache, place.memory);
    }
    format!("SELECT {names} FROM (VALUES {rows}) AS c({names})")
}

/// What of waits in the stretches was for the waiter's own quota, as rows; empty where nothing was.
fn own_quota(of: &Asked<'_>) -> String {
    let mut rows = String::new();
    let within = |slot_ns: u64| of.stretches.iter().any(|stretch| stretch.contains(&slot_ns));
    for own in of.own_quota.iter().filter(|own| within(own.slot_ns)) {
        let comma = if rows.is_empty() { "(VALUES " } else { ", " };
        let _ = write!(rows, "{comma}({}, {}, {}, {})", own.slot_ns, own.core, own.process, own.ns);
    }
    if rows.is_empty() { rows } else { rows + ") AS e(at_ns, at_core, who, own_ns)" }
}

/// Where waits come from, and how long they are without what is told by a relation `own`, the smaller side of the join.
pub(crate) fn waiting(own: &str) -> (String, &'static str) {
    if own.is_empty() {
        return ("activity a".to_owned(), "a.runq_wait_ns");
    }
    let join = "RIGHT JOIN activity a ON e.at_ns = a.slot_start_ns AND e.at_core = a.core AND e.who = a.process";
    (format!("{own} {join}"), "(a.runq_wait_ns - coalesce(e.own_ns, 0))")
}

/// The rows of one run, of tables or of one whose columns have a prefix.
fn run(of: &Asked<'_>, prefix: &str) -> String {
    let quoted = |text: &str| text.replace('\'', "''");
    let mut text =
        format!("{prefix}node = '{}' AND {prefix}run = '{}'", quoted(of.node), quoted(of.run));
    if let Some(time) = &of.time {
        let (start, end) = (time.start.min(i64::MAX as u64), time.end.min(i64::MAX as u64));
        let _ =
            write!(text, " AND {prefix}slot_start_ns >= {start} AND {prefix}slot_start_ns < {end}");
    }
    text
}

/// Slots that begin in one of the stretches, each made longer at its ends.
fn within(stretches: &[Range<u64>], before: u64, after: u64) -> String {
    let mut text = String::new();
    for stretch in stretches {
        let or = if text.is_empty() { "" } else { " OR " };
        let (start, end) = (stretch.start.saturating_sub(before), stretch.end + after);
        let _ = write!(text, "{or}(slot_start_ns >= {start} AND slot_start_ns < {end})");
    }
    if text.is_empty() { "1 = 0".to_owned() } else { format!("({text})") }
}
