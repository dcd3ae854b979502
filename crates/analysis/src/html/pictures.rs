use super::text::{escaped, percent};
use crate::{Picture, Report, RunReport};
use std::fmt::Write;

/// Pictures on a page, those of the greatest losses of each run first.
const MOST: usize = 32;

/// The pictures that are shown, in the order of the script's data.
pub(super) fn shown(report: &Report) -> impl Iterator<Item = (&RunReport, &Picture)> {
    let all = report.runs.iter().flat_map(|run| run.pictures.iter().map(move |one| (run, one)));
    all.take(MOST)
}

pub(super) fn write(page: &mut String, report: &Report) {
    if shown(report).next().is_none() {
        return;
    }
    *page += "<section id=\"pictures\"><h2>Victim by victim</h2>\n";
    for (at, (run, picture)) in shown(report).enumerate() {
        let node = if report.runs.len() > 1 {
            format!(" <small>on {}</small>", escaped(&run.node))
        } else {
            String::new()
        };
        one(page, at, picture, &node);
    }
    *page += "</section>\n";
}

fn one(page: &mut String, at: usize, picture: &Picture, node: &str) {
    let victim = escaped(&picture.victim);
    let unit = match picture.signal {
        "run-queue wait" => "share of its time spent waiting for a core",
        _ => "cost of a unit of its work, against its usual cost without the neighbour",
    };
    let lanes: Vec<String> = picture.lanes.iter().map(|lane| escaped(&lane.name)).collect();
    let _ = write!(
        page,
        "<figure class=\"picture\" data-picture=\"{at}\"><figcaption><h3><b class=\"v\">{victim}</b>{node}</h3>\
         <p>Above: {unit}, by {signal}. Below: cores kept busy by {beside}. Bands mark when {first} was active.</p>\
         </figcaption><div class=\"tools\" role=\"group\" aria-label=\"Zoom\"><button type=\"button\" data-zoom=\"in\" \
         aria-label=\"Zoom in\">+</button><button type=\"button\" data-zoom=\"out\" aria-label=\"Zoom out\">&minus;\
         </button><button type=\"button\" data-zoom=\"all\">all</button></div><div class=\"plot\"><canvas \
         class=\"course\" tabindex=\"0\" role=\"img\" aria-label=\"{victim}: {unit} over time, with the activity of \
         {beside} under it\"></canvas><div class=\"tip\" hidden></div></div>",
        signal = picture.signal,
        beside = lanes.join(", "),
        first = lanes.first().map_or("the neighbour", String::as_str),
    );
    *page += "<div class=\"pair\">";
    for (number, spread) in picture.distributions.iter().enumerate() {
        let rise = percent(spread.on_median - 1.0);
        let aggressor = escaped(&spread.aggressor);
        let (on, off) = spread.bins;
        let _ = write!(
            page,
            "<div><h4>With and without {aggressor}</h4><canvas class=\"spread\" data-spread=\"{number}\" role=\"img\" \
             aria-label=\"Distribution of cost: the median is {rise} higher with {aggressor}\"></canvas><p>Median \
             {rise} higher with it: {on} bins with, {off} without.</p></div>"
        );
    }
    if let Some(near) = &picture.close_up {
        let ms = near.slot_ns as f64 / 1e6;
        let _ = write!(
            page,
            "<div><h4>Half a second, slot by slot</h4><canvas class=\"near\" role=\"img\" aria-label=\"Who ran on each \
             core around the time the neighbour came\"></canvas><p>Each column is a slot of {ms} ms of a core: \
             <b class=\"v\">{victim}</b>, <b class=\"a\">{}</b>, others in grey.</p></div>",
            lanes.first().map_or("the neighbour", String::as_str)
        );
    }
    *page += "</div></figure>\n";
}
