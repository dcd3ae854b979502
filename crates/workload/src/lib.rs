//! Known victims and culprits for trials, tests and experiments.
//!
//! A [`Load`] does pieces of equal work, so that how many it finished is the truth about how fast it was. It rests
//! between pieces as told, is on and off by a schedule that a seed fixes, and prints both: a line when a phase begins,
//! and one each second with the pieces done.

mod schedule;
mod work;

pub use schedule::{Phase, Schedule};
pub use work::{Kind, Work};

use crosstalk_host::{Clock, thread};
use serde::Serialize;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What a load does.
#[derive(Clone, Debug)]
pub struct Load {
    /// Which work.
    pub kind: Kind,
    /// Bytes it works on.
    pub bytes: usize,
    /// Pause after each piece; with one it is a victim whose cost shows without counters.
    pub rest: Duration,
    /// When it is on.
    pub schedule: Schedule,
    /// The only core it runs on.
    pub core: Option<u32>,
    /// How long it lasts; `None` until it is stopped.
    pub duration: Option<Duration>,
}

/// One line of what a load says.
#[derive(Debug, Serialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Line {
    Phase { unix_ns: u64, on: bool },
    Progress { unix_ns: u64, pid: u32, pieces: u64, busy_seconds: f64 },
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
        let mut work = Work::new(self.kind, self.bytes);
        let (clock, began) = (Clock::measure(), Instant::now());
        let (mut pieces, mut said, mut was_on) = (0, Instant::now(), None);
        let is_over = || self.duration.is_some_and(|duration| began.elapsed() >= duration);
        while !stop.load(Ordering::Relaxed) && !is_over() {
            let phase = self.schedule.at(began.elapsed());
            if was_on != Some(phase.on) {
                was_on = Some(phase.on);
                say(out, &Line::Phase { unix_ns: clock.now_unix_ns(), on: phase.on })?;
            }
            if said.elapsed() >= Duration::from_secs(1) {
                said = Instant::now();
                say(out, &self.progress(&clock, pieces))?;
            }
            let pause = if phase.on {
                work.piece();
                pieces += 1;
                self.rest
            } else {
                phase.left.min(Duration::from_millis(50))
            };
            if !pause.is_zero() {
                #[allow(clippy::disallowed_methods)] // resting is what it is told to do
                std::thread::sleep(pause);
            }
        }
        say(out, &self.progress(&clock, pieces))?;
        Ok(pieces)
    }

    fn progress(&self, clock: &Clock, pieces: u64) -> Line {
        let busy_seconds = thread::cpu_time().as_secs_f64();
        let pid = std::process::id();
        Line::Progress { unix_ns: clock.now_unix_ns(), pid, pieces, busy_seconds }
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
                kind,
                bytes: 1 << 20,
                rest: Duration::from_millis(1),
                schedule: Schedule::random(7, Duration::from_millis(20), Duration::from_millis(60)),
                core: Some(0),
                duration: Some(Duration::from_millis(400)),
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
        }
    }
}
