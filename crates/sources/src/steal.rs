//! Time that the hypervisor gave to other virtual machines while a core of this one wanted to run.
//!
//! Data set: steal. What a process is on a core for includes stolen time, which hits all at once: without this,
//! two processes of a busy host seem to slow each other down.

use crate::{Mode, Settings, Wired};
use crosstalk_collect::{About, Outlet, Source};
use crosstalk_host::{Capability, CoreTime, HostRoot, Verdict, monotonic_ns, thread};
use crosstalk_model::{Row, SlotLength, StealRow};
use std::time::{Duration, Instant};

static ABOUT: About =
    About { name: "steal", datasets: &[StealRow::DATASET], metrics: &[], subjects: &[] };

/// `/proc/stat` counts in ticks of 10 ms: twice as rarely still places what was stolen within a bin of 40 ms.
const PERIOD: Duration = Duration::from_millis(20);
/// After a while in which nothing was stolen: what comes then is placed within this once, and closer from there on.
const AT_REST: Duration = Duration::from_millis(200);
const WHILE: Duration = Duration::from_secs(5);
/// Where nothing was ever stolen (bare metal, most likely) it is enough to look whether that changes.
const RARELY: Duration = Duration::from_secs(1);
/// Share of one core that looking may cost; a machine with very many cores is looked at more rarely.
const SHARE: f64 = 0.001;

pub(crate) fn wire(settings: &Settings) -> Wired {
    let source = Steal { host: settings.host.clone(), slot: settings.slot };
    Wired::new(&ABOUT, Mode::Auto, PERIOD, |_| source)
}

struct Steal {
    host: HostRoot,
    slot: SlotLength,
}

impl Steal {
    fn read(&self) -> Result<(u64, Vec<CoreTime>), Capability> {
        let cores = CoreTime::read(&self.host)
            .map_err(|error| Capability::new(ABOUT.name, Verdict::Failing, error.to_string()))?;
        if cores.iter().any(|core| core.stolen_ns.is_some()) {
            return Ok((monotonic_ns(), cores));
        }
        let found =
            format!("{} says nothing of stolen time", self.host.path(CoreTime::FILE).display());
        let absent = Capability::new(ABOUT.name, Verdict::Absent, found);
        Err(absent.fix("mount /proc there, or set host_root"))
    }
}

impl Source for Steal {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
        let mut before = self.read()?;
        let (mut reported, mut last_stolen) = (None, None::<Instant>);
        loop {
            let was_ever_stolen = before.1.iter().any(|core| core.stolen_ns > Some(0));
            if reported != Some(was_ever_stolen) {
                reported = Some(was_ever_stolen);
                let found = match was_ever_stolen {
                    true => "time stolen by the hypervisor, by core",
                    false => "nothing was stolen by a hypervisor since this machine started",
                };
                out.report(Verdict::Ok, found);
            }
            let (began, spent) = (Instant::now(), thread::cpu_time());
            let now = self.read()?;
            let rows = stolen(&before, &now, |at_ns| self.slot.floor(out.clock().unix_ns(at_ns)));
            if rows.iter().any(|row| row.stolen_ns > 0) {
                last_stolen = Some(began);
            }
            out.deliver(rows);
            before = now;
            let least = pace(was_ever_stolen, last_stolen.map(|at| began - at));
            let pause = least.max((thread::cpu_time() - spent).div_f64(SHARE));
            if out.pause(pause.saturating_sub(began.elapsed())) {
                return Ok(());
            }
        }
    }
}

/// Time between looks, by how long ago something was stolen.
fn pace(was_ever_stolen: bool, quiet_for: Option<Duration>) -> Duration {
    match quiet_for {
        Some(quiet) if quiet < WHILE => PERIOD,
        _ if was_ever_stolen => AT_REST,
        _ => RARELY,
    }
}

/// What was stolen from each core that is in both readings. A core that was away in between starts anew.
fn stolen(
    (then_ns, before): &(u64, Vec<CoreTime>),
    (at_ns, now): &(u64, Vec<CoreTime>),
    slot_of: impl Fn(u64) -> u64,
) -> Vec<StealRow> {
    let covers_ns = at_ns.saturating_sub(*then_ns);
    let row = |now: &CoreTime| {
        let then = before.iter().find(|then| then.core == now.core)?;
        let stolen_ns = now.stolen_ns?.checked_sub(then.stolen_ns?)?;
        Some(StealRow { slot_start_ns: slot_of(*at_ns), covers_ns, core: now.core, stolen_ns })
    };
    // The first look has nothing before it.
    if covers_ns == 0 { Vec::new() } else { now.iter().filter_map(row).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_looked_closely_while_something_is_stolen() {
        let second = Duration::from_secs(1);
        assert_eq!(pace(false, None), RARELY);
        assert_eq!(pace(true, None), AT_REST);
        assert_eq!(pace(true, Some(second)), PERIOD);
        assert_eq!(pace(true, Some(6 * second)), AT_REST);
    }

    #[test]
    fn what_was_stolen_is_the_difference_and_a_core_that_came_back_has_none_yet() {
        let before = (1_000_000, CoreTime::parse("cpu0 0 0 0 0 0 0 0 5\ncpu1 0 0 0 0 0 0 0 9\n"));
        let now = "cpu0 0 0 0 0 0 0 0 7\ncpu1 0 0 0 0 0 0 0 0\ncpu2 0 0 0 0 0 0 0 3\n";
        let now = (21_000_000, CoreTime::parse(now));
        let rows = stolen(&before, &now, |at_ns| at_ns - at_ns % 1_000_000);
        let expected = StealRow {
            slot_start_ns: 21_000_000,
            covers_ns: 20_000_000,
            core: 0,
            stolen_ns: 20_000_000,
        };
        assert_eq!(rows, [expected]);
    }
}
