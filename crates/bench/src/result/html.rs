//! One self-contained page: the timeline, series of every container, and decisions where they were made.

use super::{Comparison, Estimate, Recorded, Series, Summary, series};
use crate::live::line_of;
use crate::plan::RoundKind;
use crate::store::{EventKind, Outcome, RunRecord};
use std::fmt::Write;

const WIDTH: f64 = 900.0;
const LEFT: f64 = 130.0;
const ROW: f64 = 22.0;
const CHART: f64 = 90.0;
const COLOURS: [&str; 8] =
    ["#2563eb", "#dc2626", "#16a34a", "#9333ea", "#ea580c", "#0891b2", "#be185d", "#4d7c0f"];
/// Beyond this many points a line is drawn through the mean of neighbours.
const MOST_POINTS: usize = 1_200;

/// The page of a run.
pub fn page(summary: &Summary, recorded: &Recorded) -> String {
    document(&summary.run.id, &body(summary, recorded))
}

/// The page of two runs: what one shows against the other, then each of them.
pub fn comparison(
    comparison: &Comparison,
    first: (&Summary, &Recorded),
    second: (&Summary, &Recorded),
) -> String {
    let mut text = format!(
        "<h1>{} and {}</h1><table><tr><th>container</th><th>units/s, first</th><th>second</th>\
         <th>faster by (95 %)</th><th>lost to others, first</th><th>second</th><th>won back</th></tr>",
        escape(&comparison.first.0),
        escape(&comparison.second.0),
    );
    let maybe =
        |estimate: &Option<Estimate>| estimate.as_ref().map_or("-".to_owned(), Estimate::percent);
    for one in &comparison.containers {
        let _ = write!(
            text,
            "<tr><td>{}</td><td class=n>{:.1}</td><td class=n>{:.1}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&one.name),
            one.first.value,
            one.second.value,
            one.gain.percent(),
            maybe(&one.lost_first),
            maybe(&one.lost_second),
            maybe(&one.won_back),
        );
    }
    text += "</table>";
    for (name, why) in &comparison.without {
        let _ = write!(text, "<p>Nothing to say of {}: {}.</p>", escape(name), escape(why));
    }
    for (summary, recorded) in [first, second] {
        text += &body(summary, recorded);
    }
    document(&format!("{} and {}", comparison.first.0, comparison.second.0), &text)
}

fn document(title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <style>{STYLE}</style></head><body>{body}</body></html>\n"
    )
}

fn body(summary: &Summary, recorded: &Recorded) -> String {
    let run = &summary.run;
    let mut body = String::new();
    let _ = write!(body, "<h1>{}</h1>", escape(&run.name));
    let _ = write!(body, "<p>{}</p>", escape(&run.description));
    let machine = &run.machine;
    let facts = [
        ("run", run.id.clone()),
        ("outcome", run.outcome.as_ref().map_or("not ended".to_owned(), Outcome::text)),
        ("scheduler", run.scheduler.clone()),
        (
            "machine",
            format!(
                "{}, {} CPUs, {}, Linux {}",
                machine.host.as_deref().unwrap_or("unknown"),
                machine.cpus,
                machine.cpu.as_deref().unwrap_or("unknown processor"),
                machine.kernel.as_deref().unwrap_or("unknown"),
            ),
        ),
        ("crosstalk", run.version.clone()),
    ];
    body += "<table>";
    for (name, value) in facts {
        let _ = write!(body, "<tr><th>{name}</th><td>{}</td></tr>", escape(&value));
    }
    body += "</table><h2>What it shows</h2>";
    body += &results(summary);
    for round in &run.rounds {
        let kind = escape(&purpose(run, round.kind));
        let _ = write!(body, "<h2>Round {}: {kind}</h2>", round.number);
        body += &Drawing {
            summary,
            recorded,
            round: round.number,
            from: round.zero_ns,
            to: recorded.end_ns(round),
        }
        .draw();
    }
    if !summary.decisions.is_empty() {
        body += "<h2>Decisions</h2><ol>";
        for event in &summary.decisions {
            let line = line_of(event).unwrap_or_default();
            let EventKind::Decision(decision) = &event.kind else { continue };
            let evidence = escape(&decision.evidence.to_string());
            let _ = write!(body, "<li>{}<br><code>{evidence}</code></li>", escape(line.trim()));
        }
        body += "</ol>";
    }
    if !run.absent.is_empty() {
        body += "<h2>Not measured here</h2><ul>";
        for (what, why) in &run.absent {
            let _ = write!(body, "<li>{}: {}</li>", escape(what), escape(why));
        }
        body += "</ul>";
    }
    body
}

/// What a round was for.
fn purpose(run: &RunRecord, kind: RoundKind) -> String {
    let RoundKind::Solo(index) = kind else { return "together".to_owned() };
    let found = run.containers.iter().find(|container| container.index == index);
    found.map_or("one alone".to_owned(), |container| format!("{} alone", container.name))
}

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:960px;margin:2rem auto;padding:0 1rem;color:#111}\
table{border-collapse:collapse}th,td{text-align:left;padding:.2rem .8rem .2rem 0;vertical-align:top}\
td.n{text-align:right}code{font-size:12px;color:#555;word-break:break-word}\
svg{display:block;margin:.4rem 0;width:100%;height:auto}svg text{font:11px system-ui,sans-serif;fill:#333}";

fn results(summary: &Summary) -> String {
    let mut text = String::from(
        "<table><tr><th>container</th><th>ran</th><th>seconds</th><th>units/s</th>\
         <th>slower by (95 %)</th></tr>",
    );
    for container in &summary.containers {
        for fared in &container.fared {
            let _ = write!(
                text,
                "<tr><td>{}</td><td>{}</td><td class=n>{:.1}</td><td class=n>{:.1}</td><td>{}</td></tr>",
                escape(&container.name),
                escape(&fared.condition.to_string()),
                fared.seconds,
                fared.rate.value,
                fared.slowdown.as_ref().map_or("-".to_owned(), Estimate::percent),
            );
        }
    }
    text += "</table>";
    for container in &summary.containers {
        if let Some(won) = &container.won_back {
            let _ = write!(
                text,
                "<p>{} won back {} of what it had lost.</p>",
                escape(&container.name),
                won.percent()
            );
        }
        if let Some(why) = container.because {
            let _ = write!(
                text,
                "<p>Nothing to say of {}: {}.</p>",
                escape(&container.name),
                escape(why)
            );
        }
    }
    text
}

/// The drawings of one round.
struct Drawing<'a> {
    summary: &'a Summary,
    recorded: &'a Recorded,
    round: u32,
    from: u64,
    to: u64,
}

impl Drawing<'_> {
    fn x(&self, at_ns: u64) -> f64 {
        let whole = self.to.saturating_sub(self.from).max(1) as f64;
        let share = at_ns.saturating_sub(self.from) as f64 / whole;
        LEFT + share.min(1.0) * (WIDTH - LEFT - 10.0)
    }

    fn seconds(&self) -> f64 {
        self.to.saturating_sub(self.from) as f64 / 1e9
    }

    fn draw(&self) -> String {
        let mut text = self.timeline();
        for (at, container) in self.summary.run.containers.iter().enumerate() {
            let colour = COLOURS[at % COLOURS.len()];
            for one in series(&container.name, self.recorded) {
                text += &self.chart(&container.name, &one, colour);
            }
        }
        text
    }

    fn timeline(&self) -> String {
        let containers = &self.summary.run.containers;
        let height = ROW * (containers.len() as f64 + 1.0) + 6.0;
        let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">");
        for (at, container) in containers.iter().enumerate() {
            let (y, colour) = (at as f64 * ROW, COLOURS[at % COLOURS.len()]);
            let _ =
                write!(svg, "<text x=\"0\" y=\"{}\">{}</text>", y + 15.0, escape(&container.name));
            let mine =
                |s: &&super::RunningSpan| s.round == self.round && s.container == container.name;
            for span in self.recorded.running.iter().filter(mine) {
                let (x, end) = (self.x(span.from_ns), self.x(span.to_ns));
                let _ = write!(
                    svg,
                    "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"14\" rx=\"2\" fill=\"{colour}\" opacity=\".75\"/>",
                    y + 4.0,
                    (end - x).max(1.0),
                );
            }
        }
        svg += &self.marks(height - ROW);
        let _ = write!(svg, "<text x=\"{LEFT}\" y=\"{:.1}\">0 s</text>", height - 6.0);
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{:.1} s</text></svg>",
            WIDTH - 10.0,
            height - 6.0,
            self.seconds(),
        );
        svg
    }

    /// A line wherever something was decided.
    fn marks(&self, height: f64) -> String {
        let mut svg = String::new();
        for event in self.summary.decisions.iter().filter(|event| event.round == self.round) {
            let x = self.x(event.unix_ns);
            let message = escape(line_of(event).unwrap_or_default().trim());
            let _ = write!(
                svg,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"0\" y2=\"{height:.1}\" stroke=\"#111\" \
                 stroke-dasharray=\"3 2\"><title>{message}</title></line>"
            );
        }
        svg
    }

    fn chart(&self, name: &str, one: &Series, colour: &str) -> String {
        let inside = |at: u64| (self.from..=self.to).contains(&at);
        let runs = one.runs.iter().map(|run| run.iter().filter(|p| inside(p.at_ns)).copied());
        let runs: Vec<Vec<_>> =
            runs.map(Iterator::collect).filter(|r: &Vec<_>| r.len() > 1).collect();
        if runs.is_empty() {
            return String::new();
        }
        let most =
            runs.iter().flatten().map(|p: &super::Point| p.value).fold(0.0, f64::max).max(1e-9);
        let height = CHART + 8.0;
        let mut svg = format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">");
        let _ = write!(
            svg,
            "<text x=\"0\" y=\"14\">{}</text><text x=\"0\" y=\"30\">{}</text>",
            escape(name),
            one.title
        );
        let _ = write!(svg, "<text x=\"0\" y=\"46\">to {most:.1} {}</text>", one.unit);
        let _ = write!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{CHART}\" y2=\"{CHART}\" stroke=\"#bbb\"/>",
            WIDTH - 10.0
        );
        for run in &runs {
            let chunk = run.len().div_ceil(MOST_POINTS).max(1);
            let mut path = String::new();
            for points in run.chunks(chunk) {
                let mean = points.iter().map(|p| p.value).sum::<f64>() / points.len() as f64;
                let x = self.x(points[points.len() / 2].at_ns);
                let y = CHART - mean / most * (CHART - 6.0);
                let _ = write!(path, "{}{x:.1},{y:.1}", if path.is_empty() { "M" } else { "L" });
            }
            let _ = write!(
                svg,
                "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.4\"/>"
            );
        }
        svg + &self.marks(CHART) + "</svg>"
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Experiment, Surroundings, Variables};
    use crate::result::{TaskPoint, summary};
    use crate::scheduler::Decision;
    use crate::store::{Event, RanRound, RunStore};
    use crosstalk_host::HostRoot;

    #[test]
    fn what_a_file_says_is_text_on_the_page() {
        assert_eq!(escape("<script>\"&\""), "&lt;script&gt;&quot;&amp;&quot;");
    }

    const S: u64 = 1_000_000_000;

    /// A page of a round of ten seconds, in the sixth of which somebody was held back.
    fn page_of(end_ns: Option<u64>) -> String {
        let folder = tempfile::tempdir().unwrap();
        let around = Surroundings {
            cpus: [0].into_iter().collect(),
            path: vec!["/bin".into(), "/usr/bin".into()],
        };
        let text = "benchmark: {name: x}\na: {index: 0, command: sh}\n";
        let read = Experiment::parse("e.yaml", text, &Variables::default(), &around).unwrap();
        let (_, mut record) =
            RunStore::at(folder.path()).create(&read, text, 7, &HostRoot::default()).unwrap();
        let (number, kind, cgroup_ids) = (0, RoundKind::Together, Vec::new());
        assert_eq!(purpose(&record, RoundKind::Solo(0)), "a alone");
        record.rounds = vec![RanRound { number, kind, zero_ns: 100 * S, end_ns, cgroup_ids }];
        let decision = Decision {
            what: "acted".to_owned(),
            container: Some("b".to_owned()),
            victim: Some("a".to_owned()),
            message: "a loses 50 % to <b>".to_owned(),
            evidence: serde_json::json!({"low": 0.4}),
        };
        let event = |at: u64, kind| {
            let container = Some("a".to_owned());
            Event { unix_ns: (100 + at) * S, seconds: at as f64, round: 0, container, kind }
        };
        let point = |at: u64| TaskPoint {
            round: 0,
            container: "a".to_owned(),
            at_ns: (100 + at) * S,
            covers_ns: S,
            on_cpu_ns: S / 2,
            wait_ns: Some(S / 4),
            cycles: Some(1_000),
            instructions: Some(1_500),
            misses: None,
        };
        let recorded = Recorded {
            tasks: (1..=10).map(point).collect(),
            events: vec![
                event(0, EventKind::Start { late_ms: 0.0 }),
                event(5, EventKind::Decision(decision)),
                event(10, EventKind::Ended { code: None }),
            ],
            ..Recorded::default()
        };
        page(&summary(&record, &recorded), &recorded)
    }

    #[test]
    fn a_decision_is_marked_where_it_was_made_in_the_timeline_and_in_every_chart() {
        let page = page_of(Some(110 * S));
        let middle = LEFT + (WIDTH - LEFT - 10.0) / 2.0;
        let mark = format!("<line x1=\"{middle:.1}\" x2=\"{middle:.1}\"");
        let marks: Vec<&str> = page.split(&mark).skip(1).collect();
        assert_eq!(marks.len(), 3, "the timeline and two charts: {page}");
        for mark in marks {
            let title = mark.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0;
            assert!(title.contains("a loses 50 % to &lt;b&gt;"), "{title}");
        }
        assert!(page.contains("to 0.2 cores") && page.contains("to 1.5 instructions"), "{page}");
        assert!(!page.contains("cache misses"), "what was not counted is not drawn");
    }

    #[test]
    fn a_round_that_was_cut_short_is_drawn_as_far_as_it_is_known() {
        let drawn =
            |page: String| page.split_once("<h2>Round 0: together</h2>").unwrap().1.to_owned();
        assert_eq!(drawn(page_of(None)), drawn(page_of(Some(110 * S))));
    }
}
