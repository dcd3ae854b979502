//! Verdicts from statistics that a query engine gathers, run by run: the same core, the same names, the same report as
//! the streaming pass.
//!
//! The engine is asked twice. First who ran in which bin, over the whole run: that says which stretches are kept. Then
//! for everything else, in those stretches only.

mod bins;
mod detail;
mod quotas;
mod who;

use crate::conclude::conclude;
use crate::pass::{SHORT_SECONDS, recorder};
use crate::report::{Report, RunReport};
use crate::runs::{RunFiles, RunKey, overlaps};
use crate::{Question, SubjectKind, machine};
use arrow_array::RecordBatch;
use crosstalk_interference::{CorePlace, Ledger, Settings};
use crosstalk_recording::{Error, Reader};
pub use quotas::OwnQuota;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use who::Who;

/// What is asked of an engine: each is a file of SQL, whose columns its first lines name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Statistic {
    /// Slots, rows and losses of every bin.
    Coverage,
    /// Who ran in which bin, for how long.
    Bins,
    /// What every subject is called.
    Names,
    /// Sums of a subject on a core in a bin.
    Sums,
    /// Who ran beside whom.
    Exposures,
    /// Who was stopped for a quota.
    Throttled,
    /// The waits of those who were.
    ThrottledWaits,
    /// Who held the core that others waited for.
    Waits,
    /// What the memory probe measured.
    Probe,
    /// Who ran beside the memory probe.
    ProbeExposures,
    /// Time stolen from cores.
    Steal,
}

impl Statistic {
    /// All of them, in the order in which they are asked.
    pub const ALL: [Self; 11] = [
        Self::Coverage,
        Self::Bins,
        Self::Names,
        Self::Sums,
        Self::Exposures,
        Self::Throttled,
        Self::ThrottledWaits,
        Self::Waits,
        Self::Probe,
        Self::ProbeExposures,
        Self::Steal,
    ];

    /// The name of its file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Coverage => "coverage",
            Self::Bins => "bins",
            Self::Names => "names",
            Self::Sums => "sums",
            Self::Exposures => "exposures",
            Self::Throttled => "throttled",
            Self::ThrottledWaits => "throttled_waits",
            Self::Waits => "waits",
            Self::Probe => "probe",
            Self::ProbeExposures => "probe_exposures",
            Self::Steal => "steal",
        }
    }

    /// The data set without which there is none.
    pub const fn needs(self) -> &'static str {
        match self {
            Self::Probe | Self::ProbeExposures => "probe",
            Self::Steal => "steal",
            Self::Throttled | Self::ThrottledWaits => "throttling",
            _ => "tasks",
        }
    }
}

/// Of which run, and of what in it.
#[derive(Clone, Debug)]
pub struct Asked<'a> {
    /// The node, as its folder says; empty where it does not.
    pub node: &'a str,
    /// The run, likewise.
    pub run: &'a str,
    /// Who subjects are.
    pub subject: SubjectKind,
    /// Only slots that begin in this time.
    pub time: Option<Range<u64>>,
    /// Length of a slot.
    pub slot_ns: u64,
    /// Length of a bin.
    pub bin_ns: u64,
    /// Where each logical CPU is; empty: all share a cache.
    pub cores: Vec<CorePlace>,
    /// The stretches that are kept, once that is known.
    pub stretches: Vec<Range<u64>>,
    /// The rows of tasks in each bin of them, by where it begins.
    pub rows: BTreeMap<u64, u64>,
    /// Waits that were for the waiter's own quota, once that is known: nobody else held the core for them.
    pub own_quota: Arc<[OwnQuota]>,
    /// Data sets that the run has.
    pub datasets: Vec<&'a str>,
}

impl Asked<'_> {
    /// Length of a stretch.
    pub const fn stretch_ns(&self) -> u64 {
        self.bin_ns.saturating_mul(Settings::recording().stretch_bins as u64)
    }
}

/// Takes the batches of an answer.
pub type Take<'a> = &'a mut dyn FnMut(&RecordBatch) -> Result<(), String>;

/// An engine that answers.
pub trait Gather {
    /// Hands over the rows of a statistic. Whole numbers have 64 bits, numbers with a point are doubles, texts are plain.
    ///
    /// # Errors
    /// Why it cannot.
    fn gather(&mut self, what: Statistic, of: &Asked<'_>, take: Take<'_>) -> Result<(), String>;
}

/// Says who slowed whom in the recordings at `places`, by statistics that an engine gathers. What workloads say about
/// their own progress is not used, and nothing is drawn.
///
/// # Errors
/// There is no recording at one of the places.
pub fn analyze_gathered(
    places: &[String],
    question: &Question,
    engine: &mut dyn Gather,
) -> Result<Report, Error> {
    let reader = Reader::open(crate::distinct(places))?;
    let files = RunFiles::find(&reader);
    let mut report = Report { unread: files.unread.clone(), ..Report::default() };
    let mut spans = Vec::new();
    for key in files.keys() {
        match run(&files, &key, question, engine) {
            Ok(run) if run.rows > 0 => {
                spans.push((key, run.from_ns, run.to_ns));
                report.runs.push(run);
            }
            Ok(_) => report
                .unread
                .push(format!("node {}, run {}: no rows in the time asked for", key.node, key.run)),
            Err(why) => {
                report.has_failed = true;
                report.unread.push(format!("node {}, run {}: {why}", key.node, key.run));
            }
        }
    }
    let same_time = overlaps(&files, &spans);
    for ((key, ..), run) in spans.iter().zip(&mut report.runs) {
        run.caveats.extend(same_time.get(key).cloned());
    }
    Ok(report)
}

fn run(
    files: &RunFiles<'_>,
    key: &RunKey,
    question: &Question,
    engine: &mut dyn Gather,
) -> Result<RunReport, String> {
    let tasks = files.scan("tasks", key);
    let first = tasks.chosen().first().ok_or("it has no tasks")?;
    let about = tasks.chosen().iter().find_map(|file| file.metadata().ok()).unwrap_or_default();
    let settings = Settings::recording();
    let mut asked = Asked {
        node: &first.node,
        run: &first.run,
        subject: question.subject,
        time: question.time.clone(),
        slot_ns: machine::slot_ns(&about),
        bin_ns: settings.bin_ns,
        cores: machine::places(&about),
        stretches: Vec::new(),
        rows: BTreeMap::new(),
        own_quota: Arc::default(),
        datasets: files.datasets(key),
    };
    let mut report =
        RunReport { node: key.node.clone(), run: key.run.clone(), ..RunReport::default() };
    let mut who = Who::default();
    let mut ledger = Ledger::new(settings);
    let rows = bins::read(engine, &asked, &mut who, &mut ledger, &mut report)?;
    if report.rows == 0 {
        return Ok(report);
    }
    asked.stretches = ledger.stretches();
    let kept = asked.stretches.iter().flat_map(|stretch| rows.range(stretch.clone()));
    asked.rows = kept.map(|(bin_ns, rows)| (*bin_ns, *rows)).collect();
    who.read_names(engine, &asked)?;
    let quotas = quotas::read(engine, &asked, &mut who)?;
    asked.own_quota = quotas.waits.into();
    detail::fill(engine, &asked, &mut who, &mut ledger, &quotas.sums)?;
    let mut findings = ledger.findings();
    let recorder = recorder(key);
    findings.verdicts.retain(|one| Some(who.subjects.name(one.victim)) != recorder.as_deref());
    conclude(&mut report, &findings, &who.subjects);
    report.caveats = machine::caveats(&about);
    report.caveats.extend(ledger.sampled().map(crate::pass::sampled));
    add_caveats(&asked, &mut report);
    Ok(report)
}

fn add_caveats(asked: &Asked<'_>, report: &mut RunReport) {
    let seconds = report.seconds();
    let mut say = |text: String| report.caveats.push(text);
    for (dataset, so) in crate::pass::LACKING {
        if !asked.datasets.contains(&dataset) {
            say(format!("no data set {dataset}: {so}"));
        }
    }
    if seconds < SHORT_SECONDS {
        say(crate::pass::too_short(seconds));
    }
}
