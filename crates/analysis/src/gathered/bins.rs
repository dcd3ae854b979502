//! Who ran in which bin: what decides who has a seat, and which stretches are kept.

use super::who::Who;
use super::{Asked, Gather, Statistic};
use crate::decode::int_array;
use crate::report::RunReport;
use crosstalk_interference::{Ledger, Subject};
use std::collections::BTreeMap;

/// Slots of a bin, how many of them rows were lost of, and its rows.
#[derive(Clone, Copy, Debug, Default)]
struct Covered {
    slots: u64,
    lost: u64,
    rows: u64,
}

/// Tells the ledger of every bin, and answers how many rows each has.
pub(super) fn read(
    engine: &mut dyn Gather,
    asked: &Asked<'_>,
    who: &mut Who,
    ledger: &mut Ledger,
    report: &mut RunReport,
) -> Result<BTreeMap<u64, u64>, String> {
    let covered = coverage(engine, asked, report)?;
    // The last bin is not whole: the streaming pass does not close it either.
    let last_ns = covered.last_key_value().map_or(0, |(bin_ns, _)| *bin_ns);
    let mut open: Option<(u64, Vec<(Subject, u64)>)> = None;
    let mut close = |bin: Option<(u64, Vec<(Subject, u64)>)>| {
        if let Some((bin_ns, ran)) = bin.filter(|(bin_ns, _)| *bin_ns < last_ns) {
            let Covered { slots, lost, .. } = covered.get(&bin_ns).copied().unwrap_or_default();
            ledger.bin(bin_ns, slots, lost, &ran);
        }
    };
    engine.gather(Statistic::Bins, asked, &mut |batch| {
        let (bin, on_cpu) = (int_array(batch, "bin_ns")?, int_array(batch, "on_cpu_ns")?);
        for row in 0..batch.num_rows() {
            let bin_ns = bin.value(row).max(0) as u64;
            if open.as_ref().is_none_or(|(open_ns, _)| *open_ns != bin_ns) {
                close(open.replace((bin_ns, Vec::new())));
            }
            let subject = who.of(batch, "subject", row)?;
            if let Some((_, ran)) = &mut open {
                ran.push((subject, on_cpu.value(row).max(0) as u64));
            }
        }
        Ok(())
    })?;
    close(open);
    Ok(covered.into_iter().map(|(bin_ns, bin)| (bin_ns, bin.rows)).collect())
}

fn coverage(
    engine: &mut dyn Gather,
    asked: &Asked<'_>,
    report: &mut RunReport,
) -> Result<BTreeMap<u64, Covered>, String> {
    let mut covered = BTreeMap::new();
    report.from_ns = u64::MAX;
    engine.gather(Statistic::Coverage, asked, &mut |batch| {
        let column = |name| int_array(batch, name);
        let (bin, slots, lost) = (column("bin_ns")?, column("slots")?, column("lost_slots")?);
        let (rows, first, last) = (column("task_rows")?, column("first_ns")?, column("last_ns")?);
        for row in 0..batch.num_rows() {
            let count = |value: i64| value.max(0) as u64;
            let one = Covered {
                slots: count(slots.value(row)),
                lost: count(lost.value(row)),
                rows: count(rows.value(row)),
            };
            report.rows += one.rows;
            report.slots += one.slots;
            report.lossy_slots += one.lost;
            report.from_ns = report.from_ns.min(count(first.value(row)));
            report.to_ns = report.to_ns.max(count(last.value(row)) + asked.slot_ns);
            covered.insert(count(bin.value(row)), one);
        }
        Ok(())
    })?;
    Ok(covered)
}
