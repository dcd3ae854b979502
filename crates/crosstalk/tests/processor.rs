//! `crosstalk processor` as a user types it.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use support::*;

fn processor(args: &[&str]) -> Command {
    let mut command = crosstalk();
    command.arg("processor").args(args);
    command
}

fn error_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A processor that listens, killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a processor with its data in `folder`, and waits until its log says that it listens. Gives the log so far.
fn start(folder: &Path) -> (Running, String) {
    let data = folder.to_str().expect("UTF-8");
    start_with(&["--data-dir", data, "--store", "http://127.0.0.1:9/write"])
}

/// Starts a processor on a free port, and waits until its log says that it listens. Gives the log so far.
fn start_with(args: &[&str]) -> (Running, String) {
    let mut command = processor(&["--listen", "127.0.0.1:0"]);
    command.args(args).stdout(Stdio::null()).stderr(Stdio::piped()).env_remove("RUST_LOG");
    let mut running = Running(command.spawn().expect("the command starts"));
    let mut log = BufReader::new(running.0.stderr.take().expect("a pipe"));
    let mut text = String::new();
    while !text.contains("listening") {
        assert_ne!(log.read_line(&mut text).expect("a readable log"), 0, "ended with: {text}");
    }
    // Whatever it logs from here on must not block it.
    std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
    (running, text)
}

#[test]
fn an_explanation_nobody_reads_to_the_end_ends_quietly() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("train.log");
    std::fs::write(&log, "step: 1 loss: 2.5\n".repeat(100_000)).unwrap();
    let mut command = processor(&["explain-log", "--json", log.to_str().unwrap()]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(error_of(&output), "");
}

#[test]
fn a_log_is_followed_to_a_processor_that_is_configured_in_yaml() {
    let folder = tempfile::tempdir().unwrap();
    let (config, log) = (folder.path().join("config.yaml"), folder.path().join("llama.log"));
    let data = folder.path().join("data");
    std::fs::write(&config, format!("data_dir: {}\nretention: 90d\n", data.display())).unwrap();
    std::fs::write(&log, "step: 1 loss: 2.5\nstep: 2 loss: 2.4\n").unwrap();
    let (_running, said) = start_with(&["--config", config.to_str().unwrap()]);
    let address = said.split("address=").nth(1).and_then(|rest| rest.split_whitespace().next());
    let to = format!("http://{}", address.unwrap_or_else(|| panic!("{said}")));
    let state = folder.path().join("state");
    let args = ["follow", log.to_str().unwrap(), "--to", &to, "--once", "--namespace", "ml"];
    for _ in 0..2 {
        let output = processor(&args).arg("--state-dir").arg(&state).output().unwrap();
        assert!(output.status.success(), "{}", error_of(&output));
    }
    let answer = Command::new("curl").args(["-s", &format!("{to}/workloads")]).output().unwrap();
    let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
    assert!(answer.contains("ml:llama") && answer.contains("\"last_iteration\":2"), "{answer}");
    let output = processor(&["follow", "/no/such.log", "--once"]).output().unwrap();
    assert!(error_of(&output).contains("/no/such.log"), "{}", error_of(&output));
    assert!(!output.status.success());
}

#[test]
fn a_log_that_no_terminal_shows_has_no_colours() {
    let folder = tempfile::tempdir().unwrap();
    let (_running, log) = start(folder.path());
    assert!(!log.contains('\u{1b}'), "{log:?}");
}

#[test]
fn a_queue_in_use_is_said_once() {
    let folder = tempfile::tempdir().unwrap();
    let (_running, _) = start(folder.path());
    let data = folder.path().to_str().unwrap();
    let mut second = processor(&["--listen", "127.0.0.1:0", "--data-dir", data]);
    let output = second.args(["--store", "http://127.0.0.1:9/write"]).output().unwrap();
    let error = error_of(&output);
    let last = error.lines().last().unwrap_or_default();
    assert_eq!(last.matches("another process uses this queue").count(), 1, "{error}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_check_finds_bad_databases_and_missing_files_and_shows_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let check = |args: &[&str], variable: Option<(&str, &str)>| {
        let mut command = processor(&["--check", "--data-dir", data]);
        command.args(args);
        command.envs(variable.map(|(name, value)| (format!("CROSSTALK_PROCESSOR_{name}"), value)));
        let output = command.output().unwrap();
        (output.status.success(), error_of(&output))
    };
    assert_eq!(check(&[], None), (true, String::new()));
    let (good, error) = check(&["--database", "foo://me:s3cret@db/x"], None);
    assert!(!good && error.contains("foo") && !error.contains("s3cret"), "{error}");
    let (good, error) = check(&["--pods", "/no/such/pods.yaml"], None);
    assert!(!good && error.contains("/no/such/pods.yaml"), "{error}");
    let token = Some(("LISTENER__BEARER_TOKEN", "98765432101"));
    assert_eq!(check(&[], token), (true, String::new()));
    let (good, error) = check(&[], Some(("LISTENER", "bearer_token = 98765432101 x")));
    assert!(!good && !error.contains("98765432101"), "{error}");
}

#[test]
fn the_help_names_the_folder_that_is_used() {
    let output = processor(&["--help"]).output().unwrap();
    let help = String::from_utf8_lossy(&output.stdout).into_owned();
    let default = crosstalk_processor::Config::default().data_dir;
    assert!(help.contains(&format!("./{}", default.display())), "{help}");
}

#[test]
fn a_service_of_its_name_and_a_variable_that_is_not_text_do_not_stop_it() {
    use std::os::unix::ffi::OsStrExt;
    let folder = tempfile::tempdir().unwrap();
    for service in ["processor", "agent"] {
        let mut command = crosstalk();
        command.args([service, "--check"]).current_dir(folder.path());
        let prefix = format!("CROSSTALK_{}", service.to_uppercase());
        for (name, value) in [
            ("SERVICE_HOST", "10.0.0.7"),
            ("SERVICE_PORT", "8989"),
            ("SERVICE_PORT_HTTP", "8989"),
            ("PORT", "tcp://10.0.0.7:8989"),
            ("PORT_8989_TCP", "tcp://10.0.0.7:8989"),
            ("PORT_8989_TCP_ADDR", "10.0.0.7"),
            ("PORT_8989_TCP_PORT", "8989"),
            ("PORT_8989_TCP_PROTO", "tcp"),
        ] {
            command.env(format!("{prefix}_{name}"), value);
        }
        command.env("NOT_TEXT", std::ffi::OsStr::from_bytes(b"\xff\xfe"));
        let output = command.output().unwrap();
        assert_eq!(
            (output.status.code(), error_of(&output)),
            (Some(0), String::new()),
            "{service}"
        );
        // Another that begins as ours do is mentioned; a misspelt key is not let pass.
        let output = command.env(format!("{prefix}_HELM_RELEASE"), "x").output().unwrap();
        assert!(output.status.success() && error_of(&output).contains("HELM_RELEASE"));
        let output = command.env(format!("{prefix}_LISTNE"), "127.0.0.1:1").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", error_of(&output));
        assert!(error_of(&output).contains(&format!("{prefix}_LISTEN?")), "{}", error_of(&output));
    }
}

#[test]
fn the_printed_configurations_can_be_read_again_and_show_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    for (service, key) in [("processor", "LISTENER"), ("agent", "HTTP")] {
        for which in ["--print-config", "--print-config=effective"] {
            let mut command = crosstalk();
            command.args([service, which]);
            command
                .env(format!("CROSSTALK_{}_{key}_BEARER_TOKEN", service.to_uppercase()), "s3cret");
            let printed = command.output().unwrap();
            let text = String::from_utf8(printed.stdout).unwrap();
            assert!(printed.status.success() && !text.contains("s3cret"), "{text}");
            assert_eq!(
                text.contains("bearer_token = \"***\""),
                which.ends_with("effective"),
                "{text}"
            );
            let file = folder.path().join("printed.toml");
            std::fs::write(&file, text).unwrap();
            let mut check = crosstalk();
            check.args([service, "--check", "--config"]).arg(&file).current_dir(folder.path());
            let output = check.output().unwrap();
            assert!(output.status.success(), "{}", error_of(&output));
        }
    }
}

#[test]
fn dead_letters_are_listed_and_dropped_only_when_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let run = |args: &[&str]| {
        let mut command = processor(&["dead-letters"]);
        command.args(args).args(["--data-dir", data]).output().unwrap()
    };
    let listed = run(&["list"]);
    assert!(listed.status.success(), "{}", error_of(&listed));
    assert!(String::from_utf8_lossy(&listed.stdout).starts_with("no dead letters in "));
    let dropped = run(&["drop"]);
    assert!(!dropped.status.success() && error_of(&dropped).contains("--all"));
    let dropped = run(&["drop", "--all"]);
    assert_eq!(String::from_utf8_lossy(&dropped.stdout), "0 dropped\n");
    let unknown = run(&["list", "--endpoint", "nobody"]);
    assert!(error_of(&unknown).contains("nobody"), "{}", error_of(&unknown));
}

/// A log store that refuses every body until it is mended.
fn log_store(mended: &Arc<AtomicBool>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let (address, mended) = (listener.local_addr().expect("an address"), Arc::clone(mended));
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a length");
                }
                line.clear();
            }
            let mut body = vec![0; length];
            let _ = reader.read_exact(&mut body);
            let (status, said) = match mended.load(Ordering::Relaxed) {
                true => ("204 No Content", ""),
                false => ("400 Bad Request", "entry too far behind"),
            };
            let length = said.len();
            let head = format!("Content-Length: {length}\r\nConnection: close");
            let _ = write!(stream, "HTTP/1.1 {status}\r\n{head}\r\n\r\n{said}");
        }
    });
    address
}

#[test]
fn what_a_log_store_refused_is_listed_dropped_and_sent_again_while_the_processor_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (config, data) = (folder.path().join("config.toml"), folder.path().join("data"));
    let mended = Arc::new(AtomicBool::new(false));
    let store = format!("[[logs.forward]]\nname = 'loki'\nurl = 'http://{}'\n", log_store(&mended));
    std::fs::write(&config, format!("data_dir = '{}'\n{store}", data.display())).unwrap();
    let with_config = ["--config", config.to_str().unwrap()];
    let dead_letters = |args: &[&str], more: &[&str]| {
        let output = processor(&["dead-letters"]).args(args).args(more).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), text, error_of(&output))
    };
    let run = |args: &[&str]| dead_letters(args, &with_config);
    let (_running, said) = start_with(&with_config);
    let address = said.split("address=").nth(1).and_then(|rest| rest.split_whitespace().next());
    let to = format!("http://{}", address.unwrap_or_else(|| panic!("{said}")));
    for letters in 1..=2 {
        let log = folder.path().join(format!("{letters}.log"));
        std::fs::write(&log, "step: 1 loss: 2.5\n").unwrap();
        let follow = ["follow", log.to_str().unwrap(), "--to", &to, "--once", "--state-dir"];
        let output = processor(&follow).arg(folder.path().join("state")).output().unwrap();
        assert!(output.status.success(), "{}", error_of(&output));
        let begin = Instant::now();
        while run(&["list", "--json"]).1.lines().count() < letters {
            assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", run(&["list"]));
            // The files of another process tell nobody that they changed.
            #[allow(clippy::disallowed_methods)]
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    let (_, listed, _) = run(&["list"]);
    let ids: Vec<&str> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert!(listed.contains("  loki  ") && listed.contains("  400  1 lines  entry too far behind"));
    assert!(run(&["list", "--json", "--endpoint", "loki"]).1.contains("\"log_store\":\"loki\""));
    // The store is as it was; and without a configuration nobody knows where it is.
    let (good, text, _) = run(&["replay"]);
    assert!(!good && text.contains(&format!("{}  loki  refused again: 400 ", ids[0])), "{text}");
    assert!(text.ends_with("0 delivered, 2 refused again\n"), "{text}");
    let (good, _, error) = dead_letters(&["replay"], &["--data-dir", data.to_str().unwrap()]);
    assert!(!good && error.contains("log store \"loki\" has dead letters"), "{error}");
    // Two stores may have a letter of the same id.
    let [other, mine] =
        ["queue/metrics", "log-forward/loki"].map(|at| data.join(at).join("dead-letters"));
    std::fs::create_dir_all(&other).unwrap();
    for file in std::fs::read_dir(&mine).unwrap().flatten() {
        std::fs::copy(file.path(), other.join(file.file_name())).unwrap();
    }
    let (good, _, error) = run(&["drop", ids[0]]);
    assert!(!good && error.contains("--endpoint"), "{error}");
    assert_eq!(run(&["drop", "--log-store", "loki", ids[0]]).1, "1 dropped\n");
    assert_eq!(run(&["drop", "--endpoint", "metrics", "--all"]).1, "2 dropped\n");
    mended.store(true, Ordering::Relaxed);
    assert_eq!(run(&["replay"]).1, "1 delivered, 0 refused again\n");
    assert!(run(&["list"]).1.starts_with("no dead letters in "));
}
