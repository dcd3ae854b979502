//! Whether the probe is right when it is sure: fresh probes started into a machine at rest, one that computes and one
//! that streams, with and without knowing what memory is like at rest, while the neighbour changes at known times.
//!
//! What a stream does to memory here is measured without the probe first. On a large host it may slow nobody: then
//! memory beside it is quiet, and to say so is right. 48 starts take some 13 minutes; `-- --quick` makes 12 short ones, and
//! `-- record [rounds]` prints every burst as CSV instead: what tests/weather.rs replays.

#[path = "weather/neighbour.rs"]
mod neighbour;
#[path = "weather/tally.rs"]
mod tally;

use crosstalk_figure::{Figure, Section, has, is_asked_for, median};
use crosstalk_probe::{ProbeConfig, ProbeCost, ProbeReading, Prober, State};
use neighbour::{Doing, Neighbour, like_a_build, pause, slowed_by_another};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tally::{Tally, percent};

const KINDS: [Doing; 3] = [Doing::Rests, Doing::Computes, Doing::Streams];
/// Beside a stream that slows another by less memory is quiet, by more contended, and between the two arguable.
const QUIET_BELOW: f64 = 1.05;
const CONTENDED_ABOVE: f64 = 1.10;
/// The window holds what was before for as long.
const WINDOW: Duration = Duration::from_millis(1_500);

fn main() -> Result<(), Box<dyn Error>> {
    if !is_asked_for() {
        return Ok(());
    }
    let [one, other] = [0, 1].map(|_| Neighbour::start());
    if has("record") {
        let rounds = std::env::args().skip_while(|argument| argument != "record").nth(1);
        return record(&one, rounds.and_then(|text| text.parse().ok()).unwrap_or(4));
    }
    let (starts, phase) = if has("--quick") { (12, 3) } else { (48, 5) };
    let phase = Duration::from_secs(phase);
    let kept = tempfile::tempdir()?;
    let knows = learn(kept.path())?;
    let mut trial = Trial::new([one, other], kept.path(), phase);
    for start in 0..starts {
        trial.start(start)?;
    }
    let build = under_a_build(kept.path(), 3 * phase)?;
    let mut section = Section::new("The probe");
    section.extend(trial.figures(starts, knows));
    section.extend(build);
    section.extend(cost(trial.cost, trial.lasted));
    Ok(section.finish()?)
}

fn probe(state: &Path) -> Result<(Prober, Receiver<ProbeReading>), Box<dyn Error>> {
    let (send, readings) = channel();
    let config = ProbeConfig { state: Some(state.to_owned()), ..ProbeConfig::default() };
    let prober = Prober::start(config, move |reading| {
        let _ = send.send(reading);
    })?;
    Ok((prober, readings))
}

/// Learns what memory is like at rest, if the machine rests; whether it did.
fn learn(kept: &Path) -> Result<bool, Box<dyn Error>> {
    eprintln!("learning what memory is like at rest");
    let (_prober, readings) = probe(kept)?;
    let begin = Instant::now();
    let known = |reading: &ProbeReading| reading.state != State::Unknown;
    while begin.elapsed() < Duration::from_secs(30) {
        if readings.recv_timeout(Duration::from_secs(5)).is_ok_and(|reading| known(&reading)) {
            pause(Duration::from_secs(5));
            return Ok(true);
        }
    }
    eprintln!("the machine never rested: no start will know what quiet is");
    Ok(false)
}

/// Everything that starts add up to.
struct Trial {
    one: Neighbour,
    other: Neighbour,
    kept: PathBuf,
    phase: Duration,
    knowing: Tally,
    ignorant: Tally,
    /// What was called quiet before it was ever seen at rest.
    rash: usize,
    slowed: Vec<f64>,
    /// Streams of which contention can be told: quiet was seen before.
    streams: usize,
    /// Streams before anything quiet was seen: unknown is the right answer.
    too_soon: usize,
    delays: Vec<f64>,
    firsts: Vec<f64>,
    cost: ProbeCost,
    lasted: Duration,
}

impl Trial {
    fn new([one, other]: [Neighbour; 2], kept: &Path, phase: Duration) -> Self {
        Self {
            one,
            other,
            kept: kept.to_owned(),
            phase,
            knowing: Tally::default(),
            ignorant: Tally::default(),
            rash: 0,
            slowed: Vec::new(),
            streams: 0,
            too_soon: 0,
            delays: Vec::new(),
            firsts: Vec::new(),
            cost: ProbeCost::default(),
            lasted: Duration::ZERO,
        }
    }

    /// A fresh probe into one of the three, which then changes to the other two.
    fn start(&mut self, start: usize) -> Result<(), Box<dyn Error>> {
        let slowed = slowed_by_another(&self.one, &self.other);
        self.slowed.push(slowed);
        let knows = start.is_multiple_of(2);
        let state = tempfile::tempdir()?;
        if knows {
            for file in std::fs::read_dir(&self.kept)?.flatten() {
                std::fs::copy(file.path(), state.path().join(file.file_name()))?;
            }
        }
        // All orders of the three come up, each with and without knowledge.
        let first = start / 2 % 3;
        let turn = 1 + start / 6 % 2;
        let order = [first, (first + turn) % 3, (first + 2 * turn) % 3].map(|kind| KINDS[kind]);
        self.one.does(order[0]);
        pause(Duration::from_millis(200));
        let begin = Instant::now();
        let (prober, readings) = probe(state.path())?;
        let mut tally = Tally::default();
        let mut seen_at_rest = knows;
        let mut first_verdict = None;
        for doing in order {
            let truth = truth(doing, slowed);
            self.one.does(doing);
            seen_at_rest |= doing == Doing::Rests;
            let found = watch(&readings, self.phase, |reading, lasted| {
                if reading.state != State::Unknown && first_verdict.is_none() {
                    first_verdict = Some(begin.elapsed().as_secs_f64());
                }
                self.rash += usize::from(!seen_at_rest && reading.state == State::Quiet);
                if lasted >= WINDOW || doing == order[0] {
                    tally.take(reading, truth);
                }
            });
            match truth {
                Some(State::Contended) if seen_at_rest => {
                    self.streams += 1;
                    self.delays.extend(found.map(|delay| delay.as_secs_f64()));
                }
                Some(State::Contended) => self.too_soon += 1,
                _ => {}
            }
        }
        self.one.does(Doing::Rests);
        self.firsts.extend(first_verdict.filter(|_| knows));
        self.lasted += begin.elapsed();
        let cost = prober.cost();
        self.cost.bursts += cost.bursts;
        self.cost.disturbed += cost.disturbed;
        self.cost.cpu += cost.cpu;
        self.cost.bytes = self.cost.bytes.max(cost.bytes);
        drop(prober);
        eprintln!(
            "start {}: {order:?}, knowing: {knows}, a stream slows another {slowed:.2} times",
            start + 1
        );
        let sum = if knows { &mut self.knowing } else { &mut self.ignorant };
        sum.add(&tally);
        Ok(())
    }

    fn figures(&mut self, starts: usize, knows: bool) -> Vec<Figure> {
        let slowed = median(&mut self.slowed);
        let told = match truth(Doing::Streams, slowed) {
            Some(State::Contended) => "memory beside it is contended",
            Some(_) => "it slows nobody, and memory beside it is quiet",
            None => "a little: what is told beside it is not counted",
        };
        let mut both = Tally::default();
        both.add(&self.knowing);
        both.add(&self.ignorant);
        let with = if knows { "half knowing what quiet is" } else { "the machine never rested" };
        let mut figures = vec![
            Figure::new(
                "a stream beside another takes, without the probe",
                format!("{slowed:.2} times as long: {told}"),
            ),
            Figure::new("starts into rest, computing and streaming", format!("{starts}, {with}")),
        ];
        figures.extend(both.calibration());
        figures.push(
            Figure::new("called quiet before it was ever seen at rest", self.rash.to_string())
                .against("never", self.rash == 0),
        );
        figures.push(self.knowing.unknown("knowing what quiet is"));
        figures.push(self.ignorant.unknown("not knowing"));
        let first = match self.firsts.len() {
            0 => "none".to_owned(),
            _ => format!("{:.2} s", median(&mut self.firsts)),
        };
        figures.push(Figure::new("first verdict after the start, knowing, median", first));
        if self.streams > 0 {
            let (found, all) = (self.delays.len(), self.streams);
            figures.push(
                Figure::new(
                    "streams that were found, quiet being known",
                    format!("{found} of {all}"),
                )
                .against("at least 9 of 10", found * 10 >= all * 9),
            );
            let too_soon = self.too_soon.to_string();
            figures.push(Figure::new("streams before quiet was ever seen", too_soon));
            let delay = format!("{:.2} s", median(&mut self.delays));
            figures.push(Figure::new("median delay", delay));
        }
        figures
    }
}

fn truth(doing: Doing, slowed: f64) -> Option<State> {
    match doing {
        Doing::Streams if slowed > CONTENDED_ABOVE => Some(State::Contended),
        Doing::Streams if slowed > QUIET_BELOW => None,
        _ => Some(State::Quiet),
    }
}

/// Looks at readings for so long; when contention was first told.
fn watch(
    readings: &Receiver<ProbeReading>,
    limit: Duration,
    mut look: impl FnMut(&ProbeReading, Duration),
) -> Option<Duration> {
    let begin = Instant::now();
    let mut found = None;
    while let Some(left) = limit.checked_sub(begin.elapsed()) {
        let Ok(reading) = readings.recv_timeout(left) else { break };
        look(&reading, begin.elapsed());
        if reading.state == State::Contended && found.is_none() {
            found = Some(begin.elapsed());
        }
    }
    found
}

/// What is left of the probe where four times as many want to run as there are cores.
fn under_a_build(kept: &Path, lasts: Duration) -> Result<Vec<Figure>, Box<dyn Error>> {
    eprintln!("under a load like a build's");
    let (mut all, mut starved) = (0, 0);
    let (cost, lasted) = like_a_build(|| -> Result<_, Box<dyn Error>> {
        pause(Duration::from_millis(500));
        let begin = Instant::now();
        let (prober, readings) = probe(kept)?;
        watch(&readings, lasts, |reading, since| {
            // A window must fill first.
            if since >= WINDOW {
                all += 1;
                let blind = reading.blind.map(|blind| blind.name());
                starved += usize::from(blind == Some("starved"));
            }
        });
        Ok((prober.cost(), begin.elapsed()))
    })?;
    let whole = (cost.bursts - cost.disturbed) as f64 / lasted.as_secs_f64();
    let share = cost.cpu.as_secs_f64() / lasted.as_secs_f64() * 100.0;
    let name = "under a load like make -j of four times the cores";
    Ok(vec![
        Figure::new(
            format!("{name}: whole bursts"),
            format!("{whole:.1} a second of {:.1}", cost.bursts as f64 / lasted.as_secs_f64()),
        )
        .against("at least 8 a second", whole >= 8.0),
        Figure::new(
            format!("{name}: starved"),
            format!("{:.0} % of the time", percent(starved, all)),
        ),
        Figure::new(format!("{name}: processor time, of one core"), format!("{share:.2} %"))
            .against("at most 0.5 %", share <= 0.5),
    ])
}

fn cost(cost: ProbeCost, lasted: Duration) -> Vec<Figure> {
    let share = cost.cpu.as_secs_f64() / lasted.as_secs_f64() * 100.0;
    let mib = cost.bytes as f64 / 1_048_576.0;
    let a_second = cost.bursts as f64 / lasted.as_secs_f64();
    let bursts = format!("{a_second:.1} a second, {} of {} disturbed", cost.disturbed, cost.bursts);
    vec![
        Figure::new("bursts", bursts),
        Figure::new("processor time, of one core", format!("{share:.2} %"))
            .against("at most 0.5 %", share <= 0.5),
        Figure::new("memory of the bursts", format!("{mib:.1} MiB"))
            .against("at most 16 MiB", mib <= 16.0),
    ]
}

fn record(neighbour: &Neighbour, rounds: usize) -> Result<(), Box<dyn Error>> {
    let nothing = tempfile::tempdir()?;
    let (_prober, readings) = probe(nothing.path())?;
    println!("neighbour,ms,latency_ns,bandwidth_bytes_per_s,write_back_ns,alone");
    let begin = Instant::now();
    let round = [(Doing::Streams, 3), (Doing::Rests, 5), (Doing::Computes, 4)];
    let plan =
        std::iter::once((Doing::Rests, 15)).chain(round.into_iter().cycle().take(3 * rounds));
    for (doing, seconds) in plan {
        neighbour.does(doing);
        watch(&readings, Duration::from_secs(seconds), |reading, _| {
            if let Some((latency, bandwidth)) =
                reading.latency_ns.zip(reading.bandwidth_bytes_per_s)
            {
                let ms = begin.elapsed().as_millis();
                let write_back =
                    reading.write_back_ns.map_or(String::new(), |ns| format!("{ns:.3}"));
                let alone = reading.alone.map_or(String::new(), |alone| alone.to_string());
                println!("{doing:?},{ms},{latency:.1},{bandwidth:.0},{write_back},{alone}");
            }
        });
    }
    Ok(())
}
