//! The policies on a cgroup of this kernel. It needs root and a memory controller.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

use crosstalk_coldmem::{Backend, Charged, Choice, MemoryStat, Policy, Surveyor};
use crosstalk_host::{CgroupHierarchy, CgroupVersion, HostRoot};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A cgroup of our own, which goes with the test.
struct Own(PathBuf);

impl Drop for Own {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

const MIB: u64 = 1 << 20;

#[test]
fn page_cache_of_a_real_cgroup_counts_only_where_the_policy_says_so() {
    let host = HostRoot::default();
    let hierarchy = CgroupHierarchy::find(&host).expect("cgroups are mounted");
    let name = format!("crosstalk-coldmem-test-{}", std::process::id());
    let own = Own(hierarchy.mount.join(&name));
    fs::create_dir(&own.0).expect("root may make a cgroup");
    if hierarchy.version == CgroupVersion::V2 && !own.0.join("memory.stat").exists() {
        let lacking = "the memory controller is not given to cgroups below the root here";
        assert!(std::env::var_os("CROSSTALK_NO_SKIP").is_none(), "{lacking}");
        return eprintln!("skipped: {lacking}");
    }
    // A file of 24 MiB is written by a task of the cgroup, so its page cache is charged there and stays when it ends.
    let file = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
    let script = format!(
        "echo $$ > {}/cgroup.procs && dd if=/dev/zero of={} bs=1M count=24 conv=fsync",
        own.0.display(),
        file.path().display(),
    );
    let wrote = Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status().unwrap();
    assert!(wrote.success());

    let choice = Choice { backend: Some(Backend::Bounds), ..Choice::default() };
    let mut surveyor = Surveyor::open(&host, choice).map_err(|c| c.found).unwrap();
    let survey = surveyor.look().map_err(|c| c.found).unwrap();
    let group = survey.groups.iter().find(|group| group.path == format!("/{name}")).unwrap();
    let stat: MemoryStat = group.stat.unwrap();
    let of = |policy, cold| stat.usage(policy, cold).unwrap().bytes;
    let (without, with) =
        (of(Policy::UsageWithoutPageCache, None), of(Policy::UsageWithPageCache, None));
    let cache = with - without;
    assert!((23 * MIB..26 * MIB).contains(&cache), "{cache} bytes of page cache, {stat:?}");
    assert!(without < 4 * MIB, "{without}");
    assert_eq!(of(Policy::UsageWithHotPageCache, Some(16 * MIB)), with - 16 * MIB);
    let fallen = stat.usage(Policy::UsageWithHotPageCache, None).unwrap();
    assert_eq!((fallen.bytes, fallen.policy), (without, Policy::UsageWithoutPageCache));
    // Written once and never read: all of it is on the inactive list, within the bound.
    let at_most = group.at_most_bytes(surveyor.boundary(), Backend::Bounds).unwrap();
    assert!((23 * MIB..=with).contains(&at_most), "{at_most}");

    let node = survey.node;
    let used = |policy| node.usage(policy, Some(0)).unwrap().bytes;
    assert!(used(Policy::UsageWithPageCache) > used(Policy::UsageWithoutPageCache));
    assert!(used(Policy::UsageWithPageCache) <= node.total.unwrap());
}
