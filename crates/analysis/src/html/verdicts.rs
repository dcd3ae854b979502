use super::text::{escaped, percent, seconds, thousands};
use crate::time::of_day;
use crate::{NamedVerdict, Report};
use std::fmt::Write;

/// Verdicts written out large; more are folded up, and beyond that counted.
const LARGE: usize = 6;
const MOST: usize = 100;

pub(super) fn write(page: &mut String, report: &Report) {
    let verdicts = report.verdicts();
    *page += "<section id=\"verdicts\" aria-label=\"Verdicts\">\n";
    if verdicts.is_empty() {
        let why = if report.is_from_nothing() {
            "Nothing could be read, so nothing can be said. See below for what stood in the way."
        } else {
            "Nobody is seen to have lost time to a neighbour. That is no proof that nobody did: see below for whom it \
             cannot be told."
        };
        let _ = write!(page, "<p class=\"calm\">{why}</p></section>");
        return;
    }
    let widest = verdicts.iter().take(LARGE).map(|v| v.high).fold(0.04, f64::max);
    // A round number of per cent for the bars' end.
    let widest = ((widest * 12.0).ceil() / 10.0).min(1.0);
    let several = report.runs.len() > 1;
    for verdict in verdicts.iter().take(LARGE) {
        card(page, verdict, widest, several);
    }
    if verdicts.len() > LARGE {
        fold(page, &verdicts[LARGE..], several);
    }
    *page += "</section>\n";
}

/// The verdict as a sentence.
fn sentence(v: &NamedVerdict) -> String {
    let (share, low, high) = (percent(v.slowdown), percent(v.low), percent(v.high));
    let (victim, aggressor) = (escaped(&v.victim), escaped(&v.aggressor));
    let how = match v.resource {
        "cpu time" => format!("waiting for a core that <b class=\"a\">{aggressor}</b> held"),
        resource => format!("to <b class=\"a\">{aggressor}</b> through {resource}"),
    };
    format!(
        "Between {from} and {to} <b class=\"v\">{victim}</b> lost {share} ({low} to {high}) of its time {how}.",
        from = of_day(v.from_ns),
        to = of_day(v.to_ns),
        low = low.trim_end_matches(" %"),
    )
}

fn card(page: &mut String, v: &NamedVerdict, widest: f64, several: bool) {
    let at = |share: f64| (share / widest * 100.0).clamp(0.0, 100.0);
    let node = if several { format!(" &middot; on {}", escaped(&v.node)) } else { String::new() };
    // Nothing is ever certain: what rounds to it is more than 99.9 %.
    let sure = ((v.confidence * 1_000.0).floor() / 10.0).min(99.9);
    let bins = match v.evidence.bins {
        0 => String::new(),
        bins => format!(" &middot; {} bins of 40 ms", thousands(bins as u64)),
    };
    let _ = write!(
        page,
        "<article class=\"verdict\"><p class=\"big\">{big}</p><div><p class=\"say\">{sentence}</p><div \
         class=\"interval\" role=\"img\" aria-label=\"{share}, 95 percent interval {low} to {high}\"><i \
         style=\"left:{left:.2}%;width:{width:.2}%\"></i><em style=\"left:{mid:.2}%\"></em><span>{end}</span></div>\
         <p class=\"meta\">{lost} lost &middot; measured by {signal} &middot; {sure} % sure{bins}{node}</p></div></article>",
        big = percent(v.slowdown).replace(" %", "<small>%</small>"),
        sentence = sentence(v),
        share = percent(v.slowdown),
        low = percent(v.low),
        high = percent(v.high),
        left = at(v.low),
        width = (at(v.high) - at(v.low)).max(0.4),
        mid = at(v.slowdown),
        end = percent(widest),
        lost = seconds(v.lost_seconds),
        signal = v.signal,
    );
}

fn fold(page: &mut String, rest: &[&NamedVerdict], several: bool) {
    let number = thousands(rest.len() as u64);
    let lost: f64 = rest.iter().map(|v| v.lost_seconds).sum();
    let _ = write!(
        page,
        "<details><summary>{number} smaller losses, {} in all</summary><ul class=\"reasons\">",
        seconds(lost)
    );
    for v in rest.iter().take(MOST) {
        let node = if several { format!(", on {}", escaped(&v.node)) } else { String::new() };
        let _ = write!(page, "<li>{} {} lost{node}.</li>", sentence(v), seconds(v.lost_seconds));
    }
    *page += "</ul>";
    if rest.len() > MOST {
        *page += "<p class=\"more\">The rest: crosstalk analyze --json</p>";
    }
    *page += "</details>\n";
}
