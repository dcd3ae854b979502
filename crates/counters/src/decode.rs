//! Batches into readings: pure, so it is tested without a kernel.

use crate::cores::OpenSlot;
use crate::frequency::Frequencies;
use crate::layout::{BatchHead, COUNTERS, Count, IDLE, Loss, OVERFLOW_ROW, ROWS, Row};
use crosstalk_host::Clock;
use crosstalk_model::{Comm, ProcessId, SlotCoverage, TaskReading};

/// Readings and coverage since they were last taken, in the order they arrived.
#[derive(Debug, Default)]
pub struct Readings {
    /// What processes did.
    pub tasks: Vec<TaskReading>,
    /// What is known of each core and slot.
    pub slots: Vec<SlotCoverage>,
}

/// What a process inherited matters until whoever places it has heard of it.
const YOUNG_NS: u64 = 1_000_000_000;

/// Turns what the programs hand over into readings.
pub(crate) struct Decoder {
    pub(crate) slot_ns: u64,
    pub(crate) clock: Clock,
    /// Which counters are open.
    pub(crate) counted: [bool; COUNTERS],
    pub(crate) runq: bool,
    pub(crate) frequencies: Frequencies,
    /// Slots from here on are not part of the recording.
    pub(crate) until_ns: u64,
    /// Per core: slots before this were already read from the idle core's open slot.
    peeked_until_ns: Vec<u64>,
    /// Per core: batches and losses seen.
    seen: Vec<u64>,
    pub(crate) readings: Readings,
    pub(crate) malformed: u64,
    pub(crate) delivered_rows: u64,
    pub(crate) lost_rows: u64,
    /// Of these, rows that no coverage has.
    pub(crate) unplaced_lost_rows: u64,
    /// Rows, delivered or lost, of slots after the end.
    pub(crate) after_end_rows: u64,
    pub(crate) events: u64,
}

impl Decoder {
    pub(crate) fn new(
        slot_ns: u64,
        clock: Clock,
        counted: [bool; COUNTERS],
        runq: bool,
        frequencies: Frequencies,
        possible: u32,
    ) -> Self {
        Self {
            slot_ns,
            clock,
            counted,
            runq,
            frequencies,
            until_ns: u64::MAX,
            peeked_until_ns: vec![0; possible as usize],
            seen: vec![0; possible as usize],
            readings: Readings::default(),
            malformed: 0,
            delivered_rows: 0,
            lost_rows: 0,
            unplaced_lost_rows: 0,
            after_end_rows: 0,
            events: 0,
        }
    }

    /// How many hand-overs of the core have been seen.
    pub(crate) fn seen(&self, core: u32) -> u64 {
        self.seen[core as usize]
    }

    /// Takes one record of the ring.
    pub(crate) fn record(&mut self, bytes: &[u8]) {
        let parsed = bytes.split_at_checked(size_of::<BatchHead>()).and_then(|(head, rows)| {
            let head: BatchHead = bytemuck::try_pod_read_unaligned(head).ok()?;
            let fits = head.rows as usize <= ROWS
                && (head.core as usize) < self.seen.len()
                && rows.len() >= head.rows as usize * size_of::<Row>();
            fits.then(|| {
                let rows = rows.chunks_exact(size_of::<Row>()).take(head.rows as usize);
                (head, rows.map(bytemuck::pod_read_unaligned).collect::<Vec<Row>>())
            })
        });
        match parsed {
            Some((head, rows)) => self.batch(&head, &rows),
            None => self.malformed += 1,
        }
    }

    fn batch(&mut self, head: &BatchHead, rows: &[Row]) {
        self.seen[head.core as usize] += 1;
        let late = (head.ticked != 0).then_some(head.tick_late_ns);
        if head.slot_start_ns >= self.peeked_until_ns[head.core as usize] {
            self.slot(head, rows, head.idle_ns, late);
        }
        let tail = rows.get(head.tail_row as usize).filter(|_| head.tail_row != IDLE);
        for i in 0..head.tail_slots {
            let slot_start_ns = head.slot_start_ns.saturating_add((i + 1) * self.slot_ns);
            if slot_start_ns < self.peeked_until_ns[head.core as usize] {
                continue;
            }
            let idle_ns = if tail.is_some() { 0 } else { self.slot_ns };
            self.cover(SlotCoverage {
                slot_start_ns,
                core: head.core,
                idle_ns: Some(idle_ns),
                events: 0,
                lost: 0,
                tick_late_ns: late,
            });
            if let Some(row) = tail {
                let filled = tail_row(row, head, i, self.slot_ns);
                self.task(head.core, slot_start_ns, &filled, head.tail_row as usize);
            }
        }
    }

    /// One slot with its rows. Row 0 is the overflow row and counts only when it was used.
    fn slot(&mut self, head: &BatchHead, rows: &[Row], idle_ns: u64, late: Option<u64>) {
        self.events += u64::from(head.events);
        self.cover(SlotCoverage {
            slot_start_ns: head.slot_start_ns,
            core: head.core,
            idle_ns: Some(idle_ns),
            events: head.events,
            lost: 0,
            tick_late_ns: late,
        });
        for (i, row) in rows.iter().enumerate() {
            if i != OVERFLOW_ROW || head.overflowed != 0 {
                self.task(head.core, head.slot_start_ns, row, i);
            }
        }
    }

    /// A batch the ring had no room for.
    pub(crate) fn loss(&mut self, core: u32, loss: &Loss) {
        self.seen[core as usize] += 1;
        let peeked = self.peeked_until_ns[core as usize];
        let lost_slot = |slot_start_ns, idle_ns, events, lost| SlotCoverage {
            slot_start_ns,
            core,
            idle_ns,
            events,
            lost,
            tick_late_ns: None,
        };
        if loss.slot_start_ns >= peeked {
            self.lose(loss.slot_start_ns, loss.rows);
            self.cover(lost_slot(loss.slot_start_ns, None, loss.events, loss.rows));
        }
        for i in 1..=loss.tail_slots {
            let slot_start_ns = loss.slot_start_ns + i * self.slot_ns;
            if slot_start_ns < peeked {
                continue;
            }
            let (idle_ns, lost) = if loss.tail_idle != 0 { (self.slot_ns, 0) } else { (0, 1) };
            self.lose(slot_start_ns, lost);
            self.cover(lost_slot(slot_start_ns, Some(idle_ns), 0, lost));
        }
    }

    fn lose(&mut self, slot_start_ns: u64, rows: u32) {
        if slot_start_ns < self.until_ns {
            self.lost_rows += u64::from(rows);
        } else {
            self.after_end_rows += u64::from(rows);
        }
    }

    /// Losses that even the log of losses had no room for.
    pub(crate) fn unlogged_losses(&mut self, core: u32, batches: u64, rows: u64) {
        self.seen[core as usize] += batches;
        self.lost_rows += rows;
        self.unplaced_lost_rows += rows;
    }

    /// The open slot of an idle core, and the idle slots since, up to `before_ns` (Unix).
    pub(crate) fn idle_core(&mut self, core: u32, open: &OpenSlot, before_ns: u64) {
        let head = BatchHead { core, ..open.head };
        let peeked = self.peeked_until_ns[core as usize];
        let mut next = head.slot_start_ns + self.slot_ns;
        if next > before_ns {
            return;
        }
        if head.slot_start_ns >= peeked {
            self.slot(&head, &open.rows, head.idle_ns + (open.end_ns - open.since_ns), None);
        }
        next = next.max(peeked);
        while next < before_ns {
            self.cover(SlotCoverage {
                slot_start_ns: next,
                core,
                idle_ns: Some(self.slot_ns),
                events: 0,
                lost: 0,
                tick_late_ns: None,
            });
            next += self.slot_ns;
        }
        self.peeked_until_ns[core as usize] = next;
    }

    fn cover(&mut self, coverage: SlotCoverage) {
        if coverage.slot_start_ns < self.until_ns {
            self.readings.slots.push(coverage);
        }
    }

    fn task(&mut self, core: u32, slot_start_ns: u64, row: &Row, index: usize) {
        if slot_start_ns >= self.until_ns {
            self.after_end_rows += 1;
            return;
        }
        self.delivered_rows += 1;
        let value = |i: usize| {
            if self.counted[i] { scaled(row.counters[i], row.on_cpu_ns) } else { None }
        };
        let cycles = value(0);
        let shared =
            |i: usize| self.counted[i] && row.counters[i].running < row.counters[i].enabled;
        let other = index == OVERFLOW_ROW;
        let start_ns = if other { 0 } else { self.clock.process_start_ns(row.start_boottime_ns) };
        let process = ProcessId { pid: row.pid, start_ns };
        let is_young = !other && slot_start_ns < start_ns.saturating_add(YOUNG_NS);
        self.readings.tasks.push(TaskReading {
            slot_start_ns,
            process,
            parent: is_young.then_some(row.parent),
            comm: if other { Comm::OTHER } else { Comm::from_bytes(row.comm) },
            core,
            freq_mhz: self.frequencies.of(core, cycles, row.on_cpu_ns),
            cycles,
            instructions: value(1),
            llc_misses: value(2),
            on_cpu_ns: row.on_cpu_ns,
            runq_wait_ns: self.runq.then_some(row.runq_wait_ns),
            switches: row.switches,
            voluntary_switches: row.voluntary_switches,
            page_faults: row.page_faults,
            migrations: self.runq.then_some(row.migrations),
            multiplexed: self.counted.iter().any(|open| *open).then(|| (0..COUNTERS).any(shared)),
            cgroup_id: row.cgroup_id,
        });
    }
}

/// The value a counter would have had if it had counted all of its enabled time; absent when it
/// did not count although the process ran.
fn scaled(count: Count, on_cpu_ns: u64) -> Option<u64> {
    match count {
        Count { running: 0, value, .. } => (on_cpu_ns == 0).then_some(value),
        Count { value, enabled, running } if running < enabled => {
            let scaled = u128::from(value) * u128::from(enabled) / u128::from(running);
            Some(u64::try_from(scaled).unwrap_or(u64::MAX))
        }
        Count { value, .. } => Some(value),
    }
}

/// The row of the task that filled whole slots, for the `i`-th of them: the sums divided so that
/// nothing is lost to rounding.
fn tail_row(row: &Row, head: &BatchHead, i: u64, slot_ns: u64) -> Row {
    let up_to = |sum: u64, i: u64| u128::from(sum) * u128::from(i) / u128::from(head.tail_slots);
    let part = |sum: u64| (up_to(sum, i + 1) - up_to(sum, i)) as u64;
    Row {
        on_cpu_ns: slot_ns,
        runq_wait_ns: 0,
        switches: 0,
        voluntary_switches: 0,
        migrations: 0,
        page_faults: part(u64::from(head.tail_page_faults)) as u32,
        counters: head.tail_counters.map(|c| Count {
            value: part(c.value),
            enabled: part(c.enabled),
            running: part(c.running),
        }),
        ..*row
    }
}

#[cfg(test)]
#[path = "decode_tests.rs"]
mod tests;
