use crate::Error;
use crate::scheduler::Decision;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum EventKind {
    /// A round began: its zero.
    Round,
    /// A container was started.
    Start {
        /// How much after its plan; below 0 before it.
        late_ms: f64,
    },
    /// A container was asked to end.
    Stop {
        /// How much after its plan.
        late_ms: f64,
    },
    /// It did not, and was ended.
    Kill,
    /// A container has ended.
    Ended {
        /// Its exit code; 128 and more for a signal.
        code: Option<i32>,
    },
    /// A scheduler decided something.
    Decision(Decision),
    /// A round is over.
    RoundOver,
}

/// Something that happened, and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Unix nanoseconds.
    pub unix_ns: u64,
    /// Seconds after the round's zero.
    pub seconds: f64,
    /// The round.
    pub round: u32,
    /// The container it is about.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub container: Option<String>,
    /// What.
    #[serde(flatten)]
    pub kind: EventKind,
}

/// Events as they happen, one JSON object a line.
#[derive(Debug)]
pub struct EventLog {
    file: File,
    path: std::path::PathBuf,
}

impl EventLog {
    /// A new one at `path`.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let file = File::create(path).map_err(Error::file(path))?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Writes an event down.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, event: &Event) -> Result<(), Error> {
        let line = serde_json::to_string(event).unwrap_or_default();
        writeln!(self.file, "{line}").map_err(Error::file(&self.path))
    }
}

/// The events in a file; a line that was cut by a crash is left out.
///
/// # Errors
/// It cannot be read.
pub fn read_events(path: &Path) -> Result<Vec<Event>, Error> {
    let text = fs::read_to_string(path).map_err(Error::file(path))?;
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Codes of who ended by SIGTERM or SIGKILL, which whoever is stopped gets.
const STOPPED: [i32; 2] = [128 + 15, 128 + 9];

/// A container that ended otherwise than well, and not by being stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OddEnd {
    /// Which.
    pub container: String,
    /// In which round.
    pub round: u32,
    /// Its exit code; absent where nobody knows.
    pub code: Option<i32>,
}

/// Ends with another exit code than 0, or with none, but for those that a stop explains.
pub fn odd_ends(events: &[Event]) -> Vec<OddEnd> {
    let was_stopped = |end: &Event| {
        let its = |e: &&Event| e.container == end.container && e.round == end.round;
        let stops = |e: &Event| matches!(e.kind, EventKind::Stop { .. } | EventKind::Kill);
        events.iter().filter(its).any(stops)
    };
    let odd = |event: &Event| {
        let EventKind::Ended { code } = event.kind else { return None };
        let is_well = match code {
            Some(0) => true,
            Some(code) => STOPPED.contains(&code) && was_stopped(event),
            None => false,
        };
        let (container, round) = (event.container.clone()?, event.round);
        (!is_well).then_some(OddEnd { container, round, code })
    };
    events.iter().filter_map(odd).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_odd_unless_it_is_well_or_a_stop_explains_it() {
        let event = |name: &str, kind: EventKind| Event {
            unix_ns: 1,
            seconds: 0.0,
            round: 2,
            container: Some(name.to_owned()),
            kind,
        };
        let ended = |name: &str, code| event(name, EventKind::Ended { code });
        let events = [
            ended("well", Some(0)),
            event("stopped", EventKind::Stop { late_ms: 0.0 }),
            ended("stopped", Some(143)),
            event("failing", EventKind::Stop { late_ms: 0.0 }),
            ended("failing", Some(3)),
            ended("killed", Some(137)),
            ended("unknown", None),
        ];
        let odd: Vec<(String, Option<i32>)> =
            odd_ends(&events).into_iter().map(|odd| (odd.container, odd.code)).collect();
        let expected = [("failing", Some(3)), ("killed", Some(137)), ("unknown", None)];
        assert_eq!(odd, expected.map(|(name, code)| (name.to_owned(), code)));
    }

    #[test]
    fn events_are_read_back_and_a_cut_line_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        let decision = Decision {
            what: "acted".to_owned(),
            container: Some("noisy".to_owned()),
            victim: None,
            message: "x".to_owned(),
            evidence: serde_json::json!({"low": 0.1}),
        };
        let kinds = [EventKind::Start { late_ms: 0.5 }, EventKind::Decision(decision)];
        let mut log = EventLog::create(&path).unwrap();
        let events = kinds.map(|kind| Event {
            unix_ns: 1_800_000_000_123_456_789,
            seconds: 2.5,
            round: 1,
            container: Some("noisy".to_owned()),
            kind,
        });
        events.iter().for_each(|event| log.add(event).unwrap());
        write!(log.file, "{{\"unix_ns\": 18").unwrap();
        assert_eq!(read_events(&path).unwrap(), events);
    }
}
