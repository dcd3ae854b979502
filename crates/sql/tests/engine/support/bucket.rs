//! Recordings of two nodes, as folders and in a bucket.

use super::{Moto, files, keys, moto, printed, simulate, tool, upload};
use crosstalk_recording::Format;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Two nodes with a file of Parquet of each data set in one folder, and in another one of CSV each, as if the recorder had
/// begun a new file.
pub(crate) fn of_two_files_each_in(first: &Path, second: &Path) {
    let more = tempfile::tempdir().unwrap();
    simulate(first, 2, 3, Format::Parquet);
    simulate(more.path(), 2, 4, Format::Csv);
    for ending in [".csv", ".json"] {
        for file in files(more.path(), ending) {
            let name = file.file_name().unwrap().to_str().unwrap();
            let name = name.replace("000000.000Z", "000001.000Z");
            let there = second.join(file.strip_prefix(more.path()).unwrap()).with_file_name(name);
            fs::create_dir_all(there.parent().unwrap()).unwrap();
            fs::copy(&file, there).unwrap();
        }
    }
}

/// The same in one folder.
pub(crate) fn of_two_files_each(out: &Path) {
    of_two_files_each_in(out, out);
}

/// The same in a bucket.
pub(crate) fn bucket() -> (Moto, String) {
    let out = tempfile::tempdir().unwrap();
    of_two_files_each(out.path());
    let (server, address) = moto();
    upload(out.path(), &address);
    (server, address)
}

const NAMES: &str = r#"
import boto3, os
s3 = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], region_name="us-east-1")
for page in s3.get_paginator("list_objects_v2").paginate(Bucket="cluster"):
    for one in page.get("Contents", []):
        print(one["Key"])
"#;

/// What is in the bucket, of data sets: what the simulator says of the truth is none.
pub(crate) fn names(address: &str) -> Vec<String> {
    let names = printed(Command::new(tool("python")).args(["-c", NAMES]).envs(keys(address)));
    names.lines().filter(|name| !name.contains("/labels/")).map(str::to_owned).collect()
}
