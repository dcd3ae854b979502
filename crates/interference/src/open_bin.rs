use crate::bin::{Bin, Counted, Exposure, Held};
use crate::seats::Seats;
use crate::topology::WAYS;
use crate::{Activity, Quota, Subject};
use std::collections::BTreeMap;

/// Exposures a bin may list; the rest is summed as others.
pub(crate) const MOST_EXPOSURES: usize = 32;
/// Holders of the core that a bin may list.
pub(crate) const MOST_HELD: usize = 8;
/// Columns of a neighbour: one for each way, and one for those that share nothing, which nobody reads. Adding there is
/// cheaper than asking whether to.
pub(crate) const STRIDE: usize = WAYS.len() + 1;

/// The bin that is being filled: sums for every seat, and a matrix of who had whom beside it.
#[derive(Debug)]
pub(crate) struct OpenBin {
    own: Vec<Own>,
    /// Victim's seat (the probe last), then neighbour's seat (others last), then way: ns of the victim's time,
    /// times cores.
    beside: Vec<f64>,
    columns: usize,
    stolen: BTreeMap<u32, u64>,
    stolen_known: bool,
}

#[derive(Clone, Debug, Default)]
struct Own {
    on_cpu_ns: f64,
    switches: f64,
    counted: Counted,
    has_counters: bool,
    misses: f64,
    lacks_misses: bool,
    progress: Option<f64>,
    freq_ns: f64,
    freq_known_ns: f64,
    wait_ns: f64,
    quota: Quota,
    probe: f64,
    bursts: f64,
    cores: Vec<(u32, f64)>,
    held: Vec<Held>,
    /// The slot in which the last of them was first met, and how many were met before it.
    met_ns: u64,
    met_before: usize,
}

impl Own {
    fn begin_anew(&mut self, length_ns: u64) {
        let mut cores = std::mem::take(&mut self.cores);
        cores.clear();
        let mut quota = self.quota;
        quota.end_bin(length_ns);
        *self = Self { cores, quota, ..Self::default() };
    }
}

impl OpenBin {
    pub(crate) fn new(seats: usize) -> Self {
        let columns = (seats + 1) * STRIDE;
        Self {
            own: vec![Own::default(); seats + 1],
            beside: vec![0.0; (seats + 1) * columns],
            columns,
            stolen: BTreeMap::new(),
            stolen_known: false,
        }
    }

    /// The seat that stands for the probe among victims, and for everybody else among neighbours.
    pub(crate) fn last(&self) -> usize {
        self.own.len() - 1
    }

    pub(crate) fn add_activity(&mut self, seat: usize, entry: &Activity) {
        let own = &mut self.own[seat];
        let on_cpu = entry.on_cpu_ns as f64;
        own.on_cpu_ns += on_cpu;
        own.switches += f64::from(entry.voluntary_switches);
        match own.cores.iter_mut().find(|(core, _)| *core == entry.core) {
            Some((_, ns)) => *ns += on_cpu,
            None => own.cores.push((entry.core, on_cpu)),
        }
        if let (Some(cycles), Some(instructions)) = (entry.cycles, entry.instructions) {
            own.has_counters = true;
            own.counted.cycles += cycles as f64;
            own.counted.instructions += instructions as f64;
            own.counted.on_cpu_ns += on_cpu;
            match entry.llc_misses {
                Some(misses) => own.misses += misses as f64,
                None => own.lacks_misses = true,
            }
        }
        if let Some(mhz) = entry.freq_mhz {
            own.freq_ns += f64::from(mhz) * on_cpu;
            own.freq_known_ns += on_cpu;
        }
    }

    /// Time on the core alone, for a bin that will not be kept.
    pub(crate) fn add_time(&mut self, seat: usize, on_cpu_ns: u64) {
        self.own[seat].on_cpu_ns += on_cpu_ns as f64;
    }

    /// Who was beside a victim: a place for each neighbour and way, at `seat * STRIDE + way`, in ns of the victim's time
    /// times cores.
    #[inline]
    pub(crate) fn beside(&mut self, victim: usize) -> &mut [f64] {
        &mut self.beside[victim * self.columns..][..self.columns]
    }

    pub(crate) fn add_burst(&mut self, log_cost: f64) {
        let last = self.last();
        self.own[last].probe += log_cost;
        self.own[last].bursts += 1.0;
    }

    pub(crate) fn add_progress(&mut self, seat: usize, units: f64) {
        *self.own[seat].progress.get_or_insert(0.0) += units;
    }

    pub(crate) fn add_throttled(&mut self, seat: usize, ns: u64) {
        self.own[seat].quota.stopped(ns);
    }

    /// The part of a wait that is not the victim's own quota.
    pub(crate) fn add_wait(&mut self, seat: usize, wait_ns: u64) -> u64 {
        let own = &mut self.own[seat];
        let rest = wait_ns - own.quota.explain(wait_ns);
        own.wait_ns += rest as f64;
        rest
    }

    /// Beyond what a bin may list, holders are only told apart at its end, and only those of one slot.
    pub(crate) fn add_held(&mut self, seat: usize, slot_ns: u64, held: Held) {
        let own = &mut self.own[seat];
        let known = own.held.iter_mut().find(|one| one.subject == held.subject);
        if let Some(one) = known {
            one.ns += held.ns;
            one.low_ns += held.low_ns;
            one.high_ns += held.high_ns;
            return;
        }
        if own.met_ns != slot_ns {
            if own.held.len() >= MOST_HELD {
                return;
            }
            (own.met_ns, own.met_before) = (slot_ns, own.held.len());
        }
        own.held.push(held);
    }

    pub(crate) fn add_stolen(&mut self, stolen: &[(u32, u64)]) {
        self.stolen_known = true;
        for &(core, ns) in stolen.iter().take(4_096) {
            let sum = self.stolen.entry(core).or_default();
            *sum = sum.saturating_add(ns);
        }
    }

    /// Hands out the bins of all who ran, and is empty again.
    pub(crate) fn close(
        &mut self,
        start_ns: u64,
        length_ns: u64,
        seats: &Seats,
    ) -> Vec<(Subject, Bin)> {
        let mut bins = Vec::new();
        for seat in 0..self.own.len() {
            let subject =
                if seat == self.last() { Some(Subject::PROBE) } else { seats.subject(seat) };
            let worked = self.own[seat].on_cpu_ns > 0.0 || self.own[seat].bursts > 0.0;
            if let (Some(subject), true) = (subject, worked) {
                bins.push((subject, self.bin(seat, start_ns, length_ns, seats)));
            }
            self.own[seat].begin_anew(length_ns);
        }
        self.beside.fill(0.0);
        self.forget_stolen();
        bins
    }

    /// The same of a bin that will not be kept: who ran for how long.
    pub(crate) fn close_times(
        &mut self,
        start_ns: u64,
        length_ns: u64,
        seats: &Seats,
    ) -> Vec<(Subject, Bin)> {
        let mut bins = Vec::new();
        for (seat, own) in self.own.iter_mut().enumerate() {
            if let (Some(subject), true) = (seats.subject(seat), own.on_cpu_ns > 0.0) {
                bins.push((subject, Bin::of_time(start_ns, own.on_cpu_ns)));
            }
            own.begin_anew(length_ns);
        }
        self.forget_stolen();
        bins
    }

    fn forget_stolen(&mut self) {
        self.stolen.clear();
        self.stolen_known = false;
    }

    fn bin(&mut self, seat: usize, start_ns: u64, length_ns: u64, seats: &Seats) -> Bin {
        let met = std::mem::take(&mut self.own[seat].held);
        let held = Held::list_in_order(met, self.own[seat].met_before);
        let own = &self.own[seat];
        let time = if own.bursts > 0.0 { own.bursts } else { own.on_cpu_ns };
        let counted =
            Counted { llc_misses: (!own.lacks_misses).then_some(own.misses), ..own.counted };
        let stolen = |&(core, ns): &(u32, f64)| {
            ns / own.on_cpu_ns.max(1.0) * self.stolen.get(&core).map_or(0.0, |&ns| ns as f64)
        };
        Bin {
            start_ns,
            on_cpu_ns: own.on_cpu_ns,
            voluntary_switches: own.switches,
            counted: own.has_counters.then_some(counted),
            progress: own.progress,
            stolen: self
                .stolen_known
                .then(|| own.cores.iter().map(stolen).sum::<f64>() / length_ns.max(1) as f64),
            freq_mhz: (own.freq_known_ns > 0.0).then(|| own.freq_ns / own.freq_known_ns),
            wait_ns: own.wait_ns,
            probe: (own.bursts > 0.0).then(|| own.probe / own.bursts),
            exposures: self.exposures(seat, time, seats),
            held,
        }
    }

    fn exposures(&self, seat: usize, time: f64, seats: &Seats) -> Box<[Exposure]> {
        let row = &self.beside[seat * self.columns..][..self.columns];
        let beside = row.iter().enumerate().filter(|(_, ns_cores)| **ns_cores > 0.0);
        let one = |(column, ns_cores): (usize, &f64)| {
            let (seat, way) = (column / STRIDE, column % STRIDE);
            let subject = seats.subject(seat).filter(|_| seat < self.last());
            Some((subject, *WAYS.get(way)?, *ns_cores))
        };
        Exposure::list(beside.filter_map(one), time)
    }
}
