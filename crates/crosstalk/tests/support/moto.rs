//! A bucket in moto's S3 server.

#[path = "../../../recording/tests/support/moto.rs"]
mod server;

use server::{moto, tool};
use std::process::Command;

/// A server with a bucket called `cluster`.
pub(crate) struct Moto {
    _server: server::Moto,
    address: String,
}

const MAKE: &str = r#"
import boto3
boto3.client("s3").create_bucket(Bucket="cluster")
"#;

/// Every object below a prefix with its rows, 0 for what is no Parquet.
const OBJECTS: &str = r#"
import boto3, io, sys
import pyarrow.parquet
s3 = boto3.client("s3")
for page in s3.get_paginator("list_objects_v2").paginate(Bucket="cluster", Prefix=sys.argv[1]):
    for one in page.get("Contents", []):
        body = s3.get_object(Bucket="cluster", Key=one["Key"])["Body"].read()
        is_parquet = one["Key"].endswith(".parquet")
        print(one["Key"], pyarrow.parquet.ParquetFile(io.BytesIO(body)).metadata.num_rows if is_parquet else 0)
"#;

impl Moto {
    pub(crate) fn start() -> Self {
        let (server, address) = moto();
        let server = Self { _server: server, address };
        server.python(MAKE, "");
        server
    }

    /// What a command needs to find it.
    pub(crate) fn keys(&self) -> [(&'static str, String); 6] {
        server::keys(&self.address)
    }

    /// The objects below a prefix, and how many rows each has.
    pub(crate) fn objects(&self, prefix: &str) -> Vec<(String, u64)> {
        let one = |line: &str| {
            let (name, rows) = line.rsplit_once(' ')?;
            Some((name.to_owned(), rows.parse().ok()?))
        };
        self.python(OBJECTS, prefix).lines().filter_map(one).collect()
    }

    fn python(&self, script: &str, argument: &str) -> String {
        let mut command = Command::new(tool("python"));
        let output = super::succeed(command.args(["-c", script, argument]).envs(self.keys()));
        String::from_utf8(output.stdout).expect("UTF-8")
    }
}
