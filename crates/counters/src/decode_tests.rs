use super::*;
use crosstalk_host::{ClockReadings, HostRoot};
use proptest::prelude::*;

const SLOT: u64 = 1_000_000;

fn decoder(counted: [bool; COUNTERS]) -> Decoder {
    let clock = Clock::of(ClockReadings::default());
    let frequencies = Frequencies::new(&HostRoot::new("/nonexistent"), false, 4);
    Decoder::new(SLOT, clock, counted, true, frequencies, 4)
}

fn row(pid: u32, on_cpu_ns: u64) -> Row {
    Row { pid, on_cpu_ns, comm: *b"a\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", ..Row::default() }
}

fn record(head: BatchHead, rows: &[Row]) -> Vec<u8> {
    let mut all = vec![Row::default()];
    all.extend_from_slice(rows);
    let head = BatchHead { rows: all.len() as u32, ..head };
    [bytemuck::bytes_of(&head), bytemuck::cast_slice(&all)].concat()
}

#[test]
fn a_task_that_filled_whole_slots_gets_a_row_in_each() {
    let mut d = decoder([true, false, false]);
    let mut tail_counters = [Count::default(); COUNTERS];
    tail_counters[0] = Count { value: 1001, enabled: 300, running: 300 };
    let head = BatchHead {
        slot_start_ns: 5 * SLOT,
        idle_ns: SLOT - 400,
        tail_slots: 3,
        tail_row: 1,
        tail_counters,
        tail_page_faults: 7,
        core: 2,
        ..BatchHead::default()
    };
    d.record(&record(head, &[row(42, 400)]));
    let tasks = &d.readings.tasks;
    assert_eq!(tasks.iter().map(|t| t.on_cpu_ns).collect::<Vec<_>>(), [400, SLOT, SLOT, SLOT]);
    assert_eq!(tasks[1..].iter().map(|t| t.page_faults).sum::<u32>(), 7);
    assert_eq!(tasks[1..].iter().filter_map(|t| t.cycles).sum::<u64>(), 1001);
    assert!(d.readings.slots[1..].iter().all(|s| s.idle_ns == Some(0)));
    assert_eq!(d.readings.slots.last().map(|s| s.slot_start_ns), Some(8 * SLOT));
}

#[test]
fn an_idle_core_is_read_once_however_often_it_is_looked_at() {
    let mut d = decoder([false; 3]);
    let open = OpenSlot {
        head: BatchHead { slot_start_ns: 0, rows: 2, idle_ns: 100, ..BatchHead::default() },
        rows: vec![Row::default(), row(9, 500)],
        since_ns: 600,
        end_ns: SLOT,
    };
    d.idle_core(1, &open, 3 * SLOT);
    d.idle_core(1, &open, 3 * SLOT);
    d.idle_core(1, &open, 5 * SLOT);
    assert_eq!(d.readings.slots.len(), 5);
    assert_eq!(d.readings.slots[0].idle_ns, Some(SLOT - 500));
    // The hand-over of the same slot, when it comes at last, adds only what is new.
    let late =
        BatchHead { idle_ns: SLOT - 500, tail_slots: 6, tail_row: IDLE, core: 1, ..open.head };
    d.record(&record(late, &[row(9, 500)]));
    assert_eq!(d.readings.tasks.len(), 1);
    let starts: Vec<u64> = d.readings.slots.iter().map(|s| s.slot_start_ns / SLOT).collect();
    assert_eq!(starts, [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_lost_batch_shows_in_the_coverage_of_each_of_its_slots() {
    let mut d = decoder([false; 3]);
    d.loss(0, &Loss { slot_start_ns: 0, tail_slots: 2, rows: 5, events: 40, ..Loss::default() });
    let lost: Vec<_> = d.readings.slots.iter().map(|s| (s.lost, s.idle_ns)).collect();
    assert_eq!(lost, [(5, None), (1, Some(0)), (1, Some(0))]);
    assert_eq!(d.lost_rows, 7);
}

#[test]
fn a_young_process_is_told_with_its_parent_and_an_old_one_is_not() {
    let mut d = decoder([false; 3]);
    let head = BatchHead { slot_start_ns: 3_000 * SLOT, tail_row: IDLE, ..BatchHead::default() };
    let started = |ms: u64, pid| Row { start_boottime_ns: ms * SLOT, parent: 7, ..row(pid, 10) };
    d.record(&record(head, &[started(2_500, 42), started(1_000, 43)]));
    let told: Vec<_> = d.readings.tasks.iter().map(|t| (t.process.pid, t.parent)).collect();
    assert_eq!(told, [(42, Some(7)), (43, None)]);
}

#[test]
fn every_lost_row_is_in_the_coverage_or_counted_as_unplaced() {
    let mut d = decoder([false; 3]);
    d.loss(0, &Loss { slot_start_ns: 0, rows: 5, ..Loss::default() });
    d.unlogged_losses(0, 3, 40);
    d.unlogged_losses(1, 1, 2);
    let placed: u64 = d.readings.slots.iter().map(|slot| u64::from(slot.lost)).sum();
    assert_eq!((d.lost_rows, placed, d.unplaced_lost_rows), (47, 5, 42));
    assert_eq!((d.seen(0), d.seen(1)), (4, 1));
}

#[test]
fn a_multiplexed_counter_is_scaled_and_one_that_never_ran_is_absent() {
    assert_eq!(scaled(Count { value: 100, enabled: 1000, running: 250 }, 5), Some(400));
    assert_eq!(scaled(Count { value: 0, enabled: 1000, running: 0 }, 5), None);
    assert_eq!(scaled(Count { value: 100, enabled: 9, running: 9 }, 5), Some(100));
    let mut d = decoder([true, true, false]);
    let mut shared = row(1, 10);
    shared.counters[0] = Count { value: 100, enabled: 1000, running: 250 };
    shared.counters[1] = Count { value: 7, enabled: 1000, running: 1000 };
    d.record(&record(BatchHead { tail_row: IDLE, ..BatchHead::default() }, &[shared]));
    let task = d.readings.tasks[0];
    assert_eq!((task.cycles, task.instructions, task.llc_misses), (Some(400), Some(7), None));
    assert_eq!(task.multiplexed, Some(true));
}

#[test]
fn the_overflow_row_has_a_name_of_its_own_and_only_when_used() {
    let mut d = decoder([false; 3]);
    let mut bytes =
        record(BatchHead { overflowed: 1, tail_row: IDLE, ..BatchHead::default() }, &[row(1, 10)]);
    d.record(&bytes);
    assert_eq!(d.readings.tasks[0].comm, Comm::OTHER);
    assert_eq!(d.readings.tasks.len(), 2);
    bytes.truncate(bytes.len() - 1);
    d.record(&bytes);
    assert_eq!((d.readings.tasks.len(), d.malformed), (2, 1));
}

proptest! {
    #[test]
    fn any_bytes_are_decoded_or_counted_as_malformed(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let mut d = decoder([true; 3]);
        // A tail of any length is legal in a record; bound it so the test stays small.
        let mut bytes = bytes;
        if bytes.len() > 32 {
            bytes[26..32].fill(0);
        }
        d.record(&bytes);
        let seen: u64 = (0..4).map(|core| d.seen(core)).sum();
        prop_assert_eq!(d.malformed + seen, 1);
    }

    #[test]
    fn dividing_a_tail_loses_nothing(sum in 0u64..1 << 40, slots in 1u64..2000) {
        let mut counters = [Count::default(); COUNTERS];
        counters[0].value = sum;
        let head = BatchHead { tail_slots: slots, tail_counters: counters, ..BatchHead::default() };
        let total: u64 = (0..slots).map(|i| tail_row(&row(1, 0), &head, i, SLOT).counters[0].value).sum();
        prop_assert_eq!(total, sum);
    }
}
