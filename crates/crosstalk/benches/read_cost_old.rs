//! What reading one value costs beside the bare pread of the same file, and how often 64 processes can be read.
//!
//! Both sides take turns in short blocks of the same run, so that a busy machine slows both alike; the figure is the
//! median over the blocks. Run it with `cargo run --release --example read_cost`.

use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crosstalk_resctrl::Resctrl;
use crosstalk_resctrl::pool::{Pool, PoolConfig, Subject, SubjectKey};
use crosstalk_resctrl::sampler::{Sampler, SamplerConfig, read_value, unix_now_ns};
use crosstalk_resctrl_sim::{Profile, mount};

const SUBJECTS: usize = 64;
const SLOT: u64 = 1_000_000;
const BLOCKS: usize = 200;

struct Sleepers(Vec<Child>);

impl Drop for Sleepers {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has gone by itself needs no more.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let profile = Profile { num_rmids: SUBJECTS + 16, ..Profile::small() };
    let simulator = mount(profile, directory.path())?;
    let resctrl = Resctrl::open(simulator.path())?;
    let mut sleepers = Sleepers(Vec::new());
    for _ in 0..SUBJECTS {
        sleepers.0.push(Command::new("sleep").arg("600").spawn()?);
    }
    let subjects: Vec<Subject> = sleepers.0.iter().map(|child| subject(child.id())).collect();
    let mut pool = Pool::start(resctrl, PoolConfig::default())?;
    let report = pool.update(&subjects, unix_now_ns())?;
    println!("subjects with an identifier of their own: {} of {SUBJECTS}", report.alone);

    let files = files(&pool)?;
    let (bare, value) = compare(
        &files,
        |file| file.read_at(&mut [0; 32], 0).is_ok(),
        |file| black_box(read_value(file)).is_ok(),
    );
    println!("bare pread                     {:>8.0} ns", bare);
    println!("one value, read and parsed     {:>8.0} ns   {:.3} x", value.0, value.1);
    sampler_cost(&pool, &subjects, &files);
    rate(&pool, &subjects, "all 64 ran in every slot", SUBJECTS);
    rate(&pool, &subjects, "4 of 64 ran in every slot", 4);
    pool.stop()?;
    Ok(())
}

fn subject(pid: u32) -> Subject {
    let key = SubjectKey { pid, process_start_ns: 1 };
    Subject { key, comm: "sleep".into(), container: None, recent_cpu_ns: 1 }
}

fn files(pool: &Pool) -> std::io::Result<Vec<File>> {
    let events = ["llc_occupancy", "mbm_total_bytes", "mbm_local_bytes"];
    let groups = pool.groups().filter(|view| view.members().next().is_some());
    let paths = groups.flat_map(|view| events.map(|event| view.group.mon_file(0, event)));
    paths.map(File::open).collect()
}

fn nanoseconds(reads: usize, block: impl FnOnce()) -> f64 {
    let start = Instant::now();
    block();
    start.elapsed().as_nanos() as f64 / reads as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The median cost of a bare read, and of the other with its ratio.
fn compare(
    files: &[File],
    bare: impl Fn(&File) -> bool,
    other: impl Fn(&File) -> bool,
) -> (f64, (f64, f64)) {
    let all = |read: &dyn Fn(&File) -> bool| assert!(files.iter().all(read));
    let (mut bares, mut others, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..BLOCKS {
        let first = nanoseconds(files.len(), || all(&bare));
        let second = nanoseconds(files.len(), || all(&other));
        bares.push(first);
        others.push(second);
        ratios.push(second / first);
    }
    (median(bares), (median(others), median(ratios)))
}

/// A whole slot of the sampler, rows included, against bare reads of the same files.
fn sampler_cost(pool: &Pool, subjects: &[Subject], files: &[File]) {
    let mut sampler = Sampler::new(SamplerConfig { slot_ns: SLOT, cpu_share: 1.0 });
    let ran: Vec<SubjectKey> = subjects.iter().map(|subject| subject.key).collect();
    let (mut ratios, mut costs) = (Vec::new(), Vec::new());
    let mut rows = Vec::new();
    for block in 0..BLOCKS as u64 {
        let bare = nanoseconds(files.len(), || {
            assert!(files.iter().all(|file| file.read_at(&mut [0; 32], 0).is_ok()));
        });
        rows.clear();
        let mut reads = 0;
        let start = Instant::now();
        // Slots far apart: the budget is not what is measured here.
        reads += sampler.sample(pool, block * 1000 * SLOT, &ran, &unix_now_ns, &mut rows).reads;
        let cost = start.elapsed().as_nanos() as f64 / reads.max(1) as f64;
        costs.push(cost);
        ratios.push(cost / bare);
    }
    println!("one value of a sampler's slot  {:>8.0} ns   {:.3} x", median(costs), median(ratios));
}

/// Two seconds of real slots with the default budget.
fn rate(pool: &Pool, subjects: &[Subject], what: &str, running: usize) {
    let mut sampler = Sampler::new(SamplerConfig::default());
    let ran: Vec<SubjectKey> = subjects[..running].iter().map(|subject| subject.key).collect();
    let (mut rows, mut reads, mut looks, mut cpu_ns, mut slots) = (Vec::new(), 0, 0, 0, 0u64);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(2) {
        let now = unix_now_ns();
        let report = sampler.sample(pool, now - now % SLOT, &ran, &unix_now_ns, &mut rows);
        reads += report.reads;
        looks += report.read;
        cpu_ns += report.cpu_ns;
        slots += 1;
        rows.clear();
        let next = SLOT - unix_now_ns() % SLOT;
        // The pace of the slots is what is being measured.
        #[allow(clippy::disallowed_methods)]
        std::thread::sleep(Duration::from_nanos(next));
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{what}: {slots} slots, {:.0} values/s, {:.0} readings/s, {:.1} Hz a subject over all, {:.2} % of one core",
        reads as f64 / seconds,
        looks as f64 / seconds,
        looks as f64 / seconds / SUBJECTS as f64,
        cpu_ns as f64 / seconds / 1e7,
    );
}
