//! One run, read once in slot order.

use crate::close_up::{self, Lens};
use crate::conclude::conclude;
use crate::gauge::Gauge;
use crate::ordered::Ordered;
use crate::picture::{Draft, draw};
use crate::progress::{Census, Feed, Progress, whose};
use crate::report::RunReport;
use crate::runs::{RunFiles, RunKey};
use crate::spans::Spans;
use crate::subjects::{Identity, Subjects};
use crate::tasks::{End, Tasks};
use crate::timeline::Timeline;
use crate::training::{Beside, Seen};
use crate::waiting::{HORIZON_NS, LONGEST_HORIZON_NS};
use crate::{Look, Question, Read, SubjectKind, decode, machine};
use crosstalk_interference::{Activity, Burst, Findings, Observer, Settings, Slot, Subject};
use crosstalk_recording::Scan;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::thread::Scope;

/// Close-ups of a run: each reads half a second again.
const MOST_CLOSE_UPS: usize = 4;
/// Slots between two words about how far it is.
pub(crate) const TELL_SLOTS: u64 = 256;
/// What most verdicts need.
pub(crate) const SHORT_SECONDS: f64 = 10.0;

/// Data sets without which verdicts say less.
pub(crate) const LACKING: [(&str, &str); 2] = [
    ("slots", "how much was lost while recording is unknown"),
    ("probe", "cache and memory are told apart by counted misses alone"),
];

pub(crate) fn too_short(seconds: f64) -> String {
    format!("{seconds:.1} s are too short for most verdicts: record half a minute or more")
}

/// Of a run of which a sample is kept.
pub(crate) fn sampled([kept, all]: [u64; 2]) -> String {
    let Settings { bin_ns, stretch_bins, .. } = Settings::recording();
    let seconds = bin_ns as f64 * stretch_bins as f64 / 1e9;
    format!(
        "effects and waits were measured in {kept} of its {all} stretches of {seconds:.0} s and scaled up to the whole by \
         who ran in the others: intervals allow for that, but who ran for less than half a minute may be in none of them; \
         --from and --to look at a part closely"
    )
}

/// What came of a run.
pub(crate) struct Passed {
    pub(crate) report: RunReport,
    /// For each progress file, what the run knows of its iterations, or why the file is not its.
    pub(crate) progress: Vec<Result<Option<Seen>, String>>,
}

pub(crate) fn run(
    files: &RunFiles<'_>,
    key: &RunKey,
    question: &Question,
    gauge: &mut Gauge,
    tell: &mut dyn FnMut(Read),
    look: Look<'_>,
) -> Passed {
    let mut horizon_ns = HORIZON_NS;
    loop {
        let pass = Pass { files, key, question, horizon_ns };
        match std::thread::scope(|scope| read(scope, &pass, gauge, tell, look)) {
            Ok(passed) => return passed,
            Err(Late { enough_ns }) => horizon_ns = enough_ns,
        }
        gauge.begin_anew();
    }
}

/// Rows came late that would not have with a longer horizon.
struct Late {
    enough_ns: u64,
}

fn read<'scope, 'a: 'scope>(
    scope: &'scope Scope<'scope, '_>,
    pass: &Pass<'a>,
    gauge: &mut Gauge,
    tell: &mut dyn FnMut(Read),
    look: Look<'_>,
) -> Result<Passed, Late> {
    let (key, question, horizon_ns) = (pass.key, pass.question, pass.horizon_ns);
    let quotas = pass.scan("throttling", decode::THROTTLING);
    let mut columns = pass.columns(decode::TASKS);
    if !quotas.chosen().is_empty() {
        columns.push(decode::CGROUP);
    }
    let tasks = pass.scan("tasks", &columns);
    let about = tasks.chosen().iter().find_map(|file| file.metadata().ok()).unwrap_or_default();
    let mut subjects = Subjects::new(question.subject);
    let whose = pass.whose(&mut subjects);
    let mut tasks = Ordered::new(Tasks::read(scope, tasks, subjects, horizon_ns));
    let slots = pass.scan("slots", decode::SLOTS).with_some(decode::LOST);
    let mut lost = Ordered::new(Spans::new(slots.pieces(), decode::lost, horizon_ns));
    let bursts = pass.scan("probe", decode::PROBE);
    let mut probe = Ordered::new(Spans::new(bursts.pieces(), decode::probe, horizon_ns));
    let steal = pass.scan("steal", decode::STEAL);
    let mut steal = Ordered::new(Spans::new(steal.pieces(), decode::steal, horizon_ns));
    let mut quotas = Ordered::new(Spans::new(quotas.pieces(), decode::throttling, horizon_ns));

    let mut report =
        RunReport { node: key.node.clone(), run: key.run.clone(), ..RunReport::default() };
    let length_ns = machine::slot_ns(&about);
    let mut observer = Observer::new(machine::topology(&about), Settings::recording());
    let given = || question.progress.iter().zip(&whose);
    let mut feed =
        Feed::new(given().filter_map(|(p, who)| Some((*who.as_ref().ok()?, &p.points[..]))));
    let mut training: Vec<Option<Beside<'_>>> = given()
        .map(|(p, who)| {
            let trainer = who.as_ref().ok().filter(|_| !p.iterations.is_empty())?;
            Some(Beside::new(&p.iterations, *trainer, machine::topology(&about)))
        })
        .collect();
    let mut timeline = question.pictures.then(Timeline::new);
    let mut entries: Vec<Activity> = Vec::new();
    while let Some((start_ns, rows)) = tasks.next_until(u64::MAX) {
        entries.clear();
        entries.extend(rows.iter().map(Activity::from));
        let mut is_lossy = false;
        while let Some((slot_ns, _)) = lost.next_until(start_ns) {
            is_lossy |= slot_ns == start_ns;
        }
        // Of a slot in which nobody is known to have run there is nothing to leave out.
        report.lossy_slots += u64::from(is_lossy);
        let mut bursts: Vec<Burst> = Vec::new();
        while let Some((_, some)) = probe.next_until(start_ns) {
            bursts.extend_from_slice(some);
        }
        let mut stolen: Option<Vec<(u32, u64)>> = None;
        while let Some((_, some)) = steal.next_until(start_ns) {
            stolen.get_or_insert_default().extend_from_slice(some);
        }
        let mut throttled: Vec<(Subject, u64)> = Vec::new();
        while let Some((_, some)) = quotas.next_until(start_ns) {
            for &(cgroup_id, ns) in some {
                throttled.extend(tasks.spans.members.of(cgroup_id).iter().map(|who| (*who, ns)));
            }
        }
        let slot = Slot {
            start_ns,
            length_ns,
            lost: is_lossy,
            entries: &entries,
            bursts: &bursts,
            progress: feed.slot(start_ns, length_ns),
            stolen: stolen.as_deref(),
            throttled: &throttled,
        };
        observer.push(&slot);
        training.iter_mut().flatten().for_each(|beside| beside.push(&slot));
        if let Some(timeline) = &mut timeline {
            timeline.add(&slot);
        }
        if report.slots == 0 {
            report.from_ns = start_ns;
        }
        report.slots += 1;
        report.to_ns = start_ns + length_ns;
        if report.slots.is_multiple_of(TELL_SLOTS) {
            tell(gauge.look(tasks.spans.file, tasks.spans.rows));
        }
    }
    tell(gauge.look(tasks.spans.file, tasks.spans.rows));
    let read = tasks.spans.end().expect("who reads ahead says so at the end, or panics");
    let End { subjects, rows, late: late_tasks, unread } = read;
    let asides = [lost.spans.late(), probe.spans.late(), steal.spans.late(), quotas.spans.late()];
    let late = || asides.iter().chain([&late_tasks]);
    let enough_ns = late().map(|one| one.1).max().unwrap_or(0);
    if (horizon_ns + 1..=LONGEST_HORIZON_NS).contains(&enough_ns) {
        return Err(Late { enough_ns });
    }
    (report.rows, report.late_rows) = (rows, late().map(|one| one.0).sum());
    report.unread = unread;
    for aside in
        [&lost.spans.unread, &probe.spans.unread, &steal.spans.unread, &quotas.spans.unread]
    {
        report.unread.extend_from_slice(aside);
    }
    look(&observer, &|subject| subjects.name(subject).to_owned());
    let mut findings = observer.findings();
    let recorder = recorder(key);
    findings.verdicts.retain(|verdict| Some(subjects.name(verdict.victim)) != recorder.as_deref());
    conclude(&mut report, &findings, &subjects);
    // Those that are told come first: pictures are of them only.
    findings.verdicts.truncate(report.verdicts.len());
    report.caveats = machine::caveats(&about);
    report.caveats.extend(observer.sampled().map(sampled));
    pass.add_caveats(&mut report);
    if let Some(timeline) = &timeline {
        report.pictures =
            pass.pictures(&findings, &observer, timeline, subjects.clone(), length_ns);
    }
    let seen = |(beside, who): (Option<Beside<'_>>, Result<Subject, String>)| {
        who.map(|_| beside.map(|beside| seen(beside, &report, &subjects)))
    };
    let progress = training.into_iter().zip(whose).map(seen).collect();
    gauge.finish();
    Ok(Passed { report, progress })
}

/// What the recorder itself is called: the run's id ends in its pid. What it lost is nobody's concern; what others lost to it is.
pub(crate) fn recorder(key: &RunKey) -> Option<String> {
    let pid = key.run.rsplit_once('-')?.1.parse::<u32>().ok()?;
    Some(format!("crosstalk ({pid})"))
}

struct Pass<'a> {
    files: &'a RunFiles<'a>,
    key: &'a RunKey,
    question: &'a Question,
    /// How much later than those of its time a row may come.
    horizon_ns: u64,
}

impl<'a> Pass<'a> {
    fn scan(&self, dataset: &str, columns: &[&str]) -> Scan<'a> {
        let chosen = self.files.scan(dataset, self.key).columns(columns.iter().copied());
        self.question.time.clone().map_or(chosen.clone(), |time| chosen.between(time))
    }

    fn columns(&self, columns: &[&'static str]) -> Vec<&'static str> {
        let by_name = self.question.subject != SubjectKind::Process;
        if by_name { [columns, decode::PLACES].concat() } else { columns.to_vec() }
    }

    /// Whose the progress files are. They are looked up before the rows are read for good, which reads a few columns
    /// twice, so that names are known from the first slot on.
    fn whose(&self, subjects: &mut Subjects) -> Vec<Result<Subject, String>> {
        let files: &[Progress] = &self.question.progress;
        if files.is_empty() {
            return Vec::new();
        }
        let mut census = Census::default();
        for piece in self.scan("tasks", &self.columns(Census::COLUMNS)).pieces().flatten() {
            census.take(&piece.batch, subjects);
        }
        files.iter().map(|progress| whose(progress, &census, subjects)).collect()
    }

    fn add_caveats(&self, report: &mut RunReport) {
        let mut say = |text: String| report.caveats.push(text);
        for (dataset, so) in LACKING {
            if self.scan(dataset, &[]).chosen().is_empty() {
                say(format!("no data set {dataset}: {so}"));
            }
        }
        if report.late_rows > 0 {
            say(format!(
                "{} rows were left out because they came more than {:.0} s out of order: a clock that was set, or \
                 files of two machines under one name",
                report.late_rows,
                self.horizon_ns as f64 / 1e9
            ));
        }
        let seconds = report.seconds();
        if report.rows > 0 && seconds < SHORT_SECONDS {
            report.caveats.push(too_short(seconds));
        }
    }

    fn pictures(
        &self,
        findings: &Findings,
        observer: &Observer,
        timeline: &Timeline,
        subjects: Subjects,
        slot_ns: u64,
    ) -> Vec<crate::Picture> {
        let drafts = draw(findings, &observer.victims(), timeline, &subjects);
        let subjects = RefCell::new(subjects);
        let finish = |(at, draft): (usize, Draft)| {
            let mut picture = draft.picture;
            if let Some(onset_ns) = draft.onset_ns.filter(|_| at < MOST_CLOSE_UPS) {
                let mut lens = Lens::new(onset_ns, slot_ns, draft.victim, &draft.aggressors);
                self.read_again(close_up::around(onset_ns), &subjects, &mut |slot_ns, activity| {
                    lens.add(slot_ns, &activity);
                });
                picture.close_up = lens.finish();
            }
            picture
        };
        drafts.into_iter().enumerate().map(finish).collect()
    }

    fn read_again(
        &self,
        time: Range<u64>,
        subjects: &RefCell<Subjects>,
        take: &mut dyn FnMut(u64, Activity),
    ) {
        let columns = self.columns(Census::COLUMNS);
        let tasks = self.files.scan("tasks", self.key).columns(columns).between(time);
        for piece in tasks.pieces().flatten() {
            let number = |who: &Identity<'_>| subjects.borrow_mut().number(who);
            // What cannot be read was said when it was read first.
            let _ = decode::tasks(&piece.batch, number, &mut *take);
        }
    }
}

fn seen(mut beside: Beside<'_>, report: &RunReport, subjects: &Subjects) -> Seen {
    beside.take_over();
    let trainer = subjects.name(beside.trainer).to_owned();
    let mut names = HashMap::new();
    for sum in &beside.sums {
        let all = sum.beside.iter().map(|one| one.0).chain(sum.held.iter().map(|one| one.0));
        for subject in all.filter(|subject| subjects.knows(*subject)) {
            names.entry(subject).or_insert_with(|| subjects.name(subject).to_owned());
        }
    }
    let ours = report.verdicts.iter().filter(|verdict| verdict.victim == trainer);
    Seen {
        node: report.node.clone(),
        from_ns: report.from_ns,
        to_ns: report.to_ns,
        verdicts: ours.cloned().collect(),
        sums: beside.sums,
        trainer,
        names,
    }
}
