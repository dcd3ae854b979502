use serde::Serialize;
use std::error::Error;
use std::fmt;

/// How something stands: a capability of the machine, or a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It has not said anything yet.
    Starting,
    /// It works.
    Ok,
    /// It works with less than there could be.
    Limited,
    /// It is not there; the rest goes on without it.
    Absent,
    /// It is not there, and without it nothing can be recorded.
    Required,
    /// It ended with an error and is started anew after a pause.
    Failing,
    /// It is switched off.
    Off,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Starting => "starting",
            Self::Ok => "ok",
            Self::Limited => "limited",
            Self::Absent => "absent",
            Self::Required => "needed",
            Self::Failing => "failing",
            Self::Off => "off",
        })
    }
}

/// One thing a machine can or cannot do.
///
/// ```
/// use crosstalk_host::{Capability, Verdict};
///
/// let counter = Capability::new("cycles", Verdict::Absent, "no PMU").fix("expose the PMU");
/// assert_eq!(counter.fix.as_deref(), Some("expose the PMU"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Capability {
    /// What it is.
    pub name: &'static str,
    /// How it stands.
    pub verdict: Verdict,
    /// What was found, and why it is so.
    pub found: String,
    /// What would make it better.
    pub fix: Option<String>,
}

impl Capability {
    /// A verdict and what was found.
    pub fn new(name: &'static str, verdict: Verdict, found: impl Into<String>) -> Self {
        Self { name, verdict, found: found.into(), fix: None }
    }

    /// What an error says, with its fix.
    pub fn of_error(name: &'static str, verdict: Verdict, error: &impl WithFix) -> Self {
        let fix = error.fix().map(str::to_owned);
        Self { name, verdict, found: error.to_string(), fix }
    }

    /// With what would make it better.
    #[must_use]
    pub fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}

/// An error that knows the way out. Its text says what is wrong and where; the fix is apart, so that a table, an answer
/// and the command line can each put it where it belongs.
pub trait WithFix: Error {
    /// What would help, where that is known.
    fn fix(&self) -> Option<&str>;

    /// What is wrong and the way out, as one line.
    fn with_fix(&self) -> String {
        match self.fix() {
            Some(fix) => format!("{self}; {fix}"),
            None => self.to_string(),
        }
    }
}
