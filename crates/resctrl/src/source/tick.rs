//! The thread that reads at slot edges.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, TrySendError};

use crosstalk_host::{Clock, thread};

use super::{Shared, locked};
use crate::sampler::{CacheReading, Sampler, SamplerConfig, SlotReport};

/// Reads just after every slot edge, for the slot that has ended there.
pub(super) fn run(
    config: SamplerConfig,
    clock: &Clock,
    rows_out: &SyncSender<Vec<CacheReading>>,
    shared: &Shared,
) {
    // Refused, rows are read late, and say so.
    thread::prefer();
    let slot_ns = config.slot_ns.max(1);
    let mut sampler = Sampler::new(config);
    let now_ns = || clock.now_unix_ns();
    let mut last = now_ns() / slot_ns;
    while !shared.is_over() {
        clock.sleep_until((last + 2) * slot_ns);
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
