//! Finished files go into a bucket, whatever happens on the way: by moto's server, as `make readers` installs it.
#![allow(clippy::unwrap_used)]

use crosstalk_model::{Row, SlotCoverage, Table};
use crosstalk_recording::{
    Destination, Error, Format, Layout, Metadata, Reader, Recording, RecordingOptions, Run,
    recover, upload,
};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

#[path = "support/moto.rs"]
mod moto;

const START: u64 = 1_794_779_000_000_000_000;
const SLOT: u64 = 1_000_000;
const ROWS: u64 = 1000;

fn recording(out: &Path, node: &str, format: Format) -> Recording {
    let options = RecordingOptions {
        out: out.to_owned(),
        append: true,
        format,
        layout: Layout::Hive,
        rotate_bytes: u64::MAX,
        rotate_after: Duration::MAX,
    };
    let run = Run::new(node, START);
    let (mut recording, _) = Recording::create(options, run, Metadata::default()).unwrap();
    recording.open(SlotCoverage::DATASET, START).unwrap();
    let rows: Vec<SlotCoverage> =
        (0..ROWS).map(|i| SlotCoverage::lost(START + i * SLOT, 0, 0)).collect();
    recording.write(Table::of(rows.iter().collect())).unwrap();
    recording
}

fn rows_in(url: &str) -> u64 {
    let reader = Reader::open([url]).unwrap();
    let scan = reader.scan("slots").columns(["slot_start_ns"]);
    scan.pieces().map(|piece| piece.unwrap().batch.num_rows() as u64).sum()
}

/// Files of ours below a folder.
fn files(folder: &Path) -> usize {
    let found = Command::new("find").arg(folder).args(["-type", "f"]).output().unwrap();
    String::from_utf8_lossy(&found.stdout).lines().count()
}

static TOLD: AtomicUsize = AtomicUsize::new(0);

fn count(_: &Error) {
    TOLD.fetch_add(1, Ordering::Relaxed);
}

#[test]
fn every_row_reaches_the_bucket_through_a_dead_store_and_a_crash() {
    let spool = tempfile::tempdir().unwrap();
    let (server, address) = moto::moto();
    moto::take_keys(&address);
    let make = "import boto3, os; \
         boto3.client('s3', endpoint_url=os.environ['AWS_ENDPOINT_URL'], region_name='us-east-1')\
         .create_bucket(Bucket='cluster')";
    assert!(Command::new(moto::tool("python")).args(["-c", make]).status().unwrap().success());
    let to = Destination::new("s3://cluster/rec", spool.path()).unwrap();
    to.check(false).unwrap();

    // As it should be: finished, sent, gone from here.
    let uploader = to.uploader(count).unwrap().unwrap();
    for (node, format) in [("a", Format::Parquet), ("b", Format::Csv)] {
        let finished = recording(to.folder(), node, format).finish().unwrap();
        assert!(to.place(&finished[0].path).starts_with("s3://cluster/rec/slots/node="));
    }
    let uploaded = uploader.finish();
    assert_eq!((uploaded.files, uploaded.left), (3, 0), "a CSV has its metadata beside it");
    assert_eq!((rows_in("s3://cluster/rec"), files(to.folder())), (2 * ROWS, 0));
    to.check(true).unwrap();
    assert!(to.check(false).unwrap_err().to_string().contains("--append"));

    // A crash leaves a part and a finished file that may have been sent already: both come whole, once.
    let before = recording(to.folder(), "c", Format::Parquet).finish().unwrap();
    let copy = spool.path().join("copy");
    std::fs::copy(&before[0].path, &copy).unwrap();
    upload(to.upload(count).unwrap()).unwrap();
    std::fs::rename(&copy, &before[0].path).unwrap();
    let killed = recording(to.folder(), "d", Format::Parquet);
    drop(killed);
    let recovered = recover(to.folder());
    assert_eq!((recovered.files.len(), recovered.failed.len()), (1, 0), "{recovered:?}");
    let resumed = upload(to.upload(count).unwrap()).unwrap();
    assert_eq!((resumed.files, resumed.left), (2, 0), "{resumed:?}");
    assert_eq!(rows_in("s3://cluster/rec"), 4 * ROWS);

    // A store that denies keeps nothing, loses nothing, and is told about once.
    let nowhere = Destination::new("s3://nobody/rec", spool.path()).unwrap();
    recording(nowhere.folder(), "e", Format::Parquet).finish().unwrap();
    let told = nowhere.check(true).unwrap_err().to_string();
    assert!(told.contains("s3://nobody") && !told.contains('<'), "{told}");
    let refused = upload(nowhere.upload(count).unwrap()).unwrap();
    assert_eq!((refused.files, refused.left), (0, 1));
    let why = refused.error.unwrap();
    assert!(why.contains("s3://nobody/rec/slots/node=e/"), "{why}");
    assert_eq!((TOLD.load(Ordering::Relaxed), files(nowhere.folder())), (1, 1));

    // What waits is bounded.
    let mut full = nowhere.upload(count).unwrap();
    full.most_bytes = 10;
    let given_up = upload(full).unwrap();
    assert_eq!((given_up.given_up, given_up.left), (1, 0));
    drop(server);
}
