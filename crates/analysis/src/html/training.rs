use super::text::{escaped, percent, seconds, thousands};
use crate::time::of_day;
use crate::{Report, TrainingReport};
use serde_json::{Value, json};
use std::fmt::Write;

/// Slow iterations in the table.
const MOST: usize = 40;

pub(super) fn data(report: &Report) -> Vec<Value> {
    let one = |run: &TrainingReport| {
        json!({
            "course": run.course.iter().map(|(ns, s)| json!([ns, (s * 1e4).round() / 1e4])).collect::<Vec<_>>(),
            "median": run.median_seconds,
            "slow_from": run.slow_from_seconds,
        })
    };
    report.training.iter().map(one).collect()
}

pub(super) fn write(page: &mut String, report: &Report) {
    for (at, run) in report.training.iter().enumerate() {
        let _ = write!(
            page,
            "<section class=\"training\"><h2>Slow iterations of {}</h2>",
            escaped(&run.trainer)
        );
        summary(page, run);
        let _ = write!(
            page,
            "<figure><div class=\"plot\"><canvas class=\"iterations\" data-training=\"{at}\" role=\"img\" \
             aria-label=\"Time of each iteration: median {}, {} slow\"></canvas></div></figure>",
            seconds(run.median_seconds),
            run.slow
        );
        table(page, run);
        *page += "</section>\n";
    }
}

fn summary(page: &mut String, run: &TrainingReport) {
    let explained: f64 = run.causes.iter().map(|cause| cause.share).sum();
    let _ = write!(
        page,
        "<p class=\"say\">{slow} of {all} iterations were slow: they took {excess} longer than the usual {median}.",
        slow = thousands(run.slow as u64),
        all = thousands(run.iterations as u64),
        excess = seconds(run.excess_seconds),
        median = seconds(run.median_seconds),
    );
    for cause in run.causes.iter().take(4) {
        let _ = write!(
            page,
            " <b class=\"a\">{who}</b> on {node} explains {share} of it ({low} to {high}), through {resource}.",
            who = escaped(&cause.neighbour),
            node = escaped(&cause.node),
            share = percent(cause.share),
            low = percent(cause.low),
            high = percent(cause.high),
            resource = cause.resource,
        );
    }
    if run.slow > 0 && explained < 0.98 {
        let _ = write!(page, " {} is not explained.", percent((1.0 - explained).max(0.0)));
    }
    *page += "</p>";
    for why in &run.cannot_tell {
        let _ = write!(page, "<p class=\"meta\">cannot tell: {}</p>", escaped(why));
    }
}

fn table(page: &mut String, run: &TrainingReport) {
    if run.slowest.is_empty() {
        return;
    }
    *page += "<div class=\"scroll\"><table class=\"list\"><thead><tr><th>iteration</th><th>at</th><th>took</th>\
              <th>too long by</th><th>of which</th></tr></thead><tbody>\n";
    for one in run.slowest.iter().take(MOST) {
        let causes = one.causes.iter().map(|cause| {
            format!(
                "<span class=\"part\" style=\"--part:{part:.0}%\"></span>{share} ({low} to {high}) <b>{who}</b> on {node}",
                part = cause.share * 100.0,
                share = percent(cause.share),
                low = percent(cause.low),
                high = percent(cause.high),
                who = escaped(&cause.neighbour),
                node = escaped(&cause.node),
            )
        });
        let mut causes: Vec<String> = causes.collect();
        causes.extend(one.cannot_tell.as_ref().map(|why| format!("cannot tell: {}", escaped(why))));
        let _ = write!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            one.iteration,
            of_day(one.from_ns),
            seconds(one.seconds),
            seconds(one.excess_seconds),
            causes.join("<br>")
        );
    }
    *page += "</tbody></table></div>\n";
    if run.slow > MOST {
        let _ = write!(page, "<p class=\"more\">and {} more: --json=full</p>", run.slow - MOST);
    }
}
