use super::*;
use std::io::Write;
use std::process::Command;

/// Gone with its processes however the test ends.
struct Made(ControlGroup);

impl Drop for Made {
    fn drop(&mut self) {
        self.0.kill();
        let _ = self.0.remove();
    }
}

#[test]
fn a_group_holds_limits_counts_and_goes_with_all_its_processes() {
    let host = HostRoot::default();
    let name = format!("crosstalk-test-{}", std::process::id());
    let group = match ControlGroup::create(&host, &name) {
        Ok(group) => Made(group),
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let group = &group.0;
    // One that waits for its only child, and a grandchild that ignores being asked to end.
    let script = "read go; trap '' TERM; sh -c 'while :; do :; done' & wait";
    let mut child = Command::new("sh")
        .args(["-c", script])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    group.join(child.id()).unwrap();
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let began = Instant::now();
    while group.processes().len() < 2 && began.elapsed() < Duration::from_secs(20) {
        pause();
    }
    assert_eq!(group.processes().len(), 2, "a child of a member is a member");
    assert!(ControlGroup::list(&host, "crosstalk-test-").contains(&name));
    let found = ControlGroup::of_process(&host, child.id()).unwrap();
    assert_eq!((found.id(), found.id().is_some()), (group.id(), true));

    let mut files = group.usage_files();
    let tenth = |period| group.set_quota(Some(0.1), period);
    match group.set_cpus(&CpuSet::from_iter([0])).and_then(|()| tenth(QuotaPeriod::Usual)) {
        Ok(()) => {
            tenth(QuotaPeriod::Longest).unwrap();
            assert_eq!(group.cpus(), Some(CpuSet::from_iter([0])));
            while files.read().throttled_ns == Some(0) && began.elapsed() < Duration::from_secs(20)
            {
                pause();
            }
            assert!(files.read().throttled_ns > Some(0), "{:?}", files.read());
            group.set_quota(None, QuotaPeriod::Usual).unwrap();
        }
        Err(error) => eprintln!("skipped: {error}"),
    }
    assert!(files.read().cpu_ns > Some(0));
    assert!(group.kill());
    child.wait().unwrap();
    group.remove().unwrap();
    assert!(!ControlGroup::list(&host, "crosstalk-test-").contains(&name));
}

#[test]
fn who_may_not_make_a_group_is_told_the_way_out() {
    let told = |kind: ErrorKind| refused(Path::new("/sys/fs/cgroup/x"))(kind.into()).to_string();
    assert_eq!(
        told(ErrorKind::PermissionDenied),
        "/sys/fs/cgroup/x: permission denied; run as root"
    );
    assert!(told(ErrorKind::ReadOnlyFilesystem).ends_with("; cgroups must be mounted for writing"));
    assert_eq!(told(ErrorKind::NotFound), "/sys/fs/cgroup/x: entity not found");
}
