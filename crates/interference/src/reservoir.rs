use crate::sample::{Census, Kept, Ran, Sample, Whole};
use crate::{Bin, Keep, Settings, Subject};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// The bins of one victim, in time order, and how they stand for its whole time.
#[derive(Clone, Debug, PartialEq)]
pub struct VictimBins<'a> {
    /// The victim.
    pub victim: Subject,
    /// Its bins.
    pub bins: Vec<&'a Bin>,
    /// What the bins are a sample of; none says that all were kept.
    pub sample: Option<Arc<Sample>>,
}

impl VictimBins<'_> {
    /// How many bins the one at `start_ns` stands for.
    pub(crate) fn weight(&self, start_ns: u64) -> f64 {
        self.sample.as_ref().map_or(1.0, |sample| sample.weight(start_ns))
    }

    /// What a loss to others comes to in all, of which so much was measured in bins with these starts.
    pub(crate) fn whole(
        &self,
        others: &[Subject],
        lost: impl Iterator<Item = (u64, f64)>,
    ) -> Whole {
        let sample = self.sample.as_ref();
        sample.map_or(Whole::MEASURED, |sample| sample.whole(self.victim, others, lost))
    }
}

/// A bounded number of stretches of bins: the newest; or a uniform sample of all, and besides some that follow a stretch
/// in which somebody ran much more than in those that are kept. A neighbour that is there for half a minute of an hour
/// would be in few uniform samples.
#[derive(Debug)]
pub(crate) struct Reservoir {
    kept: VecDeque<Stretch>,
    newcomers: Vec<Stretch>,
    filling: Stretch,
    stretches: usize,
    most_newcomers: usize,
    stretch_ns: u64,
    keep: Keep,
    finished: u64,
    /// Stretches that newcomers had a claim to.
    claimed: u64,
    /// Who ran in the stretch before the one that is being filled.
    before: Ran,
    /// The place of the stretch that is being filled among those kept, once it is drawn.
    place: Option<Place>,
    census: Census,
    random: u64,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    /// In the uniform sample, or among the newest.
    Among(usize),
    /// Among those for newcomers.
    ForNewcomers(usize),
    Nowhere,
}

#[derive(Debug, Default)]
struct Stretch {
    start_ns: u64,
    /// Which it is, in the order in which they came.
    number: u64,
    bins: Vec<(Subject, Bin)>,
    ran: Ran,
}

/// Share of a stretch that somebody runs at least to be noticed.
const NOTICED: f64 = 0.05;
/// Who ran more than so many times as long as in all the stretches that are kept but a few has a claim to another.
const MUCH_MORE: f64 = 2.0;
/// So few: a neighbour has to be seen on and off, more than once, and what was drawn may have to make room again.
const SEEN: usize = 3;

impl Reservoir {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            kept: VecDeque::new(),
            newcomers: Vec::new(),
            filling: Stretch::default(),
            stretches: settings.stretches.max(1),
            most_newcomers: settings.newcomers,
            stretch_ns: settings.bin_ns.saturating_mul(settings.stretch_bins.max(1) as u64).max(1),
            keep: settings.keep,
            finished: 0,
            claimed: 0,
            before: Ran::new(),
            place: None,
            census: Census::default(),
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
            self.filling.number = self.finished;
            self.forget_old(start_ns);
        }
        if self.place.is_none() {
            self.place = Some(self.draw_place());
        }
        self.is_kept()
    }

    /// What newcomers have no claim to is kept with equal probability (Vitter's algorithm R), and so are claims beyond their
    /// number. It is drawn before it is filled, so that most of a long recording need not be looked at closely.
    fn draw_place(&mut self) -> Place {
        if self.keep == Keep::Newest || self.kept.len() < self.stretches {
            return Place::Among(0);
        }
        if let Some(place) = self.place_for_newcomers() {
            return Place::ForNewcomers(place);
        }
        let others = self.finished - self.newcomers.len() as u64;
        let place = self.draw(others + 1) as usize;
        if place < self.stretches { Place::Among(place) } else { Place::Nowhere }
    }

    fn place_for_newcomers(&mut self) -> Option<usize> {
        if self.most_newcomers == 0 || !self.has_newcomer() {
            return None;
        }
        self.claimed += 1;
        let place = match self.newcomers.len() {
            many if many < self.most_newcomers => many,
            _ => self.draw(self.claimed) as usize,
        };
        (place < self.most_newcomers).then_some(place)
    }

    /// Whether somebody ran much more in the stretch before than in those that are kept.
    fn has_newcomer(&self) -> bool {
        let least = NOTICED * self.stretch_ns as f64;
        let is_new = |(who, ns): (&Subject, &f64)| {
            let runs = |one: &&Stretch| one.ran.get(who).is_some_and(|ran| MUCH_MORE * ran >= *ns);
            *ns >= least && self.all().filter(runs).count() < SEEN
        };
        self.before.iter().any(is_new)
    }

    /// Whether the stretch that is being filled will be kept.
    fn is_kept(&self) -> bool {
        !matches!(self.place, Some(Place::Nowhere))
    }

    /// Time from here to the end of the stretch.
    pub(crate) const fn left_ns(&self, start_ns: u64) -> u64 {
        self.stretch_ns - start_ns % self.stretch_ns
    }

    pub(crate) fn add(&mut self, start_ns: u64, bins: Vec<(Subject, Bin)>) {
        self.begin(start_ns);
        if self.keep == Keep::Sample {
            for (subject, bin) in bins.iter().filter(|(subject, _)| !subject.is_reserved()) {
                *self.filling.ran.entry(*subject).or_default() += bin.on_cpu_ns;
            }
        }
        self.filling.bins.extend(bins);
        self.forget_old(start_ns);
    }

    fn keep(&mut self, mut full: Stretch) {
        let place = self.place.take().unwrap_or(Place::Among(0));
        self.finished += 1;
        full.bins.shrink_to_fit();
        if self.keep == Keep::Sample {
            self.before = full.ran.clone();
        }
        match place {
            Place::Among(at) => {
                if self.keep == Keep::Sample && self.kept.len() >= self.stretches {
                    self.kept.remove(at);
                }
                self.kept.push_back(full);
            }
            Place::ForNewcomers(at) if at < self.newcomers.len() => self.newcomers[at] = full,
            Place::ForNewcomers(_) => self.newcomers.push(full),
            Place::Nowhere => {}
        }
        if self.keep == Keep::Sample {
            let Self { census, kept, newcomers, before, .. } = self;
            let all = || kept.iter().chain(&*newcomers);
            census.add(before, |who| all().any(|one| one.ran.contains_key(&who)));
        }
    }

    /// The stretches that are kept, the one that is being filled last.
    fn all(&self) -> impl Iterator<Item = &Stretch> {
        let filling = self.is_kept().then_some(&self.filling);
        self.kept.iter().chain(&self.newcomers).chain(filling)
    }

    fn all_mut(&mut self) -> impl Iterator<Item = &mut Stretch> {
        let filling = self.is_kept().then_some(&mut self.filling);
        self.kept.iter_mut().chain(&mut self.newcomers).chain(filling)
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

    /// How many stretches are kept of how many, if not all are.
    pub(crate) fn sampled(&self) -> Option<[u64; 2]> {
        let all = self.finished + u64::from(!self.filling.bins.is_empty());
        let kept = self.all().filter(|one| !one.bins.is_empty()).count() as u64;
        (self.keep == Keep::Sample && kept < all).then_some([kept, all])
    }

    /// How those that are kept stand for all, if not all are.
    fn sample(&self) -> Option<Sample> {
        let [kept, count] = self.sampled()?;
        let mut all = self.census.clone();
        if !self.filling.bins.is_empty() {
            all.add(&self.filling.ran, |_| true);
        }
        // One that is kept for newcomers stands for itself, the others for all the rest.
        let filling = matches!(self.place, Some(Place::ForNewcomers(_)))
            .then_some(&self.filling)
            .filter(|one| !one.bins.is_empty());
        let alone = || self.newcomers.iter().chain(filling).map(|one| one.start_ns);
        let many = alone().count() as u64;
        let weight = (count - many) as f64 / (kept - many).max(1) as f64;
        let one = |stretch: &Stretch| {
            let weight = if alone().any(|at| at == stretch.start_ns) { 1.0 } else { weight };
            (stretch.start_ns, Kept { weight, ran: stretch.ran.clone() })
        };
        let kept = self.all().filter(|one| !one.bins.is_empty()).map(one).collect();
        Some(Sample { stretch_ns: self.stretch_ns, kept, all })
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
        let mut stretches: Vec<&Stretch> = self.all().collect();
        stretches.sort_by_key(|one| one.number);
        let mut victims: BTreeMap<Subject, Vec<&Bin>> = BTreeMap::new();
        for (subject, bin) in stretches.into_iter().flat_map(|one| &one.bins) {
            victims.entry(*subject).or_default().push(bin);
        }
        let sample = self.sample().map(Arc::new);
        let bins = |(victim, bins)| VictimBins { victim, bins, sample: sample.clone() };
        victims.into_iter().map(bins).collect()
    }
}
