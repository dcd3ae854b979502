//! Intel's own tools (package intel-cmt-cat; needs root) on the simulator, in a mount namespace where it is `/sys/fs/resctrl`.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use crosstalk_resctrl_sim::{Profile, mount};

/// Both tools have the path built in and ask `/proc/filesystems` first; only a namespace can give them another answer.
const NAMESPACE: &str = r#"
set -e
cp /proc/filesystems "$2"
printf 'nodev\tresctrl\n' >> "$2"
mount --bind "$2" /proc/filesystems
mount -t tmpfs none /sys/fs
mkdir /sys/fs/resctrl
mount --bind "$1" /sys/fs/resctrl
pqos --iface=os -s
rdtset --iface=os -t 'l3=0xf' -c 0 cat /sys/fs/resctrl/COS3/schemata
"#;

/// The tools ask the machine which L3 caches it has, and the file system for each of them.
fn l3_caches() -> Vec<u32> {
    let cpus = std::fs::read_dir("/sys/devices/system/cpu").unwrap().flatten();
    let ids = cpus.filter_map(|cpu| {
        let text = std::fs::read_to_string(cpu.path().join("cache/index3/id")).ok()?;
        text.trim().parse().ok()
    });
    let ids: std::collections::BTreeSet<u32> = ids.collect();
    if ids.is_empty() { vec![0] } else { ids.into_iter().collect() }
}

#[test]
fn intels_tools_read_and_divide_the_simulated_cache() {
    let (directory, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let profile = Profile { l3_domains: l3_caches(), ..Profile::small() };
    let simulator = mount(profile, directory.path()).unwrap();
    let output = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "sh", "-c", NAMESPACE, "sh"])
        .arg(simulator.path())
        .arg(scratch.path().join("filesystems"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("L3CA COS0 => MASK 0xff"), "{text}");
    assert!(text.contains("MBA COS0 => 100"), "{text}");
    let masks = text.lines().find_map(|line| line.trim().strip_prefix("L3:")).unwrap();
    assert!(masks.split(';').any(|mask| mask.ends_with("=f")), "{text}");
}
