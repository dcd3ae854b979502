//! Who slowed whom as a table whose cells are the darker the more was lost.

use super::text::{escaped, percent};
use crate::{Report, RunReport, Told};
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
    let (mut victims, mut aggressors): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for v in &run.verdicts {
        let add = |names: &mut Vec<_>, name| {
            if !names.contains(&name) && names.len() < MOST {
                names.push(name);
            }
        };
        add(&mut victims, v.victim.as_str());
        add(&mut aggressors, v.aggressor.as_str());
    }
    // Those who did the damage may have suffered as well: their rows say whether.
    for name in aggressors.clone() {
        if !victims.contains(&name) && victims.len() < MOST && !name.contains(" + ") {
            victims.push(name);
        }
    }
    let is_shown = |v: &&Told| {
        victims.contains(&v.victim.as_str()) && aggressors.contains(&v.aggressor.as_str())
    };
    let most = run.verdicts.iter().filter(is_shown).map(|v| v.slowdown).fold(0.01, f64::max);
    *page += "<div class=\"scroll\"><table class=\"matrix\"><thead><tr><th scope=\"col\">lost by \\ to</th>";
    for name in &aggressors {
        let _ = write!(page, "<th scope=\"col\">{}</th>", escaped(name));
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

fn cell(page: &mut String, run: &RunReport, victim: &str, aggressor: &str, most: f64) {
    let of = |v: &&Told| v.victim == victim && v.aggressor == aggressor;
    let found: Vec<&Told> = run.verdicts.iter().filter(of).collect();
    let unsaid = run.cannot_tell.iter().find(|one| {
        let among = |name: &str| aggressor.split(" + ").any(|part| part == name);
        one.victim == victim
            && (one.neighbours.is_empty() || one.neighbours.iter().any(|name| among(name)))
    });
    if victim == aggressor {
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
