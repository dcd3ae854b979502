use super::{GATHERED, RUNS, asked};
use crate::Error;
use crate::verdicts::{Columns, activity, bursts, cores, file, lossy, waiting};
use crosstalk_analysis::{Asked, Gather, Question, Statistic, Take, analyze_gathered};
use crosstalk_recording::{Reader, RecordedFile, State};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const JOB: &str = include_str!("job.py");

/// A part of these would be judged as if it were all: who ran, and what was lost.
const NEEDED: [&str; 2] = ["tasks", "slots"];

/// Writes the SQL, the list of runs and a job that gathers the statistics of `places` into a folder. Answers what to do
/// with it.
///
/// # Errors
/// There is no recording, the folder cannot be written, or it holds what an earlier job gathered.
pub fn emit(places: &[String], question: &Question, folder: &Path) -> Result<String, Error> {
    let gathered = folder.join(GATHERED);
    if gathered.exists() {
        return Err(Error::Refused(format!(
            "{}: an earlier job gathered it, maybe for another question; remove it, or name another folder",
            gathered.display()
        )));
    }
    let reader = Reader::open(places)?;
    let mut runs = Runs { reader: &reader, planned: Vec::new(), left_out: Vec::new() };
    analyze_gathered(places, question, &mut runs)?;
    let sql = folder.join("sql");
    fs::create_dir_all(&sql).map_err(|e| Error::io(&sql, e))?;
    let write = |path: &Path, text: &str| fs::write(path, text).map_err(|e| Error::io(path, e));
    for what in Statistic::ALL {
        write(&sql.join(format!("{}.sql", what.name())), file(what))?;
    }
    write(&folder.join("job.py"), JOB)?;
    let list = json!({ "question": asked(question), "runs": runs.planned });
    write(&folder.join(RUNS), &format!("{list:#}\n"))?;
    let mut text = String::new();
    for what in &runs.left_out {
        text += &format!("not for Spark: {what}\n");
    }
    let (shown, from) = (folder.display(), places.join(" "));
    text += &format!(
        "{} runs; now:\n  spark-submit {shown}/job.py\n  crosstalk analyze {from} --engine spark --gathered {shown}\n",
        runs.planned.len()
    );
    Ok(text)
}

/// Notes every run it is asked about, and answers nothing.
struct Runs<'a> {
    reader: &'a Reader,
    planned: Vec<Value>,
    left_out: Vec<String>,
}

impl Gather for Runs<'_> {
    fn gather(&mut self, what: Statistic, of: &Asked<'_>, _: Take<'_>) -> Result<(), String> {
        if what != Statistic::Coverage {
            return Ok(());
        }
        let ours = |file: &&RecordedFile| file.node == of.node && file.run == of.run;
        let ours: Vec<&RecordedFile> = self.reader.files().iter().filter(ours).collect();
        let (finished, others): (Vec<&RecordedFile>, Vec<&RecordedFile>) =
            ours.into_iter().partition(|file| file.state == State::Parquet);
        for file in &others {
            self.left_out.push(format!("{}: it is no finished Parquet file", file.path));
        }
        if let Some(file) = others.iter().find(|file| NEEDED.contains(&file.dataset.as_str())) {
            self.left_out.push(format!(
                "node {}, run {}: all of it, because some of its {} are left out; crosstalk compact makes Parquet of \
                 them",
                of.node, of.run, file.dataset
            ));
            return Ok(());
        }
        let mut files: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for file in &finished {
            files.entry(&file.dataset).or_default().push(url(file));
        }
        // What Spark does not read is not there for it.
        let of = &Asked { datasets: files.keys().copied().collect(), ..of.clone() };
        let first = finished.iter().find(|file| file.dataset == "tasks");
        let columns = first.and_then(|file| file.schema().ok());
        let columns = columns.map(|s| s.fields().iter().map(|f| f.name().clone()).collect());
        let columns = Columns(columns.unwrap_or_default());
        let time = of.time.clone().unwrap_or(0..u64::MAX);
        let (start, end) = (time.start.min(i64::MAX as u64), time.end.min(i64::MAX as u64));
        let within = |prefix: &str| {
            format!("{prefix}slot_start_ns >= {start} AND {prefix}slot_start_ns < {end}")
        };
        // The job makes the view `own_quota` where there are quotas.
        let has_quotas = of.datasets.contains(&"throttling");
        let (waiting, wait_ns) = waiting(if has_quotas { "own_quota e" } else { "" });
        self.planned.push(json!({
            "node": of.node,
            "run": of.run,
            "files": files,
            "slot_ns": of.slot_ns,
            "bin_ns": of.bin_ns,
            "stretch_ns": of.stretch_ns(),
            "within": within(""),
            "waiting": waiting,
            "wait_ns": wait_ns,
            // A list, because each stands on those before it.
            "views": [
                ["lossy", lossy(of, &within(""))],
                ["cores", cores(of)],
                ["activity", activity(of, &columns, &within("t."), true)],
                ["bursts", of.datasets.contains(&"probe").then(|| bursts(of, &within("p.")))],
            ],
        }));
        Ok(())
    }
}

/// The name Spark knows a file by.
fn url(file: &RecordedFile) -> String {
    match file.path.strip_prefix("s3://") {
        Some(rest) => format!("s3a://{rest}"),
        None => fs::canonicalize(&file.path)
            .map_or_else(|_| file.path.clone(), |path| format!("file://{}", path.display())),
    }
}
