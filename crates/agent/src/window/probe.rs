//! Bursts of the probe into samples of the node.

use super::source::SourceWindow;
use crosstalk_model::{ProbeReading, ProbeState};
use crosstalk_sources::Domains;

/// About how often a burst comes.
const PERIOD_NS: u64 = 20_000_000;

pub(super) struct Probe {
    rhythm: Rhythm,
    domains: Domains,
    offset_ns: u64,
}

impl Probe {
    pub(super) fn new(offset_ns: u64, now_ns: u64) -> Self {
        Self { rhythm: Rhythm::new(now_ns), domains: Domains::default(), offset_ns }
    }

    pub(super) fn take(&mut self, readings: &[ProbeReading], source: &SourceWindow) {
        for reading in readings {
            let at_ns = reading.read_at_ns.saturating_sub(self.offset_ns);
            let Some(covers_ns) = self.rhythm.burst(at_ns) else { continue };
            source.push(at_ns, covers_ns, &values(&self.domains.worst(*reading)));
        }
    }
}

/// The values of the probe's metrics, in their order.
fn values(reading: &ProbeReading) -> [Option<f64>; 6] {
    let contended = match reading.state {
        ProbeState::Contended => Some(1.0),
        ProbeState::Quiet => Some(0.0),
        ProbeState::Unknown => None,
    };
    [
        reading.latency_ns,
        reading.bandwidth_bytes_per_s,
        reading.write_back_ns,
        reading.inflation,
        contended,
        reading.confidence,
    ]
}

/// When bursts come, and how much time each of them stands for.
struct Rhythm {
    newest_ns: u64,
    /// The pause between bursts of late.
    usual_ns: u64,
}

impl Rhythm {
    /// A burst tells of at most so many usual pauses; the rest of a longer one is a gap.
    const MOST: u64 = 4;

    fn new(now_ns: u64) -> Self {
        Self { newest_ns: now_ns, usual_ns: PERIOD_NS }
    }

    /// The time a burst stands for: what passed since the one before it, in reason. `None` for one
    /// that comes no later than that.
    fn burst(&mut self, at_ns: u64) -> Option<u64> {
        let pause_ns = at_ns.checked_sub(self.newest_ns).filter(|pause| *pause > 0)?;
        self.newest_ns = at_ns;
        let covers_ns = pause_ns.min(Self::MOST * self.usual_ns);
        // By what it may stand for, so that one long gap does not make the next look usual.
        self.usual_ns = ((7 * self.usual_ns + covers_ns) / 8).max(1);
        Some(covers_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_burst_after_a_stop_stands_for_a_few_pauses_and_the_rest_is_a_gap() {
        let mut rhythm = Rhythm::new(0);
        let steady: u64 = (1..=100).filter_map(|at| rhythm.burst(at * 30 * MS)).sum();
        assert_eq!(steady, 3_000 * MS);
        let after_a_stop = rhythm.burst(8_000 * MS).unwrap();
        assert!((100 * MS..=140 * MS).contains(&after_a_stop), "{after_a_stop}");
        assert_eq!(rhythm.burst(8_000 * MS), None);
    }

    #[test]
    fn a_slower_rhythm_becomes_the_usual_one() {
        let mut rhythm = Rhythm::new(0);
        let last = (1..=20).filter_map(|at| rhythm.burst(at * 1_000 * MS)).last();
        assert_eq!(last, Some(1_000 * MS));
    }
}
