//! What was written is read back: from folders, files and object stores, only what is asked for.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use crosstalk_model::{ProbeReading, ProbeState, Row, SlotCoverage, Table};
use crosstalk_recording::{
    Error, Format, Layout, Metadata, Reader, Recording, RecordingOptions, Run, Scan,
};
use std::fs;
use std::path::Path;
use std::time::Duration;

const START: u64 = 1_794_779_000_000_000_000;
const SLOT: u64 = 1_000_000;

fn slot(number: u64) -> SlotCoverage {
    SlotCoverage { idle_ns: Some(number), ..SlotCoverage::lost(START + number * SLOT, 0, 0) }
}

fn probed() -> ProbeReading {
    ProbeReading {
        slot_start_ns: START,
        read_at_ns: START,
        core: None,
        l3_domain: 3,
        latency_ns: Some(97.5),
        bandwidth_bytes_per_s: None,
        write_back_ns: None,
        inflation: None,
        state: ProbeState::Unknown,
        confidence: None,
        blind: None,
        alone: None,
    }
}

/// A recording of 1,000 slots, left open.
fn recording(out: &Path, node: &str, format: Format) -> Recording {
    let options = RecordingOptions {
        out: out.to_owned(),
        append: true,
        format,
        layout: Layout::Flat,
        rotate_bytes: u64::MAX,
        rotate_after: Duration::MAX,
    };
    let about = Metadata::default().with("slot_ns", SLOT);
    let (mut recording, _) = Recording::create(options, Run::new(node, START), about).unwrap();
    recording.open(SlotCoverage::DATASET, START).unwrap();
    recording.open(ProbeReading::DATASET, START).unwrap();
    recording.write(Table::of(vec![&probed()])).unwrap();
    for hundred in 0..10 {
        let rows: Vec<SlotCoverage> = (0..100).map(|i| slot(hundred * 100 + i)).collect();
        recording.write(Table::of(rows.iter().collect())).unwrap();
    }
    recording
}

fn open(out: &Path) -> Reader {
    Reader::open([out.to_str().unwrap()]).unwrap()
}

fn ints(scan: &Scan<'_>, column: &str) -> Vec<i64> {
    let column_of = |batch: arrow_array::RecordBatch| {
        let values = batch.column_by_name(column).unwrap().as_primitive::<Int64Type>().clone();
        values.values().to_vec()
    };
    scan.pieces().flat_map(|piece| column_of(piece.unwrap().batch)).collect()
}

#[test]
fn only_the_columns_and_the_time_asked_for_are_read_whatever_the_format() {
    for format in [Format::Csv, Format::Parquet] {
        for finished in [true, false] {
            let out = tempfile::tempdir().unwrap();
            let recording = recording(out.path(), "n", format);
            // Unfinished: read while its writer lives.
            let living =
                if finished { recording.finish().map(|_| None).unwrap() } else { Some(recording) };
            let reader = open(out.path());
            assert_eq!(reader.datasets(), ["probe", "slots"]);
            let all = reader.scan("slots");
            assert_eq!(ints(&all, "idle_ns"), (0..1000).collect::<Vec<i64>>());
            let some = all.columns(["idle_ns"]).between(START + 250 * SLOT..START + 253 * SLOT);
            assert_eq!(ints(&some, "idle_ns"), [250, 251, 252], "{format:?} {finished}");
            let piece = some.pieces().next().unwrap().unwrap();
            assert_eq!(piece.batch.num_columns(), 1);
            assert_eq!((piece.file.node.as_str(), piece.file.state.is_finished()), ("n", finished));
            let about = piece.file.metadata().unwrap();
            assert_eq!(about.get("slot_ns"), Some(&SLOT.into()));
            drop(living);
        }
    }
}

#[test]
fn rows_that_a_file_says_to_have_none_of_what_is_asked_for_are_not_read() {
    let out = tempfile::tempdir().unwrap();
    recording(out.path(), "whole", Format::Parquet).finish().unwrap();
    let mut lossy = recording(out.path(), "lossy", Format::Parquet);
    lossy.write(Table::of(vec![&SlotCoverage::lost(START + 1_000 * SLOT, 0, 7)])).unwrap();
    lossy.finish().unwrap();
    let reader = open(out.path());
    let slots = reader.scan("slots");
    assert_eq!(ints(&slots, "lost").len(), 2_001);
    let lost = slots.columns(["slot_start_ns", "lost"]).with_some("lost");
    assert!(lost.pieces().all(|piece| piece.unwrap().file.node == "lossy"));
    assert_eq!(ints(&lost, "lost").iter().sum::<i64>(), 7);
    assert!(ints(&reader.scan("slots").with_some("no such column"), "lost").len() == 2_001);
}

#[test]
fn absent_values_and_words_are_read_back_as_they_were_written() {
    for format in [Format::Csv, Format::Parquet] {
        let out = tempfile::tempdir().unwrap();
        recording(out.path(), "n", format).finish().unwrap();
        let reader = open(out.path());
        let piece = reader.scan("probe").pieces().next().unwrap().unwrap();
        let column = |name: &str| piece.batch.column_by_name(name).unwrap().clone();
        assert_eq!(column("core").null_count(), 1);
        assert_eq!(column("blind").null_count(), 1);
        assert_eq!(column("state").as_string::<i32>().value(0), "unknown");
        assert_eq!(column("l3_domain").as_primitive::<Int64Type>().value(0), 3);
        assert_eq!(
            column("time").as_primitive::<arrow_array::types::TimestampMicrosecondType>().value(0),
            (START / 1000) as i64
        );
    }
}

#[test]
fn nodes_share_a_folder_and_a_file_can_be_read_alone() {
    let out = tempfile::tempdir().unwrap();
    recording(out.path(), "a", Format::Parquet).finish().unwrap();
    recording(out.path(), "b/2", Format::Csv).finish().unwrap();
    let reader = open(out.path());
    let nodes: Vec<&str> = reader.scan("slots").chosen().iter().map(|f| f.node.as_str()).collect();
    assert_eq!(nodes, ["a", "b/2"]);
    let alone = reader.scan("slots").files(|file| file.node == "b/2");
    assert_eq!(ints(&alone, "idle_ns").len(), 1000);
    let file = Reader::open([alone.chosen()[0].path.as_str()]).unwrap();
    assert_eq!(ints(&file.scan("slots"), "idle_ns").len(), 1000);
}

#[test]
fn a_file_that_cannot_be_read_is_named_and_the_rest_is_read() {
    let out = tempfile::tempdir().unwrap();
    recording(out.path(), "a", Format::Parquet).finish().unwrap();
    recording(out.path(), "b", Format::Csv).finish().unwrap();
    let folder = out.path().join("slots/node=0/run=x");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("slots-1.parquet"), "PAR1 no").unwrap();
    fs::write(folder.join("slots-2.parquet"), "").unwrap();
    fs::write(folder.join("slots-3.csv"), "slot_start_ns\n1\n").unwrap();
    fs::write(folder.join("slots-4.csv"), "").unwrap();
    let reader = open(out.path());
    let mut wrong = Vec::new();
    let mut rows = 0;
    for piece in reader.scan("slots").pieces() {
        match piece {
            Ok(piece) => rows += piece.batch.num_rows(),
            Err(error) => wrong.push(error.to_string()),
        }
    }
    assert_eq!(rows, 2000);
    assert_eq!(wrong.len(), 4, "{wrong:?}");
    for (error, name) in wrong.iter().zip(["slots-1.parquet", "slots-2", "slots-3", "slots-4"]) {
        assert!(error.contains(name), "{error}");
    }
}

#[test]
fn a_place_without_a_recording_is_an_error_that_names_it() {
    let out = tempfile::tempdir().unwrap();
    let place = out.path().to_str().unwrap();
    assert!(matches!(Reader::open([place]), Err(Error::NothingThere { .. })));
    let error = Reader::open(["/no/such/folder"]).unwrap_err().to_string();
    assert!(error.contains("/no/such/folder"), "{error}");
    let error = Reader::open(["nonsense://x"]).unwrap_err().to_string();
    assert!(error.contains("nonsense://x"), "{error}");
}
