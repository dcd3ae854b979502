//! What a run shows, as text.

use crate::table::{Align, render};
use crosstalk_bench::live::line_of;
use crosstalk_bench::result::{Comparison, Estimate, Summary};
use crosstalk_bench::store::{OddEnd, Outcome};

fn maybe(estimate: Option<&Estimate>) -> String {
    estimate.map_or("-".to_owned(), Estimate::percent)
}

/// A run, summed up for reading.
pub(super) fn summary(summary: &Summary, odd: &[OddEnd]) -> String {
    let run = &summary.run;
    let outcome = run.outcome.as_ref().map_or("not ended", |outcome| outcome.name());
    let mut text = format!("run {}: {}, scheduler {}\n", run.id, outcome, run.scheduler);
    if let Some(Outcome::Failed(why)) = &run.outcome {
        text += &format!("{why}\n");
    }
    if let Some(latest) = summary.latest_ms {
        text += &format!("starts and stops at most {latest:.1} ms off plan\n");
    }
    for OddEnd { container, round, code } in odd {
        let how = code.map_or("no known exit code".to_owned(), |code| format!("exit code {code}"));
        text += &format!("{container} ended with {how} in round {round}\n");
    }
    for (dataset, place, rows) in &run.lost {
        text += &format!("lost: {rows} rows of {dataset} at {place}\n");
    }
    let mut rows = Vec::new();
    for container in &summary.containers {
        for fared in &container.fared {
            rows.push(vec![
                container.name.clone(),
                fared.condition.to_string(),
                format!("{:.1}", fared.seconds),
                format!("{:.1}", fared.rate.value),
                maybe(fared.slowdown.as_ref()),
            ]);
        }
    }
    let header = [
        ("container", Align::Left),
        ("ran", Align::Left),
        ("seconds", Align::Right),
        ("units/s", Align::Right),
        ("slower by (95 %)", Align::Left),
    ];
    if !rows.is_empty() {
        text += &format!("\n{}", render(&header, &rows));
    }
    for container in &summary.containers {
        if let Some(why) = container.because {
            text += &format!("\nnothing to say of {}: {why}\n", container.name);
        }
        if let Some(won) = &container.won_back {
            let won = won.percent();
            text += &format!("\n{} won back {won} of what it had lost\n", container.name);
        }
    }
    if !summary.decisions.is_empty() {
        text += "\ndecisions:\n";
        let lines = summary.decisions.iter().filter_map(line_of);
        lines.for_each(|line| text += &format!("  {line}\n"));
    } else if run.scheduler == "adaptive" && run.outcome == Some(Outcome::Completed) {
        text += "\nadaptive did nothing: it saw nobody slowed by somebody it may hold back\n";
    }
    text
}

/// Two runs beside each other, for reading.
pub(super) fn comparison(comparison: &Comparison) -> String {
    let ((a, a_by), (b, b_by)) = (&comparison.first, &comparison.second);
    let mut text = format!("first:  {a} (scheduler {a_by})\nsecond: {b} (scheduler {b_by})\n\n");
    let row = |one: &crosstalk_bench::result::Compared| {
        vec![
            one.name.clone(),
            format!("{:.1}", one.first.value),
            format!("{:.1}", one.second.value),
            one.gain.percent(),
            maybe(one.lost_first.as_ref()),
            maybe(one.lost_second.as_ref()),
            maybe(one.won_back.as_ref()),
        ]
    };
    let rows: Vec<Vec<String>> = comparison.containers.iter().map(row).collect();
    let header = [
        ("container", Align::Left),
        ("units/s, first", Align::Right),
        ("second", Align::Right),
        ("faster by (95 %)", Align::Left),
        ("lost to others, first", Align::Left),
        ("second", Align::Left),
        ("won back", Align::Left),
    ];
    text += &render(&header, &rows);
    for (name, why) in &comparison.without {
        text += &format!("nothing to say of {name}: {why}\n");
    }
    text
}
