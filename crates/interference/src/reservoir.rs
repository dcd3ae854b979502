use crate::{Bin, Keep, Settings, Subject};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// The bins of one victim, in time order, and how much of its time they stand for.
#[derive(Clone, Debug, PartialEq)]
pub struct VictimBins<'a> {
    /// The victim.
    pub victim: Subject,
    /// Its bins.
    pub bins: Vec<&'a Bin>,
    /// Its time on cores in all, whether or not the bin was kept; 0 says that all were kept.
    pub on_cpu_ns: f64,
}

impl VictimBins<'_> {
    /// How many times the time in the bins the victim's whole time is.
    pub(crate) fn stands_for(&self) -> f64 {
        let kept: f64 = self.bins.iter().map(|bin| bin.on_cpu_ns).sum();
        if kept > 0.0 { (self.on_cpu_ns / kept).max(1.0) } else { 1.0 }
    }
}

/// A bounded number of stretches of bins: the newest, or a uniform sample of all.
#[derive(Debug)]
pub(crate) struct Reservoir {
    kept: VecDeque<Stretch>,
    filling: Stretch,
    stretches: usize,
    stretch_ns: u64,
    keep: Keep,
    finished: u64,
    /// The place of the stretch that is being filled among those kept, once it is drawn.
    place: Option<u64>,
    on_cpu_ns: BTreeMap<Subject, f64>,
    random: u64,
}

#[derive(Debug, Default)]
struct Stretch {
    start_ns: u64,
    bins: Vec<(Subject, Bin)>,
}

/// Victims whose time is summed for a sample; more are judged by the sample alone.
const MOST_VICTIMS: usize = 4_096;

impl Reservoir {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            kept: VecDeque::new(),
            filling: Stretch::default(),
            stretches: settings.stretches.max(1),
            stretch_ns: settings.bin_ns.saturating_mul(settings.stretch_bins.max(1) as u64).max(1),
            keep: settings.keep,
            finished: 0,
            place: None,
            on_cpu_ns: BTreeMap::new(),
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    /// Begins the bin at `start_ns`. Whether it will be kept: if not, nothing but the time of who ran in it counts.
    pub(crate) fn begin(&mut self, start_ns: u64) -> bool {
        let stretch_ns = start_ns - start_ns % self.stretch_ns;
        if stretch_ns != self.filling.start_ns {
            let full = std::mem::take(&mut self.filling);
            self.filling.start_ns = stretch_ns;
            if !full.bins.is_empty() {
                self.keep(full);
            }
            self.forget_old(start_ns);
        }
        if self.place.is_none() {
            self.place = Some(self.draw_place());
        }
        self.is_kept()
    }

    /// Every stretch so far is kept with equal probability (Vitter's algorithm R). It is drawn before it is filled, so
    /// that most of a long recording need not be looked at closely.
    fn draw_place(&mut self) -> u64 {
        match self.keep {
            Keep::Sample if self.kept.len() >= self.stretches => self.draw(self.finished + 1),
            _ => 0,
        }
    }

    /// Whether the stretch that is being filled will be kept.
    fn is_kept(&self) -> bool {
        self.place.is_none_or(|place| place < self.stretches as u64)
    }

    /// Time from here to the end of the stretch.
    pub(crate) const fn left_ns(&self, start_ns: u64) -> u64 {
        self.stretch_ns - start_ns % self.stretch_ns
    }

    pub(crate) fn add(&mut self, start_ns: u64, bins: Vec<(Subject, Bin)>) {
        self.begin(start_ns);
        if self.keep == Keep::Sample {
            for (subject, bin) in &bins {
                if self.on_cpu_ns.len() < MOST_VICTIMS || self.on_cpu_ns.contains_key(subject) {
                    *self.on_cpu_ns.entry(*subject).or_default() += bin.on_cpu_ns;
                }
            }
        }
        self.filling.bins.extend(bins);
        self.forget_old(start_ns);
    }

    fn keep(&mut self, mut full: Stretch) {
        let is_kept = self.is_kept();
        let place = self.place.take().unwrap_or(0);
        self.finished += 1;
        if !is_kept {
            return;
        }
        full.bins.shrink_to_fit();
        if self.keep == Keep::Sample && self.kept.len() >= self.stretches {
            self.kept.remove(place as usize);
        }
        self.kept.push_back(full);
    }

    /// The stretches that are kept, the one that is being filled last.
    fn all(&self) -> impl Iterator<Item = &Stretch> {
        self.kept.iter().chain(self.is_kept().then_some(&self.filling))
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Stretch> {
        let filling = self.is_kept().then_some(&mut self.filling);
        self.kept.iter_mut().chain(filling)
    }

    fn forget_old(&mut self, now_ns: u64) {
        if self.keep == Keep::Sample {
            return;
        }
        let memory_ns = self.stretch_ns.saturating_mul(self.stretches as u64);
        let oldest_ns = now_ns.saturating_sub(memory_ns);
        while self.kept.len() >= self.stretches
            || self.kept.front().is_some_and(|one| one.start_ns < oldest_ns)
        {
            self.kept.pop_front();
        }
    }

    /// A number below `below`, the same in every run: verdicts on one recording do not change by themselves.
    fn draw(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below.max(1)
    }

    /// The time of every stretch that is kept.
    pub(crate) fn stretches(&self) -> Vec<Range<u64>> {
        let kept = self.all().filter(|one| !one.bins.is_empty());
        let time = |one: &Stretch| one.start_ns..one.start_ns.saturating_add(self.stretch_ns);
        let mut times: Vec<Range<u64>> = kept.map(time).collect();
        times.sort_by_key(|time| time.start);
        times
    }

    /// All bins that are kept.
    pub(crate) fn bins_mut(&mut self) -> impl Iterator<Item = (Subject, &mut Bin)> {
        self.all_mut().flat_map(|one| &mut one.bins).map(|(subject, bin)| (*subject, bin))
    }

    /// Puts a bin beside those of its time, if they are kept.
    pub(crate) fn put(&mut self, subject: Subject, bin: Bin) {
        let stretch_ns = bin.start_ns - bin.start_ns % self.stretch_ns;
        if let Some(stretch) = self.all_mut().find(|one| one.start_ns == stretch_ns) {
            stretch.bins.push((subject, bin));
        }
    }

    pub(crate) fn by_victim(&self) -> Vec<VictimBins<'_>> {
        let mut victims: BTreeMap<Subject, Vec<&Bin>> = BTreeMap::new();
        for (subject, bin) in self.all().flat_map(|one| &one.bins) {
            victims.entry(*subject).or_default().push(bin);
        }
        let bins = |(victim, bins)| VictimBins {
            victim,
            bins,
            on_cpu_ns: self.on_cpu_ns.get(&victim).copied().unwrap_or(0.0),
        };
        victims.into_iter().map(bins).collect()
    }
}
