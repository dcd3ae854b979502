//! What it takes to write a recording down and to finish it: no more for a long one than for a short one.
#![allow(unsafe_code, clippy::unwrap_used)] // an allocator is unsafe by nature

use crosstalk_model::{
    Batch, Comm, Placement, ProcessId, SlotCoverage, SlotLength, TaskReading, TaskRow,
};
use crosstalk_recording::{Format, Layout, Metadata, Recording, RecordingOptions, Run};
use std::alloc::{GlobalAlloc, Layout as Shape, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

struct Weighing;

static HELD: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands every call on to the system's allocator, unchanged.
unsafe impl GlobalAlloc for Weighing {
    unsafe fn alloc(&self, shape: Shape) -> *mut u8 {
        let held = HELD.fetch_add(shape.size(), Ordering::Relaxed) + shape.size();
        MOST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(shape) }
    }
    unsafe fn dealloc(&self, at: *mut u8, shape: Shape) {
        HELD.fetch_sub(shape.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, shape) }
    }
}

#[global_allocator]
static ALLOCATOR: Weighing = Weighing;

const START_NS: u64 = 1_767_225_600_000_000_000;
/// Slots that are written at once: half a second.
const FLUSH: u64 = 500;
/// Rows of a slot: what two cores show while a program is built.
const ROWS: u64 = 8;

fn task(slot: u64, at: u64, place: &Arc<Placement>) -> TaskRow {
    // No two rows alike, as counters have it.
    let mixed = (slot * ROWS + at).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    let process =
        ProcessId { pid: 1_000 + (slot / 50 * ROWS + at) as u32, start_ns: START_NS - 1_000 };
    let task = TaskReading {
        slot_start_ns: START_NS + slot * SlotLength::MILLISECOND.nanos(),
        process,
        parent: None,
        comm: Comm::from_text(&format!("cc1-{}", process.pid)),
        core: (at % 2) as u32,
        freq_mhz: Some(2_000 + (mixed % 900) as u32),
        cycles: Some(mixed % 3_000_000),
        instructions: Some(mixed % 4_000_000),
        llc_misses: Some(mixed % 5_000),
        on_cpu_ns: mixed % 1_000_000,
        runq_wait_ns: Some(mixed % 700_000),
        switches: (mixed % 40) as u32,
        voluntary_switches: (mixed % 20) as u32,
        page_faults: (mixed % 300) as u32,
        migrations: Some((mixed % 3) as u32),
        multiplexed: Some(false),
        cgroup_id: 42,
    };
    TaskRow::new(task, Arc::clone(place))
}

/// The most that was held while a recording of so many seconds was finished, beyond what was held before it.
fn to_finish(seconds: u64) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let options = RecordingOptions {
        out: folder.path().to_owned(),
        append: false,
        format: Format::Parquet,
        layout: Layout::Flat,
        rotate_bytes: 256 << 20,
        rotate_after: Duration::from_secs(600),
    };
    let before = HELD.load(Ordering::Relaxed);
    let run = Run::new("node", START_NS);
    let (mut recording, _) = Recording::create(options, run, Metadata::default()).unwrap();
    let place = Arc::new(Placement::default());
    for first in (0..seconds * 1_000).step_by(FLUSH as usize) {
        let slots = first..first + FLUSH;
        let tasks = slots.clone().flat_map(|slot| (0..ROWS).map(move |at| (slot, at)));
        let tasks = Batch::new(tasks.map(|(slot, at)| task(slot, at, &place)).collect());
        let covered = slots.flat_map(|slot| {
            let slot_ns = START_NS + slot * SlotLength::MILLISECOND.nanos();
            (0..2).map(move |core| SlotCoverage::lost(slot_ns, core, 0))
        });
        for batch in [tasks, Batch::new(covered.collect())] {
            let table = Batch::table(&[batch]).unwrap();
            recording.open(table.dataset, table.first_slot_ns).unwrap();
            recording.write(table).unwrap();
        }
    }
    MOST.store(HELD.load(Ordering::Relaxed), Ordering::Relaxed);
    let files = recording.finish().unwrap();
    let rows: u64 = files.iter().map(|file| file.rows).sum();
    assert_eq!(rows, seconds * 1_000 * (ROWS + 2));
    MOST.load(Ordering::Relaxed) - before
}

#[test]
fn a_recording_of_minutes_takes_no_more_memory_to_finish_than_one_of_half_a_minute() {
    let mib = |bytes: usize| bytes as f64 / (1 << 20) as f64;
    let (short, long) = (mib(to_finish(30)), mib(to_finish(120)));
    eprintln!("{short:.1} MiB for 30 s, {long:.1} MiB for 120 s");
    assert!(long < short + 4.0, "{short:.1} MiB for 30 s, {long:.1} MiB for 120 s");
}
