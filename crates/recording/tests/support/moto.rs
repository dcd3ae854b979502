//! moto's S3 server, as `make readers` installs it.
#![allow(unsafe_code, clippy::unwrap_used)] // the environment is where keys come from; a helper of a test may fail it

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub(crate) fn tool(name: &str) -> PathBuf {
    let path =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/readers/bin")).join(name);
    assert!(path.exists(), "{name} is not installed; run: make readers");
    path
}

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

/// Tells the store's library where the server is, and keys.
pub(crate) fn keys(address: &str) {
    for (name, value) in [
        ("AWS_ENDPOINT_URL", address),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ACCESS_KEY_ID", "k"),
        ("AWS_SECRET_ACCESS_KEY", "s"),
        ("AWS_REGION", "us-east-1"),
    ] {
        // SAFETY: this is called by the only test of its program, and no other thread reads the environment yet.
        unsafe { std::env::set_var(name, value) };
    }
}
