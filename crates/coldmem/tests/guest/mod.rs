//! Debian's kernels under qemu (software emulation), with a program of ours in its initial file system.
#![allow(dead_code)] // the test and the benchmark each use their own part

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The package that names the newest kernel of that line.
const KERNEL: &str = "linux-image-6.12-cloud-amd64";

/// Runs to the end; what it printed, or why it failed.
fn run(command: &mut Command) -> Result<String, String> {
    let what = command.get_program().to_string_lossy().into_owned();
    let fail = |why: &dyn Display| format!("{what}: {why}");
    let output = command.stdin(Stdio::null()).output().map_err(|error| fail(&error))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(fail(&String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Downloads and unpacks the kernel; where its image is. Kept for the next time. `CROSSTALK_KERNEL` names another image.
pub(crate) fn kernel(kept: &Path) -> Result<PathBuf, String> {
    if let Some(image) = std::env::var_os("CROSSTALK_KERNEL") {
        return Ok(image.into());
    }
    let image = || {
        let entries = fs::read_dir(kept.join("kernel/boot")).ok()?.flatten();
        entries.map(|e| e.path()).find(|p| p.to_string_lossy().contains("vmlinuz"))
    };
    if let Some(image) = image() {
        return Ok(image);
    }
    fs::create_dir_all(kept).map_err(|error| error.to_string())?;
    let depends = run(Command::new("apt-cache").args(["depends", KERNEL]))?;
    let package = depends.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    let package = package.ok_or(format!("apt-cache knows no {KERNEL}; apt-get update may help"))?;
    run(Command::new("apt-get").args(["download", "-qq", package]).current_dir(kept))?;
    let deb = fs::read_dir(kept).map_err(|e| e.to_string())?.flatten().map(|e| e.path());
    let deb = deb.into_iter().find(|path| path.extension().is_some_and(|e| e == "deb"));
    let deb = deb.ok_or("nothing was downloaded")?;
    run(Command::new("dpkg-deb").arg("-x").arg(&deb).arg(kept.join("kernel")))?;
    let _ = fs::remove_file(deb);
    image().ok_or(format!("{package} has no image"))
}

/// The newest kernel that Debian has for this release or the next: where its image is. `CROSSTALK_NEWER_KERNEL` names another.
pub(crate) fn newer_kernel(kept: &Path) -> Result<PathBuf, String> {
    if let Some(image) = std::env::var_os("CROSSTALK_NEWER_KERNEL") {
        return Ok(image.into());
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/newer-kernel");
    run(Command::new(script).arg(kept)).map(|image| image.trim().into())
}

/// Something to boot.
pub(crate) struct Guest {
    folder: tempfile::TempDir,
    image: PathBuf,
}

impl Guest {
    /// A guest with busybox, a program of ours as `/bin/crosstalk`, the program that holds memory, and a disk with two files of 64 MiB. `script` is run
    /// once everything is mounted.
    pub(crate) fn new(image: PathBuf, ours: &Path, script: &str) -> Result<Self, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let root = folder.path().join("root");
        let told = |error: std::io::Error| error.to_string();
        for name in ["bin", "proc", "sys", "tmp", "dev", "disk"] {
            fs::create_dir_all(root.join(name)).map_err(told)?;
        }
        fs::copy("/bin/busybox", root.join("bin/busybox")).map_err(told)?;
        // A debug build without its debug information is a tenth of the size.
        run(Command::new("strip").arg("-o").arg(root.join("bin/crosstalk")).arg(ours))?;
        for library in run(Command::new("ldd").arg(ours))?.split_whitespace() {
            if library.starts_with('/') {
                let to = root.join(library.trim_start_matches('/'));
                fs::create_dir_all(to.parent().ok_or("no folder")?).map_err(told)?;
                fs::copy(library, to).map_err(told)?;
            }
        }
        let source = folder.path().join("hold.c");
        fs::write(&source, include_str!("hold.c")).map_err(told)?;
        let mut compile = Command::new("cc");
        run(compile.args(["-static", "-O1", "-o"]).arg(root.join("bin/hold")).arg(source))?;
        let init = format!("{PRELUDE}{script}\n$b poweroff -f\n");
        fs::write(root.join("init"), init).map_err(told)?;
        let pack =
            "chmod +x root/init && cd root && find . | cpio -o -H newc --quiet > ../initramfs";
        run(Command::new("sh").args(["-c", pack]).current_dir(folder.path()))?;
        let disk = "mkdir content && head -c 67108864 /dev/zero > content/data && \
                    cp content/data content/read && /sbin/mkfs.ext4 -q -d content disk 180M";
        run(Command::new("sh").args(["-c", disk]).current_dir(folder.path()))?;
        Ok(Self { folder, image })
    }

    /// Boots, and says what was printed.
    pub(crate) fn boot(&self, longest_s: u32) -> Result<String, String> {
        let mut command = Command::new("timeout");
        command.arg(longest_s.to_string()).arg("qemu-system-x86_64");
        command.args([
            "-accel",
            "tcg,thread=multi",
            "-smp",
            "2",
            "-m",
            "768",
            "-nographic",
            "-no-reboot",
        ]);
        command.args(["-nic", "none", "-drive", "file=disk,if=none,id=disk,format=raw"]);
        command.args(["-device", "nvme,drive=disk,serial=disk", "-initrd", "initramfs"]);
        command
            .args(["-append", "console=ttyS0 quiet panic=-1 damon_stat.enabled=0", "-kernel"])
            .arg(&self.image);
        command.current_dir(self.folder.path());
        let mut boots_left = 2;
        loop {
            let text = run(&mut command)?.replace('\r', "");
            if boots_left == 0 || !text.contains(TORN) {
                return Ok(text);
            }
            boots_left -= 1;
            eprintln!("once more: the emulator showed a core half of a patched instruction");
        }
    }
}

/// What a kernel says that trips over its own breakpoint. It patches its code under one (programs are attached so), which on
/// processors every core sees in order; QEMU's emulation with a thread for each core shows now and then the breakpoint alone.
const TORN: &str = "Oops: int3: ";

const PRELUDE: &str = "#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc none /proc
$b mount -t sysfs none /sys
$b mount -t devtmpfs none /dev
$b mount -t cgroup2 none /sys/fs/cgroup
$b mount -t debugfs none /sys/kernel/debug
$b mount -t ext4 /dev/nvme0n1 /disk
echo +memory > /sys/fs/cgroup/cgroup.subtree_control
";

/// What stands between two marks.
pub(crate) fn between<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{mark}>"))?;
    Some(rest.split_once(&format!("</{mark}>"))?.0)
}

/// Starts both programs, each in a cgroup of its own called as the kind of its memory, and waits until they hold it.
pub(crate) const HOLD: &str = "
for kind in anon file; do
    $b mkdir /sys/fs/cgroup/$kind
    ( echo 0 > /sys/fs/cgroup/$kind/cgroup.procs; exec /bin/hold $kind /disk/data > /tmp/$kind ) &
done
until $b grep -q held /tmp/anon && $b grep -q held /tmp/file; do $b sleep 0.2; done
";
