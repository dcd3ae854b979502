//! The recorder: everything that is delivered is in files, or counted as lost.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

use crosstalk_collect::{About, Collect, Loss, Outlet, Source, Wants};
use crosstalk_host::{Capability, Clock, ClockReadings, Verdict};
use crosstalk_model::{Row, SlotCoverage};
use crosstalk_recording::{
    Format, Layout, Metadata, Reader, Recorder, RecorderOptions, RecordingOptions, Tap,
};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

static ABOUT: About =
    About { name: "slots", datasets: &[SlotCoverage::DATASET], metrics: &[], subjects: &[] };
const START: u64 = 1_794_779_000_000_000_000;

/// Delivers so many batches of ten rows.
struct Slots(u64);

impl Source for Slots {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
        out.describe("speciality", "slots");
        out.describe("kernel", "of the source");
        out.report(Verdict::Ok, "delivers");
        for batch in 0..self.0 {
            let slot = |i| SlotCoverage::lost(START + (batch * 10 + i) * 1_000_000, 0, 0);
            out.deliver((0..10).map(slot).collect());
        }
        out.lost("slots", "kernel ring", 3);
        Ok(())
    }
}

fn options(out: &Path, retry: Option<Duration>) -> RecorderOptions {
    RecorderOptions {
        recording: RecordingOptions {
            out: out.to_owned(),
            append: true,
            format: Format::Parquet,
            layout: Layout::Flat,
            rotate_bytes: u64::MAX,
            rotate_after: Duration::MAX,
        },
        node: "n".to_owned(),
        metadata: Metadata::default().with("kernel", "of the machine"),
        always: vec![SlotCoverage::DATASET],
        retry,
        on_error: |_| {},
    }
}

#[test]
fn what_was_delivered_is_read_back_with_what_was_lost_and_what_the_source_said() {
    let out = tempfile::tempdir().unwrap();
    // A clock that has been set forward by an hour since it was measured.
    const HOUR: u64 = 3_600_000_000_000;
    let mut then = ClockReadings::now();
    then.realtime_ns -= HOUR;
    let mut collect = Collect::new(Clock::of(then));
    let recorder = Recorder::start(Tap::new(&mut collect), options(out.path(), None)).unwrap();
    collect.start(Box::new(Slots(30))).unwrap();
    collect.stop();
    let recorded = recorder.finish().unwrap();
    assert_eq!(recorded.files.iter().map(|file| file.rows).sum::<u64>(), 300);
    let reader = Reader::open([out.path().to_str().unwrap()]).unwrap();
    let rows: usize =
        reader.scan("slots").pieces().map(|piece| piece.unwrap().batch.num_rows()).sum();
    assert_eq!(rows, 300);
    let about = reader.files()[0].metadata().unwrap();
    assert_eq!(about.get("slots_speciality"), Some(&"slots".into()));
    assert_eq!(about.get("kernel"), Some(&"of the machine".into()), "a source has hidden it");
    let loss = serde_json::json!([{ "dataset": "slots", "place": "kernel ring", "rows": 3 }]);
    assert_eq!(about.get("loss"), Some(&loss));
    assert!(about.get("slots_absent_because").unwrap().is_null());
    let steps = about.get("clock").unwrap()["steps"].as_array().unwrap();
    assert_eq!((steps.len(), &steps[0]["kind"]), (1, &"step".into()), "{steps:?}");
    assert!(steps[0]["by_ns"].as_u64().unwrap().abs_diff(HOUR) < 1_000_000, "{steps:?}");
}

#[test]
fn a_folder_that_cannot_be_written_is_told_at_once_or_costs_rows_that_are_counted() {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("file");
    fs::write(&file, "").unwrap();
    let mut collect = Collect::new(Clock::measure());
    assert!(Recorder::start(Tap::new(&mut collect), options(&file, None)).is_err());

    let mut collect = Collect::new(Clock::measure());
    let retry = Some(Duration::from_secs(60));
    let recorder = Recorder::start(Tap::new(&mut collect), options(&file, retry)).unwrap();
    collect.start(Box::new(Slots(2))).unwrap();
    collect.stop();
    assert_eq!(recorder.finish().unwrap().files, []);
    let lost = collect.overview().losses().all();
    assert!(lost.contains(&Loss { dataset: "slots", place: "file", rows: 20 }), "{lost:?}");
}

#[test]
fn a_file_tells_what_was_lost_on_its_way_and_not_what_another_consumer_missed() {
    let out = tempfile::tempdir().unwrap();
    let mut collect = Collect::new(Clock::measure());
    let _slow = collect.subscribe("window", 1, Wants::Rows);
    let recorder = Recorder::start(Tap::new(&mut collect), options(out.path(), None)).unwrap();
    collect.start(Box::new(Slots(3))).unwrap();
    collect.stop();
    recorder.finish().unwrap();
    let window = Loss { dataset: "slots", place: "window", rows: 20 };
    assert!(collect.overview().losses().all().contains(&window), "the consumer missed rows");
    let reader = Reader::open([out.path().to_str().unwrap()]).unwrap();
    let loss = serde_json::json!([{ "dataset": "slots", "place": "kernel ring", "rows": 3 }]);
    assert_eq!(reader.files()[0].metadata().unwrap().get("loss"), Some(&loss));
}

/// A row that cannot be written where it is `sound` is false: a fault of ours.
struct FragileRow {
    slot_start_ns: u64,
    sound: bool,
}

crosstalk_model::dataset! {
    FragileRow: "fragile", "rows whose writer may panic",
    by |row| row.slot_start_ns,
    sound [int] "" "always 1" = |row| { assert!(row.sound, "on purpose"); 1_u64 };
}

static FRAGILE: About =
    About { name: "fragile", datasets: &[FragileRow::DATASET], metrics: &[], subjects: &[] };

/// Delivers a row when it is told to, which is sound or not.
struct Fragile(Receiver<bool>);

impl Source for Fragile {
    fn about(&self) -> &'static About {
        &FRAGILE
    }

    fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
        out.report(Verdict::Ok, "delivers");
        let mut slot_start_ns = START;
        while let Ok(sound) = self.0.recv() {
            slot_start_ns += 1_000_000;
            out.deliver(vec![FragileRow { slot_start_ns, sound }]);
        }
        Ok(())
    }
}

#[test]
fn a_recorder_whose_writer_panics_counts_what_it_lost_says_so_and_goes_on() {
    static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let out = tempfile::tempdir().unwrap();
    let mut collect = Collect::new(Clock::measure());
    let again = RecorderOptions {
        on_error: |error| TOLD.lock().unwrap().push(error.to_string()),
        always: Vec::new(),
        ..options(out.path(), Some(Duration::ZERO))
    };
    let recorder = Recorder::start(Tap::new(&mut collect), again).unwrap();
    let status = recorder.status();
    assert!(status.is_up());
    let (deliver, told) = channel();
    collect.start(Box::new(Fragile(told))).unwrap();
    deliver.send(false).unwrap();
    await_until(|| !status.is_up());
    let lost = Loss { dataset: "fragile", place: "file", rows: 1 };
    assert_eq!(collect.overview().losses().all(), [lost]);
    assert!(TOLD.lock().unwrap()[0].contains("on purpose"), "{TOLD:?}");
    deliver.send(true).unwrap();
    await_until(|| status.is_up() && recorder.rows() == 1);
    drop(deliver);
    collect.stop();
    let recorded = recorder.finish().unwrap();
    assert_eq!(recorded.files.iter().map(|file| file.rows).sum::<u64>(), 1);
    assert!(!status.is_up(), "it has ended");
}

#[test]
fn a_recorder_that_ends_with_its_first_failure_gives_a_panic_as_its_error() {
    let out = tempfile::tempdir().unwrap();
    let mut collect = Collect::new(Clock::measure());
    let recorder = Recorder::start(Tap::new(&mut collect), options(out.path(), None)).unwrap();
    let (deliver, told) = channel();
    collect.start(Box::new(Fragile(told))).unwrap();
    deliver.send(false).unwrap();
    await_until(|| recorder.has_failed());
    drop(deliver);
    collect.stop();
    assert!(recorder.finish().unwrap_err().to_string().contains("on purpose"));
}

fn await_until(is_so: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(20);
    while !is_so() {
        assert!(Instant::now() < until, "it did not come to be");
        std::thread::yield_now();
    }
}
