//! What a probe learnt is there for the next one, and only for the machine it was learnt on. Whether others run is
//! what a fake `/proc` says; the bursts are real.

#![allow(clippy::unwrap_used)] // helpers outside #[test] functions

use crosstalk_host::HostRoot;
use crosstalk_probe::{Blind, ProbeConfig, ProbeReading, Prober, State};
use std::fs;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A machine of one cache whose cores are those this process may use, on which so many tasks are runnable.
fn machine(id: &str, runnable: usize) -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    for (file, text) in [
        ("sys/devices/system/cpu/online", online.as_str()),
        ("proc/loadavg", &format!("0.0 0.0 0.0 {runnable}/99 1\n")),
        ("proc/sys/kernel/random/boot_id", "this boot"),
        ("etc/machine-id", id),
    ] {
        let file = root.path().join(file);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    root
}

fn probe(root: &TempDir, state: &Path) -> (Prober, Receiver<ProbeReading>) {
    let (send, readings) = channel();
    let config = ProbeConfig {
        host: HostRoot::new(root.path()),
        state: Some(state.to_owned()),
        // More bursts than the product would run: the test is about what is learnt, not about the budget.
        cpu_share: 0.05,
        ..ProbeConfig::default()
    };
    let prober = Prober::start(config, move |reading| {
        let _ = send.send(reading);
    });
    (prober.unwrap(), readings)
}

/// The first reading of this kind.
fn first(
    readings: &Receiver<ProbeReading>,
    is_it: impl Fn(&ProbeReading) -> bool,
) -> Option<ProbeReading> {
    let begin = Instant::now();
    let in_time = |_: &ProbeReading| begin.elapsed() < Duration::from_secs(60);
    readings.iter().take_while(in_time).find(is_it)
}

#[test]
fn quiet_is_learnt_alone_kept_and_known_to_the_next_even_beside_others() {
    let state = tempfile::tempdir().unwrap();
    let knows = |reading: &ProbeReading| reading.inflation.is_some();

    let at_rest = machine("m", 1);
    let (prober, readings) = probe(&at_rest, state.path());
    assert_eq!(first(&readings, knows).expect("learnt").alone, Some(true));
    drop(prober);
    let file = state.path().join("probe-baseline.json");
    assert!(fs::read_to_string(&file).unwrap().contains("\"machine\": \"m\""));

    let crowded = machine("m", 10_000);
    let (prober, readings) = probe(&crowded, state.path());
    let seen = first(&readings, knows).expect("known from the file");
    assert_eq!(seen.alone, Some(false));
    let note = prober.baseline_note().unwrap();
    assert!(!note.is_trouble && note.text.contains("probe-baseline.json"), "{note:?}");
    let cost = prober.cost();
    assert_eq!(cost.insisted, cost.bursts, "where every core is busy each takes a normal turn");
    drop(prober);

    let another = machine("another", 10_000);
    let (prober, readings) = probe(&another, state.path());
    let unseen = first(&readings, |reading| reading.blind == Some(Blind::Unseen)).expect("unseen");
    assert_eq!((unseen.state, unseen.inflation), (State::Unknown, None));
    let note = prober.baseline_note().unwrap();
    assert!(note.is_trouble && note.text.contains("is of another machine"), "{note:?}");
}

#[test]
fn a_machine_that_does_not_say_who_runs_is_never_called_quiet() {
    let (root, state) = (machine("m", 1), tempfile::tempdir().unwrap());
    fs::remove_file(root.path().join("proc/loadavg")).unwrap();
    let (_prober, readings) = probe(&root, state.path());
    let unseen = first(&readings, |reading| reading.blind == Some(Blind::Unseen)).expect("unseen");
    assert_eq!((unseen.alone, unseen.state), (None, State::Unknown));
}
