use crate::observer::MOST_LOST;
use crate::reservoir::Reservoir;
use crate::seats::Seats;
use crate::{Bin, Exposure, Findings, Settings, Subject, VictimBins};
use std::ops::Range;

/// Bins whose statistics somebody else sums, such as a query engine over recordings of many machines.
///
/// First every bin is told with who ran in it for how long ([`Ledger::bin`]): that decides who has a seat and which
/// stretches are kept, as in an [`crate::Observer`]. Then the statistics are asked for in those stretches only
/// ([`Ledger::stretches`]) and filled in ([`Ledger::bins_mut`]), and the same core judges them. The cost of all that is
/// more than a sum does not grow with the length of a recording.
///
/// ```
/// use crosstalk_interference::{Ledger, Settings, Subject};
///
/// let mut ledger = Ledger::new(Settings::recording());
/// ledger.bin(40_000_000, 40, 0, &[(Subject(0), 7_000_000), (Subject(1), 40_000_000)]);
/// assert_eq!(ledger.stretches(), [0..10_000_000_000]);
/// for (who, bin) in ledger.bins_mut() {
///     bin.voluntary_switches = f64::from(who.0);
/// }
/// assert!(ledger.findings().verdicts.is_empty(), "one bin says nothing");
/// ```
#[derive(Debug)]
pub struct Ledger {
    settings: Settings,
    seats: Seats,
    kept: Reservoir,
}

impl Ledger {
    /// Nothing told yet.
    pub fn new(settings: Settings) -> Self {
        Self { seats: Seats::new(settings.seats), kept: Reservoir::new(&settings), settings }
    }

    /// The next bin in time: its slots, how many of them rows were lost of, and who ran in the others, in the order in
    /// which they first did. The last bin of a recording is not whole, and not to be told.
    pub fn bin(&mut self, start_ns: u64, slots: u64, lost: u64, ran: &[(Subject, u64)]) {
        let mut bins = Vec::new();
        for &(subject, on_cpu_ns) in ran.iter().filter(|(subject, _)| !subject.is_reserved()) {
            if self.seats.of(subject, on_cpu_ns).is_some() && on_cpu_ns > 0 {
                bins.push((subject, Bin::of_time(start_ns, on_cpu_ns as f64)));
            }
        }
        if lost as f64 <= MOST_LOST * slots as f64 {
            self.kept.add(start_ns, bins);
        }
        self.seats.rearrange();
    }

    /// The stretches of time that are kept.
    pub fn stretches(&self) -> Vec<Range<u64>> {
        self.kept.stretches()
    }

    /// The bins that are kept, to be filled in.
    pub fn bins_mut(&mut self) -> impl Iterator<Item = (Subject, &mut Bin)> {
        self.kept.bins_mut()
    }

    /// What the memory probe met in a bin: the mean of the logarithms of its costs, and who ran beside its bursts.
    pub fn probe(&mut self, start_ns: u64, log_cost: f64, beside: Box<[Exposure]>) {
        let met = Bin { probe: Some(log_cost), exposures: beside, ..Bin::of_time(start_ns, 0.0) };
        self.kept.put(Subject::PROBE, met);
    }

    /// Who slowed whom.
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
}
