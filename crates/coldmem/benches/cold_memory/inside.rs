//! What is run in the guest: each back end with its default settings, and what it costs.

use crosstalk_coldmem::{Backend, Choice, ColdBoundary, Surveyor};
use crosstalk_host::{HostRoot, ProcStat, thread};
use std::error::Error;
use std::time::{Duration, Instant};

/// On the command line of this program when it runs in the guest.
pub(super) const FLAG: &str = "--in-guest";

/// How long DAMON is watched.
const WATCHED: Duration = Duration::from_secs(30);
/// The agent's default.
const PERIOD_S: f64 = 60.0;

pub(super) fn run() -> Result<(), Box<dyn Error>> {
    let host = HostRoot::default();
    let short = ColdBoundary::new(Duration::from_secs(8), ["anon", "file"])?;
    for (what, boundary) in [("5 min", ColdBoundary::default()), ("8 s", short)] {
        let mut surveyor = open(&host, Backend::Damon, boundary, false)?;
        let pid = host.line("/sys/kernel/mm/damon/admin/kdamonds/0/pid").ok_or("no kdamond")?;
        let used = || ProcStat::of_process(&host, pid.parse().ok()?)?.cpu_ns();
        let (before, began) = (used(), Instant::now());
        pause(WATCHED);
        let (after, length) = (used(), began.elapsed());
        let ns = after.zip(before).ok_or("kdamond says nothing of its time")?;
        let share = (ns.0 - ns.1) as f64 / length.as_nanos() as f64 * 100.0;
        println!("DAMON's thread, cold after {what}, of one core\t{share:.2} %");
        println!("reading DAMON and joining pages\t{}", look(&mut surveyor)?);
    }
    let mut surveyor = open(&host, Backend::Mglru, ColdBoundary::default(), false)?;
    surveyor.look().map_err(|c| c.found)?;
    println!("reading MGLRU\t{}", look(&mut surveyor)?);
    let mut surveyor = open(&host, Backend::Mglru, short, true)?;
    println!("reading MGLRU and beginning generations\t{}", look(&mut surveyor)?);
    Ok(())
}

fn open(
    host: &HostRoot,
    backend: Backend,
    boundary: ColdBoundary,
    ageing: bool,
) -> Result<Surveyor, Box<dyn Error>> {
    let choice = Choice { backend: Some(backend), boundary, ageing };
    Ok(Surveyor::open(host, choice).map_err(|c| c.found)?)
}

/// The processor time of one look, and what that comes to at the default period.
fn look(surveyor: &mut Surveyor) -> Result<String, Box<dyn Error>> {
    let spent = thread::cpu_time();
    surveyor.look().map_err(|c| c.found)?;
    let seconds = (thread::cpu_time() - spent).as_secs_f64();
    let share = seconds / PERIOD_S * 100.0;
    Ok(format!("{:.1} ms, {share:.3} % of one core at the default period", seconds * 1e3))
}

#[allow(clippy::disallowed_methods)] // a known length of time is what is measured
fn pause(length: Duration) {
    std::thread::sleep(length);
}
