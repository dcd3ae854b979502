//! What the verdicts rest on, and what could not be told or read.

use super::text::{escaped, thousands};
use crate::{Report, RunReport, Unsaid};
use std::collections::BTreeMap;
use std::fmt::Write;

const MOST_RUNS: usize = 50;
const MOST_UNREAD: usize = 50;
const MOST_NAMES: usize = 12;

pub(super) fn write(page: &mut String, report: &Report) {
    *page += "<section id=\"coverage\"><h2>What this rests on</h2>\n";
    if !report.runs.is_empty() {
        *page += "<div class=\"scroll\"><table class=\"list\"><thead><tr><th>node</th><th>run</th><th>length</th>\
                  <th>rows</th><th>slots with losses</th><th>to know</th></tr></thead><tbody>\n";
        for run in report.runs.iter().take(MOST_RUNS) {
            row(page, run);
        }
        *page += "</tbody></table></div>\n";
    }
    let unsaid = report.cannot_tell();
    if !unsaid.is_empty() {
        *page += "<h3>Cannot be told</h3><ul class=\"reasons\">\n";
        for (because, who) in by_reason(&unsaid) {
            let shown = who.iter().take(MOST_NAMES).cloned().collect::<Vec<_>>().join(", ");
            let more = who.len().saturating_sub(MOST_NAMES);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let _ = write!(page, "<li><b>{}</b>: {shown}{more}</li>", escaped(because));
        }
        *page += "</ul>\n";
    }
    if !report.unread.is_empty() {
        *page += "<h3>Not read</h3><ul class=\"reasons\">\n";
        for what in report.unread.iter().take(MOST_UNREAD) {
            let _ = write!(page, "<li>{}</li>", escaped(what));
        }
        *page += "</ul>\n";
    }
    *page += "</section>\n";
}

fn row(page: &mut String, run: &RunReport) {
    let lossy = match run.lossy_slots {
        0 => "0".to_owned(),
        some => {
            let share = some as f64 / run.slots.max(1) as f64;
            format!("{} ({})", thousands(some), super::text::percent(share))
        }
    };
    let caveats: Vec<String> = run.caveats.iter().map(|text| escaped(text)).collect();
    let _ = write!(
        page,
        "<tr><td>{}</td><td>{}</td><td>{:.1} s</td><td>{}</td><td>{lossy}</td><td>{}</td></tr>",
        escaped(&run.node),
        escaped(&run.run),
        run.seconds(),
        thousands(run.rows),
        caveats.join("<br>")
    );
}

fn by_reason<'a>(unsaid: &[&'a Unsaid]) -> BTreeMap<&'a str, Vec<String>> {
    let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for one in unsaid {
        let mut who = escaped(&one.victim);
        if !one.neighbours.is_empty() {
            let names: Vec<String> = one.neighbours.iter().map(|name| escaped(name)).collect();
            who += &format!(" beside {}", names.join(" and "));
        }
        reasons.entry(one.because).or_default().push(who);
    }
    reasons
}
