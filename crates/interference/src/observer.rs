use crate::holders::{Holders, MOST_SLOTS};
use crate::open_bin::{OpenBin, STRIDE};
use crate::reservoir::Reservoir;
use crate::seats::Seats;
use crate::together::Together;
use crate::{Bin, Findings, Settings, Slot, Subject, Topology, VictimBins};

/// Share of a bin's time that may be lost before the bin is worth nothing.
pub(crate) const MOST_LOST: f64 = 0.25;
/// A slot this much older than the bin at hand is not late: the clock was set.
const SET_BACK_NS: u64 = 5_000_000_000;

/// Takes slots in their order, in memory that does not grow, and says at any time who slowed whom.
///
/// With [`Settings::live`] it speaks of the last seconds, with [`Settings::recording`] of everything pushed.
/// A slot of 12 rows takes about 0.5 us, one of 36 about 1.3 us (`tests/live.rs` measures it, at opt-level 2):
/// at 1000 slots a second 0.05 and 0.13 % of a core. A look at 60 s of 16 victims takes some tens of ms.
#[derive(Debug)]
pub struct Observer {
    settings: Settings,
    topology: Topology,
    seats: Seats,
    holders: Holders,
    open: OpenBin,
    together: Together,
    open_ns: Option<u64>,
    seen_ns: u64,
    lost_ns: u64,
    late: u64,
    kept: Reservoir,
    /// Whether the bin at hand will be kept: if not, only who ran for how long is of use.
    is_kept: bool,
    scratch: Vec<Seated>,
    waits: Vec<Wait>,
}

#[derive(Clone, Copy, Debug)]
struct Seated {
    seat: usize,
    core: u32,
    on_cpu: f64,
    share: f64,
}

/// A wait that ended in the slot at hand.
#[derive(Clone, Copy, Debug)]
struct Wait {
    seat: usize,
    subject: Subject,
    core: u32,
    ns: u64,
}

impl Observer {
    /// Nothing seen yet.
    pub fn new(topology: Topology, settings: Settings) -> Self {
        let seats = Seats::new(settings.seats);
        Self {
            open: OpenBin::new(seats.most()),
            together: Together::new(seats.most() + 1, &topology),
            seats,
            topology,
            holders: Holders::default(),
            open_ns: None,
            seen_ns: 0,
            lost_ns: 0,
            late: 0,
            kept: Reservoir::new(&settings),
            is_kept: true,
            scratch: Vec::new(),
            waits: Vec::new(),
            settings,
        }
    }

    /// Takes the next slot. One that lies before the bin at hand comes too late, and is counted.
    pub fn push(&mut self, slot: &Slot<'_>) {
        let bin_ns = self.settings.bin_ns.max(1);
        let start_ns = slot.start_ns - slot.start_ns % bin_ns;
        match self.open_ns {
            // A clock that was set back starts anew; a straggler does not.
            Some(open_ns) if start_ns < open_ns && open_ns - start_ns < SET_BACK_NS => {
                self.late += 1;
                return;
            }
            Some(open_ns) if start_ns != open_ns => self.close(open_ns),
            _ => {}
        }
        if self.open_ns != Some(start_ns) {
            self.open_ns = Some(start_ns);
            self.is_kept = self.kept.begin(start_ns);
        }
        self.seen_ns = self.seen_ns.saturating_add(slot.length_ns);
        if slot.lost || slot.length_ns == 0 {
            self.lost_ns = self.lost_ns.saturating_add(slot.length_ns);
            return;
        }
        // Waits are divided in bins that are kept; the first of a stretch may have begun in the one before.
        let looked_back_ns = slot.length_ns.saturating_mul(MOST_SLOTS as u64);
        if self.is_kept || self.kept.left_ns(slot.start_ns) <= looked_back_ns {
            self.holders.note(slot);
        }
        if self.is_kept {
            self.add_activity::<true>(slot);
            self.add_exposures();
            self.add_bursts(slot);
        } else {
            self.add_activity::<false>(slot);
        }
        self.add_asides(slot);
        self.add_waits(slot);
    }

    /// Slots that came too late to count.
    pub const fn late(&self) -> u64 {
        self.late
    }

    /// Who slowed whom in what is remembered.
    pub fn findings(&self) -> Findings {
        crate::judge(&self.victims(), &self.settings)
    }

    /// How many stretches are kept of how many, if not all are: then losses are estimated from a sample.
    pub fn sampled(&self) -> Option<[u64; 2]> {
        self.kept.sampled()
    }

    /// The statistics behind, by victim.
    pub fn victims(&self) -> Vec<VictimBins<'_>> {
        self.kept.by_victim()
    }

    /// Sums up who ran, closely if the bin is kept.
    fn add_activity<const IS_KEPT: bool>(&mut self, slot: &Slot<'_>) {
        self.scratch.clear();
        self.waits.clear();
        let length = slot.length_ns as f64;
        for entry in slot.entries {
            if entry.subject.is_reserved() {
                continue;
            }
            let seat = self.seats.of(entry.subject, entry.on_cpu_ns);
            if let Some(seat) = seat {
                if IS_KEPT {
                    self.open.add_activity(seat, entry);
                } else {
                    self.open.add_time(seat, entry.on_cpu_ns);
                }
                if let Some(ns) = entry.wait_ns.filter(|&ns| ns > 0) {
                    let (subject, core) = (entry.subject, entry.core);
                    self.waits.push(Wait { seat, subject, core, ns });
                }
            }
            if IS_KEPT && entry.on_cpu_ns > 0 {
                let on_cpu = entry.on_cpu_ns as f64;
                let share = (on_cpu / length).min(1.0);
                let seat = seat.unwrap_or(self.open.last());
                self.scratch.push(Seated { seat, core: entry.core, on_cpu, share });
            }
        }
    }

    fn add_exposures(&mut self) {
        let Self { together, scratch, open, topology, .. } = self;
        if scratch.iter().all(|one| together.ran(one.seat, one.core, one.on_cpu, one.share)) {
            together.sum();
            return;
        }
        together.forget_slot();
        let others = open.last();
        for victim in scratch.iter().filter(|one| one.seat != others) {
            add(open.beside(victim.seat), topology, victim.core, victim.on_cpu, scratch);
        }
    }

    fn add_bursts(&mut self, slot: &Slot<'_>) {
        let probe = self.open.last();
        for burst in slot.bursts.iter().filter(|burst| burst.cost.is_finite() && burst.cost > 0.0) {
            self.open.add_burst(burst.cost.ln());
            add(self.open.beside(probe), &self.topology, burst.core, 1.0, &self.scratch);
        }
    }

    fn add_asides(&mut self, slot: &Slot<'_>) {
        if let Some(stolen) = slot.stolen {
            self.open.add_stolen(stolen);
        }
        let named = |subject: Subject| !subject.is_reserved();
        for &(subject, units) in slot.progress.iter().filter(|one| named(one.0)) {
            if let (Some(seat), true) =
                (self.seats.of(subject, 0), units.is_finite() && units >= 0.0)
            {
                self.open.add_progress(seat, units);
            }
        }
        for &(subject, ns) in slot.throttled.iter().filter(|one| named(one.0)) {
            if let Some(seat) = self.seats.of(subject, 0) {
                self.open.add_throttled(seat, ns);
            }
        }
    }

    fn add_waits(&mut self, slot: &Slot<'_>) {
        let Self { open, holders, waits, is_kept, .. } = self;
        for &Wait { seat, subject, core, ns } in &*waits {
            let ns = open.add_wait(seat, ns);
            // What was all its own quota nobody held a core for.
            if *is_kept && ns > 0 {
                let at_ns = slot.start_ns;
                holders.split(subject, core, at_ns, ns, |held| open.add_held(seat, at_ns, held));
            }
        }
    }

    fn close(&mut self, open_ns: u64) {
        if !self.is_kept {
            let bins = self.open.close_times(open_ns, self.settings.bin_ns, &self.seats);
            return self.keep(open_ns, bins);
        }
        let (open, others) = (&mut self.open, self.seats.most());
        self.together.take(&self.topology, |victim, neighbour, way, sum| {
            if victim != others {
                open.beside(victim)[neighbour * STRIDE + usize::from(way)] += sum;
            }
        });
        let bins = self.open.close(open_ns, self.settings.bin_ns, &self.seats);
        self.keep(open_ns, bins);
    }

    fn keep(&mut self, open_ns: u64, bins: Vec<(Subject, Bin)>) {
        if self.lost_ns as f64 <= MOST_LOST * self.seen_ns as f64 {
            self.kept.add(open_ns, bins);
        }
        (self.seen_ns, self.lost_ns) = (0, 0);
        self.seats.rearrange();
    }
}

/// Adds all who ran to what was beside somebody on `core` for a time.
fn add(beside: &mut [f64], topology: &Topology, core: u32, time: f64, ran: &[Seated]) {
    for neighbour in ran {
        let way = topology.number(core, neighbour.core);
        beside[neighbour.seat * STRIDE + usize::from(way)] += time * neighbour.share;
    }
}
