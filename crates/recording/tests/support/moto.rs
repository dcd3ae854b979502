//! moto's S3 server, as `make readers` installs it.
#![allow(unsafe_code, clippy::unwrap_used)] // the environment is where keys come from; a helper of a test may fail it
#![allow(dead_code)] // each test file uses its own part

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A tool that `make readers` installs.
pub(crate) fn tool(name: &str) -> PathBuf {
    let path =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/readers/bin")).join(name);
    assert!(path.exists(), "{name} is not installed; run: make readers");
    path
}

/// The server, which ends with the test.
pub(crate) struct Moto(Child);

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server on a free port, and its address.
pub(crate) fn moto() -> (Moto, String) {
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

/// What a program needs to find the server: where it is, and keys.
pub(crate) fn keys(address: &str) -> [(&'static str, String); 6] {
    [
        ("AWS_ENDPOINT_URL", address.to_owned()),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
        ("AWS_ACCESS_KEY_ID", "k".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "s".to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_DEFAULT_REGION", "us-east-1".to_owned()),
    ]
}

/// Tells this program.
pub(crate) fn take_keys(address: &str) {
    for (name, value) in keys(address) {
        // SAFETY: this is called by the only test of its program, and no other thread reads the environment yet.
        unsafe { std::env::set_var(name, value) };
    }
}
