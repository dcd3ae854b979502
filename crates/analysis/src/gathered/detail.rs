//! What was measured in the bins that are kept.

use super::who::Who;
use super::{Asked, Gather, Statistic};
use crate::decode::{column, int_array};
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use arrow_array::{Array, Float64Array, RecordBatch};
use crosstalk_interference::{Bin, Counted, Exposure, Held, Ledger, Subject, Way, spread};
use std::collections::{BTreeMap, BTreeSet, HashMap};

type Place = (u64, Subject);
/// Time beside neighbours; those without a seat together.
type Beside = BTreeMap<(Option<Subject>, Way), f64>;

pub(super) fn fill(
    engine: &mut dyn Gather,
    asked: &Asked<'_>,
    who: &mut Who,
    ledger: &mut Ledger,
    own_quota: &BTreeMap<Place, u64>,
) -> Result<(), String> {
    let seated: BTreeSet<Place> =
        ledger.bins_mut().map(|(subject, bin)| (bin.start_ns, subject)).collect();
    let mut sums = sums(engine, asked, who)?;
    for (place, ns) in own_quota {
        if let Some(sum) = sums.get_mut(place) {
            sum.wait_ns -= *ns as f64;
        }
    }
    let stolen = stolen(engine, asked)?;
    let mut beside = beside(engine, asked, who, &seated)?;
    let mut held = held(engine, asked, who)?;
    for (subject, bin) in ledger.bins_mut() {
        let place = (bin.start_ns, subject);
        if let Some(sum) = sums.remove(&place) {
            sum.put(bin, stolen.get(&bin.start_ns), asked.bin_ns);
        }
        let near = beside.remove(&place).unwrap_or_default();
        let near = near.into_iter().map(|((subject, way), ns_cores)| (subject, way, ns_cores));
        bin.exposures = Exposure::list(near, bin.on_cpu_ns);
        bin.held = Held::list(held.remove(&place).unwrap_or_default());
    }
    probe(engine, asked, who, &seated, ledger)
}

/// Sums of a subject in a bin.
#[derive(Debug, Default)]
struct Sums {
    switches: f64,
    counted: Option<Counted>,
    misses: f64,
    lacks_misses: bool,
    freq_ns: f64,
    freq_known_ns: f64,
    wait_ns: f64,
    cores: Vec<(u32, f64)>,
}

impl Sums {
    fn put(self, bin: &mut Bin, stolen: Option<&HashMap<u32, f64>>, bin_ns: u64) {
        bin.voluntary_switches = self.switches;
        let misses = (!self.lacks_misses).then_some(self.misses);
        bin.counted = self.counted.map(|counted| Counted { llc_misses: misses, ..counted });
        bin.freq_mhz = (self.freq_known_ns > 0.0).then(|| self.freq_ns / self.freq_known_ns);
        bin.wait_ns = self.wait_ns;
        let on_cpu = bin.on_cpu_ns.max(1.0);
        bin.stolen = stolen.map(|cores| {
            let of = |(core, ns): &(u32, f64)| ns / on_cpu * cores.get(core).unwrap_or(&0.0);
            self.cores.iter().map(of).sum::<f64>() / bin_ns.max(1) as f64
        });
    }
}

fn floats<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a Float64Array, String> {
    let wrong = || format!("its column {name} holds no numbers with a point");
    column(batch, name)?.as_primitive_opt::<Float64Type>().ok_or_else(wrong)
}

fn sums(
    engine: &mut dyn Gather,
    asked: &Asked<'_>,
    who: &mut Who,
) -> Result<HashMap<Place, Sums>, String> {
    let mut all: HashMap<Place, Sums> = HashMap::new();
    engine.gather(Statistic::Sums, asked, &mut |batch| {
        let number = |name: &str| int_array(batch, name);
        let (bin, core, on_cpu) = (number("bin_ns")?, number("core")?, number("on_cpu_ns")?);
        let (switches, wait) = (number("voluntary_switches")?, number("wait_ns")?);
        let (counted, cycles) = (number("counted_rows")?, number("cycles")?);
        let (instructions, counted_ns) = (number("instructions")?, number("counted_ns")?);
        let (misses, without) = (number("llc_misses")?, number("rows_without_misses")?);
        let (freq, freq_ns) = (floats(batch, "freq_mhz_ns")?, number("freq_ns")?);
        for row in 0..batch.num_rows() {
            let subject = who.of(batch, "subject", row)?;
            let sum = all.entry((bin.value(row).max(0) as u64, subject)).or_default();
            let value = |column: &arrow_array::Int64Array| {
                if column.is_valid(row) { column.value(row) as f64 } else { 0.0 }
            };
            sum.switches += value(switches);
            sum.wait_ns += value(wait);
            sum.cores.push((u32::try_from(core.value(row)).unwrap_or(u32::MAX), value(on_cpu)));
            if counted.value(row) > 0 {
                let total = sum.counted.get_or_insert_default();
                total.cycles += value(cycles);
                total.instructions += value(instructions);
                total.on_cpu_ns += value(counted_ns);
                sum.misses += value(misses);
                sum.lacks_misses |= without.value(row) > 0;
            }
            sum.freq_ns += if freq.is_valid(row) { freq.value(row) } else { 0.0 };
            sum.freq_known_ns += value(freq_ns);
        }
        Ok(())
    })?;
    Ok(all)
}

/// Who ran beside whom.
fn beside(
    engine: &mut dyn Gather,
    asked: &Asked<'_>,
    who: &mut Who,
    seated: &BTreeSet<Place>,
) -> Result<HashMap<Place, Beside>, String> {
    let mut all: HashMap<Place, Beside> = HashMap::new();
    engine.gather(Statistic::Exposures, asked, &mut |batch| {
        let (bin, way) = (int_array(batch, "bin_ns")?, int_array(batch, "way")?);
        let ns_cores = floats(batch, "ns_cores")?;
        for row in 0..batch.num_rows() {
            let bin_ns = bin.value(row).max(0) as u64;
            let victim = (bin_ns, who.of(batch, "subject", row)?);
            let neighbour = who.of(batch, "neighbour", row)?;
            if !seated.contains(&victim) {
                continue;
            }
            let neighbour = Some(neighbour).filter(|one| seated.contains(&(bin_ns, *one)));
            let way = named(way.value(row))?;
            *all.entry(victim).or_default().entry((neighbour, way)).or_default() +=
                ns_cores.value(row);
        }
        Ok(())
    })?;
    Ok(all)
}

/// As the SQL files number them.
fn named(way: i64) -> Result<Way, String> {
    match way {
        0 => Ok(Way::Sibling),
        1 => Ok(Way::Cache),
        2 => Ok(Way::Memory),
        other => Err(format!("{other} is no way of sharing")),
    }
}

/// Who held the core, and when that was first so in the bin.
fn held(
    engine: &mut dyn Gather,
    asked: &Asked<'_>,
    who: &mut Who,
) -> Result<HashMap<Place, Vec<(u64, Held)>>, String> {
    let mut all: HashMap<Place, Vec<(u64, Held)>> = HashMap::new();
    engine.gather(Statistic::Waits, asked, &mut |batch| {
        let (bin, first) = (int_array(batch, "bin_ns")?, int_array(batch, "first_ns")?);
        let (ns, low) = (floats(batch, "held_ns")?, floats(batch, "low_ns")?);
        let high = floats(batch, "high_ns")?;
        for row in 0..batch.num_rows() {
            let victim = who.of(batch, "subject", row)?;
            let held = Held {
                subject: who.of(batch, "holder", row)?,
                ns: ns.value(row) as f32,
                low_ns: low.value(row) as f32,
                high_ns: high.value(row) as f32,
            };
            let list = all.entry((bin.value(row).max(0) as u64, victim)).or_default();
            list.push((first.value(row).max(0) as u64, held));
        }
        Ok(())
    })?;
    Ok(all)
}

/// Time stolen from each core, by bin.
fn stolen(
    engine: &mut dyn Gather,
    asked: &Asked<'_>,
) -> Result<BTreeMap<u64, HashMap<u32, f64>>, String> {
    let mut all: BTreeMap<u64, HashMap<u32, f64>> = BTreeMap::new();
    if !asked.datasets.contains(&Statistic::Steal.needs()) {
        return Ok(all);
    }
    engine.gather(Statistic::Steal, asked, &mut |batch| {
        let number = |name: &str| int_array(batch, name);
        let (slot, covers) = (number("slot_start_ns")?, number("covers_ns")?);
        let (core, stolen) = (number("core")?, number("stolen_ns")?);
        for row in 0..batch.num_rows() {
            let value = |column: &arrow_array::Int64Array| column.value(row).max(0) as u64;
            for (at_ns, ns) in spread(value(slot), value(covers), value(stolen)) {
                // What was read between two slots is told with the second.
                let slot_ns = at_ns.next_multiple_of(asked.slot_ns.max(1));
                let bin = all.entry(slot_ns - slot_ns % asked.bin_ns).or_default();
                let core = u32::try_from(core.value(row)).unwrap_or(u32::MAX);
                *bin.entry(core).or_default() += ns as f64;
            }
        }
        Ok(())
    })?;
    Ok(all)
}

fn probe(
    engine: &mut dyn Gather,
    asked: &Asked<'_>,
    who: &mut Who,
    seated: &BTreeSet<Place>,
    ledger: &mut Ledger,
) -> Result<(), String> {
    if !asked.datasets.contains(&Statistic::Probe.needs()) {
        return Ok(());
    }
    let mut near: BTreeMap<u64, Beside> = BTreeMap::new();
    engine.gather(Statistic::ProbeExposures, asked, &mut |batch| {
        let (bin, way) = (int_array(batch, "bin_ns")?, int_array(batch, "way")?);
        let cores = floats(batch, "cores")?;
        for row in 0..batch.num_rows() {
            let bin_ns = bin.value(row).max(0) as u64;
            let neighbour = who.of(batch, "neighbour", row)?;
            let neighbour = Some(neighbour).filter(|one| seated.contains(&(bin_ns, *one)));
            let way = named(way.value(row))?;
            *near.entry(bin_ns).or_default().entry((neighbour, way)).or_default() +=
                cores.value(row);
        }
        Ok(())
    })?;
    let mut met: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    engine.gather(Statistic::Probe, asked, &mut |batch| {
        let (bin, bursts) = (int_array(batch, "bin_ns")?, int_array(batch, "bursts")?);
        let log_cost = floats(batch, "log_cost")?;
        for row in 0..batch.num_rows() {
            let place = met.entry(bin.value(row).max(0) as u64).or_default();
            place.0 += log_cost.value(row);
            place.1 += bursts.value(row) as f64;
        }
        Ok(())
    })?;
    for (bin_ns, (log_cost, bursts)) in met.into_iter().filter(|(_, (_, bursts))| *bursts > 0.0) {
        let near = near.remove(&bin_ns).unwrap_or_default();
        let near = near.into_iter().map(|((subject, way), cores)| (subject, way, cores));
        ledger.probe(bin_ns, log_cost / bursts, Exposure::list(near, bursts));
    }
    Ok(())
}
