//! Processes of their own: the processor, Prometheus, vmagent, VictoriaMetrics.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{eventually, http};

/// A port nobody listens on just now.
pub fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// A child process, killed when dropped.
pub struct Running(Child);

impl Running {
    pub fn start(command: &mut Command) -> Running {
        let name = format!("{:?}", command.get_program());
        let child = command.stdin(Stdio::null()).spawn();
        Running(child.unwrap_or_else(|error| panic!("cannot start {name}: {error}")))
    }

    /// SIGKILL: no chance to tidy up.
    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// SIGTERM, and waits for the end.
    pub fn stop(mut self) {
        let id = self.0.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        self.0.wait().unwrap();
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The example binary, which cargo builds beside the tests.
pub fn processor_binary() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let binary = test.parent().and_then(Path::parent).unwrap().join("examples/processor");
    assert!(binary.exists(), "{} is not built", binary.display());
    binary
}

/// A processor in its own process, and where its files are.
pub struct ProcessorProcess {
    pub address: SocketAddr,
    config: PathBuf,
    running: Option<Running>,
}

impl ProcessorProcess {
    /// Starts on a fixed port, so that it comes back where senders expect it.
    pub fn start(folder: &Path, endpoint: &str, more: &str) -> ProcessorProcess {
        ProcessorProcess::start_with_tables(folder, endpoint, more, "")
    }

    /// As [`ProcessorProcess::start`], with more tables.
    pub fn start_with_tables(
        folder: &Path,
        endpoint: &str,
        more: &str,
        tables: &str,
    ) -> ProcessorProcess {
        let address = free_port();
        let pods = folder.join("pods.yaml");
        std::fs::write(&pods, super::PODS).unwrap();
        let config = folder.join("processor.toml");
        let text = format!(
            "listen = \"{address}\"\ndata_dir = \"{data}\"\n{more}\n[cache]\nstatic_file = \"{pods}\"\n\
             [[endpoint]]\nname = \"store\"\nurl = \"{endpoint}\"\nmax_backoff = \"1s\"\n{tables}\n",
            data = folder.join("data").display(),
            pods = pods.display(),
        );
        std::fs::write(&config, text).unwrap();
        let mut process = ProcessorProcess { address, config, running: None };
        process.restart();
        process
    }

    pub fn restart(&mut self) {
        let mut command = Command::new(processor_binary());
        self.running = Some(Running::start(command.arg(&self.config)));
        eventually("the processor listens", || http::try_get(self.address, "/healthz"));
    }

    pub fn kill(&mut self) {
        self.running.take().unwrap().kill();
    }

    pub fn id(&self) -> u32 {
        self.running.as_ref().unwrap().id()
    }
}
