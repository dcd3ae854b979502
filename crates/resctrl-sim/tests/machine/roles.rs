//! Real processes that behave in a way a test needs. The test binary starts itself again to become one.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use crosstalk_resctrl::Resctrl;
use crosstalk_resctrl::pool::{Pool, PoolConfig};

use super::subject;

const ROLE: &str = "CROSSTALK_TEST_ROLE";

/// A process in a role; killed when dropped, and it ends by itself when its standard input closes.
pub(crate) struct Actor {
    child: Child,
    _input: ChildStdin,
}

impl Actor {
    /// Starts a role, and returns once it says it is ready.
    pub(crate) fn start(role: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "become_a_role", "--ignored", "--nocapture"])
            .env(ROLE, role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("ready") {
            line.clear();
            assert!(output.read_line(&mut line).unwrap() > 0, "{role} ended before it was ready");
        }
        // Nobody reads on: a pipe that is full would stop the role.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        Self { child, _input: input }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// SIGKILL: the process has no chance to clean up.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The other side of [`Actor::start`].
pub(crate) fn play() {
    let Ok(role) = std::env::var(ROLE) else { return };
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        std::process::abort();
    });
    match role.split_once(':') {
        Some(("stream", mebibytes)) => stream(mebibytes.parse().unwrap()),
        Some(("pool", root)) => hold_a_pool(root),
        _ => make_threads(0),
    }
}

fn ready() {
    println!("ready");
    std::io::stdout().flush().unwrap();
}

/// Writes through memory again and again.
fn stream(mebibytes: usize) {
    let mut memory = vec![1u8; mebibytes << 20];
    ready();
    loop {
        for byte in memory.iter_mut().step_by(64) {
            *byte = byte.wrapping_add(1);
        }
        std::hint::black_box(&mut memory);
    }
}

/// Each thread makes the next and lives on for a while: there is always one that was just born.
fn make_threads(generation: u64) {
    if generation == 20 {
        ready();
    }
    std::thread::sleep(Duration::from_millis(10));
    let next = std::thread::Builder::new().stack_size(128 << 10);
    let _next = next.spawn(move || make_threads(generation + 1)).unwrap();
    if generation == 0 {
        loop {
            std::thread::park();
        }
    }
    std::thread::sleep(Duration::from_millis(600));
}

/// Owns groups until it is killed.
fn hold_a_pool(root: &str) {
    let mut pool = Pool::start(Resctrl::open(root).unwrap(), PoolConfig::default()).unwrap();
    pool.update(&[subject(std::process::id(), 1, None)], 1).unwrap();
    ready();
    loop {
        std::thread::park();
    }
}
