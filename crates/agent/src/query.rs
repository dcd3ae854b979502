//! What was asked, from the query string: pure.

use crosstalk_model::metric::STATISTICS;
use crosstalk_model::{Metric, SubjectKind};
use serde_json::{Value, json};
use std::time::Duration;

/// The shortest window: a slot.
const SHORTEST: Duration = Duration::from_millis(1);
/// As many subjects as an answer lists at most.
const MOST: usize = 1_000;

/// A question about a window.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Query {
    pub(crate) window: Duration,
    pub(crate) subject: Option<SubjectKind>,
    pub(crate) top: usize,
    pub(crate) selection: Selection,
}

/// The parameters, for whoever reads the description; [`parse`] takes them.
#[derive(utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[allow(dead_code)] // only described
pub(crate) struct Parameters {
    /// Length of the window in seconds, ending now; at most what is kept (30 by default). Without it, or with the Accept
    /// header of a Prometheus server, the answer is Prometheus text.
    #[param(minimum = 0.001)]
    window_seconds: Option<f64>,
    /// Another name for window_seconds.
    #[param(minimum = 0.001)]
    window_sec: Option<f64>,
    /// Also list those of a kind with most processor time: node (nobody), pod, container or process.
    #[param(default = "node")]
    subject: Option<String>,
    /// How many of them.
    #[param(minimum = 1, maximum = 1000, default = 10)]
    top: Option<u32>,
    /// Only these, separated by commas: a metric such as cpu_util, or one statistic of it such as p95_cpu_util.
    metrics: Option<String>,
}

/// Which statistics of which metrics; a bit for each of [`STATISTICS`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Selection {
    All,
    Some(Vec<(&'static str, u8)>),
}

const EVERY: u8 = u8::MAX;

impl Selection {
    /// The statistics asked for of a metric; 0 if none.
    pub(crate) fn of(&self, metric: &Metric) -> u8 {
        match self {
            Self::All => EVERY,
            Self::Some(chosen) => {
                chosen.iter().find(|(name, _)| *name == metric.name).map_or(0, |(_, bits)| *bits)
            }
        }
    }
}

/// A value that cannot be, and what could.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BadValue {
    pub(crate) parameter: String,
    pub(crate) detail: String,
    pub(crate) allowed: Value,
}

impl Query {
    /// Refuses what nobody follows: an empty list would say that there is nobody.
    pub(crate) fn refused_unless(self, follows_subjects: bool) -> Result<Self, BadValue> {
        match self.subject {
            Some(kind) if !follows_subjects => {
                let detail = format!(
                    "subject={}: only the node is followed here; set subjects.enabled = true",
                    kind.name()
                );
                Err(bad("subject", detail, json!(["node"])))
            }
            _ => Ok(self),
        }
    }
}

/// Reads the parameters; `None` when no window is asked for.
pub(crate) fn parse(
    pairs: &[(String, String)],
    metrics: &[Metric],
    retention: Duration,
) -> Result<Option<Query>, BadValue> {
    let mut window = None;
    let mut query = Query { window: SHORTEST, subject: None, top: 10, selection: Selection::All };
    let mut seen: Vec<&str> = Vec::new();
    for (name, value) in pairs {
        // The seed of this interface writes both; they are one parameter.
        let name = if name == "window_sec" { "window_seconds" } else { name.as_str() };
        if seen.contains(&name) {
            return Err(bad(name, format!("{name} is given twice"), json!("once")));
        }
        seen.push(name);
        match name {
            "window_seconds" => window = Some(length(value, retention)?),
            "subject" => query.subject = subject(value)?,
            "top" => query.top = top(value)?,
            "metrics" => query.selection = selection(value, metrics)?,
            other => {
                let known = ["window_seconds", "window_sec", "subject", "top", "metrics"];
                let detail = format!("there is no parameter {other:?}");
                return Err(bad(other, detail, json!(known)));
            }
        }
    }
    match window {
        Some(window) => Ok(Some(Query { window, ..query })),
        None if seen.is_empty() => Ok(None),
        None => {
            let detail = "without window_seconds there is no window to ask this of".to_owned();
            Err(bad("window_seconds", detail, range(retention)))
        }
    }
}

pub(crate) fn bad(parameter: &str, detail: String, allowed: Value) -> BadValue {
    BadValue { parameter: parameter.to_owned(), detail, allowed }
}

fn range(retention: Duration) -> Value {
    json!({ "minimum": SHORTEST.as_secs_f64(), "maximum": retention.as_secs_f64() })
}

fn length(text: &str, retention: Duration) -> Result<Duration, BadValue> {
    let (least, most) = (SHORTEST.as_secs_f64(), retention.as_secs_f64());
    let parsed = text.parse::<f64>().ok().filter(|seconds| (least..=most).contains(seconds));
    let length = parsed.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    length.map(|length| length.min(retention)).ok_or_else(|| {
        let detail = format!("window_seconds={text}: ask for {least} to {most} seconds");
        bad("window_seconds", detail, range(retention))
    })
}

fn subject(text: &str) -> Result<Option<SubjectKind>, BadValue> {
    if text == "node" {
        return Ok(None);
    }
    let kind = SubjectKind::ALL.into_iter().find(|kind| kind.name() == text);
    kind.map(Some).ok_or_else(|| {
        let detail = format!("subject={text}: ask for node, pod, container or process");
        bad("subject", detail, json!(["node", "pod", "container", "process"]))
    })
}

fn top(text: &str) -> Result<usize, BadValue> {
    text.parse().ok().filter(|top| (1..=MOST).contains(top)).ok_or_else(|| {
        let detail = format!("top={text}: ask for 1 to {MOST}");
        bad("top", detail, json!({ "minimum": 1, "maximum": MOST }))
    })
}

fn selection(text: &str, metrics: &[Metric]) -> Result<Selection, BadValue> {
    let mut chosen: Vec<(&'static str, u8)> = Vec::new();
    for word in text.split(',').map(str::trim) {
        let found = metrics.iter().find_map(|metric| {
            if metric.name == word {
                return Some((metric.name, EVERY));
            }
            let statistic = metric.keys.iter().position(|key| *key == word)?;
            Some((metric.name, 1 << statistic))
        });
        let Some((name, bits)) = found else {
            let names: Vec<&str> = metrics.iter().map(|metric| metric.name).collect();
            let detail = format!(
                "metrics={word}: no such metric; a name may have one of {} before it",
                STATISTICS.map(|statistic| format!("{statistic}_")).join(", ")
            );
            return Err(bad("metrics", detail, json!(names)));
        };
        match chosen.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known |= bits,
            None => chosen.push((name, bits)),
        }
    }
    Ok(Selection::Some(chosen))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_model::metric::{CPU_UTIL, IPC, NODE};

    const KEPT: Duration = Duration::from_secs(30);

    fn ask(text: &str) -> Result<Option<Query>, BadValue> {
        let pair = |part: &str| {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            (name.to_owned(), value.to_owned())
        };
        let pairs: Vec<_> = text.split('&').filter(|part| !part.is_empty()).map(pair).collect();
        parse(&pairs, NODE, KEPT)
    }

    #[test]
    fn both_names_of_the_window_mean_the_same() {
        let query = ask("window_seconds=20").unwrap().unwrap();
        assert_eq!(query.window, Duration::from_secs(20));
        assert_eq!(ask("window_sec=20"), ask("window_seconds=20"));
        assert_eq!(ask(""), Ok(None));
        assert_eq!(ask("window_seconds=30").unwrap().unwrap().window, KEPT);
    }

    #[test]
    fn values_that_cannot_be_are_told_what_could() {
        for text in
            ["-1", "abc", "0", "31", "inf", "nan", "1e400", "", "0.0001", "20s", "99999999999999"]
        {
            let error = ask(&format!("window_seconds={text}")).unwrap_err();
            assert_eq!(error.allowed, json!({ "minimum": 0.001, "maximum": 30.0 }), "{text}");
        }
        for text in [
            "window_seconds=1&window_sec=2",
            "window_seconds=1&top=0",
            "window_seconds=1&top=1001",
            "window_seconds=1&subject=planet",
            "window_seconds=1&metrics=speed",
            "window_seconds=1&windw=3",
            "top=3",
        ] {
            assert!(ask(text).is_err(), "{text}");
        }
    }

    #[test]
    fn subjects_nobody_follows_are_refused_and_not_an_empty_list() {
        let query = ask("window_seconds=5&subject=process").unwrap().unwrap();
        assert_eq!(query.clone().refused_unless(true), Ok(query.clone()));
        assert_eq!(query.refused_unless(false).unwrap_err().allowed, json!(["node"]));
        assert!(ask("window_seconds=5").unwrap().unwrap().refused_unless(false).is_ok());
    }

    #[test]
    fn a_selection_is_by_metric_or_by_statistic() {
        let query = ask("window_seconds=5&metrics=cpu_util,p95_ipc,mean_ipc").unwrap().unwrap();
        assert_eq!(query.selection.of(&CPU_UTIL), EVERY);
        assert_eq!(query.selection.of(&IPC), 0b10_0001);
        assert_eq!(query.selection.of(&crosstalk_model::metric::MEM_USED), 0);
    }
}
