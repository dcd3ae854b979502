//! What a run shows, as text.

use super::{Comparison, Condition, Estimate, Summary};
use crate::live::line_of;

/// Lays out rows under a header: the first column to the left, the others to the right.
fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([header[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let mut text = String::new();
    let head: Vec<String> = header.iter().map(|name| (*name).to_owned()).collect();
    for row in std::iter::once(&head).chain(rows) {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[column] - cell.chars().count());
            let left = column < 2;
            line += &if left { format!("{cell}{pad}  ") } else { format!("{pad}{cell}  ") };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn percent(estimate: &Estimate) -> String {
    let figure = format!("{:.1} %", estimate.value * 100.0);
    match estimate.range {
        Some(r) => format!("{figure} ({:.1} to {:.1})", r.low * 100.0, r.high * 100.0),
        None => figure,
    }
}

fn maybe(estimate: Option<&Estimate>) -> String {
    estimate.map_or("-".to_owned(), percent)
}

pub(super) fn words(condition: &Condition) -> String {
    let beside = match &condition.beside[..] {
        [] => return "alone".to_owned(),
        names => format!("beside {}", names.join(", ")),
    };
    if condition.held_back { format!("{beside}, held back") } else { beside }
}

/// A run, summed up for reading.
pub fn summary_text(summary: &Summary) -> String {
    let run = &summary.run;
    let outcome = run.outcome.as_ref().map_or("not ended", |outcome| outcome.name());
    let mut text = format!("run {}: {}, scheduler {}\n", run.id, outcome, run.scheduler);
    if let Some(latest) = summary.latest_ms {
        text += &format!("starts and stops at most {latest:.1} ms after plan\n");
    }
    for (dataset, place, rows) in &run.lost {
        text += &format!("lost: {rows} rows of {dataset} at {place}\n");
    }
    let mut rows = Vec::new();
    for container in &summary.containers {
        for fared in &container.fared {
            rows.push(vec![
                container.name.clone(),
                words(&fared.condition),
                format!("{:.1}", fared.seconds),
                format!("{:.1}", fared.rate.value),
                maybe(fared.slowdown.as_ref()),
            ]);
        }
    }
    if !rows.is_empty() {
        text.push('\n');
        text += &table(&["container", "ran", "seconds", "units/s", "slower by (95 %)"], &rows);
    }
    for container in &summary.containers {
        if let Some(why) = container.because {
            text += &format!("\nnothing to say of {}: {why}\n", container.name);
        }
        if let Some(won) = &container.won_back {
            let won = percent(won);
            text += &format!("\n{} won back {won} of what it had lost\n", container.name);
        }
    }
    if !summary.decisions.is_empty() {
        text += "\ndecisions:\n";
        for event in &summary.decisions {
            text += &format!("  {}\n", line_of(event).unwrap_or_default());
        }
    }
    text
}

/// Two runs beside each other, for reading.
pub fn comparison_text(comparison: &Comparison) -> String {
    let ((a, a_by), (b, b_by)) = (&comparison.first, &comparison.second);
    let mut text = format!("first:  {a} (scheduler {a_by})\nsecond: {b} (scheduler {b_by})\n\n");
    let rows: Vec<Vec<String>> = comparison
        .containers
        .iter()
        .map(|one| {
            vec![
                one.name.clone(),
                maybe(one.lost_first.as_ref()),
                maybe(one.lost_second.as_ref()),
                format!("{:.1}", one.first.value),
                format!("{:.1}", one.second.value),
                percent(&one.gain),
                maybe(one.won_back.as_ref()),
            ]
        })
        .collect();
    let header = [
        "container",
        "lost, first (95 %)",
        "lost, second",
        "units/s, first",
        "second",
        "faster by",
        "won back",
    ];
    text += &table(&header, &rows);
    for (name, why) in &comparison.without {
        text += &format!("nothing to say of {name}: {why}\n");
    }
    text
}
