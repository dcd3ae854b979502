//! What a crash leaves behind is finished by the next recording, whatever byte it stopped at.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

use arrow_array::RecordBatch;
use crosstalk_model::{Dataset, SlotCoverage};
use crosstalk_recording::{Format, Layout, Metadata, Recording, RecordingOptions, slots_batch};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use proptest::prelude::*;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

const START: u64 = 1_794_779_000_000_000_000;

fn options(out: &Path, format: Format) -> RecordingOptions {
    RecordingOptions {
        out: out.to_owned(),
        format,
        layout: Layout::Flat,
        rotate_bytes: u64::MAX,
        rotate_after: Duration::MAX,
    }
}

fn batch(number: u64) -> RecordBatch {
    let row = |i: u64| SlotCoverage {
        slot_start_ns: START + (number * 100 + i) * 1_000_000,
        core: (i % 2) as u32,
        idle_ns: Some(i * 31),
        events: 3,
        lost: 0,
        tick_late_ns: None,
    };
    slots_batch(&(0..100).map(row).collect::<Vec<_>>())
}

/// A recorder that died after `batches` tables: its part, with the lock gone.
fn killed(out: &Path, format: Format, batches: u64) -> PathBuf {
    let about = Metadata::default().with("slot_ns", 1_000_000);
    let (mut recording, _) =
        Recording::create(options(out, format), &[Dataset::Slots], about, START).unwrap();
    for number in 0..batches {
        recording.write(Dataset::Slots, &batch(number)).unwrap();
    }
    drop(recording);
    let ending = if format == Format::Csv { ".csv.part" } else { ".arrows.part" };
    let mut parts = fs::read_dir(out.join("slots")).unwrap().map(|e| e.unwrap().path());
    parts.find(|p| p.to_string_lossy().ends_with(ending)).expect("a part is left")
}

fn rows_of(file: &Path) -> usize {
    if file.extension().is_some_and(|ending| ending == "csv") {
        return fs::read_to_string(file).unwrap().lines().count().saturating_sub(1);
    }
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(file).unwrap()).unwrap();
    reader.build().unwrap().map(|batch| batch.unwrap().num_rows()).sum()
}

fn recovered_rows(out: &Path, format: Format) -> Option<usize> {
    let (_, recovered) =
        Recording::create(options(out, format), &[], Metadata::default(), START).unwrap();
    assert_eq!(recovered.failed, []);
    recovered.files.first().map(|file| rows_of(file))
}

#[test]
fn everything_that_was_written_is_recovered() {
    for format in [Format::Csv, Format::Parquet] {
        let out = tempfile::tempdir().unwrap();
        killed(out.path(), format, 5);
        assert_eq!(recovered_rows(out.path(), format), Some(500));
        assert_eq!(recovered_rows(out.path(), format), None, "recovered once, not twice");
    }
}

#[test]
fn a_crash_between_finishing_and_tidying_up_leaves_one_file() {
    let out = tempfile::tempdir().unwrap();
    let part = killed(out.path(), Format::Parquet, 2);
    let copy = fs::read(&part).unwrap();
    assert_eq!(recovered_rows(out.path(), Format::Parquet), Some(200));
    fs::write(&part, copy).unwrap();
    assert_eq!(recovered_rows(out.path(), Format::Parquet), Some(200));
    assert!(!part.exists());
}

#[test]
fn a_file_is_closed_by_size_and_the_next_one_goes_on() {
    for format in [Format::Csv, Format::Parquet] {
        let out = tempfile::tempdir().unwrap();
        let limits = RecordingOptions { rotate_bytes: 2_000, ..options(out.path(), format) };
        let (mut recording, _) =
            Recording::create(limits, &[Dataset::Slots], Metadata::default(), START).unwrap();
        for number in 0..6 {
            recording.write(Dataset::Slots, &batch(number)).unwrap();
        }
        let files = recording.finish().unwrap();
        assert!(files.len() > 1, "{files:?}");
        assert_eq!(files.iter().map(|f| f.rows).sum::<u64>(), 600);
        assert!(files.iter().all(|f| rows_of(&f.path) as u64 == f.rows));
    }
}

#[test]
fn a_long_run_starts_a_new_folder_with_the_hour() {
    let out = tempfile::tempdir().unwrap();
    let hive = RecordingOptions { layout: Layout::Hive, ..options(out.path(), Format::Csv) };
    let (mut recording, _) =
        Recording::create(hive, &[Dataset::Slots], Metadata::default(), START).unwrap();
    recording.write(Dataset::Slots, &batch(0)).unwrap();
    recording.write(Dataset::Slots, &batch(36_000)).unwrap(); // an hour of milliseconds later
    let files = recording.finish().unwrap();
    let folders: Vec<_> = files.iter().map(|f| f.path.parent().unwrap().to_owned()).collect();
    assert_eq!(folders.len(), 2);
    assert_ne!(folders[0], folders[1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_part_cut_at_any_byte_keeps_every_whole_row_before_it(
        share in 0.0f64..=1.0,
        parquet: bool,
    ) {
        let format = if parquet { Format::Parquet } else { Format::Csv };
        let out = tempfile::tempdir().unwrap();
        let part = killed(out.path(), format, 4);
        let length = fs::metadata(&part).unwrap().len();
        let cut = (length as f64 * share) as u64;
        File::options().write(true).open(&part).unwrap().set_len(cut).unwrap();
        let whole = fs::read(&part).unwrap();
        let (_, recovered) =
            Recording::create(options(out.path(), format), &[], Metadata::default(), START).unwrap();
        let Some(file) = recovered.files.first() else {
            // A stream cut inside its schema holds no row: it is left as it is, and named.
            prop_assert!(cut < length / 2);
            return Ok(());
        };
        if format == Format::Csv {
            let text = fs::read(file).unwrap();
            prop_assert!(whole.starts_with(&text));
            prop_assert!(!whole[text.len()..].contains(&b'\n'));
        } else {
            prop_assert_eq!(rows_of(file) % 100, 0);
            prop_assert!(cut < length || rows_of(file) == 400);
        }
    }
}
