//! A file that was sent before a crash is not read twice, whatever was merged since: by moto's server, as `make readers`
//! installs it.
#![allow(clippy::unwrap_used)]

use crosstalk_model::{Row, SlotCoverage, Table};
use crosstalk_recording::{
    COMPACTED_FROM, Destination, Exchange, Format, Layout, Metadata, ParquetFile, Patience, Reader,
    Recording, RecordingOptions, Run, settle, upload,
};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

#[path = "support/moto.rs"]
mod moto;

const START: u64 = 1_794_779_000_000_000_000;
const SLOT: u64 = 1_000_000;
const ROWS: u64 = 1000;
const URL: &str = "s3://cluster/rec";

/// Records, and answers the files that wait to be sent.
fn record(to: &Destination, node: &str, format: Format) -> Vec<PathBuf> {
    let options = RecordingOptions {
        out: to.folder().to_owned(),
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
    let path = recording.finish().unwrap().remove(0).path;
    match format {
        Format::Csv => vec![path.with_extension("json"), path],
        Format::Parquet => vec![path],
    }
}

fn rows_there() -> u64 {
    let reader = Reader::open([URL]).unwrap();
    let scan = reader.scan("slots").columns(["slot_start_ns"]);
    scan.pieces().map(|piece| piece.unwrap().batch.num_rows() as u64).sum()
}

fn python(text: &str, arguments: &[&str]) {
    let python = Command::new(moto::tool("python")).args(["-c", text]).args(arguments).status();
    assert!(python.unwrap().success());
}

const MAKE: &str = "import boto3, os; \
    boto3.client('s3', endpoint_url=os.environ['AWS_ENDPOINT_URL'], region_name='us-east-1')\
    .create_bucket(Bucket='cluster')";
const REMOVE: &str = "import boto3, os, sys; \
    boto3.client('s3', endpoint_url=os.environ['AWS_ENDPOINT_URL'], region_name='us-east-1')\
    .delete_object(Bucket='cluster', Key=sys.argv[1])";

/// Puts one object in the place of all that the bucket has of a node, as compaction does.
fn merge(node: &str, here: &Path) {
    let reader = Reader::open([URL]).unwrap().only(|file| file.node == node);
    let scan = reader.scan("slots");
    let pieces: Vec<_> = scan.pieces().map(Result::unwrap).collect();
    let base = |path: &str| path.rsplit('/').next().unwrap().to_owned();
    let names: Vec<String> = reader.files().iter().map(|file| base(&file.path)).collect();
    let about = reader.files()[0].metadata().unwrap().with(COMPACTED_FROM, names);
    let merged = here.join("slots-merged.parquet");
    let mut file = ParquetFile::create(&merged, &pieces[0].batch.schema(), &about).unwrap();
    pieces.iter().for_each(|piece| file.write(&piece.batch).unwrap());
    file.finish().unwrap();
    let old: Vec<_> = reader.files().iter().collect();
    let (folder, _) = old[0].path.split_once("/hour=").unwrap();
    let folder = folder.strip_prefix("s3://cluster/").unwrap();
    let mut exchange = Exchange::begin(old[0], folder).unwrap().unwrap();
    exchange.put(&merged).unwrap();
    exchange.commit(&old).unwrap();
}

#[test]
fn what_was_sent_before_a_crash_and_merged_since_is_not_sent_again() {
    let (spool, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (_server, address) = moto::moto();
    moto::take_keys(&address);
    python(MAKE, &[]);
    let to = Destination::new(URL, spool.path()).unwrap();
    let mut rows = 0;
    for (node, format) in [("a b", Format::Parquet), ("c", Format::Csv)] {
        let files = record(&to, node, format);
        let copies: Vec<Vec<u8>> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
        upload(to.upload(|_| {}).unwrap()).unwrap();
        rows += ROWS;
        // As a crash leaves it: sent, and still here.
        let again = |when: &str| {
            for (file, bytes) in files.iter().zip(&copies) {
                std::fs::write(file, bytes).unwrap();
            }
            let sent = upload(to.upload(|_| {}).unwrap()).unwrap();
            assert_eq!((sent.left, sent.error), (0, None), "{node}, {when}");
            assert!(files.iter().all(|file| !file.exists()), "{node}, {when}");
            assert_eq!(rows_there(), rows, "{node}, {when}");
        };
        again("before it was merged");
        merge(node, here.path());
        again("merged, and the old object is left to its readers");
        for file in &files {
            let place = to.place(file);
            python(REMOVE, &[place.strip_prefix("s3://cluster/").unwrap()]);
        }
        again("the old object is gone, and the note is not");
        let now = Patience { readers: Duration::ZERO, unfinished: Duration::ZERO };
        assert!(settle(URL, now).unwrap().is_empty());
        again("only the merged object is left");
    }
    // What never was there is sent, merged neighbours or not.
    record(&to, "d", Format::Parquet);
    upload(to.upload(|_| {}).unwrap()).unwrap();
    assert_eq!(rows_there(), rows + ROWS);
}
