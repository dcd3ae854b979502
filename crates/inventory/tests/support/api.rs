//! An API server that lists pods and falls silent.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Answers a list, and every watch with its head and then nothing; the requests it got.
pub fn silent_server(pods: &str) -> (String, Arc<Mutex<Vec<String>>>) {
    let pods = pods.to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&requests);
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let mut lines =
                BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            let Some(request) = lines.next() else { continue };
            while lines.next().is_some_and(|line| !line.is_empty()) {}
            if request.contains("watch=true") {
                stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n").unwrap();
                silent.push(stream);
            } else {
                let length = pods.len();
                let head =
                    format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}");
                stream.write_all(format!("{head}\r\n\r\n{pods}").as_bytes()).unwrap();
            }
            seen.lock().unwrap().push(request);
        }
    });
    (address, requests)
}

/// A kubeconfig that leads to `server`.
pub fn kubeconfig(folder: &Path, server: &str) -> PathBuf {
    let file = folder.join("kubeconfig");
    let text = format!(
        "current-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: ''}}}}]\n\
         clusters: [{{name: k, cluster: {{server: '{server}'}}}}]\n"
    );
    std::fs::write(&file, text).unwrap();
    file
}
