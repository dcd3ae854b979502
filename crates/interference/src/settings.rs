/// Which bins are kept once memory is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The newest: the live form.
    Newest,
    /// A sample of stretches of the whole, uniform but for newcomers: the form for recordings of any length.
    Sample,
}

/// Limits and thresholds. The defaults are those the accuracy was measured with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Length of a bin: long enough that a bin's cost is not noise, short beside the phases of neighbours.
    pub bin_ns: u64,
    /// Bins in a stretch, the unit that is kept or dropped.
    pub stretch_bins: usize,
    /// Stretches kept.
    pub stretches: usize,
    /// Stretches kept of a sample besides, for those who run much more than in the others.
    pub newcomers: usize,
    /// What is dropped beyond.
    pub keep: Keep,
    /// Subjects with a seat: the busiest, each both victim and neighbour.
    pub seats: usize,
    /// Neighbours with a column of their own, for each victim: those it is most exposed to.
    pub neighbours: usize,
    /// Mean exposure, in cores, below which nobody is blamed.
    pub least_exposure: f64,
    /// Share of a victim's time below which a loss is not worth a verdict.
    pub least_loss: f64,
    /// Chance that a recording names anybody innocent at all.
    pub false_alarm: f64,
    /// Correlation of exposures from which neighbours are one group.
    pub same: f64,
    /// Threads that judge. Live it is one: nobody waits for it, and it is to be small.
    pub threads: usize,
}

impl Settings {
    /// The last `seconds`; of a minute in at most 20 MB.
    pub fn live(seconds: usize) -> Self {
        Self {
            stretch_bins: 25,
            stretches: seconds.max(1),
            newcomers: 0,
            keep: Keep::Newest,
            seats: 16,
            threads: 1,
            ..Self::recording()
        }
    }

    /// A recording of any length, in at most 145 MB: up to three minutes are kept whole, of longer ones a sample.
    pub const fn recording() -> Self {
        Self {
            bin_ns: 40_000_000,
            stretch_bins: 250,
            stretches: 18,
            newcomers: 6,
            keep: Keep::Sample,
            seats: 32,
            neighbours: 31,
            least_exposure: 0.01,
            least_loss: 0.01,
            false_alarm: 0.02,
            same: 0.9,
            threads: 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open_bin::{MOST_EXPOSURES, MOST_HELD};
    use crate::{Bin, Exposure, Held};

    /// Every seat and the probe busy in every bin, beside as many as a bin can list.
    fn most_bytes(settings: &Settings) -> usize {
        let bin = size_of::<Bin>()
            + MOST_EXPOSURES * size_of::<Exposure>()
            + MOST_HELD * size_of::<Held>();
        let stretches = settings.stretches + settings.newcomers + 1;
        bin * (settings.seats + 1) * settings.stretch_bins * stretches
    }

    #[test]
    fn memory_is_what_the_documentation_says() {
        let (live, recording) = (Settings::live(60), Settings::recording());
        assert!(most_bytes(&live) <= 20_000_000, "{}", most_bytes(&live));
        assert!(most_bytes(&recording) <= 145_000_000, "{}", most_bytes(&recording));
    }
}
