//! A recording in an S3 bucket is read as one in a folder is: by moto's server, as `make readers` installs it.
#![allow(clippy::unwrap_used, unsafe_code)] // the environment is where keys come from

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use crosstalk_model::{Row, SlotCoverage, Table};
use crosstalk_recording::{Format, Layout, Metadata, Reader, Recording, RecordingOptions, Run};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const START: u64 = 1_794_779_000_000_000_000;
const SLOT: u64 = 1_000_000;

fn tool(name: &str) -> PathBuf {
    let path =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/readers/bin")).join(name);
    assert!(path.exists(), "{name} is not installed; run: make readers");
    path
}

struct Moto(Child);

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server on a free port, and its address.
fn moto() -> (Moto, String) {
    let mut child = Command::new(tool("moto_server"))
        .args(["-H", "127.0.0.1", "-p", "0"])
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let server = Moto(child);
    let address = lines
        .find_map(|line| Some(format!("http://{}", line.unwrap().split_once("http://")?.1.trim())))
        .expect("it says where it listens");
    // Whoever stops reading would stop it in the end.
    std::thread::spawn(move || lines.for_each(drop));
    (server, address)
}

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
    for (name, value) in [
        ("AWS_ENDPOINT_URL", address.as_str()),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ACCESS_KEY_ID", "k"),
        ("AWS_SECRET_ACCESS_KEY", "s"),
        ("AWS_REGION", "us-east-1"),
    ] {
        // SAFETY: this is the only test of its program, and no other thread reads the environment yet.
        unsafe { std::env::set_var(name, value) };
    }
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
