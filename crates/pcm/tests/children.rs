//! Real children that misbehave, and a runner that goes on.

#![allow(clippy::unwrap_used)] // helpers outside #[test] functions

use crosstalk_pcm::{Faults, Reading, Runner, RunnerConfig};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Generous: the machine may be busy, and nothing here waits longer than it must.
const PATIENCE: Duration = Duration::from_secs(60);

const HEADER: &str = "printf ',,System,System,System,\\nDate,Time,Read,Write,Memory,\\n'\n";
const ROW: &str = "printf '2026-11-02,09:30:00.100,10.0,5.0,15.0,\\n'\n";

struct Played {
    runner: Runner,
    readings: Receiver<Reading>,
    folder: TempDir,
}

/// Plays PCM with a shell script. `$DIR` in it is a folder of the test's own.
fn play(script: &str, adjust: impl FnOnce(&mut RunnerConfig)) -> Played {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("pcm");
    let script = script.replace("$DIR", folder.path().to_str().unwrap());
    // A child writes it: a file that this process has open for writing is for a moment also open in
    // whatever another test starts meanwhile, and cannot be run until that has gone on.
    let write = r#"printf '#!/bin/sh\n%s' "$1" > "$0" && chmod 755 "$0""#;
    let written = Command::new("sh").args(["-c", write]).arg(&program).arg(script).status();
    assert!(written.unwrap().success());
    let mut config = RunnerConfig::pcm(Duration::from_secs(1));
    config.program = program;
    config.back_off = Duration::from_millis(10);
    config.longest_back_off = Duration::from_millis(80);
    adjust(&mut config);
    let (send, readings) = channel();
    let runner = Runner::start(config, move |reading| {
        let _ = send.send(reading);
    })
    .unwrap();
    Played { runner, readings, folder }
}

impl Played {
    fn reading(&self) -> Reading {
        self.readings.recv_timeout(PATIENCE).expect("a reading in time")
    }

    /// Waits for a state of the faults; there is no event for it, so it looks again and again.
    #[allow(clippy::disallowed_methods)] // the pace of looking
    fn faults_until(&self, reached: impl Fn(&Faults) -> bool) -> Faults {
        let begin = Instant::now();
        loop {
            let faults = self.runner.faults();
            if reached(&faults) {
                return faults;
            }
            assert!(begin.elapsed() < PATIENCE, "never came to be: {faults:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn is_alive(pid_file: &Path) -> bool {
    let pid = fs::read_to_string(pid_file).unwrap();
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[test]
fn a_well_behaved_child_yields_readings_and_no_faults() {
    let played = play(&format!("{HEADER}{ROW}{ROW}exec sleep 1000\n"), |_| {});
    assert_eq!(played.reading().metrics.mem_bw_read, Some(10e6));
    assert_eq!(played.reading().metrics.mem_bw_total, Some(15e6));
    assert_eq!(played.runner.faults(), Faults::default());
}

#[test]
fn a_row_is_read_before_its_line_ends_as_pcm_ends_it_with_the_next() {
    let row = ROW.replace("\\n", "");
    let played = play(&format!("{HEADER}{row}exec sleep 1000\n"), |_| {});
    assert_eq!(played.reading().metrics.mem_bw_read, Some(10e6));
}

#[test]
fn a_child_that_dies_is_started_anew_and_its_last_words_are_kept() {
    let script =
        format!("{HEADER}{ROW}echo 'Can not access CPUs Model Specific Registers' >&2\nexit 3\n");
    let played = play(&script, |_| {});
    for _ in 0..3 {
        played.reading();
    }
    let faults = played.faults_until(|faults| faults.ended >= 2);
    let latest = faults.latest.unwrap();
    assert!(latest.contains("Model Specific Registers") && latest.contains("3"), "{latest}");
}

#[test]
fn a_child_that_hangs_is_ended_with_all_it_started_and_started_anew() {
    // The first life writes its helper's pid and hangs; the second behaves.
    let script = format!(
        "{HEADER}{ROW}if [ -e $DIR/lived ]; then {ROW} exec sleep 1000; fi\n\
         touch $DIR/lived\nsleep 1000 & echo $! > $DIR/helper\nwait\n"
    );
    let played = play(&script, |config| config.silence = Duration::from_millis(400));
    played.reading();
    played.reading();
    let faults = played.faults_until(|faults| faults.hung >= 1);
    assert!(faults.latest.unwrap().contains("no row for 0.4 s"));
    assert!(!is_alive(&played.folder.path().join("helper")));
}

#[test]
fn a_child_that_ignores_the_request_to_end_is_killed_when_the_runner_is_dropped() {
    let script =
        format!("trap '' TERM\necho $$ > $DIR/pid\n{HEADER}{ROW}while :; do sleep 1000; done\n");
    let played = play(&script, |config| config.grace = Duration::from_millis(50));
    played.reading();
    let Played { runner, folder, .. } = played;
    assert!(is_alive(&folder.path().join("pid")));
    drop(runner);
    assert!(!is_alive(&folder.path().join("pid")));
}

#[test]
fn a_child_that_floods_is_ended_and_readings_come_again() {
    let script = format!(
        "{HEADER}{ROW}[ -e $DIR/lived ] && exec sleep 1000\n\
         touch $DIR/lived\nexec yes 'no row at all but words without end'\n"
    );
    let played = play(&script, |config| config.most_bytes_per_second = 200_000);
    played.reading();
    played.reading();
    let faults = played.faults_until(|faults| faults.restarts() >= 1);
    assert_eq!(faults.flooded + faults.garbled, 1, "{faults:?}");
}

#[test]
fn rows_without_end_are_a_flood_too() {
    let script = format!("{HEADER}while :; do {ROW} done\n");
    let played = play(&script, |_| {});
    let faults = played.faults_until(|faults| faults.flooded >= 2);
    assert!(faults.latest.unwrap().contains("too many rows"));
}

#[test]
fn a_line_without_end_costs_no_memory_and_the_next_row_is_read() {
    let script =
        format!("{HEADER}head -c 300000 /dev/zero | tr '\\0' x\necho\n{ROW}exec sleep 1000\n");
    let played = play(&script, |config| config.longest_line = 10_000);
    played.reading();
    let faults = played.runner.faults();
    assert_eq!((faults.long_lines, faults.restarts()), (1, 0));
}

#[test]
fn garbage_is_counted_and_too_much_of_it_ends_the_child() {
    let script = format!(
        "{HEADER}{ROW}for i in $(seq 60); do printf '\\377\\376 %d\\n' $i; done\nexec sleep 1000\n"
    );
    let played = play(&script, |_| {});
    let faults = played.faults_until(|faults| faults.garbled >= 1);
    assert!(faults.bad_lines >= 50, "{faults:?}");
}

#[test]
fn columns_that_change_without_a_header_lead_to_a_new_start_and_a_new_header() {
    let script = format!(
        "{HEADER}{ROW}[ -e $DIR/lived ] && exec sleep 1000\ntouch $DIR/lived\n\
         for i in 1 2 3 4; do printf '2026-11-02,09:30:00.100,10.0,5.0,\\n'; done\nexec sleep 1000\n"
    );
    let played = play(&script, |_| {});
    played.reading();
    played.reading();
    assert_eq!(played.runner.faults().garbled, 1);
}

#[test]
fn a_program_that_is_not_there_is_a_fault_with_a_name_and_the_runner_ends_at_once() {
    let played = play("", |config| {
        config.program = "/no/such/pcm".into();
        config.back_off = Duration::from_secs(1000);
        config.longest_back_off = config.back_off;
    });
    let faults = played.faults_until(|faults| faults.not_started == 1);
    assert!(faults.latest.unwrap().starts_with("/no/such/pcm: not started"));
    let begin = Instant::now();
    drop(played.runner);
    assert!(begin.elapsed() < PATIENCE, "drop does not wait for the back-off");
}
