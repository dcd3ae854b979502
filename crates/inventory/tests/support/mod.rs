//! Real engines in folders of their own, gone with everything they made when a test ends, however it ends.
#![allow(dead_code, clippy::unwrap_used, unreachable_pub)]

pub mod api;
pub mod containerd;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A daemon of this test alone.
pub struct Daemon {
    child: Child,
    /// How it was started, and where what it says goes.
    again: (String, Vec<String>),
    pub folder: tempfile::TempDir,
    /// The cgroup its containers are in.
    pub cgroup: String,
}

impl Daemon {
    /// Starts `program` with a folder and a cgroup that nobody else uses.
    pub fn start(program: &str, arguments: impl FnOnce(&Path, &str) -> Vec<String>) -> Daemon {
        let folder = tempfile::Builder::new().prefix("crosstalk-engine-").tempdir().unwrap();
        let cgroup = format!("/{}", folder.path().file_name().unwrap().to_str().unwrap());
        let again = (program.to_owned(), arguments(folder.path(), &cgroup));
        Daemon { child: spawn(&again, folder.path()), again, folder, cgroup }
    }

    /// Kills it and starts it anew in the same place.
    pub fn restart(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let name = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        self.eventually("its containerd ends with it", || {
            let mut left = processes_naming(self.folder.path()).into_iter();
            left.all(|pid| name(&pid).trim() != "containerd").then_some(())
        });
        // Who has ended but was not waited for would be taken for one that runs.
        let _ = fs::remove_file(self.path("exec/containerd/containerd.pid"));
        self.child = spawn(&self.again, self.folder.path());
    }

    /// Sends the daemon itself a signal.
    pub fn signal(&self, name: &str) {
        run("kill", &[&format!("-{name}"), &self.child.id().to_string()]).unwrap();
    }

    /// How many processes in its containers sleep.
    pub fn sleepers(&self) -> usize {
        let name = |pid: &u32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        processes_in(&self.cgroup).iter().filter(|pid| name(pid).trim() == "sleep").count()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Waits for something of the daemon; shows its log when that does not come.
    pub fn eventually<T>(&self, what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            if let Some(value) = attempt() {
                return value;
            }
            if Instant::now() > deadline {
                panic!("waited in vain: {what}\n{}", fs::read_to_string(self.path("log")).unwrap());
            }
            pace(Duration::from_millis(20));
        }
    }
}

fn spawn((program, arguments): &(String, Vec<String>), folder: &Path) -> Child {
    let log = fs::File::options().create(true).append(true).open(folder.join("log")).unwrap();
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    command.stdout(log.try_clone().unwrap()).stderr(log);
    command.spawn().unwrap_or_else(|error| {
        panic!("cannot start {program}: {error}; `make test` installs docker.io and containerd")
    })
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Shims outlive their daemon; each names the folder in its command line.
        for pid in processes_naming(self.folder.path()) {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
        for pid in processes_in(&self.cgroup) {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        remove_shim_sockets(self.folder.path());
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let below = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        for mount in below.filter(|mount| Path::new(mount).starts_with(self.folder.path())) {
            let _ = Command::new("umount").args(["--lazy", mount]).status();
        }
        // A cgroup can be removed once the kernel is done with its processes.
        let deadline = Instant::now() + Duration::from_secs(5);
        while !remove_cgroups(&self.cgroup) && Instant::now() < deadline {
            pace(Duration::from_millis(20));
        }
    }
}

/// A shim listens outside the daemon's folder, and says where in a file of its own.
fn remove_shim_sockets(folder: &Path) {
    walk(folder, &mut |folder| {
        let address = fs::read_to_string(folder.join("address")).unwrap_or_default();
        if let Some(socket) = address.trim().strip_prefix("unix://") {
            let _ = fs::remove_file(socket);
        }
    });
}

fn processes_naming(folder: &Path) -> Vec<u32> {
    let name = folder.to_str().unwrap();
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let names_it = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(name)
    };
    pids.filter(|pid| *pid != std::process::id()).filter(names_it).collect()
}

/// The folders of a cgroup: one in a v2 hierarchy, one a controller in v1.
fn cgroup_folders(cgroup: &str) -> Vec<PathBuf> {
    let below = |root: &Path| root.join(cgroup.trim_start_matches('/'));
    let root = Path::new("/sys/fs/cgroup");
    let controllers = fs::read_dir(root).unwrap().flatten().map(|entry| below(&entry.path()));
    controllers.chain([below(root)]).filter(|folder| folder.is_dir()).collect()
}

fn walk(folder: &Path, visit: &mut impl FnMut(&Path)) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&entry.path(), visit);
        }
    }
    visit(folder);
}

fn processes_in(cgroup: &str) -> Vec<u32> {
    let mut pids = Vec::new();
    for folder in cgroup_folders(cgroup) {
        walk(&folder, &mut |folder| {
            let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            pids.extend(text.lines().filter_map(|line| line.parse::<u32>().ok()));
        });
    }
    pids.sort_unstable();
    pids.dedup();
    pids
}

fn remove_cgroups(cgroup: &str) -> bool {
    let mut gone = true;
    for folder in cgroup_folders(cgroup) {
        walk(&folder, &mut |folder| gone &= fs::remove_dir(folder).is_ok());
    }
    gone
}

/// Runs a command to its end; what it printed.
pub fn run(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().unwrap();
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// A root file system of one program that can sleep and talk, as a tar file.
pub fn layer(folder: &Path) -> PathBuf {
    let bin = folder.join("tree/bin");
    fs::create_dir_all(&bin).unwrap();
    for applet in ["sh", "sleep", "cat", "nc"] {
        fs::copy("/bin/busybox", bin.join(applet)).unwrap();
    }
    let (tree, tar) = (folder.join("tree"), folder.join("layer.tar"));
    run("tar", &["-C", tree.to_str().unwrap(), "-cf", tar.to_str().unwrap(), "."]).unwrap();
    tar
}

/// Time between two looks at another process, which offers no event to wait on.
#[allow(clippy::disallowed_methods)]
pub fn pace(pause: Duration) {
    std::thread::sleep(pause);
}

/// A Docker Engine with one image and no network, and the address of its socket.
pub fn docker(image: &str) -> (Daemon, String) {
    docker_on("none", image)
}

/// The same, its containers on a bridge that is there already.
pub fn docker_on(bridge: &str, image: &str) -> (Daemon, String) {
    let daemon = Daemon::start("dockerd", |folder, cgroup| {
        let folder = folder.display();
        vec![
            format!("--data-root={folder}/data"),
            format!("--exec-root={folder}/exec"),
            format!("--pidfile={folder}/pid"),
            format!("--host=unix://{folder}/docker.sock"),
            format!("--cgroup-parent={cgroup}"),
            "--iptables=false".to_owned(),
            "--ip6tables=false".to_owned(),
            format!("--bridge={bridge}"),
            // The machine's own network stays as it is.
            "--ip-forward=false".to_owned(),
            "--storage-driver=vfs".to_owned(),
        ]
    });
    let host = format!("unix://{}", daemon.path("docker.sock").display());
    daemon.eventually("the engine answers", || run("docker", &["-H", &host, "version"]).ok());
    let layer = layer(daemon.folder.path());
    run("docker", &["-H", &host, "import", layer.to_str().unwrap(), image]).unwrap();
    (daemon, host)
}
