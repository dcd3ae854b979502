//! A registry of one image on the loopback that speaks the distribution API and wants to know who asks.
#![allow(dead_code, clippy::unwrap_used, unreachable_pub)]

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

/// `ct:s3cret`, as HTTP wants it.
const BASIC: &str = "Basic Y3Q6czNjcmV0";
const TOKEN: &str = "a-token-for-one-pull";
const MANIFEST: &str = "application/vnd.docker.distribution.manifest.v2+json";

/// How it is asked who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// By name and password, each time.
    Basic,
    /// By a token that name and password are good for.
    Bearer,
    /// Not at all; but what is in an image never comes.
    Stalling,
}

pub struct Registry {
    pub port: u16,
    /// What was asked for, and with what authorisation.
    asked: Arc<Mutex<Vec<(String, String)>>>,
}

struct Served {
    port: u16,
    access: Access,
    /// Blobs and manifests by path, with their type.
    files: HashMap<String, (String, Vec<u8>)>,
    digest: String,
}

fn sha256(path: &Path) -> String {
    let output = Command::new("sha256sum").arg(path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    format!("sha256:{}", text.split(' ').next().unwrap())
}

impl Registry {
    /// Serves `private/counter:1`, whose only layer is the tar file.
    pub fn start(layer: &Path, folder: &Path, access: Access) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let zipped = folder.join("layer.tar.gz");
        let gzip = Command::new("gzip").arg("-c").arg(layer).output().unwrap();
        fs::write(&zipped, gzip.stdout).unwrap();
        let machine = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
        let config = folder.join("config.json");
        let about = serde_json::json!({
            "architecture": machine, "os": "linux", "config": {},
            "rootfs": {"type": "layers", "diff_ids": [sha256(layer)]},
        });
        fs::write(&config, about.to_string()).unwrap();
        let size = |path: &Path| path.metadata().unwrap().len();
        let manifest = folder.join("manifest.json");
        let about = serde_json::json!({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": {"mediaType": "application/vnd.docker.container.image.v1+json",
                       "size": size(&config), "digest": sha256(&config)},
            "layers": [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
                        "size": size(&zipped), "digest": sha256(&zipped)}],
        });
        fs::write(&manifest, about.to_string()).unwrap();
        let mut files = HashMap::new();
        for (path, kind) in [(&config, "application/json"), (&zipped, "application/octet-stream")] {
            let place = format!("/v2/private/counter/blobs/{}", sha256(path));
            files.insert(place, (kind.to_owned(), fs::read(path).unwrap()));
        }
        let digest = sha256(&manifest);
        for reference in ["1", &digest] {
            let place = format!("/v2/private/counter/manifests/{reference}");
            files.insert(place, (MANIFEST.to_owned(), fs::read(&manifest).unwrap()));
        }
        let served = Arc::new(Served { port, access, files, digest });
        let asked: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
        let log = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (served, log) = (Arc::clone(&served), Arc::clone(&log));
                std::thread::spawn(move || served.answer(stream, &log));
            }
        });
        Self { port, asked }
    }

    /// Waits until something was asked for whose path has this in it.
    pub fn wait_for(&self, part: &str) {
        while !self.asked.lock().unwrap().iter().any(|(path, _)| path.contains(part)) {
            crate::engine::pace(std::time::Duration::from_millis(20));
        }
    }

    /// Who was seen, over all requests.
    pub fn authorisations(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        let mut all: Vec<String> = asked.iter().map(|(_, who)| who.clone()).collect();
        all.sort();
        all.dedup();
        all
    }
}

impl Served {
    fn answer(&self, mut stream: TcpStream, log: &Mutex<Vec<(String, String)>>) {
        let mut text = Vec::new();
        let mut buffer = [0; 4096];
        while !text.windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read(&mut buffer) {
                Ok(length @ 1..) => text.extend(&buffer[..length]),
                _ => return,
            }
            // An engine tries TLS first; told that this is none, it asks plainly.
            if text[0] == 0x16 {
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
                return;
            }
        }
        let head = String::from_utf8_lossy(&text).into_owned();
        let mut words = head.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let path = target.split('?').next().unwrap_or_default().to_owned();
        let who = head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case("authorization").then(|| value.trim().to_owned())
        });
        let who = who.unwrap_or_default();
        log.lock().unwrap().push((path.clone(), who.clone()));
        if self.access == Access::Stalling && path.contains("/blobs/") {
            // Until whoever asked has gone.
            while let Ok(1..) = stream.read(&mut buffer) {}
            return;
        }
        let (status, headers, body) = self.reply(&path, &who);
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\n{headers}Docker-Distribution-Api-Version: registry/2.0\r\n\
             Content-Length: {length}\r\nConnection: close\r\n\r\n"
        );
        let _ = stream.write_all(head.as_bytes());
        if method != "HEAD" {
            let _ = stream.write_all(&body);
        }
    }

    fn reply(&self, path: &str, who: &str) -> (&'static str, String, Vec<u8>) {
        let json =
            |text: String| ("200 OK", "Content-Type: application/json\r\n".to_owned(), text.into());
        let is_known = who == BASIC;
        if path == "/token" {
            return match is_known {
                true => json(format!("{{\"token\":\"{TOKEN}\"}}")),
                false => ("401 Unauthorized", String::new(), Vec::new()),
            };
        }
        let may = match self.access {
            Access::Basic => is_known,
            Access::Stalling => true,
            Access::Bearer => who == format!("Bearer {TOKEN}"),
        };
        if !may {
            let ask = match self.access {
                Access::Basic | Access::Stalling => "Basic realm=\"stand-in\"".to_owned(),
                Access::Bearer => {
                    format!("Bearer realm=\"http://127.0.0.1:{}/token\",service=\"s\"", self.port)
                }
            };
            return ("401 Unauthorized", format!("WWW-Authenticate: {ask}\r\n"), Vec::new());
        }
        match self.files.get(path) {
            Some((kind, bytes)) => {
                let digest = &self.digest;
                let mut headers = format!("Content-Type: {kind}\r\n");
                if path.contains("/manifests/") {
                    headers += &format!("Docker-Content-Digest: {digest}\r\n");
                }
                ("200 OK", headers, bytes.clone())
            }
            None if path == "/v2/" => json("{}".to_owned()),
            None => ("404 Not Found", String::new(), Vec::new()),
        }
    }
}
