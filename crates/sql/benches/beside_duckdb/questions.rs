//! The ten questions: four ready views, and the six statistics that verdicts stand on, in the words in which the session
//! and `analyze --engine` ask them.
//!
//! Joins of everybody with everybody are asked of ten seconds in the middle, as the engine is asked for them part by part.

use crosstalk_analysis::{
    Asked, Gather, Question as Judged, Statistic, SubjectKind, Take, analyze_gathered,
};
use crosstalk_recording::Reader;
use crosstalk_sql::Session;
use crosstalk_sql::query::{Format, Output};
use crosstalk_sql::verdicts::{Columns, prepare, statement};
use crosstalk_sql::views::VIEWS;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::error::Error;
use std::ops::Range;

/// Slots of the simulated recordings.
const SLOT_NS: u64 = 1_000_000;
/// The streaming pass keeps all of a run that is no longer, so the statistics of a run are asked of as much.
const KEPT: u64 = 18;

/// The views, whether each is asked of ten seconds only, and the columns that tell its rows apart.
const OF_VIEWS: [(&str, bool, &[&str]); 4] = [
    ("per_second", false, &["node", "run", "second", "pid", "process_start_ns"]),
    (
        "per_container",
        false,
        &["node", "run", "second", "container", "container_id", "pod_namespace", "pod_name"],
    ),
    (
        "neighbours",
        true,
        &[
            "node",
            "run",
            "second",
            "pid",
            "process_start_ns",
            "neighbour_pid",
            "neighbour_start_ns",
        ],
    ),
    (
        "waited_for",
        true,
        &["node", "run", "second", "pid", "process_start_ns", "holder_pid", "holder_start_ns"],
    ),
];

/// The statistics, whether each is asked of ten seconds only, and the columns that tell its rows apart.
const OF_RUNS: [(Statistic, bool, &[&str]); 6] = [
    (Statistic::Coverage, false, &["bin_ns"]),
    (Statistic::Bins, false, &["bin_ns", "subject"]),
    (Statistic::Names, false, &["subject", "comm"]),
    (Statistic::Sums, false, &["bin_ns", "subject", "core"]),
    (Statistic::Exposures, true, &["bin_ns", "subject", "neighbour", "way"]),
    (Statistic::Waits, true, &["bin_ns", "subject", "holder"]),
];

pub(super) struct Question {
    pub(super) name: String,
    pub(super) text: String,
    /// The columns that tell its rows apart.
    keys: &'static [&'static str],
}

/// What is asked of one run.
pub(super) struct OfRun {
    node: String,
    run: String,
    /// The views that its statistics stand on.
    pub(super) prepare: Vec<String>,
    pub(super) questions: Vec<Question>,
    kept: Range<u64>,
    joined: Range<u64>,
    cores: Vec<[u32; 4]>,
}

pub(super) struct Questions {
    pub(super) views: Vec<Question>,
    pub(super) runs: Vec<OfRun>,
}

/// The names of all ten.
pub(super) fn names() -> impl Iterator<Item = String> {
    let views = OF_VIEWS.iter().map(|(name, part, _)| called(name, *part));
    views.chain(OF_RUNS.iter().map(|(what, part, _)| called_verdict(*what, *part)))
}

/// How many are asked of ten seconds only.
pub(super) fn in_part() -> usize {
    OF_VIEWS.iter().filter(|(_, part, _)| *part).count()
        + OF_RUNS.iter().filter(|(_, part, _)| *part).count()
}

fn called(name: &str, is_part: bool) -> String {
    if is_part { format!("view {name}, ten seconds") } else { format!("view {name}") }
}

fn called_verdict(what: Statistic, is_part: bool) -> String {
    let name = what.name();
    if is_part { format!("verdicts: {name}, ten seconds") } else { format!("verdicts: {name}") }
}

impl Questions {
    /// What is asked of the recording in a folder, by the time that it has rows of.
    pub(super) async fn of(folder: &str, session: &Session) -> Result<Self, Box<dyn Error>> {
        let spans = rows(
            session,
            "SELECT node, run, min(slot_start_ns) AS first_ns, max(slot_start_ns) AS last_ns FROM tasks GROUP BY node, run",
        );
        let spans = spans.await?;
        let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let span = |row: &Value| {
            let (first, last) = (row["first_ns"].as_u64()?, row["last_ns"].as_u64()?);
            Some(((text(row, "node"), text(row, "run")), first..last + SLOT_NS))
        };
        let spans = spans.iter().filter_map(span).collect();
        let reader = Reader::open([folder])?;
        let tasks = reader.files().iter().find(|file| file.dataset == "tasks");
        let columns = tasks.ok_or("there are no tasks")?.schema()?;
        let columns = columns.fields().iter().map(|field| field.name().clone()).collect();
        let mut found = Runs { spans, columns: Columns(columns), found: Vec::new() };
        analyze_gathered(&[folder.to_owned()], &Judged::default(), &mut found)?;
        let first = found.found.first().ok_or("there is no run")?;
        let views = OF_VIEWS.iter().map(|(name, part, keys)| Question {
            name: called(name, *part),
            text: first.view(name, *part),
            keys,
        });
        Ok(Self { views: views.collect(), runs: found.found })
    }

    /// All that rivals must know to answer the same of the first run.
    pub(super) fn told(&self) -> Value {
        let run = &self.runs[0];
        let all = self.views.iter().chain(&run.questions);
        let all = all.map(|one| json!({"name": one.name, "text": one.text, "keys": one.keys}));
        let views =
            VIEWS.iter().filter(|view| OF_VIEWS.iter().any(|(name, ..)| *name == view.name));
        json!({
            "views": views.map(|view| view.statement(&SLOT_NS.to_string())).collect::<Vec<_>>(),
            "prepare": run.prepare,
            "questions": all.collect::<Vec<_>>(),
            "node": run.node,
            "run": run.run,
            "kept": [run.kept.start, run.kept.end],
            "joined": [run.joined.start, run.joined.end],
            "cores": run.cores,
        })
    }
}

impl OfRun {
    fn view(&self, name: &str, is_part: bool) -> String {
        if !is_part {
            return format!("SELECT * FROM {name}");
        }
        let at = |ns: u64| jiff::Timestamp::from_second((ns / 1_000_000_000) as i64);
        let shown = |ns| at(ns).map(|time| time.to_string()).unwrap_or_default();
        let (node, run) = (&self.node, &self.run);
        let (from, to) = (shown(self.joined.start), shown(self.joined.end));
        format!(
            "SELECT * FROM {name} WHERE node = '{node}' AND run = '{run}' AND second >= '{from}' AND second < '{to}'"
        )
    }
}

/// Notes what every run would be asked, and answers nothing.
struct Runs {
    spans: BTreeMap<(String, String), Range<u64>>,
    columns: Columns,
    found: Vec<OfRun>,
}

impl Gather for Runs {
    fn gather(&mut self, what: Statistic, of: &Asked<'_>, _: Take<'_>) -> Result<(), String> {
        let Some(span) = self.spans.get(&(of.node.to_owned(), of.run.to_owned())) else {
            return Ok(());
        };
        if what != Statistic::Coverage {
            return Ok(());
        }
        let stretch = of.stretch_ns();
        let kept = span.start..span.end.min(span.start + KEPT * stretch);
        let middle = (span.end - span.start) / 2;
        let joined = span.start + middle - middle % stretch;
        let joined = joined..joined + stretch;
        let subject = SubjectKind::Process;
        let asked = |stretch: &Range<u64>| Asked {
            stretches: vec![stretch.clone()],
            subject,
            ..of.clone()
        };
        let questions = OF_RUNS.iter().map(|(what, part, keys)| Question {
            name: called_verdict(*what, *part),
            text: statement(*what, &asked(if *part { &joined } else { &kept })),
            keys,
        });
        let cores = of.cores.iter().zip(0..);
        self.found.push(OfRun {
            node: of.node.to_owned(),
            run: of.run.to_owned(),
            prepare: prepare(of, &self.columns, false),
            questions: questions.collect(),
            kept,
            joined,
            cores: cores.map(|(at, core)| [core, at.physical, at.cache, at.memory]).collect(),
        });
        Ok(())
    }
}

async fn rows(session: &Session, query: &str) -> Result<Vec<Value>, Box<dyn Error>> {
    let frame = session.plan(query).await?;
    let mut text = Vec::new();
    let mut output = Output::new(Format::Json, frame.schema().inner(), &mut text)?;
    session.run_planned(query, frame, |batch| output.write(&batch)).await?;
    output.finish()?;
    Ok(serde_json::from_slice(&text)?)
}
