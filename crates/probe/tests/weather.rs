//! The verdict over synthetic and recorded series.

#![allow(clippy::unwrap_used)] // helpers outside #[test] functions

use crosstalk_probe::{Blind, Burst, State, Verdict, Weather, WeatherConfig};
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

/// A machine that bursts every 40 ms.
struct Machine {
    weather: Weather,
    noise: Noise,
    bursts: u64,
    latency_ns: f64,
    /// Standard deviation of a single burst, as a share.
    jitter: f64,
}

impl Machine {
    fn new(seed: u64, latency_ns: f64, jitter: f64) -> Self {
        let weather = Weather::new(WeatherConfig::default());
        Self { weather, noise: Noise(seed), bursts: 0, latency_ns, jitter }
    }

    fn burst(&mut self, slower: f64) -> Verdict {
        self.bursts += 1;
        // Now and then an interrupt or the hypervisor gets in the way.
        let hit = if self.noise.uniform() < 0.05 { 2.0 } else { 1.0 };
        let latency = slower * hit * (1.0 + self.jitter * self.noise.normal()).max(0.2);
        let bandwidth = slower * hit * (1.0 + self.jitter * self.noise.normal()).max(0.2);
        let write_back = slower * hit * (1.0 + self.jitter * self.noise.normal()).max(0.2);
        let burst = Burst {
            latency_ns: self.latency_ns * latency,
            bandwidth_bytes_per_s: 17e9 / bandwidth,
            write_back_ns: Some(3.2 * write_back),
        };
        self.weather.judge(self.bursts * 40_000_000, Some(burst))
    }

    fn seconds(&mut self, seconds: u64, slower: f64) -> Vec<Verdict> {
        (0..seconds * 25).map(|_| self.burst(slower)).collect()
    }
}

fn share_contended(verdicts: &[Verdict]) -> f64 {
    let contended = verdicts.iter().filter(|verdict| verdict.state == State::Contended).count();
    contended as f64 / verdicts.len() as f64
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_neighbour_that_slows_memory_by_a_third_is_found_within_two_seconds(
        seed in any::<u64>(), latency_ns in 20.0..400.0_f64, jitter in 0.02..0.10_f64,
    ) {
        let mut machine = Machine::new(seed, latency_ns, jitter);
        machine.seconds(20, 1.0);
        let found = machine.seconds(2, 1.33);
        prop_assert!(found.iter().any(|verdict| verdict.state == State::Contended));
        let settled = machine.seconds(20, 1.33);
        prop_assert!(share_contended(&settled) > 0.95, "{}", share_contended(&settled));
        machine.seconds(3, 1.0);
        prop_assert!(share_contended(&machine.seconds(10, 1.0)) < 0.05);
    }

    #[test]
    fn noise_alone_is_not_contention_for_ten_minutes(
        seed in any::<u64>(), jitter in 0.0..0.10_f64,
    ) {
        let mut machine = Machine::new(seed, 120.0, jitter);
        let verdicts = machine.seconds(600, 1.0);
        prop_assert_eq!(share_contended(&verdicts), 0.0);
        let judged = verdicts.iter().filter(|verdict| verdict.state == State::Quiet).count();
        prop_assert!(judged * 10 > verdicts.len() * 9, "it is not blind either");
    }

    #[test]
    fn whatever_comes_a_verdict_is_well_formed(
        series in prop::collection::vec((any::<u64>(), any::<Option<(f64, f64)>>()), 0..300)
    ) {
        let mut weather = Weather::new(WeatherConfig::default());
        for (at_ns, values) in series {
            let burst = values.map(|(latency_ns, bandwidth_bytes_per_s)| {
                Burst { latency_ns, bandwidth_bytes_per_s, write_back_ns: Some(latency_ns) }
            });
            let verdict = weather.judge(at_ns, burst);
            let unknown = verdict.state == State::Unknown;
            prop_assert_eq!(unknown, verdict.confidence.is_none());
            prop_assert_eq!(unknown, verdict.blind.is_some());
            prop_assert!(verdict.confidence.is_none_or(|share| (0.5..=1.0).contains(&share)));
            prop_assert!(verdict.inflation.is_none_or(|inflation| inflation >= 0.0));
        }
    }
}

#[test]
fn contention_that_lasts_ten_minutes_is_still_contention() {
    let mut machine = Machine::new(1, 120.0, 0.06);
    machine.seconds(30, 1.0);
    machine.seconds(600, 1.3);
    assert!(share_contended(&machine.seconds(10, 1.3)) > 0.95);
    machine.seconds(4, 1.0);
    assert!(share_contended(&machine.seconds(30, 1.0)) < 0.01);
}

#[test]
fn a_machine_that_became_slower_for_good_is_quiet_again_within_the_hour() {
    let mut machine = Machine::new(2, 120.0, 0.06);
    machine.seconds(30, 1.0);
    machine.seconds(3600, 1.3);
    assert!(share_contended(&machine.seconds(10, 1.3)) < 0.05);
}

#[test]
fn a_baseline_learnt_under_contention_is_corrected_when_that_ends() {
    let mut machine = Machine::new(3, 120.0, 0.06);
    machine.seconds(60, 1.3);
    machine.seconds(20, 1.0);
    machine.seconds(2, 1.3);
    assert!(share_contended(&machine.seconds(5, 1.3)) > 0.95);
}

#[test]
fn a_quiet_level_that_keeps_wandering_makes_the_probe_blind_and_it_says_so() {
    let mut wandering = Machine::new(5, 120.0, 0.05);
    let mut level = 0.0_f64;
    let mut blind = 0;
    let mut all = 0;
    for _ in 0..1200 {
        level = 0.7 * level + 0.12 * wandering.noise.normal();
        for verdict in wandering.seconds(1, level.exp()) {
            all += 1;
            blind += usize::from(verdict.blind == Some(Blind::Noisy));
        }
    }
    assert!(blind * 3 > all, "blind in {blind} of {all}");
}

#[test]
fn without_bursts_the_state_is_unknown_and_not_the_last_one() {
    let mut machine = Machine::new(6, 120.0, 0.05);
    machine.seconds(10, 1.0);
    let later = machine.bursts * 40_000_000 + 1_500_000_000;
    let verdict = machine.weather.judge(later, None);
    assert_eq!((verdict.state, verdict.blind), (State::Unknown, Some(Blind::Starved)));
}

#[test]
fn confidence_grows_with_the_distance_from_the_threshold() {
    let mut weather = [1.10, 1.40].map(|slower| {
        let mut machine = Machine::new(7, 120.0, 0.05);
        machine.seconds(30, 1.0);
        machine.seconds(3, slower).pop().unwrap()
    });
    let [near, far] = weather.each_mut().map(|verdict| verdict.confidence.unwrap());
    assert!(far > 0.99 && far > near, "{far} {near}");
}

/// A virtual machine of 2 cores on a shared host, written by the benchmark `weather -- record`: it rests, and by turns
/// a neighbour streams for 3 s, it rests for 5 s, and a neighbour computes for 4 s.
const RECORDED: &str = include_str!("recorded/stream_and_compute.csv");

#[test]
fn recorded_streams_are_found_within_two_seconds_and_nothing_else_is_called_so() {
    let mut weather = Weather::new(WeatherConfig::default());
    let (mut neighbour, mut since_ms) = ("", 0);
    let (mut streams, mut found, mut mistaken) = (0, 0, Vec::new());
    let mut is_found = false;
    for line in RECORDED.lines().skip(1) {
        let [name, ms, numbers @ ..] = &line.split(',').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let ms: u64 = ms.parse().unwrap();
        let numbers: Vec<f64> = numbers.iter().map(|text| text.parse().unwrap()).collect();
        if *name != neighbour {
            (neighbour, since_ms, is_found) = (name, ms, false);
            streams += usize::from(neighbour == "Streams");
        }
        let burst = Burst {
            latency_ns: numbers[0],
            bandwidth_bytes_per_s: numbers[1],
            write_back_ns: Some(numbers[2]),
        };
        let contended = weather.judge(ms * 1_000_000, Some(burst)).state == State::Contended;
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
    assert_eq!(mistaken, []);
}
