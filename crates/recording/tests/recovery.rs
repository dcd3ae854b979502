//! What a crash leaves behind is finished by the next recording, whatever byte it stopped at.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

use crosstalk_model::{Row, SlotCoverage, Table};
use crosstalk_recording::{
    Error, Format, Layout, Metadata, Reader, Recording, RecordingOptions, Run, recover,
};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use proptest::prelude::*;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

const START: u64 = 1_794_779_000_000_000_000;

fn options(out: &Path, format: Format) -> RecordingOptions {
    RecordingOptions {
        out: out.to_owned(),
        append: false,
        format,
        layout: Layout::Flat,
        rotate_bytes: u64::MAX,
        rotate_after: Duration::MAX,
    }
}

fn create(options: RecordingOptions) -> Recording {
    let about = Metadata::default().with("slot_ns", 1_000_000);
    let (mut recording, _) = Recording::create(options, Run::new("n", START), about).unwrap();
    recording.open(SlotCoverage::DATASET, START).unwrap();
    recording
}

fn table(number: u64) -> Table {
    let row = |i: u64| SlotCoverage {
        slot_start_ns: START + (number * 100 + i) * 1_000_000,
        core: (i % 2) as u32,
        idle_ns: Some(i * 31),
        events: 3,
        lost: 0,
        tick_late_ns: None,
    };
    Table::of((0..100).map(row).collect::<Vec<_>>().iter().collect())
}

/// A recorder that died after `batches` tables: its part, with the lock gone.
fn killed(out: &Path, format: Format, batches: u64) -> PathBuf {
    let mut recording = create(options(out, format));
    for number in 0..batches {
        recording.write(table(number)).unwrap();
    }
    let folder = out.join("slots/node=n").join(format!("run={}", recording.run().id()));
    drop(recording);
    let ending = if format == Format::Csv { ".csv.part" } else { ".arrows.part" };
    let mut parts = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    parts.find(|p| p.to_string_lossy().ends_with(ending)).expect("a part is left")
}

fn rows_of(file: &Path) -> usize {
    if file.extension().is_some_and(|ending| ending == "csv") {
        return fs::read_to_string(file).unwrap().lines().count().saturating_sub(1);
    }
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(file).unwrap()).unwrap();
    reader.build().unwrap().map(|batch| batch.unwrap().num_rows()).sum()
}

fn recovered_rows(out: &Path) -> Option<usize> {
    let recovered = recover(out);
    assert_eq!(recovered.failed, []);
    recovered.files.first().map(|file| rows_of(file))
}

#[test]
fn everything_that_was_written_is_recovered() {
    for format in [Format::Csv, Format::Parquet] {
        let out = tempfile::tempdir().unwrap();
        killed(out.path(), format, 5);
        assert_eq!(recovered_rows(out.path()), Some(500));
        assert_eq!(recovered_rows(out.path()), None, "recovered once, not twice");
    }
}

#[test]
fn a_crash_between_finishing_and_tidying_up_leaves_one_file() {
    let out = tempfile::tempdir().unwrap();
    let part = killed(out.path(), Format::Parquet, 2);
    let copy = fs::read(&part).unwrap();
    assert_eq!(recovered_rows(out.path()), Some(200));
    fs::write(&part, copy).unwrap();
    assert_eq!(recovered_rows(out.path()), Some(200));
    assert!(!part.exists());
}

#[test]
fn a_file_is_closed_by_size_and_the_next_one_goes_on() {
    for format in [Format::Csv, Format::Parquet] {
        let out = tempfile::tempdir().unwrap();
        let limits = RecordingOptions { rotate_bytes: 2_000, ..options(out.path(), format) };
        let mut recording = create(limits);
        for number in 0..6 {
            recording.write(table(number)).unwrap();
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
    let mut recording = create(hive);
    recording.write(table(0)).unwrap();
    recording.write(table(36_000)).unwrap(); // an hour of milliseconds later
    let files = recording.finish().unwrap();
    let folders: Vec<_> = files.iter().map(|f| f.path.parent().unwrap().to_owned()).collect();
    assert_eq!(folders.len(), 2);
    assert_ne!(folders[0], folders[1]);
}

#[test]
fn rows_that_come_late_over_the_hour_begin_no_file_of_the_hour_before() {
    let out = tempfile::tempdir().unwrap();
    let hive = RecordingOptions { layout: Layout::Hive, ..options(out.path(), Format::Csv) };
    let mut recording = create(hive);
    for number in [0, 36_000, 9_000, 36_001] {
        recording.write(table(number)).unwrap();
    }
    let files = recording.finish().unwrap();
    assert_eq!(files.iter().map(|f| f.rows).collect::<Vec<_>>(), [100, 300], "{files:?}");
}

#[test]
fn a_file_that_begins_with_late_rows_does_not_bear_the_name_of_one_before_it() {
    let out = tempfile::tempdir().unwrap();
    let limits = RecordingOptions { rotate_bytes: 2_000, ..options(out.path(), Format::Csv) };
    let mut recording = create(limits);
    let mut names = Vec::new();
    for number in [0, 1, 2, 0, 1, 0] {
        recording.write(table(number)).unwrap();
    }
    for file in recording.finish().unwrap() {
        names.push(file.path.file_name().unwrap().to_str().unwrap().to_owned());
    }
    // Files are finished side by side, so the first begun need not be the first done.
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 6, "{names:?}");
    assert!(
        names.iter().all(|name| name.ends_with("Z.csv")),
        "none had to be told apart: {names:?}"
    );
}

#[test]
fn rows_of_a_data_set_that_is_not_open_are_an_error() {
    let out = tempfile::tempdir().unwrap();
    let run = Run::new("n", START);
    let (mut recording, _) =
        Recording::create(options(out.path(), Format::Csv), run, Metadata::default()).unwrap();
    assert!(matches!(recording.write(table(0)), Err(Error::NotOpen { dataset: "slots" })));
}

#[test]
fn a_folder_that_holds_a_recording_or_is_being_written_takes_no_second_one_unasked() {
    let out = tempfile::tempdir().unwrap();
    let options = options(out.path(), Format::Csv);
    let again = |append| {
        let options = RecordingOptions { append, ..options.clone() };
        Recording::create(options, Run::new("m", START), Metadata::default()).map(|(made, _)| made)
    };
    let mut first = create(options.clone());
    assert!(matches!(again(false), Err(Error::Occupied { .. })), "while it is being written");
    first.write(table(0)).unwrap();
    assert!(again(true).is_ok(), "another run is told apart by its folder");
    let id = first.run().id().to_owned();
    first.finish().unwrap();
    match again(false) {
        Err(Error::Occupied { run, .. }) => assert!(run.contains(&id), "{run}"),
        _ => panic!("summed by every query"),
    }
}

#[test]
fn what_is_noted_late_is_in_the_file_and_survives_a_crash() {
    for format in [Format::Csv, Format::Parquet] {
        let out = tempfile::tempdir().unwrap();
        let mut recording = create(options(out.path(), format));
        recording.write(table(0)).unwrap();
        recording.note("loss", 7);
        recording.finish().unwrap();
        let reader = Reader::open([out.path().to_str().unwrap()]).unwrap();
        let about = reader.files()[0].metadata().unwrap();
        assert_eq!(about.get("loss"), Some(&7.into()));
        assert_eq!(about.get("rows"), Some(&100.into()));
        assert_eq!(about.get("recovered"), None);

        let out = tempfile::tempdir().unwrap();
        killed(out.path(), format, 1);
        recover(out.path());
        let reader = Reader::open([out.path().to_str().unwrap()]).unwrap();
        let about = reader.files()[0].metadata().unwrap();
        assert_eq!(about.get("recovered"), Some(&true.into()));
        assert_eq!(about.get("slot_ns"), Some(&1_000_000.into()));
    }
}

#[test]
fn a_part_is_kept_where_the_finished_file_has_other_rows() {
    let out = tempfile::tempdir().unwrap();
    let part = killed(out.path(), Format::Parquet, 2);
    let longer = fs::read(&part).unwrap();
    let other = tempfile::tempdir().unwrap();
    let short = killed(other.path(), Format::Parquet, 1);
    recover(other.path());
    let ending = |path: &Path| path.to_str().unwrap().replace(".arrows.part", ".parquet");
    fs::copy(ending(&short), ending(&part)).unwrap();
    let recovered = recover(out.path());
    assert!(recovered.failed[0].1.contains("100 rows where 200"), "{recovered:?}");
    assert_eq!(fs::read(&part).unwrap(), longer);
}

#[test]
fn a_part_that_is_damaged_in_the_middle_is_left_as_it_is() {
    let out = tempfile::tempdir().unwrap();
    let part = killed(out.path(), Format::Parquet, 40);
    let mut bytes = fs::read(&part).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 2_000].fill(0);
    fs::write(&part, &bytes).unwrap();
    let recovered = recover(out.path());
    assert!(recovered.files.is_empty() && recovered.failed.len() == 1, "{recovered:?}");
    assert_eq!(fs::read(&part).unwrap(), bytes);
    let folder = part.parent().unwrap();
    let looks_finished = |name: &str| name.ends_with(".parquet");
    let names =
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    assert!(!names.into_iter().any(|name| looks_finished(&name)));
    // Who reads it is told so too: its tail is not silently less.
    let reader = Reader::open([out.path().to_str().unwrap()]).unwrap();
    let failed: Vec<String> = reader
        .scan("slots")
        .pieces()
        .filter_map(|piece| piece.err().map(|error| error.to_string()))
        .collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0].starts_with(part.to_str().unwrap()), "{failed:?}");
    assert!(failed[0].contains("damaged"), "{failed:?}");
}

#[test]
fn files_of_others_are_neither_finished_nor_taken_for_a_recording() {
    let out = tempfile::tempdir().unwrap();
    let theirs = out.path().join("sub/report.csv.part");
    fs::create_dir_all(theirs.parent().unwrap()).unwrap();
    fs::write(&theirs, "a,b\n1,2\n3,4half").unwrap();
    fs::write(out.path().join("sub/report.csv"), "precious").unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let linked = killed(elsewhere.path(), Format::Csv, 1);
    std::os::unix::fs::symlink(elsewhere.path().join("slots"), out.path().join("slots")).unwrap();
    assert_eq!(recover(out.path()), Default::default());
    assert!(linked.exists() && theirs.exists());
    assert_eq!(fs::read_to_string(out.path().join("sub/report.csv")).unwrap(), "precious");
    fs::remove_file(out.path().join("slots")).unwrap();
    create(options(out.path(), Format::Csv));
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
        let recovered = recover(out.path());
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
