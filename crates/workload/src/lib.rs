//! Known victims and culprits for trials, tests and experiments.
//!
//! A [`Load`] does pieces of equal work, so that how many it finished is the truth about how fast it was. It rests
//! between pieces as told, is on and off by a schedule that a seed fixes, and prints both: a line when a phase begins,
//! and one each second with the pieces done.

mod latency;
mod schedule;
mod work;

pub use latency::{Latencies, Quantiles};
pub use schedule::{Phase, Schedule};
pub use work::{Kind, Work};

use crosstalk_host::{Clock, thread};
use serde::Serialize;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Of this much time a load with a duty cycle works its share.
const CYCLE: Duration = Duration::from_millis(20);
/// A load that is off, or waits for a request, looks up this often.
const LOOK_UP: Duration = Duration::from_millis(50);

/// What a load does.
#[derive(Clone, Debug)]
pub struct Load {
    /// Which work.
    pub kind: Kind,
    /// Bytes it works on.
    pub bytes: usize,
    /// Pause after each piece; with one it is a victim whose cost shows without counters.
    pub rest: Duration,
    /// Share of the time it is on in which it works, above 0 and at most 1.
    pub duty: f64,
    /// Requests a second that arrive, of a load that serves them.
    pub rate: f64,
    /// When it is on.
    pub schedule: Schedule,
    /// What fixes when requests arrive.
    pub arrivals: u64,
    /// The only core it runs on.
    pub core: Option<u32>,
    /// How long it lasts; `None` until it is stopped.
    pub duration: Option<Duration>,
    /// How often it says what it got done.
    pub every: Duration,
}

impl Load {
    /// On throughout, anywhere, without a pause, until it is stopped.
    #[must_use]
    pub const fn new(kind: Kind, bytes: usize) -> Self {
        Self {
            kind,
            bytes,
            rest: Duration::ZERO,
            duty: 1.0,
            rate: 100.0,
            schedule: Schedule::steady(),
            arrivals: 0,
            core: None,
            duration: None,
            every: Duration::from_secs(1),
        }
    }
}

/// One line of what a load says.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Line {
    Phase {
        unix_ns: u64,
        on: bool,
    },
    Progress {
        unix_ns: u64,
        pid: u32,
        pieces: u64,
        busy_seconds: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        latency: Option<Quantiles>,
    },
}

/// What a load has done so far.
struct Doing {
    work: Work,
    pieces: u64,
    /// When the next request arrives, after the start.
    arrives: Duration,
    arrivals: fastrand::Rng,
    latencies: Latencies,
    cycle: Instant,
}

impl Load {
    /// Works until its time is over or `stop` is true, saying so on `out`. Answers how many pieces it did.
    ///
    /// # Errors
    /// The core is not there, or `out` cannot be written.
    pub fn run(&self, stop: &AtomicBool, out: &mut dyn Write) -> io::Result<u64> {
        if let Some(core) = self.core {
            thread::stay_on(&[core])?;
        }
        let (work, clock, began) =
            (Work::new(self.kind, self.bytes), Clock::measure(), Instant::now());
        let mut doing = Doing {
            work,
            pieces: 0,
            arrives: Duration::ZERO,
            arrivals: fastrand::Rng::with_seed(self.schedule.seed() ^ self.arrivals ^ 0x5e1f),
            latencies: Latencies::default(),
            cycle: began,
        };
        let (mut said, mut was_on) = (Instant::now(), None);
        let is_over = || self.duration.is_some_and(|duration| began.elapsed() >= duration);
        while !stop.load(Ordering::Relaxed) && !is_over() {
            let phase = self.schedule.at(began.elapsed());
            if was_on != Some(phase.on) {
                was_on = Some(phase.on);
                say(out, &Line::Phase { unix_ns: clock.now_unix_ns(), on: phase.on })?;
            }
            if said.elapsed() >= self.every {
                said = Instant::now();
                say(out, &doing.progress(&clock))?;
            }
            let pause = match phase.on {
                false => {
                    doing.arrives = doing.arrives.max(began.elapsed());
                    phase.left.min(LOOK_UP)
                }
                true if self.kind == Kind::Serve => doing.serve(self.rate, began),
                true => doing.piece(self),
            };
            if !pause.is_zero() {
                #[allow(clippy::disallowed_methods)] // resting is what it is told to do
                std::thread::sleep(pause);
            }
        }
        say(out, &doing.progress(&clock))?;
        Ok(doing.pieces)
    }
}

impl Doing {
    /// Does a piece and says how long to rest.
    fn piece(&mut self, load: &Load) -> Duration {
        self.work.piece();
        self.pieces += 1;
        let worked = self.cycle.elapsed();
        if load.duty < 1.0 && worked >= CYCLE.mul_f64(load.duty.max(0.0)) {
            self.cycle += CYCLE.max(worked);
            return load.rest.max(self.cycle.saturating_duration_since(Instant::now()));
        }
        load.rest
    }

    /// Answers the request at hand, or says how long until one arrives. What arrives while another is served waits,
    /// and its latency says so.
    fn serve(&mut self, rate: f64, began: Instant) -> Duration {
        let now = began.elapsed();
        if self.arrives > now {
            return (self.arrives - now).min(LOOK_UP);
        }
        self.work.piece();
        self.pieces += 1;
        self.latencies.add(began.elapsed().saturating_sub(self.arrives));
        let gap = -(1.0 - self.arrivals.f64()).ln() / rate.max(0.001);
        self.arrives += Duration::from_secs_f64(gap.min(3_600.0));
        Duration::ZERO
    }

    fn progress(&mut self, clock: &Clock) -> Line {
        Line::Progress {
            unix_ns: clock.now_unix_ns(),
            pid: std::process::id(),
            pieces: self.pieces,
            busy_seconds: thread::cpu_time().as_secs_f64(),
            latency: self.latencies.take(),
        }
    }
}

fn say(out: &mut dyn Write, line: &Line) -> io::Result<()> {
    let text = serde_json::to_string(line).map_err(io::Error::other)?;
    writeln!(out, "{text}")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_says_its_phases_and_what_it_got_done_and_ends_in_time() {
        for kind in Kind::ALL {
            let load = Load {
                rest: Duration::from_millis(1),
                schedule: Schedule::random(7, Duration::from_millis(20), Duration::from_millis(60)),
                core: Some(0),
                duration: Some(Duration::from_millis(400)),
                every: Duration::from_millis(50),
                ..Load::new(kind, 1 << 20)
            };
            let (mut out, began) = (Vec::new(), Instant::now());
            // In a thread of its own: where the test's thread may run is not ours to change.
            let pieces = std::thread::scope(|scope| {
                let run = scope.spawn(|| load.run(&AtomicBool::new(false), &mut out));
                run.join().unwrap().unwrap()
            });
            assert!(pieces > 0 && began.elapsed() < Duration::from_secs(20), "{kind:?}");
            let text = String::from_utf8(out).unwrap();
            let lines: Vec<serde_json::Value> =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let phases = lines.iter().filter(|line| line["event"] == "phase").count();
            assert!(phases >= 2, "{text}");
            assert_eq!(lines.last().unwrap()["pieces"], pieces);
            let served = lines.iter().filter_map(|line| line["latency"]["requests"].as_u64());
            assert_eq!(served.sum::<u64>(), if kind == Kind::Serve { pieces } else { 0 });
        }
    }

    #[test]
    fn a_duty_cycle_leaves_the_rest_of_the_core_to_others() {
        let busy = |duty: f64| {
            let load = Load {
                duty,
                duration: Some(Duration::from_millis(600)),
                ..Load::new(Kind::Compute, 1 << 16)
            };
            let mut out = Vec::new();
            std::thread::scope(|scope| {
                scope.spawn(|| load.run(&AtomicBool::new(false), &mut out)).join().unwrap().unwrap()
            });
            let text = String::from_utf8(out).unwrap();
            let last: serde_json::Value =
                serde_json::from_str(text.lines().last().unwrap()).unwrap();
            last["busy_seconds"].as_f64().unwrap()
        };
        // However busy the machine is, a quarter of the time is not more than a quarter.
        assert!(busy(0.25) < 0.25 * 0.6 * 1.5);
    }
}
