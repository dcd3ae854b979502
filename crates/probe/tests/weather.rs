//! The verdict over synthetic and recorded series.

#![allow(clippy::unwrap_used)] // helpers outside #[test] functions

use crosstalk_probe::{Blind, Burst, Known, State, Verdict, Weather, WeatherConfig};
use proptest::prelude::*;

/// Normal noise, the same at every run.
struct Noise(u64);

impl Noise {
    fn uniform(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

const WRITE_BACK_NS: f64 = 3.2;

/// A machine that bursts every 40 ms.
struct Machine {
    weather: Weather,
    noise: Noise,
    bursts: u64,
    latency_ns: f64,
    /// Standard deviation of a single burst, as a share.
    jitter: f64,
}

/// Who else is there.
#[derive(Clone, Copy, PartialEq)]
enum Others {
    Rest,
    Run,
}
use Others::{Rest, Run};

impl Machine {
    fn new(seed: u64, latency_ns: f64, jitter: f64) -> Self {
        let weather = Weather::new(WeatherConfig::default());
        Self { weather, noise: Noise(seed), bursts: 0, latency_ns, jitter }
    }

    fn now_ns(&self) -> u64 {
        self.bursts * 40_000_000
    }

    /// What a machine as quiet as this one has learnt, so long ago.
    fn knowing(mut self, slower: f64, age_s: u64) -> Self {
        let level = (WRITE_BACK_NS * slower).ln();
        let age_ns = age_s * 1_000_000_000;
        self.weather.adopt(0, Known { level, noise: 0.02, references: 40, age_ns });
        self
    }

    fn burst(&mut self, slower: f64, others: Others) -> Verdict {
        self.bursts += 1;
        // Now and then an interrupt or the hypervisor gets in the way.
        let hit = if self.noise.uniform() < 0.05 { 2.0 } else { 1.0 };
        let latency = slower * hit * (1.0 + self.jitter * self.noise.normal()).max(0.2);
        let bandwidth = slower * hit * (1.0 + self.jitter * self.noise.normal()).max(0.2);
        let write_back = slower * hit * (1.0 + self.jitter * self.noise.normal()).max(0.2);
        let burst = Burst {
            latency_ns: self.latency_ns * latency,
            bandwidth_bytes_per_s: 17e9 / bandwidth,
            write_back_ns: Some(WRITE_BACK_NS * write_back),
        };
        self.weather.judge(self.now_ns(), Some(burst), others == Rest)
    }

    fn seconds(&mut self, seconds: u64, slower: f64, others: Others) -> Vec<Verdict> {
        (0..seconds * 25).map(|_| self.burst(slower, others)).collect()
    }
}

fn share(verdicts: &[Verdict], state: State) -> f64 {
    let such = verdicts.iter().filter(|verdict| verdict.state == state).count();
    such as f64 / verdicts.len() as f64
}

fn share_contended(verdicts: &[Verdict]) -> f64 {
    share(verdicts, State::Contended)
}

fn share_blind(verdicts: &[Verdict], blind: Blind) -> f64 {
    let such = verdicts.iter().filter(|verdict| verdict.blind == Some(blind)).count();
    such as f64 / verdicts.len() as f64
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_neighbour_that_slows_memory_by_a_third_is_found_within_two_seconds(
        seed in any::<u64>(), latency_ns in 20.0..400.0_f64, jitter in 0.02..0.10_f64,
    ) {
        let mut machine = Machine::new(seed, latency_ns, jitter);
        machine.seconds(20, 1.0, Rest);
        let found = machine.seconds(2, 1.33, Run);
        prop_assert!(found.iter().any(|verdict| verdict.state == State::Contended));
        let settled = machine.seconds(20, 1.33, Run);
        prop_assert!(share_contended(&settled) > 0.95, "{}", share_contended(&settled));
        machine.seconds(3, 1.0, Run);
        prop_assert!(share_contended(&machine.seconds(10, 1.0, Run)) < 0.05);
    }

    #[test]
    fn noise_alone_is_not_contention_for_ten_minutes(
        seed in any::<u64>(), jitter in 0.0..0.10_f64,
    ) {
        let mut machine = Machine::new(seed, 120.0, jitter);
        let verdicts = machine.seconds(600, 1.0, Rest);
        prop_assert_eq!(share_contended(&verdicts), 0.0);
        let judged = verdicts.iter().filter(|verdict| verdict.state == State::Quiet).count();
        prop_assert!(judged * 10 > verdicts.len() * 9, "it is not blind either");
    }

    #[test]
    fn whatever_comes_a_verdict_is_well_formed(
        series in prop::collection::vec((any::<u64>(), any::<Option<(f64, f64)>>(), any::<bool>()), 0..300)
    ) {
        let mut weather = Weather::new(WeatherConfig::default());
        for (at_ns, values, alone) in series {
            let burst = values.map(|(latency_ns, bandwidth_bytes_per_s)| {
                Burst { latency_ns, bandwidth_bytes_per_s, write_back_ns: Some(latency_ns) }
            });
            let verdict = weather.judge(at_ns, burst, alone);
            let unknown = verdict.state == State::Unknown;
            prop_assert_eq!(unknown, verdict.confidence.is_none());
            prop_assert_eq!(unknown, verdict.blind.is_some());
            prop_assert!(verdict.confidence.is_none_or(|share| (0.7..=0.99).contains(&share)));
            prop_assert!(verdict.inflation.is_none_or(|inflation| inflation >= 0.0));
        }
    }
}

#[test]
fn contention_that_lasts_ten_minutes_is_still_contention() {
    let mut machine = Machine::new(1, 120.0, 0.06);
    machine.seconds(30, 1.0, Rest);
    machine.seconds(600, 1.3, Run);
    assert!(share_contended(&machine.seconds(10, 1.3, Run)) > 0.95);
    machine.seconds(4, 1.0, Rest);
    assert!(share_contended(&machine.seconds(30, 1.0, Rest)) < 0.01);
}

#[test]
fn a_machine_that_became_slower_for_good_is_quiet_again_within_the_hour() {
    let mut machine = Machine::new(2, 120.0, 0.06);
    machine.seconds(30, 1.0, Rest);
    machine.seconds(3600, 1.3, Rest);
    assert!(share_contended(&machine.seconds(10, 1.3, Rest)) < 0.05);
}

#[test]
fn what_was_never_seen_at_rest_is_not_called_quiet_and_says_why() {
    let mut machine = Machine::new(3, 120.0, 0.06);
    machine.seconds(1, 1.3, Run);
    let beside_a_stream = machine.seconds(60, 1.3, Run);
    assert_eq!(share_blind(&beside_a_stream, Blind::Unseen), 1.0);
    assert!(beside_a_stream.iter().all(|verdict| verdict.inflation.is_none()));
    // The stream ends, somebody computes: faster, but perhaps not the fastest.
    assert_eq!(share(&machine.seconds(20, 1.0, Run), State::Unknown), 1.0);
    // What is far slower than it was a moment ago is contended, whatever quiet may be.
    machine.seconds(2, 1.3, Run);
    assert!(share_contended(&machine.seconds(5, 1.3, Run)) > 0.95);
    let at_rest = machine.seconds(10, 1.0, Rest);
    assert!(share_blind(&at_rest[..100], Blind::Learning) > 0.5);
    assert_eq!(at_rest.last().unwrap().state, State::Quiet);
    machine.seconds(2, 1.3, Run);
    assert!(share_contended(&machine.seconds(5, 1.3, Run)) > 0.95);
}

#[test]
fn a_neighbour_that_pauses_shows_what_quiet_is() {
    let mut machine = Machine::new(4, 120.0, 0.05);
    // A stream that runs four fifths of the time, in turns far shorter than a window.
    let verdicts: Vec<Verdict> = (0..1500)
        .map(|turn| if turn % 5 == 0 { machine.burst(1.0, Rest) } else { machine.burst(1.3, Run) })
        .collect();
    assert!(share_contended(&verdicts[750..]) > 0.95, "{}", share_contended(&verdicts[750..]));
}

#[test]
fn what_an_earlier_run_learnt_is_believed_at_once() {
    let mut quiet = Machine::new(5, 120.0, 0.05).knowing(1.0, 60);
    assert_eq!(quiet.seconds(1, 1.0, Run).pop().unwrap().state, State::Quiet);
    let mut busy = Machine::new(5, 120.0, 0.05).knowing(1.0, 60);
    assert_eq!(busy.seconds(1, 1.33, Run).pop().unwrap().state, State::Contended);
}

#[test]
fn a_baseline_that_was_not_seen_for_a_day_says_nothing_of_quiet() {
    let mut machine = Machine::new(6, 120.0, 0.05).knowing(1.0, 86_400);
    let verdicts = machine.seconds(30, 1.0, Run);
    assert!(share_blind(&verdicts[25..], Blind::Unseen) > 0.99);
}

#[test]
fn a_baseline_of_a_slower_machine_is_refuted_by_whatever_is_faster() {
    let mut machine = Machine::new(7, 120.0, 0.05).knowing(1.4, 60);
    machine.seconds(10, 1.0, Run);
    assert_eq!(share(&machine.seconds(30, 1.0, Run), State::Unknown), 1.0);
}

#[test]
fn a_baseline_of_a_faster_machine_is_corrected_at_rest() {
    let mut machine = Machine::new(8, 120.0, 0.05).knowing(0.9, 60);
    machine.seconds(60, 1.0, Rest);
    assert!(share(&machine.seconds(20, 1.0, Rest), State::Quiet) > 0.95);
    machine.seconds(2, 1.3, Run);
    assert!(share_contended(&machine.seconds(5, 1.3, Run)) > 0.95);
}

#[test]
fn two_probes_of_one_machine_that_know_the_same_say_the_same() {
    let mut both = [9, 10].map(|seed| Machine::new(seed, 120.0, 0.06).knowing(1.0, 60));
    let plan = [(1.0, Rest), (1.3, Run), (1.0, Run), (1.35, Run), (1.0, Rest)];
    let [one, two] = both.each_mut().map(|machine| -> Vec<State> {
        let told = plan.iter().flat_map(|(slower, others)| {
            machine.seconds(2, *slower, *others);
            machine.seconds(8, *slower, *others)
        });
        told.map(|verdict| verdict.state).collect()
    });
    let opposite =
        |(a, b): &(&State, &State)| a != b && **a != State::Unknown && **b != State::Unknown;
    let disagree = one.iter().zip(&two).filter(opposite).count();
    assert!(disagree * 100 < one.len(), "{disagree} of {}", one.len());
}

#[test]
fn a_quiet_level_that_keeps_wandering_makes_the_probe_blind_and_it_says_so() {
    let mut wandering = Machine::new(5, 120.0, 0.05);
    let mut level = 0.0_f64;
    let mut verdicts = Vec::new();
    for _ in 0..1200 {
        level = 0.7 * level + 0.12 * wandering.noise.normal();
        verdicts.extend(wandering.seconds(1, level.exp(), Rest));
    }
    let blind = share_blind(&verdicts, Blind::Noisy);
    assert!(blind > 0.33, "blind in {blind}");
}

#[test]
fn without_bursts_the_state_is_unknown_and_not_the_last_one() {
    let mut machine = Machine::new(6, 120.0, 0.05);
    machine.seconds(10, 1.0, Rest);
    let verdict = machine.weather.judge(machine.now_ns() + 1_500_000_000, None, false);
    assert_eq!((verdict.state, verdict.blind), (State::Unknown, Some(Blind::Starved)));
}

#[test]
fn confidence_falls_as_quiet_becomes_doubtful() {
    let told = [1.0, 1.12].map(|slower| {
        let mut machine = Machine::new(7, 120.0, 0.05);
        machine.seconds(30, 1.0, Rest);
        machine.seconds(3, slower, Run).pop().unwrap()
    });
    let [far, near] = told.map(|verdict| verdict.confidence.unwrap_or(0.5));
    assert!(far > 0.9 && far > near, "{far} {near}");
}

/// Right and all of the verdicts with a confidence in 0.7 to 0.8, to 0.9, to 0.95, and above.
#[derive(Debug, Default)]
struct Calibration([(usize, usize); 4]);

impl Calibration {
    fn take(&mut self, verdict: &Verdict, truth: State) {
        let Some(confidence) = verdict.confidence else { return };
        let bucket = [0.8, 0.9, 0.95].iter().filter(|edge| confidence >= **edge).count();
        self.0[bucket].0 += usize::from(verdict.state == truth);
        self.0[bucket].1 += 1;
    }
}

/// Starts of the probe into machines of all kinds: at rest, computing or streaming, with and without a known baseline, on
/// hosts that wander more or less, with streams that slow memory by 12 to 60 %.
#[test]
fn of_verdicts_at_nine_tenths_nine_in_ten_are_right() {
    let mut calibration = Calibration::default();
    let (mut judged, mut all) = (0, 0);
    for start in 0..400_u64 {
        let mut random = Noise(start.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let jitter = 0.02 + 0.08 * random.uniform();
        let wander = 0.03 * random.uniform();
        let effect = 1.12 + 0.48 * random.uniform();
        let placed = (0.02 * random.normal()).exp();
        let mut machine = Machine::new(start, 120.0, jitter);
        if start.is_multiple_of(2) {
            machine = machine.knowing(placed, (3_000.0 * random.uniform()) as u64);
        }
        let mut level = 0.0_f64;
        for phase in 0..4 {
            let kind = (start / 2 + phase * (1 + start % 2)) % 3;
            let (slower, others, truth) = match kind {
                0 => (1.0, Rest, State::Quiet),
                1 => (1.01, Run, State::Quiet),
                _ => (effect, Run, State::Contended),
            };
            for second in 0..6 {
                level = 0.8 * level + 0.6 * wander * random.normal();
                for verdict in machine.seconds(1, slower * level.exp(), others) {
                    // The window still holds the phase before.
                    if second >= 2 {
                        calibration.take(&verdict, truth);
                        judged += usize::from(verdict.confidence.is_some());
                        all += 1;
                    }
                }
            }
        }
    }
    eprintln!("{calibration:?}, {judged} of {all} judged");
    for ((right, told), least) in calibration.0.iter().zip([0.65, 0.75, 0.9, 0.95]) {
        assert!(*right as f64 >= least * *told as f64, "{calibration:?}");
    }
    assert!(judged * 2 > all, "{judged} of {all}");
}

/// A virtual machine of 2 cores on a shared host, written by the benchmark `weather -- record`: it rests, and by turns
/// a neighbour streams for 3 s, it rests for 5 s, and a neighbour computes for 4 s.
const RECORDED: &str = include_str!("recorded/stream_and_compute.csv");

/// Neighbour, time and burst of each line.
fn recorded() -> impl Iterator<Item = (&'static str, u64, Burst)> {
    RECORDED.lines().skip(1).map(|line| {
        let [neighbour, ms, numbers @ ..] = &line.split(',').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let numbers: Vec<f64> = numbers.iter().map(|text| text.parse().unwrap()).collect();
        let burst = Burst {
            latency_ns: numbers[0],
            bandwidth_bytes_per_s: numbers[1],
            write_back_ns: Some(numbers[2]),
        };
        (*neighbour, ms.parse().unwrap(), burst)
    })
}

#[test]
fn recorded_streams_are_found_within_two_seconds_and_nothing_else_is_called_so() {
    let mut weather = Weather::new(WeatherConfig::default());
    let (mut neighbour, mut since_ms) = ("", 0);
    let (mut streams, mut found, mut mistaken) = (0, 0, Vec::new());
    let mut is_found = false;
    for (name, ms, burst) in recorded() {
        if name != neighbour {
            (neighbour, since_ms, is_found) = (name, ms, false);
            streams += usize::from(neighbour == "Streams");
        }
        let verdict = weather.judge(ms * 1_000_000, Some(burst), neighbour == "None");
        let contended = verdict.state == State::Contended;
        let lasted_ms = ms - since_ms;
        if neighbour == "Streams" && contended && lasted_ms <= 2_000 && !is_found {
            is_found = true;
            found += 1;
        }
        // The window forgets the stream within its length.
        if neighbour != "Streams" && contended && lasted_ms > 1_500 {
            mistaken.push(ms);
        }
    }
    assert_eq!((found, streams), (3, 3));
    assert!(mistaken.is_empty(), "{mistaken:?}");
}

#[test]
fn a_probe_that_starts_in_the_middle_of_a_recorded_stream_does_not_take_it_for_quiet() {
    let lines: Vec<_> = recorded().collect();
    let starts = lines
        .windows(2)
        .enumerate()
        .filter(|(_, two)| two[0].0 != "Streams" && two[1].0 == "Streams");
    let mut tried = 0;
    for (start, _) in starts {
        let mut weather = Weather::new(WeatherConfig::default());
        let beside =
            lines[start + 1..].iter().take_while(|(neighbour, ..)| *neighbour == "Streams");
        for (_, ms, burst) in beside {
            let verdict = weather.judge(ms * 1_000_000, Some(*burst), false);
            // A stream that grows may well be told from its own beginning.
            assert_ne!(verdict.state, State::Quiet, "{verdict:?}");
            tried += 1;
        }
    }
    assert!(tried > 100, "{tried} bursts beside streams");
}
