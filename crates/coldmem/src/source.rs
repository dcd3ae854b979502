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

/// Shares of one core that looking at ages and at usage may cost: where it is dearer it looks more rarely. Both together stay
/// below 1 %.
const SHARE_OF_AGES: f64 = 0.008;
const SHARE_OF_USAGE: f64 = 0.002;
/// Where cgroups are lost that there are too many of.
const BEYOND: &str = "limit of cgroups";

/// When to look at what. Usage does not wait for ages, which may be dear: DAMON's are page by page.
struct Pace {
    period: Duration,
    /// Ages are not looked at before.
    ages_from: Duration,
}

impl Pace {
    fn new(period: Duration) -> Self {
        Self { period, ages_from: Duration::ZERO }
    }

    /// Whether a look that begins now is at ages too; all times are since the first.
    fn wants_ages(&self, now: Duration) -> bool {
        now >= self.ages_from
    }

    /// From the beginning of a look, with or without ages, to that of the next.
    fn after(&mut self, began: Duration, with_ages: bool, cost: Duration) -> Duration {
        if with_ages {
            // A look that was a little early would put off ages by a whole period.
            self.ages_from = began + cost.div_f64(SHARE_OF_AGES).max(self.period / 2);
            return self.period;
        }
        cost.div_f64(SHARE_OF_USAGE).max(self.period)
    }
}

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
        let (start, mut pace) = (Instant::now(), Pace::new(self.period));
        loop {
            let (began, spent) = (start.elapsed(), thread::cpu_time());
            let with_ages = pace.wants_ages(began);
            let survey =
                if with_ages { surveyor.look_or_bounds() } else { surveyor.look_at_usage() };
            out.describe("backend", survey.backend.name());
            let at_ns = self.slot.floor(out.clock().unix_ns(monotonic_ns()));
            let boundary = surveyor.boundary();
            out.deliver(rows(&survey, boundary, at_ns, &self.place_of));
            // Behind the ages: whoever has these has the round.
            out.deliver(usage_rows(&survey, boundary, at_ns, &self.place_of));
            out.count_errors(survey.unreadable() as u64);
            out.lost(UsageRow::DATASET.name, BEYOND, survey.beyond as u64);
            if with_ages {
                report(&survey, out);
            }
            let pause = pace.after(began, with_ages, thread::cpu_time() - spent);
            if out.pause((began + pause).saturating_sub(start.elapsed())) {
                return Ok(());
            }
        }
    }
}

fn report(survey: &Survey, out: &Outlet) {
    let Survey { backend, warm_up, .. } = survey;
    let beyond = match survey.beyond {
        0 => String::new(),
        beyond => format!(" and {beyond} beyond the limit"),
    };
    let found = format!("{backend}: {} cgroups{beyond}, {warm_up}", survey.groups.len());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_that_are_dear_are_looked_at_more_rarely_and_usage_is_not() {
        let seconds = Duration::from_secs;
        let mut pace = Pace::new(seconds(60));
        let (mut now, mut looks, mut with_ages) = (Duration::ZERO, 0, Vec::new());
        while now < seconds(3_600) {
            let ages = pace.wants_ages(now);
            looks += 1;
            if ages {
                with_ages.push(now.as_secs());
            }
            now += pace.after(now, ages, if ages { seconds(6) } else { seconds(0) });
        }
        assert_eq!((looks, with_ages), (60, vec![0, 780, 1_560, 2_340, 3_120]));
        // What is cheap is looked at every time, and usage of very many cgroups more rarely too.
        let mut pace = Pace::new(seconds(60));
        pace.after(seconds(0), true, Duration::from_millis(100));
        assert!(pace.wants_ages(Duration::from_millis(59_990)));
        assert_eq!(pace.after(seconds(60), false, seconds(1)), seconds(500));
    }
}
