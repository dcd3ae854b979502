//! What looking at cold memory costs: a round over 500 cgroups here, and DAMON and MGLRU in a guest whose kernel has them,
//! into which this very program is put. Emulation makes everything dearer, so shares in the guest are upper bounds.
#![allow(clippy::unwrap_used)] // a benchmark may end where it cannot go on

#[path = "../../tests/counting/mod.rs"]
mod counting;
#[path = "../../tests/guest/mod.rs"]
mod guest;
mod inside;

use crosstalk_coldmem::{Backend, Choice, IdleInfo, IdleRow, Surveyor};
use crosstalk_figure::{Figure, Section, is_asked_for, median};
use crosstalk_host::{CgroupHierarchy, HostRoot, thread};
use guest::{Guest, HOLD, between, kernel};
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

const CGROUPS: usize = 500;
const ROUNDS: usize = 50;
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
    section.extend(rounds("kidled, files in memory", &machine(folder.path())?, Backend::Kidled)?);
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

/// A kernel with kidled and 500 cgroups, in a folder.
fn machine(root: &Path) -> Result<HostRoot, Box<dyn Error>> {
    let put = |file: String, text: &str| {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap())?;
        fs::write(path, text)
    };
    let cells = (0..8).map(|at| format!(" {:>14}", at * 4_096_000)).collect::<String>();
    let rows = IdleRow::NAMES.map(|row| format!("  {row}   {cells}\n")).concat();
    let idle = format!(
        "# version: 1.0\n# page_scans: 24\n# slab_scans: 1\n# scan_period_in_seconds: 120\n\
         # use_hierarchy: 1\n# buckets: 1,2,5,15,30,60,120,240\n{rows}"
    );
    // As long as a real one.
    let stat = ["inactive_anon", "active_anon", "inactive_file", "active_file", "unevictable"];
    let stat =
        stat.map(|key| format!("{key} 4096000\n")).concat() + &"other_line 12345\n".repeat(50);
    let pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 total=0\n";
    put("proc/1/mounts".to_owned(), "c /sys/fs/cgroup cgroup2 rw 0 0\n")?;
    put("proc/meminfo".to_owned(), "MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: 800 kB\n")?;
    for at in 0..CGROUPS {
        let folder = match at {
            0 => "sys/fs/cgroup".to_owned(),
            at => format!("sys/fs/cgroup/kubepods/pod{}/container{at}", at / 5),
        };
        put(format!("{folder}/memory.idle_page_stats"), &idle)?;
        put(format!("{folder}/memory.stat"), &stat)?;
        put(format!("{folder}/memory.pressure"), pressure)?;
    }
    Ok(HostRoot::new(root))
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
