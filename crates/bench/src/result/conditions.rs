//! Who else ran while a container did a piece of its work.

use super::read::{Recorded, RunningSpan};
use crate::store::EventKind;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// What a container worked under; the default is alone.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Condition {
    /// Who ran beside it.
    pub beside: Vec<String>,
    /// Whether somebody was held back for its sake.
    pub held_back: bool,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.beside.is_empty() {
            return f.write_str("alone");
        }
        write!(f, "beside {}", self.beside.join(", "))?;
        f.write_str(if self.held_back { ", held back" } else { "" })
    }
}

/// A stretch of time between two things a workload said, throughout which the condition was the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretch {
    /// The round.
    pub round: u32,
    /// Units of work done in it.
    pub units: f64,
    /// How long it was.
    pub seconds: f64,
    /// Under what.
    pub condition: Condition,
}

/// A time in which somebody was held back for a container.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Held {
    round: u32,
    from_ns: u64,
    to_ns: u64,
}

/// All stretches of a container. One in which somebody came, went, or began to be held back is none.
pub fn stretches(name: &str, recorded: &Recorded) -> Vec<Stretch> {
    let held = held_for(name, recorded);
    let mine = recorded.progress.iter().filter(|point| point.container == name);
    let mine: Vec<_> = mine.collect();
    let mut found = Vec::new();
    for pair in mine.windows(2) {
        let (a, b) = (pair[0], pair[1]);
        if a.round != b.round || b.at_ns <= a.at_ns || b.done < a.done {
            continue;
        }
        let Some(condition) = condition(name, a.round, a.at_ns, b.at_ns, recorded, &held) else {
            continue;
        };
        let seconds = (b.at_ns - a.at_ns) as f64 / 1e9;
        found.push(Stretch { round: a.round, units: b.done - a.done, seconds, condition });
    }
    found
}

fn condition(
    name: &str,
    round: u32,
    from_ns: u64,
    to_ns: u64,
    recorded: &Recorded,
    held: &[Held],
) -> Option<Condition> {
    let mut beside = Vec::new();
    for RunningSpan { container, round: r, from_ns: start, to_ns: end } in &recorded.running {
        if *r != round || container == name || *end <= from_ns || *start >= to_ns {
            continue;
        }
        if *start > from_ns || *end < to_ns {
            return None;
        }
        beside.push(container.clone());
    }
    beside.sort();
    let mut held_back = false;
    for span in held.iter().filter(|h| h.round == round && h.to_ns > from_ns && h.from_ns < to_ns) {
        if span.from_ns > from_ns || span.to_ns < to_ns {
            return None;
        }
        held_back = true;
    }
    // Alone, nobody is there to be held back.
    Some(Condition { held_back: held_back && !beside.is_empty(), beside })
}

fn held_for(name: &str, recorded: &Recorded) -> Vec<Held> {
    let mut all: Vec<Held> = Vec::new();
    // Whoever is held back for it, with the time that began; several may be at once.
    let mut open: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    for event in &recorded.events {
        match &event.kind {
            EventKind::Decision(d) if d.victim.as_deref() == Some(name) => match d.what.as_str() {
                "acted" => {
                    open.insert(d.container.as_deref(), all.len());
                    let (round, from_ns) = (event.round, event.unix_ns);
                    all.push(Held { round, from_ns, to_ns: u64::MAX });
                }
                "rolled back" | "released" => {
                    if let Some(at) = open.remove(&d.container.as_deref()) {
                        all[at].to_ns = event.unix_ns;
                    }
                }
                _ => {}
            },
            EventKind::Ended { .. } => {
                if let Some(at) = open.remove(&event.container.as_deref()) {
                    all[at].to_ns = event.unix_ns;
                }
            }
            EventKind::RoundOver => {
                for at in std::mem::take(&mut open).into_values() {
                    all[at].to_ns = event.unix_ns;
                }
            }
            _ => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::read::ProgressPoint;
    use crate::scheduler::Decision;
    use crate::store::Event;

    const S: u64 = 1_000_000_000;

    fn decision(what: &str, at_s: u64) -> Event {
        decision_on("noisy", what, at_s)
    }

    fn decision_on(who: &str, what: &str, at_s: u64) -> Event {
        let decision = Decision {
            what: what.to_owned(),
            container: Some(who.to_owned()),
            victim: Some("victim".to_owned()),
            message: String::new(),
            evidence: serde_json::Value::Null,
        };
        Event {
            unix_ns: at_s * S,
            seconds: at_s as f64,
            round: 0,
            container: None,
            kind: EventKind::Decision(decision),
        }
    }

    #[test]
    fn time_is_told_apart_by_who_ran_and_who_was_held_back() {
        let point = |at_s: u64| ProgressPoint {
            round: 0,
            container: "victim".to_owned(),
            at_ns: at_s * S,
            done: at_s as f64 * 10.0,
        };
        let span = |name: &str, from: u64, to: u64| RunningSpan {
            container: name.to_owned(),
            round: 0,
            from_ns: from * S + S / 2,
            to_ns: to * S + S / 2,
        };
        let recorded = Recorded {
            progress: (0..=20).map(point).collect(),
            running: vec![span("victim", 0, 30), span("noisy", 5, 15)],
            events: vec![decision("acted", 9), decision("kept", 11)],
            ..Recorded::default()
        };
        let all = stretches("victim", &recorded);
        let count = |beside: bool, held: bool| {
            let is = |s: &&Stretch| {
                s.condition.beside.is_empty() != beside && s.condition.held_back == held
            };
            all.iter().filter(is).count()
        };
        // Seconds 5 to 6 and 15 to 16 are mixed; 9 is where it acted, exactly between two.
        assert_eq!((count(false, false), count(true, false), count(true, true)), (9, 3, 6));
        assert_eq!(all.len(), 18);
    }

    #[test]
    fn of_two_that_are_held_back_each_is_let_go_in_its_own_time() {
        let ended = Event { container: Some("b".to_owned()), ..decision("", 9) };
        let ended = Event { kind: EventKind::Ended { code: None }, ..ended };
        let recorded = Recorded {
            events: vec![
                decision_on("a", "acted", 2),
                decision_on("b", "acted", 4),
                decision_on("a", "rolled back", 6),
                ended,
                decision_on("a", "acted", 12),
                decision_on("a", "released", 14),
            ],
            ..Recorded::default()
        };
        let spans = held_for("victim", &recorded);
        let spans: Vec<(u64, u64)> = spans.iter().map(|h| (h.from_ns / S, h.to_ns / S)).collect();
        assert_eq!(spans, [(2, 6), (4, 9), (12, 14)]);
    }
}
