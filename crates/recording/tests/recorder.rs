//! The recorder: everything that is delivered is in files, or counted as lost.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

use crosstalk_collect::{About, Collect, Loss, Outlet, Source};
use crosstalk_host::{Capability, Clock, Verdict};
use crosstalk_model::{Row, SlotCoverage};
use crosstalk_recording::{
    Format, Layout, Metadata, Reader, Recorder, RecorderOptions, RecordingOptions, Tap,
};
use std::fs;
use std::path::Path;
use std::time::Duration;

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
        metadata: Metadata::default(),
        always: vec![SlotCoverage::DATASET],
        retry,
        on_error: |_| {},
    }
}

#[test]
fn what_was_delivered_is_read_back_with_what_was_lost_and_what_the_source_said() {
    let out = tempfile::tempdir().unwrap();
    let mut collect = Collect::new(Clock::measure());
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
    assert_eq!(about.get("speciality"), Some(&"slots".into()));
    let loss = serde_json::json!([{ "dataset": "slots", "place": "kernel ring", "rows": 3 }]);
    assert_eq!(about.get("loss"), Some(&loss));
    assert!(about.get("slots_absent_because").unwrap().is_null());
    assert!(about.get("clock").unwrap()["steps"].is_array());
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
