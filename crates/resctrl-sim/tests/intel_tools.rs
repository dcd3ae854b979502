//! Intel's own tools on the simulator, in a mount namespace where it is `/sys/fs/resctrl`.
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

#[test]
#[ignore = "needs root, intel-cmt-cat and a machine with one L3 cache: cargo test -- --ignored intel"]
fn intels_tools_read_and_divide_the_simulated_cache() {
    let (directory, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let simulator = mount(Profile::small(), directory.path()).unwrap();
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
    assert!(text.contains("L3:0=f\n"), "{text}");
}
