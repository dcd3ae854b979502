//! A real cgroup, named as container engines name theirs, with a real process in it.

use crate::client::get;
use crate::process::Agent;
use crosstalk_host::{CgroupHierarchy, HostRoot};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Ended and removed when dropped.
struct Container {
    id: String,
    folder: PathBuf,
    process: Child,
}

impl Container {
    fn start() -> Self {
        let host = HostRoot::default();
        let hierarchy = CgroupHierarchy::find(&host).expect("a cgroup file system is mounted");
        let id = format!("{:064x}", std::process::id());
        let folder = host.path(hierarchy.mount.join("docker").join(&id));
        fs::create_dir_all(&folder).expect("root may make cgroups");
        let script = "while :; do :; done";
        let process =
            Command::new("sh").args(["-c", script]).stdout(Stdio::null()).spawn().unwrap();
        fs::write(folder.join("cgroup.procs"), process.id().to_string()).unwrap();
        Self { id, folder, process }
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir(&self.folder);
        // Only if nobody else has containers there.
        let _ = self.folder.parent().map(fs::remove_dir);
    }
}

#[test]
fn a_container_has_processor_time_and_memory_and_prometheus_sees_it() {
    let container = Container::start();
    let agent = Agent::start("[sampling]\nperiod = \"100ms\"\n[subjects]\nperiod = \"200ms\"\n");
    let mine = |answer: &Value| {
        let all = answer["subjects"].as_array().cloned().unwrap_or_default();
        all.into_iter().find(|subject| subject["container_id"] == json!(container.id))
    };
    let answer = agent.until("window_seconds=5&subject=container&top=1000", |answer| {
        mine(answer).is_some_and(|container| {
            container["metrics"]["mean_cpu_util"].as_f64() > Some(0.02)
                && !container["metrics"]["mean_mem_charged"].is_null()
        })
    });
    let found = mine(&answer).unwrap();
    // Told once by the kernel's own account and once by the scheduler's: one entry all the same.
    assert!(found["metrics"]["mean_cpu_util"].as_f64() <= Some(1.0), "{found:#}");
    let process = agent.window("window_seconds=5&subject=process&top=1000");
    let inside = process["subjects"].as_array().unwrap().iter().find(|subject| {
        subject["pid"] == json!(container.process.id())
            && subject["container_id"] == json!(container.id)
    });
    assert!(inside.is_some(), "{process:#}");
    let text = get(agent.address, "/metrics").body;
    let label =
        format!("crosstalk_container_cpu_utilization_ratio{{container_id=\"{}\"", container.id);
    assert!(text.contains(&label), "{text}");
}
