//! What it costs to watch 20 containers at 50 ms: processor time and memory of the driver itself, which is a process of its
//! own for each row.
//!
//! The targets are held against all that is collected, and against the least: what containers use and get done. Only what
//! a machine costs that starts processes as fast as it can is told as it is, but for memory.

mod driver;
#[path = "../../../inventory/tests/support/mod.rs"]
mod engine;
mod stand_ins;

use crosstalk_figure::{Figure, Section};
use driver::{Cost, DRIVER, Places, drive, measure};
use stand_ins::{STAND_INS, StandIns, stand_in};
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::process::Command;

const CONTAINERS: u32 = 20;
const SECONDS: u32 = 24;
/// An image of busybox, in an engine of this benchmark's own.
const IMAGE: &str = "collecting:1";
/// Next to nothing: what is left is what watching costs.
const IDLE: &str = "while :; do echo tick; sleep 1; done";
/// A core each, as far as there are any.
const COMPUTES: &str = "while :; do i=$((i+1)); [ $((i%10000)) -eq 0 ] && echo tick; done";
/// New processes as fast as they can be made, as a build does.
const FORKS: &str = "while :; do /bin/true; done";
/// What a file asks for that asks for the least.
const LEAST: &str = "perf: false, rdt: false, probe: false";

/// An experiment with this of its `benchmark` besides, and a command for each container.
fn experiment(
    data: &str,
    more: &str,
    image: Option<&str>,
    command: impl Fn(u32) -> String,
) -> String {
    let mut text = format!(
        "benchmark: {{name: cost, max_t: {SECONDS}, data: {{profilefrequency: 50{data}}}{more}}}\n"
    );
    let image = image.map_or(String::new(), |image| format!("image: {image:?}, "));
    for index in 0..CONTAINERS {
        // Text cannot be refused.
        let _ = writeln!(
            text,
            "c{index}: {{index: {index}, {image}progress: lines, command: {:?}}}",
            command(index)
        );
    }
    text
}

fn idle(_: u32) -> String {
    IDLE.to_owned()
}

/// Adds what a driver cost; `is_aimed_at` says whether the target of processor time is of it.
fn tell(section: &mut Section, what: &str, cost: Cost, is_aimed_at: bool) {
    let share = cost.share * 100.0;
    let figure = Figure::new(format!("{what}: processor time"), format!("{share:.2} % of a core"));
    section.add(if is_aimed_at { figure.against("below 5 %", share < 5.0) } else { figure });
    let whole = format!("{:.1} s", cost.whole_s);
    section.add(Figure::new(
        format!("{what}: processor time of all {SECONDS} s, start and end too"),
        whole,
    ));
    let mib = cost.most_bytes as f64 / (1 << 20) as f64;
    let figure = Figure::new(format!("{what}: memory"), format!("{mib:.0} MiB"));
    section.add(figure.against("below 50 MiB", mib < 50.0));
}

fn main() -> io::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        Some(first) if first == STAND_INS => {
            return stand_in(Path::new(&arguments.next().unwrap_or_default()));
        }
        Some(first) if first == DRIVER => return drive(arguments),
        _ => {}
    }
    let mut section = Section::new("The benchmark driver");
    let nowhere = Places::default();
    let least = format!(", {LEAST}");

    let cost = measure(&experiment(&least, "", None, idle), &nowhere)?;
    tell(&mut section, "20 processes at 50 ms, what they use and get done", cost, true);
    let cost = measure(&experiment("", "", None, idle), &nowhere)?;
    tell(&mut section, "20 processes at 50 ms, all that is collected by default", cost, true);
    let forks = |index| if index < 4 { FORKS.to_owned() } else { idle(index) };
    let cost = measure(&experiment("", "", None, forks), &nowhere)?;
    tell(&mut section, "that, four of them starting processes as fast as they can", cost, false);
    let computes = |_| COMPUTES.to_owned();
    let cost = measure(&experiment("", "", None, computes), &nowhere)?;
    tell(
        &mut section,
        "20 processes that compute, at 50 ms, all that is collected by default",
        cost,
        true,
    );
    if let Some(others) = StandIns::start()? {
        let database = format!(", db: {{host: \"127.0.0.1:{}\", name: bench}}", others.port);
        let places =
            Places { resctrl: Some(others.mounted.path().to_owned()), ..Places::default() };
        let scheduler = ", scheduler: {implementation: rdt}";
        for (what, data, scheduler, places) in [
            ("the cache (simulated) besides", "", "", &places),
            ("a database besides", database.as_str(), "", &nowhere),
            ("the cache (simulated), a database and rdt besides", &database, scheduler, &places),
        ] {
            let cost = measure(&experiment(data, scheduler, None, idle), places)?;
            tell(&mut section, &format!("20 processes at 50 ms, {what}"), cost, true);
        }
        others.stop()?;
    }
    if Command::new("dockerd").arg("--version").output().is_ok() {
        let (daemon, _) = engine::docker(IMAGE);
        let places = Places { docker: Some(daemon.path("docker.sock")), ..Places::default() };
        let cost = measure(&experiment(&least, "", Some(IMAGE), idle), &places)?;
        tell(
            &mut section,
            "20 containers of Docker at 50 ms, what they use and get done",
            cost,
            true,
        );
        let cost = measure(&experiment("", "", Some(IMAGE), idle), &places)?;
        tell(
            &mut section,
            "20 containers of Docker at 50 ms, all that is collected by default",
            cost,
            true,
        );
    }
    section.finish()
}
