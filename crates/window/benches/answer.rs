//! What an answer costs at 20 s of 1 kHz data and 50 metrics, and what a push costs.
//!
//! `read_every_value` is the floor of any design that scans: it only sums the million values once.

use crosstalk_window::{Config, Reader, Writer, buffer};
use divan::{Bencher, black_box};
use std::time::Duration;

const METRICS: usize = 50;
const MS: u64 = 1_000_000;

fn main() {
    divan::main();
}

/// A cheap generator with enough disorder that sorting is real work.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[derive(Clone, Copy)]
enum Shape {
    Noisy,
    Uneven,
    Ramp,
}

fn sample(shape: Shape, i: u64, noise: &mut Noise) -> (u64, Vec<Option<f64>>) {
    let value = |noise: &mut Noise| match shape {
        Shape::Ramp => i as f64 + noise.next(),
        _ => noise.next() * noise.next() * 1e10,
    };
    let covers = match shape {
        Shape::Uneven => MS - (noise.next() * 1e4) as u64,
        _ => MS,
    };
    (covers, (0..METRICS).map(|_| Some(value(noise))).collect())
}

fn filled(shape: Shape) -> (Writer, Reader) {
    let config = Config::new((0..METRICS).map(|i| format!("metric_{i}")));
    let (mut writer, reader) = buffer(config).expect("a valid configuration");
    let mut noise = Noise(7);
    for i in 1..=40_037 {
        let (covers, values) = sample(shape, i, &mut noise);
        writer.push(i * MS, covers, &values).expect("samples in order");
    }
    (writer, reader)
}

fn answer(bencher: Bencher, shape: Shape) {
    let (_writer, reader) = filled(shape);
    bencher.bench_local(|| {
        let view = reader.view();
        let end = view.newest_ns().expect("filled") + MS / 3;
        let window = view.window(end, Duration::from_secs(20)).expect("kept");
        black_box(window.all_stats())
    });
}

/// Never the same chunks twice: nothing is remembered.
#[divan::bench]
fn answer_noisy_first_time(bencher: Bencher) {
    let (_writer, reader) = filled(Shape::Noisy);
    let mut chunk = 0;
    bencher.bench_local(|| {
        let view = reader.view();
        chunk = (chunk + 1) % 32;
        let end = view.newest_ns().expect("filled") - chunk * 64 * MS;
        let window = view.window(end, Duration::from_secs(20)).expect("kept");
        black_box(window.all_stats())
    });
}

#[divan::bench]
fn answer_noisy(bencher: Bencher) {
    answer(bencher, Shape::Noisy);
}

#[divan::bench]
fn answer_uneven_lengths(bencher: Bencher) {
    answer(bencher, Shape::Uneven);
}

#[divan::bench]
fn answer_ramp(bencher: Bencher) {
    answer(bencher, Shape::Ramp);
}

#[divan::bench]
fn answer_one_metric(bencher: Bencher) {
    let (_writer, reader) = filled(Shape::Noisy);
    bencher.bench_local(|| {
        let view = reader.view();
        let end = view.newest_ns().expect("filled");
        view.window(end, Duration::from_secs(20)).expect("kept").stats(black_box(3))
    });
}

#[divan::bench]
fn push(bencher: Bencher) {
    let (mut writer, _reader) = filled(Shape::Noisy);
    let (mut noise, mut i) = (Noise(9), 50_000);
    let (covers, values) = sample(Shape::Noisy, i, &mut noise);
    bencher.bench_local(|| {
        i += 1;
        writer.push(i * MS, covers, black_box(&values)).expect("samples in order");
    });
}

#[divan::bench]
fn read_every_value(bencher: Bencher) {
    let mut noise = Noise(7);
    let values: Vec<f64> = (0..METRICS * 20_000).map(|_| noise.next()).collect();
    bencher.bench_local(|| {
        let mut sums = [0.0; 8];
        for part in black_box(&values).chunks_exact(8) {
            for (sum, value) in sums.iter_mut().zip(part) {
                *sum += value;
            }
        }
        black_box(sums)
    });
}
