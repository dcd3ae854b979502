//! A machine in a folder, with a kernel that has kidled, and how an agent is started on it.
#![allow(dead_code)] // each test uses its own part

use crosstalk_agent::config::{Config, Mode};
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) struct Machine {
    root: tempfile::TempDir,
}

const STAT: &str = "inactive_anon 1000\nactive_anon 2000\ninactive_file 40000\nactive_file 8000\n\
                    unevictable 0\nworkingset_refault_file 5\nworkingset_refault_anon 1\n";

impl Machine {
    /// 1000 KiB of memory, 300 free, 800 available. Of the node 400 bytes are cold.
    pub(crate) fn with_kidled() -> Self {
        let machine = Self { root: tempfile::tempdir().unwrap() };
        machine.put("proc/1/mounts", "c /sys/fs/cgroup cgroup2 rw 0 0\n");
        machine.put("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: 800 kB\n");
        machine.put("sys/kernel/mm/kidled/scan_period_in_seconds", "100\n");
        machine.group("", 100);
        machine
    }

    /// A cgroup with page cache of which four times `bytes` are cold.
    pub(crate) fn group(&self, path: &str, bytes: u64) {
        let header = "# version: 1.0\n# page_scans: 9\n# slab_scans: 0\n\
                      # scan_period_in_seconds: 100\n# buckets: 1,3\n";
        let rows = [
            "csei", "dsei", "cfei", "dfei", "csui", "dsui", "cfui", "dfui", "csea", "dsea", "cfea",
            "dfea", "csua", "dsua", "cfua", "dfua", "slab",
        ];
        let idle = rows
            .into_iter()
            .fold(header.to_owned(), |text, row| text + &format!("{row} 1 {bytes}\n"));
        self.put(&format!("sys/fs/cgroup{path}/memory.idle_page_stats"), idle);
        self.put(&format!("sys/fs/cgroup{path}/memory.stat"), STAT);
    }

    pub(crate) fn path(&self, file: &str) -> PathBuf {
        self.root.path().join(file)
    }

    pub(crate) fn put(&self, file: &str, text: impl AsRef<[u8]>) {
        let path = self.path(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn kubeconfig(&self, server: &str, token: &str) {
        self.put("token", token);
        let text = format!(
            "current-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u}}}}]\n\
             clusters: [{{name: k, cluster: {{server: '{server}'}}}}]\n\
             users: [{{name: u, user: {{tokenFile: token}}}}]\n"
        );
        self.put("kubeconfig", text);
    }

    /// Cold memory and nothing else, looked at every second.
    pub(crate) fn config(&self, node: &str) -> Config {
        let mut config = Config {
            listen: ([127, 0, 0, 1], 0).into(),
            host_root: self.root.path().to_owned(),
            ..Config::default()
        };
        let sources = &mut config.sources;
        for mode in [
            &mut sources.counters.mode,
            &mut sources.pcm.mode,
            &mut sources.resctrl.mode,
            &mut sources.probe.mode,
            &mut sources.pressure.mode,
        ] {
            *mode = Mode::Off;
        }
        for name in ["proc", "cgroup"] {
            sources.switches.get_mut(name).unwrap().mode = Mode::Off;
        }
        sources.coldmem.period = crosstalk_agent::config::Period::seconds(1);
        config.inventory.engines = false;
        config.inventory.kubeconfig = self.path("kubeconfig");
        config.inventory.node_name = node.to_owned();
        config.node_metric.mode = Mode::On;
        config
    }
}

/// Looks again and again until there is something.
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < end, "never came: {what}");
        #[allow(clippy::disallowed_methods)] // another thread tells of nothing but when asked
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The body of an answer.
pub(crate) fn get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.split_once("\r\n\r\n").unwrap().1.to_owned()
}

pub(crate) fn kubectl(arguments: &[&str], input: &str) -> Result<String, String> {
    let mut command = Command::new("kubectl");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}
