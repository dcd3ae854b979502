//! A report as one HTML file: nothing is fetched, and whatever a process calls itself stays text.
//!
//! Sentences, tables and what is missing stand in the HTML itself and read without a script; the script draws what is
//! better looked at. Its size is bounded, whatever the recording's.

mod coverage;
mod matrix;
mod pictures;
mod text;
mod training;
mod verdicts;

use crate::Report;
use crate::time::{clock, day, of_day};
use serde_json::json;
use std::fmt::Write;
use std::hash::{BuildHasher, Hasher, RandomState};

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// Makes the page.
///
/// ```
/// use crosstalk_analysis::{Report, html};
///
/// let page = html::page(&Report::default());
/// assert!(page.starts_with("<!doctype html>"));
/// ```
pub fn page(report: &Report) -> String {
    // Only the script with this word runs, which nobody who was recorded can know.
    let nonce = format!("{:x}", RandomState::new().build_hasher().finish());
    let mut page = String::with_capacity(1 << 16);
    let title = title(report);
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; \
         script-src 'nonce-{nonce}'\">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>"
    );
    head(&mut page, report);
    page += "<main>\n";
    verdicts::write(&mut page, report);
    matrix::write(&mut page, report);
    pictures::write(&mut page, report);
    training::write(&mut page, report);
    coverage::write(&mut page, report);
    page += METHOD;
    page += "</main>\n";
    let data = json!({
        "pictures": pictures::shown(report).map(|(_, picture)| picture).collect::<Vec<_>>(),
        "training": training::data(report),
    });
    let _ = write!(
        page,
        "<footer>crosstalk {}</footer>\n<script type=\"application/json\" id=\"data\" nonce=\"{nonce}\">{}</script>\n\
         <script nonce=\"{nonce}\">{SCRIPT}</script>\n</body>\n</html>",
        env!("CARGO_PKG_VERSION"),
        text::in_script(&data.to_string())
    );
    page
}

fn title(report: &Report) -> String {
    match report.verdicts()[..] {
        [] => "Crosstalk: no loss seen".to_owned(),
        [first, ..] => text::escaped(&format!(
            "{} lost {} to {}",
            first.victim,
            text::percent(first.slowdown),
            first.aggressor
        )),
    }
}

fn head(page: &mut String, report: &Report) {
    let from = report.runs.iter().map(|run| run.from_ns).min();
    let to = report.runs.iter().map(|run| run.to_ns).max();
    let when = match (from, to) {
        (Some(from), Some(to)) if day(from) == day(to) => {
            format!("{}, {} to {} UTC", day(from), of_day(from), of_day(to))
        }
        (Some(from), Some(to)) => format!("{} to {}", clock(from), clock(to)),
        _ => "nothing could be read".to_owned(),
    };
    let mut nodes: Vec<&str> = report.runs.iter().map(|run| run.node.as_str()).collect();
    nodes.dedup();
    let nodes = match nodes[..] {
        [] => String::new(),
        [one] => format!("{} &middot; ", text::escaped(one)),
        _ => format!("{} nodes &middot; ", nodes.len()),
    };
    let _ = write!(
        page,
        "<header><div class=\"wrap\"><p class=\"brand\"><svg viewBox=\"0 0 32 20\" aria-hidden=\"true\">\
         <path class=\"a\" d=\"M1 14c5 0 5-9 10-9s5 9 10 9 5-9 10-9\"/><path class=\"v\" d=\"M1 10c5 0 5 5 10 5s5-10 \
         10-10 5 5 10 5\"/></svg>crosstalk</p><h1>Who slowed whom</h1><p class=\"when\">{nodes}{when}</p></div></header>"
    );
}

const METHOD: &str = "<section id=\"method\"><h2>How to read this</h2><div class=\"columns\">\
<p><b>Lost</b> is the share of the victim's time that it would not have needed had the other not been there, between \
the first and the last time they ran side by side. The <b>interval</b> holds the truth in 95 of 100 cases where the \
method's assumptions do. <b>Sure</b> is the chance that it is not chance, after counting everybody who was looked at.</p>\
<p>Cost is compared in bins of 40 ms with how much of every neighbour ran in the very slots in which the victim ran, on \
cores that share a cache or memory with its own, for all neighbours at once. Waiting for a core is not estimated: it is \
summed from who held the core.</p>\
<p>It cannot tell a neighbour from whatever always happens together with it, says nothing of one that never rested or \
never ran, and an empty cell is no proof of innocence: the effect may be smaller than could be seen.</p></div></section>\n";

#[cfg(test)]
mod tests;
