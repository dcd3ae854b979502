//! Verdicts against the truth.

use crosstalk_figure::Figure;
use crosstalk_probe::{ProbeReading, State};
use std::collections::BTreeMap;

/// Lower edges of what is counted together, and the share of it that should be right.
const BUCKETS: [(f64, f64); 4] = [(0.7, 0.7), (0.8, 0.8), (0.9, 0.9), (0.95, 0.9)];

/// All that was told, and how much of it was right.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Right and all, by bucket.
    buckets: [(usize, usize); BUCKETS.len()],
    /// Bursts whose truth is arguable.
    arguable: usize,
    falsely_contended: usize,
    falsely_quiet: usize,
    unknown: BTreeMap<&'static str, usize>,
    all: usize,
}

impl Tally {
    /// `truth` is absent where it can be argued.
    pub(crate) fn take(&mut self, reading: &ProbeReading, truth: Option<State>) {
        self.all += 1;
        if let Some(blind) = reading.blind {
            *self.unknown.entry(blind.name()).or_default() += 1;
        }
        let Some(confidence) = reading.confidence else { return };
        let Some(truth) = truth else {
            self.arguable += 1;
            return;
        };
        let bucket = BUCKETS.iter().rposition(|(edge, _)| confidence >= *edge).unwrap_or(0);
        self.buckets[bucket].1 += 1;
        match (reading.state, truth) {
            (told, truth) if told == truth => self.buckets[bucket].0 += 1,
            (State::Contended, _) => self.falsely_contended += 1,
            _ => self.falsely_quiet += 1,
        }
    }

    /// Share of the bursts that came with a verdict.
    fn judged(&self) -> f64 {
        let unknown: usize = self.unknown.values().sum();
        percent(self.all - unknown, self.all)
    }

    pub(crate) fn calibration(&self) -> Vec<Figure> {
        let upper = BUCKETS.iter().skip(1).map(|(edge, _)| *edge).chain([1.0]);
        let mut figures: Vec<Figure> = Vec::new();
        for (((edge, least), upper), (right, all)) in BUCKETS.iter().zip(upper).zip(&self.buckets) {
            let what = format!("verdicts at {edge:.2} to {upper:.2}: right");
            if *all == 0 {
                figures.push(Figure::new(what, "none told"));
                continue;
            }
            let share = percent(*right, *all);
            let target = format!("at least {:.0} %", least * 100.0);
            let met = share >= least * 100.0;
            figures.push(Figure::new(what, format!("{share:.1} % of {all}")).against(target, met));
        }
        let sure = BUCKETS.iter().zip(&self.buckets).filter(|((edge, _), _)| *edge >= 0.9);
        let (right, all) = sure.fold((0, 0), |sum, (_, one)| (sum.0 + one.0, sum.1 + one.1));
        let share = percent(right, all);
        figures.push(
            Figure::new("verdicts at 0.90 and more: right", format!("{share:.1} % of {all}"))
                .against("at least 90 %", all > 0 && share >= 90.0),
        );
        let wrong = format!("{} contended, {} quiet", self.falsely_contended, self.falsely_quiet);
        figures.push(Figure::new("wrong verdicts, by what was told", wrong));
        if self.arguable > 0 {
            let arguable = self.arguable.to_string();
            figures
                .push(Figure::new("verdicts beside a stream that slows others a little", arguable));
        }
        figures
    }

    pub(crate) fn unknown(&self, which: &str) -> Figure {
        let why: Vec<String> =
            self.unknown.iter().map(|(why, count)| format!("{count} {why}")).collect();
        let value = format!("{:.0} % of {} ({})", self.judged(), self.all, why.join(", "));
        Figure::new(format!("bursts judged, {which}"), value)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (mine, other) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine = (mine.0 + other.0, mine.1 + other.1);
        }
        for (why, count) in &other.unknown {
            *self.unknown.entry(why).or_default() += count;
        }
        self.arguable += other.arguable;
        self.falsely_contended += other.falsely_contended;
        self.falsely_quiet += other.falsely_quiet;
        self.all += other.all;
    }
}

pub(crate) fn percent(part: usize, all: usize) -> f64 {
    100.0 * part as f64 / all.max(1) as f64
}
