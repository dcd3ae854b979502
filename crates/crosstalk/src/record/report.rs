//! What is said when a recording is over: a table for people, JSON for programs.

use super::Args;
use super::summary::{Process, Summary};
use crate::quantity::{size, thousands, time};
use crate::table::{Align, render};
use anyhow::Result;
use crosstalk_collect::{Gap, Loss, Overview};
use crosstalk_host::OwnUsage;
use crosstalk_model::ProcessId;
use crosstalk_recording::{Destination, FinishedFile, Reader, Recorded, Run};
use serde_json::{Map, Value, json};
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

/// What the counters say of their programs in the kernel.
const PROGRAMS: &str = "counters_kernel_programs";

/// Everything the recording has to say.
pub(super) struct Report {
    summary: Summary,
    files: Vec<FinishedFile>,
    run: Option<Run>,
    took: Duration,
    own: OwnUsage,
    /// What each source says about itself.
    described: Map<String, Value>,
    losses: Vec<Loss>,
    /// Which source did not work though it had, for how long if it is over, and why.
    gaps: Vec<(&'static str, Gap)>,
}

impl Report {
    /// Reads back what was recorded.
    pub(super) fn read(
        to: &Destination,
        recorded: &Recorded,
        overview: &Overview,
        took: Duration,
        own: OwnUsage,
    ) -> Result<Self> {
        let id = recorded.run.as_ref().map_or("", Run::id);
        let summary = if recorded.files.is_empty() {
            Summary::default()
        } else {
            Summary::read(&Reader::open(to.places(&recorded.files))?, id)?
        };
        let files = recorded.files.iter().map(|file| {
            let path = PathBuf::from(to.place(&file.path));
            FinishedFile { path, ..file.clone() }
        });
        let described = overview.statuses().iter().flat_map(|status| status.described()).collect();
        Ok(Self {
            summary,
            files: files.collect(),
            run: recorded.run.clone(),
            took,
            own,
            described,
            losses: overview.losses().all(),
            gaps: gaps(overview),
        })
    }

    /// Whoever was to read it may be gone; the recording is whole all the same.
    pub(super) fn print(&self, args: &Args) {
        let text = match (args.json, args.quiet) {
            (true, _) => format!("{:#}\n", self.json(args.top)),
            (false, false) => self.text(args.top),
            (false, true) => return,
        };
        let _ = std::io::stdout().write_all(text.as_bytes());
    }

    fn number(&self, object: &str, key: &str) -> Option<f64> {
        self.described.get(object)?.get(key)?.as_f64()
    }

    fn text(&self, top: usize) -> String {
        let seconds = self.took.as_secs_f64();
        let mut text = self.table(top, seconds);
        text += &format!("\n{}\n", self.closing(seconds));
        let step_ns = self.number(PROGRAMS, "clock_step_ns").unwrap_or(0.0);
        if step_ns != 0.0 {
            let step = time(step_ns.abs() as u64);
            text += &format!(
                "the clock was set by {step} meanwhile; slots keep the time of the start\n"
            );
        }
        let lines = [self.cache(seconds), self.probe(seconds), self.starved_probe(seconds)];
        for line in lines.into_iter().flatten() {
            text += &format!("{line}\n");
        }
        for loss in self.losses.iter().filter(|loss| loss.place != "kernel ring") {
            let (rows, dataset, place) = (thousands(loss.rows), loss.dataset, loss.place);
            text += &format!("{dataset}: {rows} rows lost on their way to the {place}\n");
        }
        for (source, gap) in &self.gaps {
            let long = match gap.to_ns {
                Some(to_ns) => format!("for {}", time(to_ns.saturating_sub(gap.from_ns))),
                None => "until the end".to_owned(),
            };
            text += &format!("{source}: nothing was measured {long}: {}\n", gap.why);
        }
        for unread in &self.summary.unread {
            text += &format!("not read back: {unread}\n");
        }
        for file in &self.files {
            let name = file.path.display();
            text += &format!("  {name}  {} rows, {}\n", thousands(file.rows), size(file.bytes));
        }
        text
    }

    fn table(&self, top: usize, seconds: f64) -> String {
        let counted = self.summary.processes.values().any(|p| p.cycles.is_some());
        let cached = self.described.contains_key("cache");
        let mut header = vec![
            ("process", Align::Left),
            ("pid", Align::Right),
            ("cpu", Align::Right),
            ("on cpu", Align::Right),
            ("waited", Align::Right),
            ("switches/s", Align::Right),
            ("faults", Align::Right),
        ];
        if counted {
            header.extend([("ipc", Align::Right), ("llc misses", Align::Right)]);
        }
        if cached {
            header.extend([("llc held", Align::Right), ("memory/s", Align::Right)]);
        }
        header.push(("container", Align::Left));
        let busiest = self.summary.busiest(top);
        let rows: Vec<Vec<String>> = busiest
            .iter()
            .map(|(id, process)| cells(id, process, seconds, counted, cached))
            .collect();
        let mut text = render(&header, &rows);
        let others = self.summary.processes.len().saturating_sub(rows.len());
        if others > 0 {
            text += &format!("... and {others} more\n");
        }
        text
    }

    /// Rows the kernel programs measured and nobody got.
    fn lost_rows(&self) -> u64 {
        let kernel = self.losses.iter().filter(|loss| loss.place == "kernel ring");
        kernel.map(|loss| loss.rows).sum::<u64>().max(self.summary.lost)
    }

    fn closing(&self, seconds: f64) -> String {
        let s = &self.summary;
        let lost = match (self.lost_rows(), self.lost_rows() - s.lost) {
            (0, _) if self.losses.iter().all(|loss| loss.rows == 0) => "nothing lost".to_owned(),
            (0, _) => "nothing lost in the kernel, but on its way (below)".to_owned(),
            (all, 0) => {
                format!("{} rows lost in {} slots (see slots)", thousands(all), s.lossy_slots)
            }
            (all, unplaced) => format!(
                "{} rows lost, {} of them in {} slots (see slots) and {} in slots not known",
                thousands(all),
                thousands(s.lost),
                s.lossy_slots,
                thousands(unplaced)
            ),
        };
        let runs = self.number(PROGRAMS, "events");
        let bpf_ns = self.number(PROGRAMS, "ns_per_run").zip(runs).map(|(ns, runs)| ns * runs);
        let bpf = bpf_ns.map_or_else(String::new, |ns| {
            format!(", {:.2} % of one core in the kernel programs", ns / 1e7 / seconds)
        });
        format!(
            "{} rows of {} processes in {seconds:.1} s, {lost}; cost {:.2} % of one core here{bpf}",
            thousands(s.rows),
            thousands(s.processes.len() as u64),
            self.own.cpu.as_secs_f64() * 100.0 / seconds,
        )
    }

    /// One line about the cache.
    fn cache(&self, seconds: f64) -> Option<String> {
        let status = self.described.get("cache_status")?;
        let count = |key: &str| thousands(status[key].as_u64().unwrap_or(0));
        let mut text = format!(
            "cache: {} rows in {} slots; {} processes measured alone, {} by container, {} shared; \
             reading cost {:.2} % of one core",
            thousands(self.summary.cache_rows),
            count("slots"),
            count("processes_alone"),
            count("processes_by_container"),
            count("processes_shared"),
            status["read_cpu_seconds"].as_f64().unwrap_or(0.0) * 100.0 / seconds,
        );
        if status["rows_with_children"].as_u64().is_some_and(|rows| rows > 0) {
            text += &format!("; {} rows hold children too", count("rows_with_children"));
        }
        if status["processes_left_alone"].as_u64().is_some_and(|count| count > 0) {
            let named: Vec<String> =
                status["left_alone"].as_array().into_iter().flatten().map(owned).collect();
            let left = count("processes_left_alone");
            text +=
                &format!("; {left} left to the tools that own their groups ({})", named.join(", "));
        }
        if let Some(reason) = status["ended_because"].as_str() {
            text += &format!("; it ended early: {reason}");
        }
        Some(text)
    }

    /// One line about memory.
    fn probe(&self, seconds: f64) -> Option<String> {
        let cpu_seconds = self.number("probe_status", "cpu_seconds")?;
        let s = &self.summary;
        let mut unknown: Vec<(&String, &u64)> = s.probe_blind.iter().collect();
        unknown.sort_unstable_by_key(|(_, bursts)| std::cmp::Reverse(**bursts));
        let memory = match (s.probe_contended, s.probe_judged) {
            (_, 0) => {
                let why = unknown.first().map_or("", |(why, _)| because(why));
                format!("cannot tell whether memory was contended{why}")
            }
            (contended, judged) => {
                let unknown: Vec<String> =
                    unknown.iter().map(|(why, bursts)| format!("{bursts} {why}")).collect();
                let not = if unknown.is_empty() { "" } else { "; not judged: " };
                let unknown = unknown.join(", ");
                format!("memory contended at {contended} of {judged} judged{not}{unknown}")
            }
        };
        let cost = cpu_seconds * 100.0 / seconds;
        let status = self.described.get("probe_status")?;
        let trouble = status["baseline_trouble"].as_bool() == Some(true);
        let baseline = status["baseline"].as_str().filter(|_| trouble);
        let baseline = baseline.map_or_else(String::new, |text| format!("\nprobe: {text}"));
        let bursts = s.probe_rows;
        Some(format!("probe: {bursts} bursts, {memory}; cost {cost:.2} % of one core{baseline}"))
    }

    /// Said where the probe did not get what it needs: silence would pass for quiet.
    fn starved_probe(&self, seconds: f64) -> Option<String> {
        /// A window of bursts, some eight in little more than a second, is the least that can be judged.
        const LEAST_A_SECOND: f64 = 6.0;
        let bursts = self.number("probe_status", "bursts")?;
        let whole = bursts - self.number("probe_status", "disturbed_bursts").unwrap_or(0.0);
        let starved = self.summary.probe_blind.get("starved").copied().unwrap_or(0);
        let often = starved * 5 > self.summary.probe_rows;
        let starves = seconds >= 2.0 && (often || whole < LEAST_A_SECOND * seconds);
        starves.then(|| {
            format!(
                "warning: the probe was starved: {whole:.0} of {bursts:.0} bursts ran undisturbed in {seconds:.0} s, \
                 most likely because every core was busy; contention that it did not see may have been there"
            )
        })
    }

    fn json(&self, top: usize) -> Value {
        let s = &self.summary;
        let busiest = s.busiest(top);
        let busiest: Vec<Value> = busiest.iter().map(|(id, p)| process_json(id, p)).collect();
        let file = |f: &FinishedFile| json!({ "dataset": f.dataset.name, "path": f.path, "rows": f.rows, "bytes": f.bytes });
        let gap = |(source, gap): &(&str, Gap)| {
            let length_ns = gap.to_ns.map(|to_ns| to_ns.saturating_sub(gap.from_ns));
            json!({ "source": source, "length_ns": length_ns, "why": gap.why })
        };
        let with = |key: &str, more: Value| match (self.described.get(key), more) {
            (Some(Value::Object(status)), Value::Object(mut all)) => {
                all.extend(status.clone());
                Value::Object(all)
            }
            _ => Value::Null,
        };
        json!({
            "node": self.run.as_ref().map(Run::node),
            "run": self.run.as_ref().map(Run::id),
            "seconds": self.took.as_secs_f64(),
            "rows": s.rows,
            "slots": s.slots,
            "lost_rows": self.lost_rows(),
            "lossy_slots": s.lossy_slots,
            "losses": self.losses,
            "gaps": self.gaps.iter().map(gap).collect::<Vec<_>>(),
            "processes": s.processes.len(),
            "busiest": busiest,
            "files": self.files.iter().map(file).collect::<Vec<_>>(),
            "unread": s.unread,
            "cache": with("cache_status", json!({ "rows": s.cache_rows, "rows_by_state": s.cache_states })),
            "probe": with("probe_status", json!({
                "rows": s.probe_rows,
                "judged_rows": s.probe_judged,
                "contended_rows": s.probe_contended,
                "unknown_rows": s.probe_blind,
            })),
            "kernel": self.described.get(PROGRAMS),
            "own": {
                "cpu_seconds": self.own.cpu.as_secs_f64(),
                "max_rss_bytes": self.own.max_rss_bytes,
            },
        })
    }
}

fn gaps(overview: &Overview) -> Vec<(&'static str, Gap)> {
    let statuses = overview.statuses();
    let named = statuses.iter().flat_map(|s| s.gaps().into_iter().map(|gap| (s.about().name, gap)));
    named.collect()
}

/// Why nothing was judged.
fn because(blind: &str) -> &'static str {
    match blind {
        "learning" => ": too short to learn what it is like at rest",
        "unseen" => ": it was never seen at rest, since others ran all the time",
        "starved" => ": too few bursts got through",
        "noisy" => ": it strays too much here",
        _ => "",
    }
}

fn owned(process: &Value) -> String {
    let word = |key: &str| process[key].as_str().unwrap_or_default().to_owned();
    format!("{} {} in {}", printable(&word("comm")), process["pid"], word("group"))
}

fn cells(id: &ProcessId, p: &Process, seconds: f64, counted: bool, cached: bool) -> Vec<String> {
    let absent = || "-".to_owned();
    let mut row = vec![
        printable(&p.comm),
        id.pid.to_string(),
        format!("{:.1} %", p.on_cpu_ns as f64 / 1e7 / seconds),
        time(p.on_cpu_ns),
        p.runq_wait_ns.map_or_else(absent, time),
        thousands((p.switches as f64 / seconds).round() as u64),
        thousands(p.page_faults),
    ];
    if counted {
        row.push(p.ipc().map_or_else(absent, |ipc| format!("{ipc:.2}")));
        row.push(p.llc_misses.map_or_else(absent, thousands));
    }
    if cached {
        row.push(p.held_bytes().map_or_else(absent, size));
        let per_second = |bytes: u64| size((bytes as f64 / seconds) as u64);
        row.push(p.mbm_total_bytes.map_or_else(absent, per_second));
    }
    // An id of 64 digits says no more than its beginning.
    let short = |name: &String| {
        let is_id = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        printable(if is_id { &name[..12] } else { name })
    };
    row.push(p.container.as_ref().map_or_else(absent, short));
    row
}

fn process_json(id: &ProcessId, p: &Process) -> Value {
    json!({
        "comm": p.comm,
        "pid": id.pid,
        "process_start_ns": id.start_ns,
        "container": p.container,
        "on_cpu_ns": p.on_cpu_ns,
        "runq_wait_ns": p.runq_wait_ns,
        "switches": p.switches,
        "page_faults": p.page_faults,
        "cycles": p.cycles,
        "instructions": p.instructions,
        "llc_misses": p.llc_misses,
        "llc_occupancy_bytes": p.held_bytes(),
        "mbm_total_bytes": p.mbm_total_bytes,
        "mbm_local_bytes": p.mbm_local_bytes,
    })
}

/// A process may name itself with control characters; a terminal must not obey them.
fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(summary: Summary, described: Value, losses: Vec<Loss>) -> Report {
        let Value::Object(described) = described else { panic!("{described}") };
        let (took, own) = (Duration::from_secs(10), OwnUsage::default());
        Report { summary, files: vec![], run: None, took, own, described, losses, gaps: vec![] }
    }

    #[test]
    fn the_closing_line_tells_losses_whose_slots_are_known_from_those_whose_are_not() {
        let lost = |rows| vec![Loss { dataset: "tasks", place: "kernel ring", rows }];
        let summary = || Summary { lost: 40, lossy_slots: 3, ..Summary::default() };
        let closing = |losses| report(summary(), json!({}), losses).closing(10.0);
        let all = closing(lost(1_100));
        let told =
            "1,100 rows lost, 40 of them in 3 slots (see slots) and 1,060 in slots not known";
        assert!(all.contains(told), "{all}");
        let known = closing(lost(40));
        assert!(known.contains("40 rows lost in 3 slots (see slots);"), "{known}");
        let nothing = report(Summary::default(), json!({}), vec![]).closing(10.0);
        assert!(nothing.contains("nothing lost"), "{nothing}");
    }

    #[test]
    fn processes_left_to_other_tools_are_counted_and_named() {
        let left = json!({ "pid": 7, "comm": "pq\u{1b}os", "group": "mon_groups/other" });
        let status = json!({ "processes_left_alone": 2, "left_alone": [left] });
        let described = json!({ "cache_status": status });
        let told = report(Summary::default(), described, vec![]).cache(10.0).unwrap();
        let expected = "; 2 left to the tools that own their groups (pq?os 7 in mon_groups/other)";
        assert!(told.ends_with(expected), "{told}");
    }

    #[test]
    fn time_in_which_a_source_stood_still_is_told_with_its_reason() {
        let gap =
            Gap { from_ns: 5, to_ns: Some(2_000_000_005), why: "the mount is gone".to_owned() };
        let mut report = report(Summary::default(), json!({}), vec![]);
        report.gaps = vec![("cache", gap)];
        let text = report.text(0);
        assert!(
            text.contains("cache: nothing was measured for 2.00 s: the mount is gone\n"),
            "{text}"
        );
    }

    #[test]
    fn a_source_that_never_came_back_is_told_and_programs_get_every_gap() {
        let gap = |to_ns| Gap { from_ns: 5, to_ns, why: "the mount is gone".to_owned() };
        let mut report = report(Summary::default(), json!({}), vec![]);
        report.gaps = vec![("cache", gap(Some(2_000_000_005))), ("probe", gap(None))];
        let text = report.text(0);
        let told = "probe: nothing was measured until the end: the mount is gone\n";
        assert!(text.contains(told), "{text}");
        let expected = json!([
            { "source": "cache", "length_ns": 2_000_000_000, "why": "the mount is gone" },
            { "source": "probe", "length_ns": null, "why": "the mount is gone" },
        ]);
        assert_eq!(report.json(0)["gaps"], expected);
    }
}
