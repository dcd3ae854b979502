//! Readers and the writer at once: every view is whole, and neither side stops the other.

use crosstalk_window::{Config, buffer};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Every sample holds its own number in all columns, negated in the last; so any mixture of two
/// samples, any half-written one and any lost one shows in the statistics.
#[test]
fn readers_see_only_whole_samples_in_order_while_the_writer_runs() {
    const SAMPLES: u64 = 60_000;
    let mut config = Config::new(["a", "b", "c", "minus"]);
    config.retention = Duration::from_nanos(20_000);
    config.capacity = 3_000;
    let (mut writer, reader) = buffer(config).unwrap();
    let done = AtomicBool::new(false);
    let answers = AtomicU64::new(0);

    std::thread::scope(|scope| {
        for length in [3_u64, 500, 2_000] {
            let (reader, done, answers) = (reader.clone(), &done, &answers);
            scope.spawn(move || {
                let mut newest_seen = 0;
                while !done.load(Ordering::Relaxed) {
                    let view = reader.view();
                    let Some(newest) = view.newest_ns() else { continue };
                    assert!(newest >= newest_seen, "time ran backwards");
                    newest_seen = newest;
                    let window = view.window(newest, Duration::from_nanos(length)).unwrap();
                    let all = window.all_stats();
                    let inside = length.min(newest);
                    assert_eq!(window.samples() as u64, inside);
                    let a = all[0].unwrap();
                    assert_eq!(a.last, newest as f64);
                    assert_eq!((a.min, a.max), ((newest - inside + 1) as f64, newest as f64));
                    assert_eq!(a.p50, (newest - inside) as f64 + inside.div_ceil(2) as f64);
                    assert_eq!(all[1], all[0]);
                    assert_eq!(all[2], all[0]);
                    assert_eq!(all[3].unwrap().mean, -a.mean);
                    answers.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for i in 1..=SAMPLES {
            let value = i as f64;
            writer.push(i, 1, &[Some(value), Some(value), Some(value), Some(-value)]).unwrap();
            if i % 64 == 0 {
                std::thread::yield_now();
            }
        }
        // On a busy machine the readers may not have run at all yet.
        while answers.load(Ordering::Relaxed) < 100 {
            std::thread::yield_now();
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(reader.counters().accepted, SAMPLES);
}

#[test]
fn a_view_held_for_long_stays_as_it_was_and_does_not_hold_up_the_writer() {
    let mut config = Config::new(["a"]);
    config.capacity = 100;
    let (mut writer, reader) = buffer(config).unwrap();
    writer.push(10, 10, &[Some(1.0)]).unwrap();
    let view = reader.view();
    for i in 2..=5_000_u64 {
        writer.push(i * 10, 10, &[Some(i as f64)]).unwrap();
    }
    let window = view.window(10, Duration::from_nanos(10)).unwrap();
    assert_eq!(window.stats(0).unwrap().max, 1.0);
    assert_eq!(view.newest_ns(), Some(10));
    assert_eq!(view.samples(), 1);
}
