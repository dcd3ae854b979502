//! A machine on which a container of two processes is stopped for its quota, among others that want its cores.

use super::{RowByRow, START, ran};
use crosstalk_model::{Placement, TaskRow};
use std::path::Path;
use std::sync::Arc;

const MS: u64 = 1_000_000;
/// What a recorder writes at once, and the kernel's usual period of quotas.
const PERIOD_MS: u64 = 100;
/// The cgroup that has the quota; everybody else is in another.
const CGROUP: u64 = 7;

/// As the source `throttling` delivers it, less its names.
struct Stopped {
    slot_start_ns: u64,
    throttled_ns: u64,
}

crosstalk_model::dataset! {
    Stopped: "throttling", "one row per cgroup that was stopped, ten times a second",
    by |row| row.slot_start_ns,
    covers_ns [int] "ns" "the time the row tells of" = |_row| PERIOD_MS * MS;
    cgroup_id [int] "" "inode number of the cgroup, as in tasks" = |_row| CGROUP;
    throttled_ns [int] "ns" "time it was stopped, summed over cores" = |row| row.throttled_ns;
}

/// In each period `web` runs for 20 ms of core 0 and is stopped for 55 ms of the rest, `helper` for 10 and 60 of core 1.
/// Others have the cores meanwhile: a batch job that rests now and then, and one that never does.
pub(crate) fn record_quotas(out: &Path, seconds: u64) {
    let mut recording = RowByRow::create(out, "limited", MS);
    let (nowhere, web) = (Placement::default(), named("web"));
    for period in 0..seconds * 1_000 / PERIOD_MS {
        let at = |ms: u64| START + (period * PERIOD_MS + ms) * MS;
        // Work differs from period to period, and the batch job comes and goes.
        let (longer_ms, batch_runs) = (period * 7 % 5, period / 13 % 3 > 0);
        let mut rows: Vec<TaskRow> = Vec::new();
        let mut run = |core, who: (u32, &str), from_ms: u64, to_ms: u64, waited_ms: u64| {
            let placed = if who.0 < 200 { &web } else { &nowhere };
            for ms in from_ms..to_ms {
                let waited_ns = if ms == from_ms { waited_ms * MS } else { 0 };
                let mut row = ran(at(ms), core, who, MS, waited_ns, placed);
                row.task.cgroup_id = if who.0 < 200 { CGROUP } else { 1 };
                rows.push(row);
            }
        };
        let web_ms = 20 + longer_ms;
        run(0, (101, "web"), 0, web_ms, if batch_runs { 75 } else { 55 });
        if batch_runs {
            run(0, (201, "batch"), web_ms, PERIOD_MS, web_ms);
        }
        run(1, (202, "stream"), 0, 30, 10);
        run(1, (102, "helper"), 30, 40, 90);
        run(1, (202, "stream"), 40, PERIOD_MS, 10);
        rows.sort_by_key(|row| (row.task.process.pid, row.slot_start_ns));
        recording.put(&rows);
        // Of what the two wait for together, some is for the others: it is more than each was stopped.
        recording.put(&[Stopped { slot_start_ns: at(60), throttled_ns: 60 * MS }]);
    }
    recording.finish();
}

fn named(container: &str) -> Placement {
    Placement { container_name: Some(Arc::from(container)), ..Placement::default() }
}
