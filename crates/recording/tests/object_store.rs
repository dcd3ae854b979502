//! A recording in an S3 bucket is read as one in a folder is: by moto's server, as `make readers` installs it.
#![allow(clippy::unwrap_used)]

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use crosstalk_model::{Row, SlotCoverage, Table};
use crosstalk_recording::{Format, Layout, Metadata, Reader, Recording, RecordingOptions, Run};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

#[path = "support/moto.rs"]
mod moto;

use moto::{moto, tool};

const START: u64 = 1_794_779_000_000_000_000;
const SLOT: u64 = 1_000_000;

fn record(out: &Path, node: &str, format: Format) {
    let options = RecordingOptions {
        out: out.to_owned(),
        append: true,
        format,
        layout: Layout::Hive,
        rotate_bytes: u64::MAX,
        rotate_after: Duration::MAX,
    };
    let (mut recording, _) =
        Recording::create(options, Run::new(node, START), Metadata::default()).unwrap();
    recording.open(SlotCoverage::DATASET, START).unwrap();
    let row =
        |i: u64| SlotCoverage { idle_ns: Some(i), ..SlotCoverage::lost(START + i * SLOT, 0, 0) };
    let rows: Vec<SlotCoverage> = (0..1000).map(row).collect();
    recording.write(Table::of(rows.iter().collect())).unwrap();
    recording.finish().unwrap();
}

const UPLOAD: &str = r#"
import boto3, os, sys
s3 = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], region_name="us-east-1")
s3.create_bucket(Bucket="cluster")
for folder, _, files in os.walk(sys.argv[1]):
    for name in files:
        path = os.path.join(folder, name)
        s3.upload_file(path, "cluster", "rec/" + os.path.relpath(path, sys.argv[1]))
"#;

#[test]
fn two_nodes_in_a_bucket_are_read_with_columns_and_time_pushed_down() {
    let folder = tempfile::tempdir().unwrap();
    record(folder.path(), "a", Format::Parquet);
    record(folder.path(), "b", Format::Csv);
    let (_server, address) = moto();
    moto::take_keys(&address);
    let upload =
        Command::new(tool("python")).args(["-c", UPLOAD]).arg(folder.path()).output().unwrap();
    assert!(upload.status.success(), "{}", String::from_utf8_lossy(&upload.stderr));

    let reader = Reader::open(["s3://cluster/rec"]).unwrap();
    let nodes: Vec<&str> = reader.files().iter().map(|file| file.node.as_str()).collect();
    assert_eq!(nodes, ["a", "b"]);
    assert!(
        reader.files()[0].path.starts_with("s3://cluster/rec/slots/node=a/"),
        "{:?}",
        reader.files()[0]
    );
    let about = reader.files()[0].metadata().unwrap();
    assert_eq!(about.get("node"), Some(&"a".into()));
    let scan =
        reader.scan("slots").columns(["idle_ns"]).between(START + 10 * SLOT..START + 13 * SLOT);
    for piece in scan.pieces() {
        let piece = piece.unwrap();
        assert_eq!(piece.batch.num_columns(), 1);
        assert_eq!(piece.batch.column(0).as_primitive::<Int64Type>().values(), &[10, 11, 12]);
    }
    assert_eq!(scan.pieces().count(), 2);
    let error = Reader::open(["s3://nobody/rec"]).unwrap_err().to_string();
    assert!(error.contains("s3://nobody"), "{error}");
}
