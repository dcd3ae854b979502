//! What looking at cold memory costs: a round over 500 cgroups here, and DAMON and MGLRU in a guest whose kernel has them,
//! into which this very program is put. Emulation makes everything dearer, so shares in the guest are upper bounds.
#![allow(clippy::unwrap_used)] // a benchmark may end where it cannot go on

#[path = "../../tests/counting/mod.rs"]
mod counting;
#[path = "../../tests/guest/mod.rs"]
mod guest;
mod inside;
mod machines;

use crosstalk_coldmem::damon::{PageAges, Region};
use crosstalk_coldmem::{Backend, Choice, ColdBoundary, IdleInfo, Surveyor};
use crosstalk_figure::{Figure, Section, is_asked_for, median};
use crosstalk_host::{CgroupHierarchy, HostRoot, page_bytes, system_ram, thread};
use guest::{Guest, HOLD, between, kernel};
use machines::{damon, kidled, mglru};
use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

const CGROUPS: usize = 500;
const ROUNDS: usize = 50;
const GIB: f64 = (1u64 << 30) as f64;
/// The agent's default.
const PERIOD_S: f64 = 60.0;

fn main() -> Result<(), Box<dyn Error>> {
    if crosstalk_figure::has(inside::FLAG) {
        return inside::run();
    }
    if !is_asked_for() {
        return Ok(());
    }
    let mut section = Section::new("Cold memory");
    section.add(parsing());
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
    section.extend(rounds("kidled, files in memory", &kidled(folder.path())?, Backend::Kidled)?);
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
    section.extend(rounds("MGLRU, files in memory", &mglru(folder.path())?, Backend::Mglru)?);
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())?;
    let what = "DAMON, one GiB idle page by page, files in memory";
    section.extend(rounds(what, &damon(folder.path())?, Backend::Damon)?);
    match joining() {
        Ok(figure) => section.add(figure),
        Err(why) => eprintln!("skipped: pages of this kernel: {why}"),
    }
    match real_cgroups() {
        Ok(_held) => {
            let host = HostRoot::default();
            section.extend(rounds("bounds, this kernel's cgroups", &host, Backend::Bounds)?);
        }
        Err(why) => eprintln!("skipped: cgroups of this kernel: {why}"),
    }
    match in_guest() {
        Ok(figures) => section.extend(figures),
        Err(why) => eprintln!("skipped: the guest: {why}"),
    }
    Ok(section.finish()?)
}

/// What the parser of kidled's files allocates, file after file as in a round.
fn parsing() -> Figure {
    let (mut info, text) = (IdleInfo::default(), counting::text(8));
    let first = counting::allocations(&mut info, &text);
    let others: u64 = (1..CGROUPS).map(|_| counting::allocations(&mut info, &text)).sum();
    let lines = CGROUPS * text.lines().count();
    let what = format!("parsing {CGROUPS} files of kidled, {lines} lines");
    Figure::new(what, format!("{} allocations, {first} of them for the first", first + others))
        .against("none for a line", others == 0)
}

/// What looking up whose the pages of this machine are costs, the kernel's part included. DAMON is not started for it.
fn joining() -> Result<Figure, Box<dyn Error>> {
    let host = HostRoot::default();
    let ranges = system_ram(&host);
    let regions: Vec<Region> =
        ranges.iter().map(|(start, end)| Region { start: *start, end: *end, idle_ms: 0 }).collect();
    let gib = regions.iter().map(|region| region.end - region.start).sum::<u64>() as f64 / GIB;
    if gib == 0.0 {
        return Err("nobody says where memory is".into());
    }
    let spent = thread::cpu_time();
    let pages = PageAges::join(&host, &regions, page_bytes(), &ColdBoundary::default())?;
    pages.by_cgroup(page_bytes());
    let ms = (thread::cpu_time() - spent).as_secs_f64() * 1e3;
    let what = format!("joining the pages of {gib:.1} GiB of this machine, for each GiB");
    Ok(Figure::new(what, format!("{:.1} ms of a core", ms / gib)))
}

/// Rounds over at least 500 cgroups.
fn rounds(what: &str, host: &HostRoot, backend: Backend) -> Result<[Figure; 2], Box<dyn Error>> {
    let choice = Choice { backend: Some(backend), ..Choice::default() };
    let mut surveyor = Surveyor::open(host, choice).map_err(|c| c.found)?;
    let (mut wall_ms, mut cpu_ms) = (Vec::new(), Vec::new());
    let mut seen = 0;
    for _ in 0..ROUNDS {
        let (began, spent) = (Instant::now(), thread::cpu_time());
        seen = surveyor.look().map_err(|c| c.found)?.groups.len();
        wall_ms.push(began.elapsed().as_secs_f64() * 1e3);
        cpu_ms.push((thread::cpu_time() - spent).as_secs_f64() * 1e3);
    }
    let (wall, cpu) = (median(&mut wall_ms), median(&mut cpu_ms));
    let share = cpu / 1e3 / PERIOD_S * 100.0;
    let what = format!("{what}: one round over {seen} cgroups");
    Ok([
        Figure::new(what.clone(), format!("{wall:.1} ms")).against("below 50 ms", wall < 50.0),
        Figure::new(format!("{what}, of one core at the default period"), format!("{share:.3} %"))
            .against("below 1 %", share < 1.0),
    ])
}

/// Cgroups of our own, which go with this.
struct Held(Vec<PathBuf>);

impl Drop for Held {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}

fn real_cgroups() -> Result<Held, Box<dyn Error>> {
    let mount = CgroupHierarchy::find(&HostRoot::default()).ok_or("none are mounted")?.mount;
    let mut held = Held(Vec::new());
    for at in 0..CGROUPS {
        let folder = mount.join(format!("crosstalk-bench-{}-{at}", std::process::id()));
        fs::create_dir(&folder)?;
        held.0.push(folder);
    }
    Ok(held)
}

/// What DAMON and MGLRU cost in the guest.
fn in_guest() -> Result<Vec<Figure>, Box<dyn Error>> {
    let kept = std::env::current_exe()?.with_file_name("kernel-6.12");
    let script =
        format!("{HOLD}\necho '<costs>'; /bin/crosstalk {}; echo '</costs>'", inside::FLAG);
    let guest = Guest::new(kernel(&kept)?, &std::env::current_exe()?, &script)?;
    let text = guest.boot(280)?;
    let costs = between(&text, "costs").ok_or_else(|| format!("no costs in {text}"))?;
    let mut figures = Vec::new();
    for line in costs.lines().filter_map(|line| line.split_once('\t')) {
        figures.push(Figure::new(format!("in the guest (emulated): {}", line.0), line.1));
    }
    Ok(figures)
}
