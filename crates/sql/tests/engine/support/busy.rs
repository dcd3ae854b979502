//! A machine that builds: compilers come, go and change cores, more of them than there are seats, and two processes stay.

use super::START;
use crosstalk_model::{Comm, Placement, ProcessId, Row, Table, TaskReading, TaskRow};
use crosstalk_recording::{Format, Layout, Metadata, Recording, RecordingOptions, Run};
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const SLOT_NS: u64 = 1_000_000;
/// A recorder writes this many slots at once, sorted by process.
const FLUSH_SLOTS: u64 = 500;
/// So many run at any time, beside those that stay.
const SHORT_LIVED: usize = 44;
/// One in so many turns ends on the other core.
const MOVES: u64 = 8;
/// One in so many slots of a core is written with the next flush, as that of a core that went idle is.
const LATE: u64 = 50;

/// The same numbers every time.
struct Random(u64);

impl Random {
    fn between(&mut self, low: u64, high: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        low + self.0 % (high - low)
    }
}

#[derive(Clone, Copy)]
struct Process {
    pid: u32,
    comm: &'static str,
    start_ns: u64,
    /// When it ends.
    end_ns: u64,
    waits_since_ns: u64,
}

/// Rows by slot, core and process: how long it ran, how long it had waited.
type Rows = BTreeMap<(u64, u32, u32), (Process, u64, u64)>;

/// Records so many seconds of it.
pub(crate) fn record_build(out: &Path, seconds: u64) {
    let mut random = Random(88_172_645_463_325_252);
    let rows = take_turns(START + seconds * 1_000_000_000, &mut random);
    let options = RecordingOptions {
        out: out.to_owned(),
        append: true,
        format: Format::Parquet,
        layout: Layout::Hive,
        rotate_bytes: u64::MAX,
        rotate_after: Duration::from_secs(20),
    };
    let about = Metadata::default().with("slot_ns", SLOT_NS);
    let (mut recording, _) = Recording::create(options, Run::new("build", START), about).unwrap();
    recording.open(TaskRow::DATASET, START).unwrap();
    let mut flushes: BTreeMap<u64, Vec<TaskRow>> = BTreeMap::new();
    for ((slot_ns, core, _), (process, ran_ns, waited_ns)) in rows {
        let is_late = u64::from((slot_ns / SLOT_NS * 31 + u64::from(core)).is_multiple_of(LATE));
        let flush = (slot_ns - START) / (FLUSH_SLOTS * SLOT_NS) + is_late;
        flushes.entry(flush).or_default().push(row(slot_ns, core, &process, ran_ns, waited_ns));
    }
    for (_, mut rows) in flushes {
        rows.sort_by_key(|row| (row.task.process.pid, row.task.core, row.slot_start_ns));
        recording.write(Table::of(rows.iter().collect())).unwrap();
    }
    recording.finish().unwrap();
}

/// Threads on two cores in turns, each as long as it happens to be; whoever ended is followed by somebody new.
fn take_turns(end_ns: u64, random: &mut Random) -> Rows {
    let (mut rows, mut pid) = (Rows::new(), 100);
    let mut begin = |comm, now_ns: u64, lives_ns: u64| {
        pid += 1;
        let start_ns = now_ns - now_ns % 10_000_000;
        Process { pid, comm, start_ns, end_ns: now_ns + lives_ns, waits_since_ns: now_ns }
    };
    let stay = ["chase", "rust-lld"].map(|comm| begin(comm, START, u64::MAX / 4));
    // Two threads of the one that links.
    let mut queues = [VecDeque::from([stay[0], stay[1]]), VecDeque::from([stay[1]])];
    for at in 0..SHORT_LIVED {
        queues[at % 2].push_back(begin("rustc", START, lifetime(random)));
    }
    let mut now = [START; 2];
    while now[0].min(now[1]) < end_ns {
        let core = usize::from(now[1] < now[0]);
        let Some(mut process) = queues[core].pop_front() else {
            now[core] += SLOT_NS;
            continue;
        };
        let mut now_ns = now[core].max(process.waits_since_ns);
        let until_ns = now_ns + random.between(100_000, 1_500_000);
        let mut waited_ns = now_ns - process.waits_since_ns;
        while now_ns < until_ns {
            let slot_ns = now_ns - now_ns % SLOT_NS;
            let part_ns = until_ns.min(slot_ns + SLOT_NS) - now_ns;
            let key = (slot_ns, core as u32, process.pid);
            let sums = rows.entry(key).or_insert((process, 0, 0));
            sums.1 += part_ns;
            sums.2 += std::mem::take(&mut waited_ns);
            now_ns += part_ns;
        }
        now[core] = now_ns;
        if process.end_ns <= now_ns {
            process = begin("rustc", now_ns, lifetime(random));
        }
        process.waits_since_ns = now_ns;
        let moves = random.between(0, MOVES) == 0;
        queues[if moves { 1 - core } else { core }].push_back(process);
    }
    rows
}

/// Most are gone before they could have a seat.
fn lifetime(random: &mut Random) -> u64 {
    match random.between(0, 4) {
        0 => random.between(300_000_000, 4_000_000_000),
        _ => random.between(5_000_000, 200_000_000),
    }
}

fn row(slot_start_ns: u64, core: u32, who: &Process, ran_ns: u64, waited_ns: u64) -> TaskRow {
    let task = TaskReading {
        slot_start_ns,
        process: ProcessId { pid: who.pid, start_ns: who.start_ns },
        parent: None,
        comm: Comm::from_text(who.comm),
        core,
        freq_mhz: None,
        cycles: None,
        instructions: None,
        llc_misses: None,
        on_cpu_ns: ran_ns,
        runq_wait_ns: Some(waited_ns),
        switches: 1,
        voluntary_switches: 1,
        page_faults: 0,
        migrations: Some(0),
        multiplexed: None,
        cgroup_id: 1,
    };
    TaskRow::new(task, Arc::new(Placement::default()))
}
