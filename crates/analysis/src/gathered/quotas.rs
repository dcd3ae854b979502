//! Waits for one's own quota, told from waits for others slot by slot, as the streaming pass tells them.

use super::who::Who;
use super::{Asked, Gather, Statistic};
use crate::decode::int_array;
use crosstalk_interference::{Quota, Subject};
use std::collections::{BTreeMap, HashMap};

/// A wait of which a part was for the waiter's own quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnQuota {
    /// The slot in which the wait ended.
    pub slot_ns: u64,
    /// The core that was waited for.
    pub core: i64,
    /// The process, as the SQL files number it.
    pub process: i64,
    /// How much of the wait it was.
    pub ns: u64,
}

/// Waits, and their sums by bin and subject.
#[derive(Debug, Default)]
pub(super) struct Quotas {
    pub(super) waits: Vec<OwnQuota>,
    pub(super) sums: BTreeMap<(u64, Subject), u64>,
}

/// In the order in which a slot is looked at: who was stopped, then who waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Stopped { ns: u64 },
    Waited { pid: i64, core: i64, process: i64, ns: u64 },
}

pub(super) fn read(
    engine: &mut dyn Gather,
    asked: &Asked<'_>,
    who: &mut Who,
) -> Result<Quotas, String> {
    if !asked.datasets.contains(&Statistic::Throttled.needs()) {
        return Ok(Quotas::default());
    }
    let mut events: Vec<(u64, Event, Subject)> = Vec::new();
    engine.gather(Statistic::Throttled, asked, &mut |batch| {
        let (slot, ns) = (int_array(batch, "slot_start_ns")?, int_array(batch, "throttled_ns")?);
        for row in 0..batch.num_rows() {
            let stopped = Event::Stopped { ns: ns.value(row).max(0) as u64 };
            events.push((slot.value(row).max(0) as u64, stopped, who.of(batch, "subject", row)?));
        }
        Ok(())
    })?;
    if events.is_empty() {
        return Ok(Quotas::default());
    }
    engine.gather(Statistic::ThrottledWaits, asked, &mut |batch| {
        let number = |name: &str| int_array(batch, name);
        let (slot, pid, core) = (number("slot_start_ns")?, number("pid")?, number("core")?);
        let (process, ns) = (number("process")?, number("wait_ns")?);
        for row in 0..batch.num_rows() {
            let waited = Event::Waited {
                pid: pid.value(row),
                core: core.value(row),
                process: process.value(row),
                ns: ns.value(row).max(0) as u64,
            };
            events.push((slot.value(row).max(0) as u64, waited, who.of(batch, "subject", row)?));
        }
        Ok(())
    })?;
    events.sort_unstable();
    Ok(separated(&events, asked.bin_ns))
}

fn separated(events: &[(u64, Event, Subject)], bin_ns: u64) -> Quotas {
    let mut quotas: HashMap<Subject, (u64, Quota)> = HashMap::new();
    let mut own = Quotas::default();
    for &(slot_ns, event, subject) in events {
        let at_ns = slot_ns - slot_ns % bin_ns.max(1);
        let (known_ns, quota) = quotas.entry(subject).or_insert((at_ns, Quota::default()));
        if *known_ns != at_ns {
            // However many bins were between: the second end changes nothing.
            quota.end_bin(bin_ns);
            *known_ns = at_ns;
        }
        match event {
            Event::Stopped { ns } => quota.stopped(ns),
            Event::Waited { core, process, ns, .. } => {
                let ns = quota.explain(ns);
                if ns > 0 {
                    own.waits.push(OwnQuota { slot_ns, core, process, ns });
                    *own.sums.entry((at_ns, subject)).or_default() += ns;
                }
            }
        }
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_reading_explains_the_waits_of_its_slot_and_of_those_that_follow_until_it_is_used_up() {
        let waited = |ns: u64| Event::Waited { pid: 1, core: 0, process: 1, ns: ns * MS };
        let (one, other) = (Subject(1), Subject(2));
        let mut events = [
            (10 * MS, waited(5), one),
            (50 * MS, waited(20), one),
            (50 * MS, Event::Stopped { ns: 60 * MS }, one),
            (60 * MS, waited(9), other),
            (200 * MS, waited(70), one),
        ];
        events.sort_unstable();
        let own = separated(&events, 40 * MS);
        let found: Vec<(u64, u64)> =
            own.waits.iter().map(|own| (own.slot_ns / MS, own.ns / MS)).collect();
        assert_eq!(found, [(50, 20), (200, 40)]);
        assert_eq!(own.sums[&(200 * MS, one)], 40 * MS);
    }
}
