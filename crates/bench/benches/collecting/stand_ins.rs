//! What is on the other side of the driver: a cache that can be read, and a database.

use crosstalk_resctrl_sim::{Profile, mount};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The argument that makes this program the other side of what is measured.
pub(crate) const STAND_INS: &str = "--stand-ins";

/// The resctrl simulator and a database, as a process of their own: what they cost is not the driver's.
pub(crate) struct StandIns {
    child: Child,
    pub(crate) port: u16,
    pub(crate) mounted: tempfile::TempDir,
}

impl StandIns {
    /// `None` where there is no FUSE.
    pub(crate) fn start() -> std::io::Result<Option<Self>> {
        let mounted = tempfile::tempdir()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(STAND_INS).arg(mounted.path());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        let Ok(port) = line.trim().parse() else {
            child.wait()?;
            return Ok(None);
        };
        Ok(Some(Self { child, port, mounted }))
    }

    pub(crate) fn stop(mut self) -> std::io::Result<()> {
        // It ends with its input.
        drop(self.child.stdin.take());
        self.child.wait().map(|_| ())
    }
}

/// The other process: says its port, and ends when nobody holds its input any more.
pub(crate) fn stand_in(folder: &Path) -> std::io::Result<()> {
    let simulator = mount(Profile::small(), folder).map_err(std::io::Error::other)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?.port());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || answer(stream));
        }
    });
    std::io::stdin().read_to_end(&mut Vec::new())?;
    simulator.unmount().map_err(std::io::Error::other)
}

/// Takes whatever is written, as a database does.
fn answer(stream: TcpStream) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let lower = line.to_ascii_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            if line.trim().is_empty() {
                break;
            }
        }
        std::io::copy(&mut reader.by_ref().take(length), &mut std::io::sink())?;
        writer.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")?;
    }
}
