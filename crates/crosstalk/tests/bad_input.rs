//! Bad input gets one clear sentence, the fix, a non-zero exit, and no file that looks finished.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};
use support::*;

/// Expects failure with `code`, one line that has all of `words`, and nothing finished.
#[track_caller]
fn refused(output: &Output, code: i32, words: &[&str], out: &Path) {
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{error}");
    for word in words {
        assert!(error.contains(word), "{word:?} is not in: {error}");
    }
    for dataset in ["tasks", "slots"] {
        for ending in [".csv", ".parquet"] {
            let finished = files(out, dataset, ending);
            assert!(finished.is_empty(), "looks finished: {finished:?}");
        }
    }
}

#[test]
fn a_slot_of_zero_or_ten_microseconds_is_out_of_range() {
    let out = tempfile::tempdir().unwrap();
    for slot in ["0", "0ms", "10us", "5s"] {
        let output = record(out.path(), &["--slot", slot, "--duration", "1s"]).output().unwrap();
        refused(&output, 2, &["outside the supported range of 100us to 1s", "--slot"], out.path());
    }
    let output = record(out.path(), &["--slot", "fast"]).output().unwrap();
    refused(&output, 2, &["fast", "1ms"], out.path());
}

#[test]
fn a_process_or_cgroup_that_does_not_exist_is_named() {
    let out = tempfile::tempdir().unwrap();
    let output = record(out.path(), &["--pid", "4194999", "--duration", "1s"]).output().unwrap();
    refused(&output, 2, &["4194999", "no such process"], out.path());
    let output = record(out.path(), &["--cgroup", "/nowhere/at/all"]).output().unwrap();
    refused(&output, 2, &["/nowhere/at/all", "no such cgroup"], out.path());
    let output = record(out.path(), &["--", "/no/such/program"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn someone_who_is_not_root_is_told_what_is_needed() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let binary = dir.path().join("crosstalk");
    install(Path::new(env!("CARGO_BIN_EXE_crosstalk")), &binary);
    let nobody = 65_534;
    let output = Command::new(&binary)
        .args(["record", "--duration", "1s", "--out"])
        .arg(dir.path().join("out"))
        .uid(nobody)
        .gid(nobody)
        .output()
        .unwrap();
    refused(&output, 3, &["root", "CAP_BPF"], dir.path());
    let doctor = Command::new(&binary).arg("doctor").uid(nobody).gid(nobody).output().unwrap();
    assert!(String::from_utf8_lossy(&doctor.stdout).contains("CAP_BPF"));
}

#[test]
fn a_kernel_without_btf_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let host = dir.path().join("host");
    fs::create_dir_all(host.join("proc/self")).unwrap();
    let host = host.to_str().unwrap();
    let output = record(dir.path(), &["--host-root", host, "--duration", "1s"]).output().unwrap();
    refused(&output, 3, &["type information", "CONFIG_DEBUG_INFO_BTF"], dir.path());
}

#[test]
fn a_kernel_without_bpf_is_told_apart() {
    let out = tempfile::tempdir().unwrap();
    let mut command = record(out.path(), &["--duration", "1s"]);
    without_bpf(&mut command);
    refused(
        &command.output().unwrap(),
        3,
        &["does not offer BPF", "CONFIG_BPF_SYSCALL"],
        out.path(),
    );
}

/// Makes the bpf system call answer ENOSYS in the command, as a kernel without it does.
#[allow(unsafe_code)] // a seccomp filter can only be installed between fork and exec
fn without_bpf(command: &mut Command) {
    const fn step(code: u16, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
        libc::sock_filter { code, jt, jf, k }
    }
    let deny = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
    let mut steps = [
        step(0x20, 0, 0, 0), // load the system call's number
        step(0x15, 0, 1, libc::SYS_bpf as u32),
        step(0x06, 0, 0, deny),
        step(0x06, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    // SAFETY: only async-signal-safe calls are made, on memory the closure owns.
    unsafe {
        command.pre_exec(move || {
            let filter = libc::sock_fprog { len: 4, filter: steps.as_mut_ptr() };
            let mode = libc::SECCOMP_MODE_FILTER;
            if libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0
                || libc::prctl(libc::PR_SET_SECCOMP, mode, &filter) != 0
            {
                return Err(std::io::Error::last_os_error());
            }
            Ok(())
        })
    };
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let output = record(Path::new("/proc/crosstalk"), &["--duration", "1s"]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{error}");
    assert!(error.contains("/proc/crosstalk") && error.contains("--out"), "{error}");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "mine").unwrap();
    let output = record(&file, &["--duration", "1s"]).output().unwrap();
    assert_eq!(output.status.code(), Some(4));
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn a_full_disk_stops_the_recording_and_leaves_no_file_that_looks_finished() {
    let dir = tempfile::tempdir().unwrap();
    let disk = SmallDisk::mount(dir.path(), "128k");
    for format in ["csv", "parquet"] {
        let out = disk.0.join(format);
        let output = record(&out, &["--duration", "20s", "--format", format]).output().unwrap();
        refused(&output, 4, &["no space left", "--out"], &out);
        fs::remove_dir_all(&out).unwrap();
    }
}

/// A tmpfs that goes away with the test.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn mount(at: &Path, size: &str) -> Self {
        let option = format!("size={size}");
        let status = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &option, "crosstalk-test"])
            .arg(at)
            .status()
            .expect("mount runs");
        assert!(status.success());
        Self(at.to_owned())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}
