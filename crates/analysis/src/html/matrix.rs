//! Who slowed whom as a table whose cells are the darker the more was lost.

use super::text::{escaped, percent};
use crate::{NamedVerdict, Report, RunReport};
use std::fmt::Write;

const MOST: usize = 10;
const MOST_RUNS: usize = 8;

pub(super) fn write(page: &mut String, report: &Report) {
    let with: Vec<&RunReport> =
        report.runs.iter().filter(|run| !run.verdicts.is_empty()).take(MOST_RUNS).collect();
    if with.is_empty() {
        return;
    }
    *page += "<section id=\"matrix\"><h2>Who hurts whom</h2>\n";
    for run in with {
        if report.runs.len() > 1 {
            let _ = write!(
                page,
                "<h3>{} <small>{}</small></h3>",
                escaped(&run.node),
                escaped(&run.run)
            );
        }
        table(page, run);
    }
    *page += "<p class=\"key\"><span class=\"none\">&middot;</span> no loss seen <span class=\"unknown\">?</span> \
              cannot be told</p></section>\n";
}

fn table(page: &mut String, run: &RunReport) {
    let mut victims: Vec<&str> = Vec::new();
    // One of the verdicts for each who did damage.
    let mut aggressors: Vec<&NamedVerdict> = Vec::new();
    for v in &run.verdicts {
        if !victims.contains(&v.victim.as_str()) && victims.len() < MOST {
            victims.push(&v.victim);
        }
        if !is_among(&aggressors, v) && aggressors.len() < MOST {
            aggressors.push(v);
        }
    }
    // Those who did the damage may have suffered as well: their rows say whether.
    for one in aggressors.iter().filter(|one| one.aggressors.len() == 1) {
        if !victims.contains(&one.aggressor.as_str()) && victims.len() < MOST {
            victims.push(&one.aggressor);
        }
    }
    let is_shown =
        |v: &&NamedVerdict| victims.contains(&v.victim.as_str()) && is_among(&aggressors, v);
    let most = run.verdicts.iter().filter(is_shown).map(|v| v.slowdown).fold(0.01, f64::max);
    *page += "<div class=\"scroll\"><table class=\"matrix\"><thead><tr><th scope=\"col\">lost by \\ to</th>";
    for one in &aggressors {
        let _ = write!(page, "<th scope=\"col\">{}</th>", escaped(&one.aggressor));
    }
    *page += "</tr></thead><tbody>\n";
    for victim in &victims {
        let _ = write!(page, "<tr><th scope=\"row\">{}</th>", escaped(victim));
        for aggressor in &aggressors {
            cell(page, run, victim, aggressor, most);
        }
        *page += "</tr>\n";
    }
    *page += "</tbody></table></div>\n";
}

fn is_among(aggressors: &[&NamedVerdict], verdict: &NamedVerdict) -> bool {
    aggressors.iter().any(|known| known.aggressors == verdict.aggressors)
}

/// What the victim lost to those that a verdict blames, be it of this victim or of another.
fn cell(page: &mut String, run: &RunReport, victim: &str, blamed: &NamedVerdict, most: f64) {
    let of = |v: &&NamedVerdict| v.victim == victim && v.aggressors == blamed.aggressors;
    let found: Vec<&NamedVerdict> = run.verdicts.iter().filter(of).collect();
    let unsaid = run.cannot_tell.iter().find(|one| {
        let is_blamed = |name: &String| blamed.aggressors.contains(name);
        one.victim == victim && (one.neighbours.is_empty() || one.neighbours.iter().any(is_blamed))
    });
    if blamed.aggressors == [victim] {
        *page += "<td class=\"self\">&mdash;</td>";
    } else if !found.is_empty() {
        let share: f64 = found.iter().map(|v| v.slowdown).sum();
        let ways: Vec<&str> = found.iter().map(|v| v.resource).collect();
        let _ = write!(
            page,
            "<td class=\"hot\" style=\"--heat:{heat:.0}%\"><b>{share}</b><small>{low} to {high}<br>{ways}</small></td>",
            heat = (share / most * 100.0).clamp(8.0, 100.0),
            share = percent(share),
            low = percent(found.iter().map(|v| v.low).sum()),
            high = percent(found.iter().map(|v| v.high).sum()),
            ways = ways.join(", "),
        );
    } else if let Some(unsaid) = unsaid {
        let why = escaped(unsaid.because);
        let _ = write!(
            page,
            "<td class=\"unknown\" title=\"{why}\"><abbr title=\"{why}\">?</abbr></td>"
        );
    } else {
        *page += "<td class=\"none\">&middot;</td>";
    }
}
