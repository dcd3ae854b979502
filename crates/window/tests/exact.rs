//! Windows agree with an independent computation that looks at every sample.

#![allow(clippy::unwrap_used)] // helpers outside #[test] functions

use crosstalk_window::{Config, Window, WindowError, buffer};
use proptest::prelude::*;
use std::time::Duration;

#[derive(Debug, Clone)]
struct Sample {
    gap: u64,
    covers: u64,
    values: [Option<f64>; 2],
}

fn value() -> impl Strategy<Value = Option<f64>> {
    prop_oneof![
        1 => Just(None),
        2 => (0_u8..4).prop_map(|v| Some(f64::from(v))),
        4 => (-1e3..1e3).prop_map(Some),
        1 => (1e11..1.000_001e11).prop_map(Some),
    ]
}

fn series(most: usize) -> impl Strategy<Value = Vec<Sample>> {
    let uneven = (0_u64..30, 1_u64..50, value(), value());
    let even = (Just(0_u64), Just(20_u64), value(), value());
    let to_sample = |(gap, covers, a, b)| Sample { gap, covers, values: [a, b] };
    prop_oneof![
        prop::collection::vec(uneven.prop_map(to_sample), 1..most),
        prop::collection::vec(even.prop_map(to_sample), 1..most),
    ]
}

/// The plain definition: clip, sort, walk.
fn naive(samples: &[(u64, u64, Option<f64>)], start: u64, end: u64) -> Option<Expected> {
    let mut inside: Vec<(f64, u64)> = Vec::new();
    for &(from, to, value) in samples {
        let weight = to.min(end).saturating_sub(from.max(start));
        if let (Some(value), 1..) = (value, weight) {
            inside.push((value, weight));
        }
    }
    let last = inside.last()?.0;
    let total: u64 = inside.iter().map(|item| item.1).sum();
    let mean = inside.iter().map(|(v, w)| v * *w as f64).sum::<f64>() / total as f64;
    let squares = inside.iter().map(|(v, w)| (v - mean).powi(2) * *w as f64).sum::<f64>();
    inside.sort_by(|a, b| a.0.total_cmp(&b.0));
    let at = |percent: u64| {
        let mut sum = 0;
        let reached = |item: &&(f64, u64)| {
            sum += item.1;
            sum * 100 >= total * percent
        };
        inside.iter().find(reached).map(|item| item.0)
    };
    Some(Expected {
        mean,
        std: (squares / total as f64).sqrt(),
        exact: [inside.first()?.0, inside.last()?.0, at(50)?, at(95)?, at(99)?, last],
        coverage: total as f64 / (end - start) as f64,
    })
}

struct Expected {
    mean: f64,
    std: f64,
    exact: [f64; 6],
    coverage: f64,
}

fn assert_same(window: &Window<'_>, metric: usize, expected: Option<Expected>) {
    let got = window.stats(metric);
    assert_eq!(window.all_stats()[metric], got);
    let (got, expected) = match (got, expected) {
        (None, None) => return,
        (Some(got), Some(expected)) => (got, expected),
        (got, expected) => panic!("got {got:?}, expected some: {}", expected.is_some()),
    };
    let exact = [got.min, got.max, got.p50, got.p95, got.p99, got.last];
    assert_eq!(exact, expected.exact);
    let scale = expected.exact[0].abs().max(expected.exact[1].abs());
    assert!((got.mean - expected.mean).abs() <= 1e-11 * scale, "{got:?} {}", expected.mean);
    assert!((got.std - expected.std).abs() <= 1e-6 * scale, "{got:?} {}", expected.std);
    assert!((got.coverage - expected.coverage).abs() < 1e-12);
}

fn check(samples: &[Sample], ends: &[f64], lengths: &[u64]) {
    let mut config = Config::new(["a", "b"]);
    config.retention = Duration::from_nanos(1_000_000);
    let (mut writer, reader) = buffer(config).unwrap();
    let mut held = Vec::new();
    let (mut now, mut newest) = (2_000_000, 2_000_000);
    for sample in samples {
        // Uneven samples may reach back over their predecessor; the overlap counts once.
        now += sample.gap + sample.covers.div_ceil(2);
        writer.push(now, sample.covers, &sample.values).unwrap();
        held.push(((now - sample.covers).max(newest), now, sample.values));
        newest = now;
    }
    // The first may begin before the buffer's time begins; nothing else is different about it.
    held[0].0 = held[0].1 - samples[0].covers;
    let view = reader.view();
    assert_eq!(view.newest_ns(), Some(now));
    for (&end, &length) in ends.iter().zip(lengths) {
        let end = 2_000_000 + ((now - 2_000_000) as f64 * end) as u64;
        let start = end - length;
        // Asking again takes other ways through the code; whichever, the answer is the same.
        let asked = [0; 9].map(|_| view.window(end, Duration::from_nanos(length)).unwrap());
        let window = &asked[8];
        let overlaps = held.iter().filter(|(from, to, _)| *to > start && *from < end).count();
        assert_eq!(window.samples(), overlaps);
        let covered: u64 = held
            .iter()
            .map(|(from, to, _)| (*to).min(end).saturating_sub((*from).max(start)))
            .sum();
        assert_eq!(window.coverage(), covered as f64 / length as f64);
        for metric in 0..2 {
            let column: Vec<_> = held.iter().map(|(f, t, v)| (*f, *t, v[metric])).collect();
            for window in [&asked[0], &asked[8]] {
                assert_same(window, metric, naive(&column, start, end));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_window_over_any_series_is_exact(
        samples in series(900),
        ends in prop::collection::vec(0.0..1.2_f64, 6),
        lengths in prop::collection::vec(1_u64..40_000, 6),
    ) {
        check(&samples, &ends, &lengths);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn windows_over_the_longest_runs_are_exact(
        samples in series(9_000),
        ends in prop::collection::vec(0.5..1.1_f64, 6),
        lengths in prop::collection::vec(1_000_u64..400_000, 6),
    ) {
        check(&samples, &ends, &lengths);
    }
}

#[test]
fn a_ramp_whose_runs_share_no_values_is_exact() {
    let samples: Vec<_> = (0..8_000)
        .map(|i| Sample { gap: 10, covers: 20, values: [Some(f64::from(i)), Some(-f64::from(i))] })
        .collect();
    check(&samples, &[1.0, 0.9, 0.7], &[140_000, 77_777, 100_001]);
}

#[test]
fn what_outlives_retention_or_capacity_is_gone_and_the_rest_stays_exact() {
    let mut config = Config::new(["a"]);
    config.retention = Duration::from_secs(10);
    config.capacity = 640;
    let (mut writer, reader) = buffer(config).unwrap();
    let ms = 1_000_000;
    for i in 1..=5_000_u64 {
        writer.push(i * ms, ms, &[Some(i as f64)]).unwrap();
    }
    let view = reader.view();
    assert!((640..=640 + 128).contains(&view.samples()), "{}", view.samples());
    assert_eq!(reader.counters().dropped_full, 5_000 - view.samples() as u64);
    let window = view.window(5_000 * ms, Duration::from_millis(500)).unwrap();
    let stats = window.stats(0).unwrap();
    assert_eq!((stats.min, stats.p50, stats.max), (4_501.0, 4_750.0, 5_000.0));
    let longer = view.window(5_000 * ms, Duration::from_secs(2)).unwrap();
    assert_eq!(longer.samples(), view.samples());
    assert_eq!(longer.coverage(), view.samples() as f64 / 2_000.0);
}

#[test]
fn retention_hides_no_sample_that_is_young_enough_and_counts_none_that_is_too_old() {
    let (mut writer, reader) = buffer(Config::new(["a"])).unwrap();
    let second = 1_000_000_000;
    for i in 1..=500_u64 {
        writer.push(i * second, second, &[Some(1.0)]).unwrap();
        assert_eq!(reader.view().samples(), 30.min(i as usize));
    }
}

#[test]
fn bad_samples_are_refused_and_leave_no_trace() {
    let (mut writer, reader) = buffer(Config::new(["a"])).unwrap();
    writer.push(100, 10, &[Some(1.0)]).unwrap();
    assert_eq!(
        writer.push(100, 10, &[Some(2.0)]),
        Err(WindowError::OutOfOrder { end_ns: 100, newest_ns: 100 })
    );
    assert_eq!(writer.push(200, 0, &[None]), Err(WindowError::NoLength { end_ns: 200 }));
    assert_eq!(writer.push(200, 1, &[]), Err(WindowError::WrongWidth { expected: 1, got: 0 }));
    assert_eq!(reader.view().samples(), 1);
    assert_eq!(reader.counters().out_of_order, 1);
}

#[test]
fn values_that_are_not_finite_are_absent() {
    let (mut writer, reader) = buffer(Config::new(["a", "b"])).unwrap();
    writer.push(100, 10, &[Some(f64::NAN), Some(f64::INFINITY)]).unwrap();
    let view = reader.view();
    let window = view.window(100, Duration::from_nanos(10)).unwrap();
    assert_eq!(window.all_stats(), vec![None, None]);
    assert_eq!((window.samples(), window.coverage()), (1, 1.0));
    assert_eq!(window.stats(7), None);
}

#[test]
fn a_leap_of_the_clock_is_a_gap_and_not_a_long_sample() {
    let (mut writer, reader) = buffer(Config::new(["a"])).unwrap();
    let second = 1_000_000_000;
    writer.push(10 * second, second, &[Some(1.0)]).unwrap();
    writer.push(25 * second, second, &[Some(3.0)]).unwrap();
    let view = reader.view();
    let window = view.window(25 * second, Duration::from_secs(20)).unwrap();
    assert_eq!(window.coverage(), 0.1);
    assert_eq!(window.stats(0).unwrap().mean, 2.0);
}

#[test]
fn windows_of_no_length_or_beyond_retention_say_what_is_allowed() {
    let (_writer, reader) = buffer(Config::new(["a"])).unwrap();
    let view = reader.view();
    let refuse = |length| view.window(0, length).unwrap_err().to_string();
    assert!(refuse(Duration::ZERO).contains("at most 30 s"));
    assert!(refuse(Duration::from_secs(31)).contains("31 s is longer than the 30 s kept"));
    let empty = view.window(0, Duration::from_secs(20)).unwrap();
    assert_eq!((empty.samples(), empty.coverage(), empty.stats(0)), (0, 0.0, None));
}
