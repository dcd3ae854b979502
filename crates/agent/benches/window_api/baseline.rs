//! The baseline as a process: installed once, started on a free port.

use crosstalk_figure::wrk::get;
use std::error::Error;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/baseline");
const SAMPLES: &str = "\"samples\":30000";

pub(crate) struct Baseline {
    child: Child,
    address: SocketAddr,
}

impl Baseline {
    pub(crate) fn start() -> Result<Self, Box<dyn Error>> {
        let venv = Path::new(env!("CARGO_TARGET_TMPDIR")).join("baseline-venv");
        let python = venv.join("bin/python");
        if !python.exists() {
            run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
        }
        let requirements = format!("{FOLDER}/requirements.txt");
        run(Command::new(&python).args(["-m", "pip", "install", "-q", "-r", &requirements]))?;
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let child = Command::new(&python)
            .args(["-m", "uvicorn", "app:app", "--log-level", "warning", "--app-dir", FOLDER])
            .args(["--host", "127.0.0.1", "--port", &address.port().to_string()])
            .stdout(Stdio::null())
            .spawn()?;
        let baseline = Self { child, address };
        baseline.wait_until_full()?;
        Ok(baseline)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/metrics?window_seconds=20", self.address)
    }

    /// Its prefill takes seconds; until then it would have less to do than the agent.
    fn wait_until_full(&self) -> Result<(), Box<dyn Error>> {
        let end = Instant::now() + Duration::from_secs(180);
        while Instant::now() < end {
            if get(self.address, "/health").is_some_and(|health| health.contains(SAMPLES)) {
                return Ok(());
            }
            #[allow(clippy::disallowed_methods)] // another process tells of nothing but when asked
            std::thread::sleep(Duration::from_millis(200));
        }
        Err("the baseline never filled its buffer".into())
    }
}

impl Drop for Baseline {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}").into()) }
}
