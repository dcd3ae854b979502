//! What a person reads on a terminal.

use crate::quantity::thousands;
use crate::table::{Align, render};
use crosstalk_analysis::{NamedVerdict, Report, RunReport, TrainingReport};
use jiff::Timestamp;

/// Verdicts in the table, the greatest losses.
const VERDICTS: usize = 20;
/// Lines of what cannot be told, for each run.
const UNSAID: usize = 5;
/// Causes of slow iterations, over all of them and of each.
const CAUSES: usize = 5;
const CAUSES_OF_EACH: usize = 3;
/// Slow iterations in the table.
const SLOW: usize = 10;

pub(super) fn text(report: &Report) -> String {
    let verdicts = report.verdicts();
    let mut text = if report.is_from_nothing() {
        "nothing could be read, so nothing can be said\n".to_owned()
    } else if verdicts.is_empty() {
        "nobody is seen to have lost time to a neighbour\n".to_owned()
    } else {
        table(&verdicts, report.runs.len() > 1)
    };
    for run in &report.training {
        text += &training(run);
    }
    for run in &report.runs {
        text += &about(run);
    }
    text
}

fn about(run: &RunReport) -> String {
    let mut text =
        format!("\n{}: {} rows, {:.1} s", printable(&run.node), thousands(run.rows), run.seconds());
    if run.lossy_slots > 0 {
        text += &format!(", {} slots with losses left out", thousands(run.lossy_slots));
    }
    text.push('\n');
    let small = run.small_losses;
    if small.verdicts > 0 {
        text += &format!(
            "{} losses below {:.0} ms each are not listed: {:.2} s in all\n",
            thousands(small.verdicts as u64),
            small.below_seconds * 1e3,
            small.lost_seconds
        );
    }
    for caveat in &run.caveats {
        text += &format!("note: {}\n", printable(caveat));
    }
    for unsaid in run.cannot_tell.iter().take(UNSAID) {
        let about = match unsaid.neighbours.as_slice() {
            [] => String::new(),
            some => format!(" beside {}", some.join(", ")),
        };
        let who = printable(&format!("{}{about}", unsaid.victim));
        text += &format!("cannot tell for {who}: {}\n", unsaid.because);
    }
    let more = run.cannot_tell.len().saturating_sub(UNSAID);
    if more > 0 {
        text += &format!("... nor for {more} more (--json=full has all)\n");
    }
    text
}

fn table(verdicts: &[&NamedVerdict], with_node: bool) -> String {
    let mut header = vec![
        ("victim", Align::Left),
        ("lost", Align::Right),
        ("share", Align::Right),
        ("95 %", Align::Right),
        ("to", Align::Left),
        ("through", Align::Left),
        ("by", Align::Left),
        ("from", Align::Left),
        ("until", Align::Left),
    ];
    if with_node {
        header.insert(0, ("node", Align::Left));
    }
    let row = |v: &&NamedVerdict| {
        let mut row = vec![
            printable(&v.victim),
            format!("{:.2} s", v.lost_seconds),
            percent(v.slowdown),
            interval(v.low, v.high),
            printable(&v.aggressor),
            v.resource.to_owned(),
            v.signal.to_owned(),
            clock(v.from_ns),
            clock(v.to_ns),
        ];
        if with_node {
            row.insert(0, printable(&v.node));
        }
        row
    };
    let mut text = render(&header, &verdicts.iter().take(VERDICTS).map(row).collect::<Vec<_>>());
    let more = verdicts.len().saturating_sub(VERDICTS);
    if more > 0 {
        let lost: f64 = verdicts.iter().skip(VERDICTS).map(|v| v.lost_seconds).sum();
        text += &format!("... and {more} more, {lost:.2} s in all (--json has them)\n");
    }
    text
}

fn training(run: &TrainingReport) -> String {
    let mut text = format!(
        "\n{}: {} of {} iterations were slow, by {:.2} s in all; usual: {:.3} s, slow from {:.3} s\n",
        printable(&run.trainer),
        thousands(run.slow as u64),
        thousands(run.iterations as u64),
        run.excess_seconds,
        run.median_seconds,
        run.slow_from_seconds,
    );
    for cause in run.causes.iter().take(CAUSES) {
        text += &format!(
            "{} on {} explains {} of that ({} %), through {}, by {}\n",
            printable(&cause.neighbour),
            printable(&cause.node),
            percent(cause.share),
            interval(cause.low, cause.high),
            cause.resource,
            cause.signal,
        );
    }
    if run.causes.len() > CAUSES {
        let rest: f64 = run.causes.iter().skip(CAUSES).map(|cause| cause.share).sum();
        text += &format!("{} more explain {}\n", run.causes.len() - CAUSES, percent(rest));
    }
    for why in &run.cannot_tell {
        text += &format!("cannot tell: {}\n", printable(why));
    }
    if run.slowest.is_empty() {
        return text;
    }
    let header = [
        ("iteration", Align::Right),
        ("at", Align::Left),
        ("took", Align::Right),
        ("too long by", Align::Right),
        ("of which", Align::Left),
    ];
    let rows: Vec<Vec<String>> = run
        .slowest
        .iter()
        .take(SLOW)
        .map(|one| {
            let causes = one.causes.iter().take(CAUSES_OF_EACH).map(|cause| {
                format!(
                    "{} ({} %) {} on {}",
                    percent(cause.share),
                    interval(cause.low, cause.high),
                    printable(&cause.neighbour),
                    printable(&cause.node)
                )
            });
            let mut causes: Vec<String> = causes.collect();
            causes.extend(one.cannot_tell.as_ref().map(|why| format!("cannot tell: {why}")));
            vec![
                one.iteration.to_string(),
                clock(one.from_ns),
                format!("{:.3} s", one.seconds),
                format!("{:.3} s", one.excess_seconds),
                causes.join("; "),
            ]
        })
        .collect();
    text += &render(&header, &rows);
    if run.slow > SLOW {
        text += &format!("... and {} more (--json=full has them)\n", run.slow - SLOW);
    }
    text
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn interval(low: f64, high: f64) -> String {
    format!("{:.1} to {:.1}", low * 100.0, high * 100.0)
}

fn clock(ns: u64) -> String {
    let time = Timestamp::from_nanosecond(ns.into()).unwrap_or(Timestamp::UNIX_EPOCH);
    time.strftime("%H:%M:%S").to_string()
}

/// A process may name itself with control characters; a terminal must not obey them.
pub(super) fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
