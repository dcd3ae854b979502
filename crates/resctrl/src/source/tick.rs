//! The thread that reads at slot edges.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, TrySendError};

use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, Timespec, clock_gettime};

use super::{Shared, locked};
use crate::prefer_this_thread;
use crate::sampler::{CacheReading, Sampler, SamplerConfig, SlotReport};

const SECOND: u64 = 1_000_000_000;

/// Unix time as CLOCK_MONOTONIC plus an offset, so that a step of the wall clock does not move slots, and so that all
/// sources of a recording that were given the same offset agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotClock {
    /// CLOCK_REALTIME minus CLOCK_MONOTONIC.
    pub realtime_minus_monotonic_ns: u64,
}

impl Default for SlotClock {
    /// The offset at this time.
    fn default() -> Self {
        let offset = nanoseconds(ClockId::Realtime).saturating_sub(nanoseconds(ClockId::Monotonic));
        Self { realtime_minus_monotonic_ns: offset }
    }
}

impl SlotClock {
    /// Unix nanoseconds now.
    #[must_use]
    pub fn now_ns(self) -> u64 {
        nanoseconds(ClockId::Monotonic) + self.realtime_minus_monotonic_ns
    }

    fn wait_until(self, unix_ns: u64) {
        let at = unix_ns.saturating_sub(self.realtime_minus_monotonic_ns);
        let (seconds, rest) = (at / SECOND, at % SECOND);
        let (Ok(tv_sec), Ok(tv_nsec)) = (seconds.try_into(), rest.try_into()) else { return };
        // An interrupted sleep is an early tick: the slot that has not ended is waited for again.
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &Timespec { tv_sec, tv_nsec });
    }
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(time.tv_sec).unwrap_or(0) * SECOND + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Reads just after every slot edge, for the slot that has ended there.
pub(super) fn run(
    config: SamplerConfig,
    clock: SlotClock,
    rows_out: &SyncSender<Vec<CacheReading>>,
    shared: &Shared,
) {
    // Refused, rows are read late, and say so.
    prefer_this_thread();
    let slot_ns = config.slot_ns.max(1);
    let mut sampler = Sampler::new(config);
    let now_ns = || clock.now_ns();
    let mut last = now_ns() / slot_ns;
    while !shared.is_over() {
        clock.wait_until((last + 2) * slot_ns);
        // The slot before the one that runs now.
        let slot = (now_ns() / slot_ns).saturating_sub(1);
        if slot <= last {
            continue;
        }
        let missed = slot - last - 1;
        last = slot;
        let Some(roster) = locked(&shared.roster).clone() else { continue };
        let ran = Arc::clone(&locked(&shared.ran));
        let mut rows = Vec::new();
        let report = sampler.sample(&roster, slot * slot_ns, &ran, &now_ns, &mut rows);
        last = last.max(report.last_slot_ns / slot_ns);
        count(shared, &report, &rows, missed);
        if rows.is_empty() {
            continue;
        }
        match rows_out.try_send(rows) {
            Ok(()) => {}
            Err(TrySendError::Full(rows)) => shared.status().dropped_rows += rows.len() as u64,
            Err(TrySendError::Disconnected(_)) => return,
        }
    }
}

fn count(shared: &Shared, report: &SlotReport, rows: &[CacheReading], missed: u64) {
    if report.gone > 0 {
        shared.gone.store(true, Ordering::Relaxed);
    }
    let mut status = shared.status();
    // Rows are in the order of slots; a pass that took longer than a slot has rows of several.
    status.slots += rows.chunk_by(|a, b| a.slot_start_ns == b.slot_start_ns).count() as u64;
    status.missed_slots += missed;
    status.reads += report.reads as u64;
    status.read_cpu_ns += report.cpu_ns;
    status.put_off += (report.due - report.read) as u64;
}
