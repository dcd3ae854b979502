//! What reading the cache costs, and how often it can be read: on files of the kernel that take about a microsecond each,
//! and on the simulator.
//!
//! Costs are ratios to the bare pread of the same files: both take turns in short blocks of the same
//! run, so that a busy machine slows both alike, and the figure is the median over the blocks. Needs
//! root and /dev/fuse.

use crosstalk_figure::{Figure, Section, has, is_asked_for, median};
use crosstalk_resctrl::Resctrl;
use crosstalk_resctrl::pool::{Pool, PoolConfig, Roster, Subject, SubjectKey};
use crosstalk_resctrl::sampler::{Sampler, SamplerConfig, read_value, unix_now_ns};
use crosstalk_resctrl_sim::{Profile, mount, plain_roster};
use std::collections::HashSet;
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const SUBJECTS: usize = 64;
const SLOT: u64 = 1_000_000;
/// resctrl is a kernfs, as sysfs is: a counter of the loopback interface is read through the same layers.
const COUNTER: &str = "/sys/class/net/lo/statistics/rx_bytes";

fn main() -> std::io::Result<()> {
    if !is_asked_for() {
        return Ok(());
    }
    let quick = has("--quick");
    let blocks = if quick { 50 } else { 500 };
    let length = Duration::from_secs(if quick { 1 } else { 5 });
    let mut section = Section::new("Reading the cache");
    section.extend(on_kernel_files(blocks, length));
    section.extend(on_the_simulator(blocks, length));
    section.finish()
}

fn on_kernel_files(blocks: usize, length: Duration) -> Vec<Figure> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let roster =
        plain_roster(folder.path(), Path::new(COUNTER), SUBJECTS).expect("a tree of links");
    let mut figures = cost("a file of sysfs", &roster, &keys(&roster), blocks);
    // Where a slot begins with cold caches a file in memory takes about 1 us, a counter of sysfs longer.
    let memory = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let value = memory.path().join("value");
    std::fs::write(&value, "1234567\n").expect("a file in memory");
    let tree = memory.path().join("tree");
    let roster = plain_roster(&tree, &value, SUBJECTS).expect("a tree of links");
    let keys = keys(&roster);
    for (running, percent) in [(12, 5), (24, 5), (SUBJECTS, 5), (SUBJECTS, 12), (SUBJECTS, 25)] {
        let is_enough = 3 * running <= 8 * percent as usize;
        let running = &keys[..running];
        figures.extend(rate("files in memory", &roster, running, percent, is_enough, length));
    }
    figures
}

fn keys(roster: &Roster) -> Vec<SubjectKey> {
    roster.groups().flat_map(|group| &group.members).map(|(key, _)| *key).collect()
}

fn on_the_simulator(blocks: usize, length: Duration) -> Vec<Figure> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let profile = Profile { num_rmids: SUBJECTS + 16, ..Profile::small() };
    let simulator = mount(profile, folder.path()).expect("the simulator mounts");
    let resctrl = Resctrl::open(simulator.path()).expect("it is resctrl");
    let sleepers = Sleepers::start();
    let subjects = sleepers.subjects();
    let mut pool = Pool::start(resctrl, PoolConfig::default()).expect("nobody else is here");
    let report = pool.update(&subjects, unix_now_ns()).expect("processes are placed");
    assert_eq!(report.alone, SUBJECTS, "every subject has an RMID of its own");
    let roster = pool.roster();
    let keys: Vec<SubjectKey> = subjects.iter().map(|subject| subject.key).collect();
    let mut figures = cost("the simulator", &roster, &keys, blocks);
    for running in [SUBJECTS, 4] {
        figures.extend(rate("the simulator", &roster, &keys[..running], 5, false, length));
    }
    pool.stop().expect("groups are removed");
    figures
}

struct Sleepers(Vec<Child>);

impl Sleepers {
    fn start() -> Self {
        let start = || Command::new("sleep").arg("600").spawn().expect("sleep starts");
        Self((0..SUBJECTS).map(|_| start()).collect())
    }

    fn subjects(&self) -> Vec<Subject> {
        let subject = |child: &Child| Subject {
            key: SubjectKey { pid: child.id(), process_start_ns: 1 },
            comm: "sleep".into(),
            container: None,
            recent_cpu_ns: 1,
        };
        self.0.iter().map(subject).collect()
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has gone by itself needs no more.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A value, and a value of a whole slot with its rows, against bare reads of the same files.
fn cost(place: &str, roster: &Roster, keys: &[SubjectKey], blocks: usize) -> Vec<Figure> {
    let events = ["llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"];
    let paths = roster.groups().filter(|group| !group.members.is_empty());
    let files: Vec<File> = paths
        .flat_map(|group| events.map(|event| group.group.mon_file(0, event)))
        .map(|path| File::open(path).expect("a file of a group"))
        .collect();
    let mut sampler = Sampler::new(SamplerConfig { slot_ns: SLOT, cpu_share: 1.0 });
    let (mut bare, mut values, mut slots) = (Vec::new(), Vec::new(), Vec::new());
    for block in 0..blocks as u64 {
        let one = ns_each(files.len(), || {
            assert!(files.iter().all(|file| file.read_at(&mut [0; 32], 0).is_ok()));
        });
        let value = ns_each(files.len(), || {
            assert!(files.iter().all(|file| black_box(read_value(file)).is_ok()));
        });
        let mut rows = Vec::new();
        let began = Instant::now();
        // Slots far apart: the budget is not what is measured here.
        let report = sampler.sample(roster, block * 1000 * SLOT, keys, &unix_now_ns, &mut rows);
        let slot = began.elapsed().as_nanos() as f64 / report.reads.max(1) as f64;
        bare.push(one);
        values.push(value / one);
        slots.push(slot / one);
    }
    let ratio = |what: &str, ratios: &mut [f64]| {
        let middle = median(ratios);
        Figure::new(format!("{place}: {what}"), format!("{middle:.3} x"))
            .against("at most 1.2 x", middle <= 1.2)
    };
    vec![
        Figure::new(
            format!("{place}: bare pread of a value"),
            format!("{:.2} us", median(&mut bare) / 1e3),
        ),
        ratio("one value, read and parsed, to the bare pread", &mut values),
        ratio("one value of a sampler's slot, rows included, to the bare pread", &mut slots),
    ]
}

fn ns_each(reads: usize, block: impl FnOnce()) -> f64 {
    let began = Instant::now();
    block();
    began.elapsed().as_nanos() as f64 / reads as f64
}

/// Real slots within a budget, in per cent of one core. Only those that run count here; the others are read with what
/// is left. Where the budget is enough for three values of each, they are to be read in every slot.
fn rate(
    place: &str,
    roster: &Roster,
    running: &[SubjectKey],
    percent: u32,
    is_enough: bool,
    length: Duration,
) -> [Figure; 2] {
    let cpu_share = f64::from(percent) / 100.0;
    let mut sampler = Sampler::new(SamplerConfig { slot_ns: SLOT, cpu_share });
    let pids: HashSet<u32> = running.iter().map(|key| key.pid).collect();
    let (mut slots, mut looks, mut traffic, mut reads, mut cpu_ns) = (0_u64, 0_u64, 0_u64, 0, 0);
    let began = Instant::now();
    while began.elapsed() < length {
        let now = unix_now_ns();
        let (slot, mut rows) = (now - now % SLOT, Vec::new());
        let report = sampler.sample(roster, slot, running, &unix_now_ns, &mut rows);
        let rows = rows.iter().filter(|row| pids.contains(&row.pid));
        for row in rows {
            looks += 1;
            traffic += u64::from(row.mbm_total_bytes.is_some());
        }
        slots += 1;
        reads += report.reads;
        cpu_ns += report.cpu_ns;
        #[allow(clippy::disallowed_methods)] // the pace of the slots is what is measured
        std::thread::sleep(Duration::from_nanos(SLOT - unix_now_ns() % SLOT));
    }
    let seconds = began.elapsed().as_secs_f64();
    let share = cpu_ns as f64 / 1e7 / seconds;
    // Slots that nobody had a processor for are the machine's, not the sampler's.
    let hertz = |rows: u64| 1000.0 * rows as f64 / (slots * running.len() as u64) as f64;
    let each = cpu_ns as f64 / 1e3 / reads as f64;
    let what = format!("{place}: {SUBJECTS} subjects, {} of them running", running.len());
    let mut readings = Figure::new(
        format!("{what}, at most {percent} %: readings of each"),
        format!("{:.0} Hz, traffic in {:.0} Hz", hertz(looks), hertz(traffic)),
    );
    if is_enough {
        readings = readings.against("1 kHz (at least 950 Hz)", hertz(looks) >= 950.0);
    }
    [
        readings,
        Figure::new(
            format!("{what}: CPU"),
            format!("{share:.2} % of one core, {each:.2} us a value"),
        )
        .against(format!("the budget, {percent} %"), share <= f64::from(percent) * 1.05),
    ]
}
