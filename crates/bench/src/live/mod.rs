//! What a person sees while an experiment runs: a timeline on a terminal, lines anywhere else.

mod lines;
mod timeline;

pub use lines::Lines;
pub use timeline::TerminalTimeline;

use crate::plan::RoundKind;
use crate::store::{Event, EventKind};
use std::time::Duration;

/// Somebody who looks on.
pub trait Live {
    /// Says something before it begins.
    fn say(&mut self, lines: &[String]);

    /// What is not measured here, and why.
    fn absent(&mut self, absent: &[(String, String)]);

    /// Something happened.
    fn event(&mut self, event: &Event);

    /// Whether somebody looks at how it stands, which costs reading it.
    fn is_drawn(&self) -> bool {
        false
    }

    /// How it stands, a few times a second.
    fn draw(&mut self, status: &Status);

    /// Nothing more will come.
    fn over(&mut self);
}

/// Nobody looks on.
pub struct Silent;

impl Live for Silent {
    fn say(&mut self, _: &[String]) {}
    fn absent(&mut self, _: &[(String, String)]) {}
    fn event(&mut self, _: &Event) {}
    fn draw(&mut self, _: &Status) {}
    fn over(&mut self) {}
}

/// Whether a container runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not yet.
    Waiting,
    /// It does.
    Running,
    /// It was asked to end.
    Stopping,
    /// No more, with this exit code.
    Ended(Option<i32>),
}

/// One container on the timeline.
#[derive(Clone, Debug, PartialEq)]
pub struct Shown {
    /// Its name.
    pub name: String,
    /// When it is to start.
    pub start: Duration,
    /// When it is to stop.
    pub stop: Option<Duration>,
    /// Whether it runs.
    pub state: State,
    /// Cores' worth of time it uses.
    pub cores: Option<f64>,
    /// Its memory.
    pub memory_bytes: Option<u64>,
    /// Units of work a second, by its own account.
    pub rate: Option<f64>,
    reported: Option<(u64, f64)>,
}

impl Shown {
    pub(crate) fn new(name: &str, start: Duration, stop: Option<Duration>) -> Self {
        Self {
            name: name.to_owned(),
            start,
            stop,
            state: State::Waiting,
            cores: None,
            memory_bytes: None,
            rate: None,
            reported: None,
        }
    }

    /// Takes what it says it got done so far.
    pub(crate) fn note_progress(&mut self, now: Option<(u64, f64)>) {
        if let (Some((then_ns, then)), Some((now_ns, done))) = (self.reported, now)
            && now_ns > then_ns
        {
            self.rate = Some((done - then) / ((now_ns - then_ns) as f64 / 1e9));
        }
        self.reported = now.or(self.reported);
    }
}

/// How a round stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// Its number.
    pub round: u32,
    /// How many there are.
    pub rounds: u32,
    /// What it is for.
    pub kind: RoundKind,
    /// Time since its zero.
    pub now: Duration,
    /// How long it lasts at most, if that is known.
    pub length: Option<Duration>,
    /// Its containers.
    pub shown: Vec<Shown>,
}

fn against_plan(late_ms: f64) -> String {
    let side = if late_ms < 0.0 { "before" } else { "after" };
    format!("{:.1} ms {side} plan", late_ms.abs())
}

/// An event in a line; `None` for what is not worth one.
pub fn line_of(event: &Event) -> Option<String> {
    let who = event.container.as_deref().unwrap_or_default();
    let what = match &event.kind {
        EventKind::Round => format!("round {} begins", event.round),
        EventKind::Start { late_ms } => format!("{who} starts ({})", against_plan(*late_ms)),
        EventKind::Stop { late_ms } => format!("{who} is stopped ({})", against_plan(*late_ms)),
        EventKind::Kill => format!("{who} did not stop and is killed"),
        EventKind::Ended { code: Some(0) } | EventKind::Ended { code: None } => {
            format!("{who} has ended")
        }
        EventKind::Ended { code: Some(code) } => format!("{who} has ended with code {code}"),
        EventKind::Decision(decision) => format!("{}: {}", decision.what, decision.message),
        EventKind::RoundOver => return None,
    };
    Some(format!("{:7.2} s  {what}", event.seconds))
}
