use super::text::{escaped, percent, seconds, thousands};
use crate::time::of_day;
use crate::{Report, Told};
use std::fmt::Write;

/// Verdicts written out; more are counted.
const MOST: usize = 60;

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
    let widest = verdicts.iter().map(|v| v.high).fold(0.04, f64::max);
    // A round number of per cent for the bars' end.
    let widest = ((widest * 12.0).ceil() / 10.0).min(1.0);
    let several = report.runs.len() > 1;
    for verdict in verdicts.iter().take(MOST) {
        card(page, verdict, widest, several);
    }
    if verdicts.len() > MOST {
        let more = thousands((verdicts.len() - MOST) as u64);
        let _ =
            write!(page, "<p class=\"more\">and {more} smaller ones: crosstalk analyze --json</p>");
    }
    *page += "</section>\n";
}

fn card(page: &mut String, v: &Told, widest: f64, several: bool) {
    let at = |share: f64| (share / widest * 100.0).clamp(0.0, 100.0);
    let of = if v.resource == "cpu time" { " waiting" } else { "" };
    let node = if several { format!(" &middot; on {}", escaped(&v.node)) } else { String::new() };
    // Nothing is ever certain: what rounds to it is more than 99.9 %.
    let sure = ((v.confidence * 1_000.0).floor() / 10.0).min(99.9);
    let bins = match v.evidence.bins {
        0 => String::new(),
        bins => format!(" &middot; {} bins of 40 ms", thousands(bins as u64)),
    };
    let _ = write!(
        page,
        "<article class=\"verdict\"><p class=\"big\">{big}</p><div><p class=\"say\">Between {from} and {to} \
         <b class=\"v\">{victim}</b> lost {share} ({least} to {high}) of its time{of} to <b class=\"a\">{aggressor}</b> \
         through {resource}.</p><div class=\"interval\" role=\"img\" aria-label=\"{share}, 95 percent interval {low} to \
         {high}\"><i style=\"left:{left:.2}%;width:{width:.2}%\"></i><em style=\"left:{mid:.2}%\"></em><span>{end}</span></div>\
         <p class=\"meta\">{lost} lost &middot; measured by {signal} &middot; {sure} % sure{bins}{node}</p></div></article>",
        big = percent(v.slowdown).replace(" %", "<small>%</small>"),
        from = of_day(v.from_ns),
        to = of_day(v.to_ns),
        victim = escaped(&v.victim),
        share = percent(v.slowdown),
        low = percent(v.low),
        least = percent(v.low).trim_end_matches(" %"),
        end = percent(widest),
        high = percent(v.high),
        aggressor = escaped(&v.aggressor),
        resource = v.resource,
        left = at(v.low),
        width = (at(v.high) - at(v.low)).max(0.4),
        mid = at(v.slowdown),
        lost = seconds(v.lost_seconds),
        signal = v.signal,
    );
}
