//! TLS, a token and client certificates, as an operator sets them.

use crate::process::{crosstalk, until};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// An agent that is killed when dropped, and the first line of what it says.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn certificate(folder: &Path, name: &str) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"])
        .args(["-nodes", "-days", "2", "-subj", "/CN=test"])
        .args(["-addext", "subjectAltName=IP:127.0.0.1"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .arg("-keyout")
        .arg(folder.join(format!("{name}.key")))
        .arg("-out")
        .arg(folder.join(format!("{name}.pem")))
        .stderr(Stdio::null())
        .status();
    assert!(made.unwrap().success());
}

/// The status line of an answer, asked by OpenSSL's own client; empty if there was none.
fn ask(address: &str, folder: &Path, path: &str, token: &str, identity: Option<&str>) -> String {
    let mut client = Command::new("openssl");
    client.args(["s_client", "-quiet", "-verify_return_error", "-connect", address, "-CAfile"]);
    client.arg(folder.join("server.pem"));
    if let Some(name) = identity {
        client.arg("-cert").arg(folder.join(format!("{name}.pem")));
        client.arg("-key").arg(folder.join(format!("{name}.key")));
    }
    let pipes = client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut client = Running(pipes.spawn().unwrap());
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    let mut input = client.0.stdin.take().unwrap();
    let _ = input.write_all(request.as_bytes());
    let mut line = String::new();
    BufReader::new(client.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    line.trim().to_owned()
}

#[test]
fn an_agent_with_tls_a_token_and_client_certificates_answers_who_has_them() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path();
    certificate(folder, "server");
    certificate(folder, "friend");
    std::fs::write(folder.join("token"), "first\n").unwrap();
    let config = folder.join("agent.yaml");
    let path = folder.display();
    let text = format!(
        "listen: 127.0.0.1:0\nhttp:\n  tls_cert: {path}/server.pem\n  tls_key: {path}/server.key\n  \
         client_ca: {path}/friend.pem\n  bearer_token_file: {path}/token\n"
    );
    std::fs::write(&config, text).unwrap();
    let mut command = crosstalk();
    command.arg("--config").arg(&config).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut agent = Running(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(agent.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit("https://").next().unwrap().to_owned();
    let metrics = |token, identity| ask(&address, folder, "/metrics", token, identity);
    assert_eq!(metrics("first", Some("friend")), "HTTP/1.1 200 OK");
    assert_eq!(metrics("wrong", Some("friend")), "HTTP/1.1 401 Unauthorized");
    assert_eq!(metrics("first", None), "HTTP/1.1 403 Forbidden");
    assert_eq!(ask(&address, folder, "/healthz", "", None), "HTTP/1.1 200 OK");
    std::fs::write(folder.join("token"), "second\n").unwrap();
    until(|| metrics("second", Some("friend")) == "HTTP/1.1 200 OK").unwrap();
    assert_eq!(metrics("first", Some("friend")), "HTTP/1.1 401 Unauthorized");
}

#[test]
fn listening_beyond_loopback_in_clear_text_is_warned_of() {
    let mut command = crosstalk();
    command.args(["--listen", "0.0.0.0:0"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut agent = Running(command.env_remove("RUST_LOG").spawn().unwrap());
    let mut log = agent.0.stderr.take().unwrap();
    // It warns before it says where it listens.
    BufReader::new(agent.0.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    drop(agent);
    let mut said = String::new();
    log.read_to_string(&mut said).unwrap();
    assert!(said.contains("without TLS") && said.contains("anybody who reaches it"), "{said}");
}
