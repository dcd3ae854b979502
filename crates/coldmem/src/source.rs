use crate::backend::{Backend, WarmUp};
use crate::row::{ColdRow, rows};
use crate::survey::Survey;
use crate::surveyor::{Choice, Surveyor};
use crate::usage_row::{UsageRow, usage_rows};
use crosstalk_collect::{About, Outlet, Source};
use crosstalk_host::{Capability, HostRoot, Verdict, monotonic_ns, thread};
use crosstalk_model::{Placement, Row, SlotLength};
use std::time::{Duration, Instant};

/// What the source is.
pub static ABOUT: About = About {
    name: "coldmem",
    datasets: &[ColdRow::DATASET, UsageRow::DATASET],
    metrics: &[],
    subjects: &[],
};

/// Share of one core that looking may cost; with very many cgroups it looks more rarely.
const SHARE: f64 = 0.01;

/// Looks how cold memory is, again and again.
pub struct ColdSource {
    host: HostRoot,
    slot: SlotLength,
    period: Duration,
    choice: Choice,
    place_of: PlaceOf,
}

/// Names the container and pod of a cgroup's path, as far as they are known when it is asked.
pub type PlaceOf = Box<dyn Fn(&str) -> Placement + Send>;

impl ColdSource {
    /// Looks every `period`.
    pub fn new(
        host: &HostRoot,
        slot: SlotLength,
        period: Duration,
        choice: Choice,
        place_of: PlaceOf,
    ) -> Self {
        Self { host: host.clone(), slot, period, choice, place_of }
    }
}

impl Source for ColdSource {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
        let under_own_name = |c: Capability| Capability { name: ABOUT.name, ..c };
        let mut surveyor =
            Surveyor::open_or_bounds(&self.host, self.choice.clone()).map_err(under_own_name)?;
        out.describe("cold_age_s", self.choice.boundary.age.as_secs());
        let kinds: Vec<&str> = self.choice.boundary.rows().map(|row| row.name()).collect();
        out.describe("cold_rows", kinds);
        loop {
            let (began, spent) = (Instant::now(), thread::cpu_time());
            let survey = surveyor.look_or_bounds();
            out.describe("backend", survey.backend.name());
            let at_ns = self.slot.floor(out.clock().unix_ns(monotonic_ns()));
            let boundary = surveyor.boundary();
            out.deliver(rows(&survey, boundary, at_ns, &self.place_of));
            // Behind the ages: whoever has these has the round.
            out.deliver(usage_rows(&survey, boundary, at_ns, &self.place_of));
            out.count_errors(survey.unreadable() as u64);
            report(&survey, out);
            let pause = self.period.max((thread::cpu_time() - spent).div_f64(SHARE));
            if out.pause(pause.saturating_sub(began.elapsed())) {
                return Ok(());
            }
        }
    }
}

fn report(survey: &Survey, out: &Outlet) {
    let Survey { backend, warm_up, .. } = survey;
    let found = format!("{backend}: {} cgroups, {warm_up}", survey.groups.len());
    match (&survey.fallen, backend) {
        (Some(why), _) => {
            let found = format!("{}; {found}", why.found);
            let limited = out.capability(Verdict::Limited, found);
            out.stand(Capability { fix: why.fix.clone(), ..limited }, Vec::new());
        }
        (None, Backend::Bounds) => {
            let limited = out.capability(Verdict::Limited, found);
            out.stand(limited.fix("kidled, DAMON or MGLRU would tell ages"), Vec::new());
        }
        (None, Backend::Mglru) if *warm_up != WarmUp::Ready => {
            let limited = out.capability(Verdict::Limited, found);
            let fix = "sources.coldmem.ageing = true begins generations; without it they move only under pressure";
            out.stand(limited.fix(fix), Vec::new());
        }
        _ => {
            let is_ready = *warm_up == WarmUp::Ready;
            out.report(if is_ready { Verdict::Ok } else { Verdict::Limited }, found);
        }
    }
}
