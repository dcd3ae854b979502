//! Real database servers in a temporary folder, started by a test and stopped when it ends.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub(crate) const PASSWORD: &str = "s3cret%40word";

/// A server; its folder and its process end with it.
pub(crate) struct Server {
    child: Child,
    _folder: tempfile::TempDir,
    /// URL up to the name of a database.
    pub(crate) url: String,
    /// An existing database.
    pub(crate) first_database: &'static str,
}

impl Server {
    /// PostgreSQL on a free loopback port.
    pub(crate) fn postgres() -> Server {
        let folder = tempfile::tempdir().unwrap();
        let bin = newest_postgres();
        let password = folder.path().join("password");
        fs::write(&password, "s3cret@word").unwrap();
        let user = own_by_postgres(&[folder.path(), &password]);
        let data = folder.path().join("data");
        let mut init = command(user, &bin.join("initdb"));
        init.args([
            "--username=crosstalk",
            "--auth=scram-sha-256",
            "--no-sync",
            "--encoding=UTF8",
            "--pwfile",
        ]);
        run(init.arg(&password).arg("-D").arg(&data));
        let port = free_port();
        let mut server = command(user, &bin.join("postgres"));
        server.arg("-D").arg(&data).arg("-k").arg(folder.path()).args([
            "-F",
            "-h",
            "127.0.0.1",
            "-p",
            &port.to_string(),
        ]);
        let child = start(&mut server, "database system is ready to accept connections");
        let url = format!("postgres://crosstalk:{PASSWORD}@127.0.0.1:{port}/");
        Server { child, _folder: folder, url, first_database: "postgres" }
    }

    /// MariaDB on a free loopback port.
    pub(crate) fn mariadb() -> Server {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let me = output(Command::new("id").arg("-un"));
        let mut init = Command::new("mariadb-install-db");
        init.args(["--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal"]);
        run(init.arg(format!("--user={me}")).arg(format!("--datadir={}", data.display())));
        let first = folder.path().join("first.sql");
        fs::write(&first, "CREATE USER 'crosstalk'@'%' IDENTIFIED BY 's3cret@word';\nGRANT ALL ON *.* TO 'crosstalk'@'%';\n").unwrap();
        let port = free_port();
        let mut server = command(None, Path::new("mariadbd"));
        server
            .args([
                "--no-defaults",
                "--bind-address=127.0.0.1",
                "--innodb-flush-log-at-trx-commit=0",
            ])
            .arg(format!("--user={me}"))
            .arg(format!("--datadir={}", data.display()))
            .arg(format!("--socket={}", folder.path().join("socket").display()))
            .arg(format!("--pid-file={}", folder.path().join("pid").display()))
            .arg(format!("--init-file={}", first.display()))
            .arg(format!("--port={port}"));
        let child = start(&mut server, "ready for connections");
        let url = format!("mysql://crosstalk:{PASSWORD}@127.0.0.1:{port}/");
        Server { child, _folder: folder, url, first_database: "mysql" }
    }

    /// Ends the server at once.
    pub(crate) fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Debian keeps each version in a folder of its own.
fn newest_postgres() -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").expect("install the package postgresql");
    let mut versions: Vec<_> = versions.map(|entry| entry.unwrap().path()).collect();
    versions.sort();
    versions.pop().expect("install the package postgresql").join("bin")
}

/// PostgreSQL refuses to run as root; then its own user gets the files.
fn own_by_postgres(paths: &[&Path]) -> Option<&'static str> {
    if output(Command::new("id").arg("-u")) != "0" {
        return None;
    }
    let number = |flag| output(Command::new("id").args([flag, "postgres"])).parse().unwrap();
    let (user, group): (u32, u32) = (number("-u"), number("-g"));
    for path in paths {
        std::os::unix::fs::chown(path, Some(user), Some(group)).unwrap();
    }
    Some("postgres")
}

/// A command that ends with this test, even if the test is killed.
fn command(user: Option<&str>, program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL"]);
    if let Some(user) = user {
        command.args(["--reuid", user, "--regid", user, "--clear-groups"]);
    }
    command.arg("--").arg(program);
    command
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn output(command: &mut Command) -> String {
    String::from_utf8(command.output().unwrap().stdout).unwrap().trim().to_owned()
}

fn run(command: &mut Command) {
    let output = command
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Starts a server and waits until it says that it is ready.
fn start(command: &mut Command, ready: &str) -> Child {
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut said = String::new();
    for line in &mut lines {
        let line = line.unwrap();
        if line.contains(ready) {
            std::thread::spawn(move || lines.for_each(drop));
            return child;
        }
        said.push_str(&line);
        said.push('\n');
    }
    let _ = child.wait();
    panic!("{command:?} ended before it was ready:\n{said}");
}
