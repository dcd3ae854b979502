//! A pod with a container, made of real cgroups of this kernel, as `GET /memory` has them. It needs root and a memory controller.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

mod machine;

use crosstalk_agent::Agent;
use crosstalk_agent::config::Mode;
use crosstalk_host::{CgroupHierarchy, CgroupVersion, HostRoot};
use machine::{Machine, eventually, get};
use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const UID: &str = "7d3a0c52-90f1-4b7e-a1c9-5f2be6018d44";
const ID: &str = "c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00";
const POLICIES: [&str; 3] =
    ["usageWithHotPageCache", "usageWithoutPageCache", "usageWithPageCache"];
const MIB: u64 = 1 << 20;

/// Cgroups of our own, each within the one before it, which go with the test.
struct Own(Vec<PathBuf>);

impl Own {
    /// `None` where the kernel does not count memory in them.
    fn make() -> Option<Self> {
        let hierarchy = CgroupHierarchy::find(&HostRoot::default()).expect("cgroups are mounted");
        let names = [
            format!("crosstalk-memory-test-{}", std::process::id()),
            format!("pod{UID}"),
            ID.into(),
        ];
        let (mut own, mut at) = (Self(Vec::new()), hierarchy.mount);
        for name in names {
            if hierarchy.version == CgroupVersion::V2 {
                let _ = fs::write(at.join("cgroup.subtree_control"), "+memory");
            }
            at.push(name);
            fs::create_dir(&at).expect("root may make a cgroup");
            own.0.push(at.clone());
        }
        at.join("memory.stat").exists().then_some(own)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}

#[test]
fn a_pod_and_a_container_of_this_kernel_have_their_usage_under_every_policy_and_the_system_the_rest()
 {
    let Some(own) = Own::make() else {
        let lacking = "the memory controller is not given to cgroups below the root here";
        assert!(std::env::var_os("CROSSTALK_NO_SKIP").is_none(), "{lacking}");
        return eprintln!("skipped: {lacking}");
    };
    // A task of the container writes a file: 24 MiB of page cache, which stay when it ends.
    let file = tempfile::NamedTempFile::new_in("/var/tmp").unwrap();
    let script = format!(
        "echo $$ > {}/cgroup.procs && dd if=/dev/zero of={} bs=1M count=24 conv=fsync",
        own.0[2].display(),
        file.path().display(),
    );
    let wrote = Command::new("sh").args(["-c", &script]).stderr(Stdio::null()).status().unwrap();
    assert!(wrote.success());
    for policy in POLICIES {
        let mut config = Machine::with_kidled().config("node-a");
        config.host_root = "/".into();
        config.node_metric.mode = Mode::Off;
        config.memory.policy = policy.to_owned();
        // Whatever this kernel has beside them, bounds alone are the same everywhere.
        config.sources.coldmem.backend = "bounds".to_owned();
        let agent = Agent::start(&config).unwrap();
        let all: Value = eventually("the pod", || {
            let text = get(agent.address(), "/memory?top=4096");
            let all: Value = serde_json::from_str(&text).unwrap();
            let is_there = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
            is_there(&all["pods"]).then_some(all)
        });
        let of = |list: &str, key: &str, id: &str| -> Value {
            let list = all[list].as_array().unwrap();
            list.iter().find(|one| one[key] == id).unwrap_or_else(|| panic!("{all:#}")).clone()
        };
        for one in [of("pods", "pod_uid", UID), of("containers", "container_id", ID)] {
            let [hot, without, with] = POLICIES.map(|policy| one[policy].as_u64());
            let (without, with) = (without.unwrap(), with.unwrap());
            assert!(without < 4 * MIB, "{one:#}");
            assert!((23 * MIB..26 * MIB).contains(&(with - without)), "{one:#}");
            assert_eq!((hot, &one["cold_bytes"]), (None, &Value::Null), "only bounds are known");
            let expected = if policy == POLICIES[2] { with } else { without };
            assert_eq!(one["usage_bytes"], expected, "{policy}: {one:#}");
            assert_eq!(one["fallback"].is_string(), policy == POLICIES[0], "{one:#}");
            assert!(one["at_most_bytes"].as_u64().unwrap() >= 23 * MIB, "{one:#}");
        }
        // The rest is exactly what the answer itself says of the node and of all that lies in no other.
        let outermost = outermost(&all);
        for policy in &POLICIES[1..] {
            let used: u64 = outermost.iter().filter_map(|one| one[policy].as_u64()).sum();
            let node = all["node"][policy].as_u64().unwrap();
            assert_eq!(all["system"][policy], node.saturating_sub(used), "{all:#}");
        }
    }
}

/// Pods and containers that lie in no other of them.
fn outermost(all: &Value) -> Vec<Value> {
    let lists = [&all["pods"], &all["containers"]].map(|list| list.as_array().unwrap().clone());
    let every: Vec<Value> = lists.concat();
    let path = |one: &Value| one["cgroup"].as_str().unwrap().to_owned();
    let paths: Vec<String> = every.iter().map(path).collect();
    let lies_in = |one: &Value| {
        paths.iter().any(|outer| path(one).strip_prefix(outer).is_some_and(|b| b.starts_with('/')))
    };
    every.iter().filter(|one| !lies_in(one)).cloned().collect()
}
