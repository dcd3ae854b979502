//! How long an experiment will take, before it is begun.

use super::{Round, rounds};
use crate::experiment::{End, Experiment};
use std::fmt;
use std::time::Duration;

/// What is known beforehand of the time that all rounds take, without preparing and removing containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// About so long.
    About(Duration),
    /// So long, or less if everybody ends before.
    AtMost(Duration),
    /// Until a container ends of which the file does not say when, or a signal comes.
    Unknown,
    /// Until a signal comes, whoever has ended.
    UntilSignal,
}

impl Length {
    /// Of all rounds of an experiment.
    pub fn of(experiment: &Experiment) -> Self {
        let mut whole = Self::About(Duration::ZERO);
        for round in rounds(experiment) {
            whole = whole.and(Self::of_round(experiment, &round));
        }
        whole
    }

    fn of_round(experiment: &Experiment, round: &Round) -> Self {
        let last = round.planned.iter().map(|planned| {
            let mut named = experiment.containers.iter();
            let container = named.find(|container| container.index == planned.index);
            let expected = container.and_then(|c| c.expected).map(|e| planned.start + e);
            [expected, planned.stop].into_iter().flatten().min()
        });
        let known: Option<Vec<Duration>> = last.collect();
        let known = known.map(|times| times.into_iter().max().unwrap_or_default());
        if round.end == End::OnSignal {
            return Self::UntilSignal;
        }
        match (known, round.end.after()) {
            (Some(last), end) => Self::About(end.map_or(last, |end| end.min(last))),
            (None, Some(end)) => Self::AtMost(end),
            (None, None) => Self::Unknown,
        }
    }

    fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::About(a), Self::About(b)) => Self::About(a + b),
            (Self::About(a) | Self::AtMost(a), Self::About(b) | Self::AtMost(b)) => {
                Self::AtMost(a + b)
            }
            (Self::UntilSignal, _) | (_, Self::UntilSignal) => Self::UntilSignal,
            _ => Self::Unknown,
        }
    }
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (word, time) = match self {
            Self::About(time) => ("about", time),
            Self::AtMost(time) => ("at most", time),
            Self::Unknown => return f.write_str("until everybody has ended, or a signal"),
            Self::UntilSignal => return f.write_str("until a signal"),
        };
        let seconds = time.as_secs_f64().round() as u64;
        match (seconds / 3_600, seconds / 60 % 60, seconds % 60) {
            (0, 0, seconds) => write!(f, "{word} {seconds} s"),
            (0, minutes, seconds) => write!(f, "{word} {minutes} min {seconds} s"),
            (hours, minutes, _) => write!(f, "{word} {hours} h {minutes} min"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Surroundings, Variables};

    fn length(benchmark: &str, containers: &str) -> String {
        let around = Surroundings {
            cpus: [0].into_iter().collect(),
            path: vec!["/bin".into(), "/usr/bin".into()],
        };
        let text = format!("benchmark: {{name: x{benchmark}}}\n{containers}");
        let read = Experiment::parse("e.yaml", &text, &Variables::default(), &around);
        Length::of(&read.unwrap()).to_string()
    }

    #[test]
    fn a_length_is_told_as_surely_as_it_is_known() {
        let ends = "a: {index: 0, command: sh, start: 2, expected_t: 60}\n";
        assert_eq!(length("", ends), "about 1 min 2 s");
        assert_eq!(length(", max_t: 30", ends), "about 30 s");
        assert_eq!(length(", repeats: 3, solo: true", ends), "about 6 min 6 s");
        let open = "a: {index: 0, command: sh}\nb: {index: 1, command: sh, stop: 9}\n";
        assert_eq!(length("", open), "until everybody has ended, or a signal");
        assert_eq!(length(", max_t: 3700", open), "at most 1 h 1 min");
        assert_eq!(length(", max_t: -1", open), "until a signal");
        assert_eq!(length(", max_t: -1, solo: true", ends), "until a signal");
    }
}
