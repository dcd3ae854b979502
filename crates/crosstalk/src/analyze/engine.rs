//! Statistics gathered by an engine: `crosstalk-sql` asks it and prints the report as JSON.

use super::Args;
use crate::exit::BadArgument;
use crate::part;
use anyhow::{Context, Result, bail};
use crosstalk_analysis::{Question, Report};
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, Stdio};

/// What came of it: a report, or another program's last word.
pub(super) enum Answer {
    Report(Report),
    Done(ExitCode),
}

pub(super) fn ask(engine: &str, args: &Args, question: &Question) -> Result<Answer> {
    if !args.progress.is_empty() {
        let what = "--progress is for the streaming pass: leave --engine out";
        return Err(BadArgument(what.to_owned()).into());
    }
    if args.report.is_some() {
        let what = "--report draws what the streaming pass keeps: leave --engine out";
        return Err(BadArgument(what.to_owned()).into());
    }
    let mut command = part::sql("analyze --engine")?;
    command.arg("analyze").args(&args.places).args(["--engine", engine, "--subject"]);
    command.arg(args.subject.name());
    if let Some(time) = &question.time {
        command.args(["--from-ns", &time.start.to_string(), "--to-ns", &time.end.to_string()]);
    }
    if let Some(bytes) = args.memory {
        command.args(["--memory", &bytes.to_string()]);
    }
    for (flag, folder) in [("--emit", &args.emit), ("--gathered", &args.gathered)] {
        if let Some(folder) = folder {
            command.arg(flag).arg(folder);
        }
    }
    let output = command.stderr(Stdio::inherit()).output().context("cannot start crosstalk-sql")?;
    if let Some(signal) = output.status.signal() {
        bail!("{}", ended_by(signal));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        // What could be judged before, or beside, what failed is told as well.
        if let (Some(1), Ok(report)) = (output.status.code(), Report::from_json(&text)) {
            return Ok(Answer::Report(Report { has_failed: true, ..report }));
        }
        let code = output.status.code().and_then(|code| u8::try_from(code).ok());
        return Ok(Answer::Done(code.unwrap_or(1).into()));
    }
    if args.emit.is_some() {
        print!("{text}");
        return Ok(Answer::Done(ExitCode::SUCCESS));
    }
    match Report::from_json(&text) {
        Ok(report) => Ok(Answer::Report(report)),
        Err(error) => {
            bail!("crosstalk-sql is of another version ({error}); build both: make build sql")
        }
    }
}

/// A program that was ended by a signal has said nothing itself.
fn ended_by(signal: i32) -> String {
    let why = match signal {
        libc::SIGKILL => {
            ": out of memory, most likely; give it less with --memory, ask for less time at once with --from and --to, or \
             leave --engine out"
        }
        _ => "",
    };
    format!("crosstalk-sql was ended by signal {signal}{why}")
}
