//! Time that the hypervisor gave to other virtual machines while a core of this one wanted to run.
//!
//! Data set: steal. What a process is on a core for includes stolen time, which hits all at once: without this,
//! two processes of a busy host seem to slow each other down.

use crate::{Settings, Wired};
use crosstalk_collect::{About, Outlet, Source};
use crosstalk_host::{Capability, CoreTime, HostRoot, Verdict, monotonic_ns, thread};
use crosstalk_model::{Row, SlotLength, StealRow};
use std::time::{Duration, Instant};

static ABOUT: About =
    About { name: "steal", datasets: &[StealRow::DATASET], metrics: &[], subjects: &[] };

/// `/proc/stat` counts in ticks of 10 ms: twice as rarely still places what was stolen within a bin of 40 ms.
const PERIOD: Duration = Duration::from_millis(20);
/// Where nothing was ever stolen (bare metal, most likely) it is enough to look whether that changes.
const RARELY: Duration = Duration::from_secs(1);
/// Share of one core that looking may cost; a machine with very many cores is looked at more rarely.
const SHARE: f64 = 0.001;

pub(crate) fn wire(settings: &Settings) -> Wired {
    let source = Steal { host: settings.host.clone(), slot: settings.slot };
    Wired::new(&ABOUT, settings.steal, PERIOD, |_| source)
}

struct Steal {
    host: HostRoot,
    slot: SlotLength,
}

impl Steal {
    fn read(&self) -> Result<(u64, Vec<CoreTime>), Capability> {
        let text = self
            .host
            .read("/proc/stat")
            .map_err(|error| Capability::new(ABOUT.name, Verdict::Failing, error.to_string()))?;
        let cores = CoreTime::parse(&text.unwrap_or_default());
        if cores.iter().any(|core| core.stolen_ns.is_some()) {
            return Ok((monotonic_ns(), cores));
        }
        let found =
            format!("{} says nothing of stolen time", self.host.path("/proc/stat").display());
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
        let mut told = None;
        loop {
            let was_ever_stolen = before.1.iter().any(|core| core.stolen_ns > Some(0));
            if told != Some(was_ever_stolen) {
                told = Some(was_ever_stolen);
                let found = match was_ever_stolen {
                    true => "time stolen by the hypervisor, by core",
                    false => "nothing was stolen by a hypervisor since this machine started",
                };
                out.report(Verdict::Ok, found);
            }
            let (began, spent) = (Instant::now(), thread::cpu_time());
            let least = if was_ever_stolen { PERIOD } else { RARELY };
            let now = self.read()?;
            out.deliver(stolen(&before, &now, |at_ns| self.slot.floor(out.clock().unix_ns(at_ns))));
            before = now;
            let pause = least.max((thread::cpu_time() - spent).div_f64(SHARE));
            if out.pause(pause.saturating_sub(began.elapsed())) {
                return Ok(());
            }
        }
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
