//! A real Docker Engine, and sockets that only look like one.
#![allow(clippy::unwrap_used)]

mod support;

use crosstalk_host::{HostRoot, WithFix};
use crosstalk_inventory::{Cgroups, Config, Inventory};
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::time::{Duration, Instant};
use support::{docker, pace, run};

#[test]
fn a_container_of_a_real_engine_is_known_by_name_and_image_and_its_cgroup_leads_to_it() {
    let (daemon, host) = docker("named-image:3");
    let docker = |arguments: &[&str]| run("docker", &[&["-H", &host], arguments].concat()).unwrap();
    let sleep = ["--network=none", "named-image:3", "/bin/sleep", "600"];
    docker(&[&["run", "-d", "--name", "before"], &sleep[..]].concat());
    let config = Config { docker: Some(daemon.path("docker.sock")), ..Config::default() };
    let inventory = Inventory::start(config);
    let named = |name: &str| {
        let snapshot = inventory.snapshot();
        snapshot.containers().find(|container| *container.name == *name).cloned()
    };
    let before = daemon.eventually("the first container", || named("before"));
    assert_eq!(&*before.image, "named-image:3");
    assert!(before.pid.is_some() && before.valid.valid_to_ns.is_none());

    // One that comes later is heard of by an event, long before the next full look.
    let labels =
        ["--label=io.kubernetes.pod.name=train-0", "--label=io.kubernetes.pod.namespace=ml"];
    let labels = [&labels[..], &["--label=io.kubernetes.pod.uid=u-1"]].concat();
    let started = Instant::now();
    let id = docker(&[&["run", "-d", "--name", "after"], &labels[..], &sleep[..]].concat());
    let after = daemon.eventually("the second container", || named("after"));
    assert!(started.elapsed() < Duration::from_secs(10), "not by an event");
    assert_eq!((&*after.id, &*after.pod_name), (&*id, "train-0"));

    let pid = after.pid.unwrap();
    let host_root = HostRoot::new("/");
    let mut cgroups = Cgroups::new(&host_root);
    let hierarchy = cgroups.hierarchy().unwrap().mount.clone();
    let folder = hierarchy.join(format!("{}/{id}", daemon.cgroup.trim_start_matches('/')));
    let cgroup = cgroups.resolve(folder.metadata().unwrap().ino(), pid);
    let placement = inventory.snapshot().place_cgroup(&cgroup);
    assert_eq!(placement.container_name.as_deref(), Some("after"));
    assert_eq!(placement.container_image.as_deref(), Some("named-image:3"));
    assert_eq!(placement.pod_namespace.as_deref(), Some("ml"));
    assert_eq!(placement.pod_uid.as_deref(), Some("u-1"));

    docker(&["rm", "-f", "after"]);
    let over = daemon.eventually("the end", || named("after")?.valid.valid_to_ns);
    assert!(over > after.valid.valid_from_ns, "what is over stays known with its end");
    let status = inventory.statuses().remove(0);
    assert_eq!((status.name, status.error), ("docker", None));
}

/// A socket whose every answer begins with `head` and goes on for ever.
fn endless(head: &'static str) -> (tempfile::TempDir, Config) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("docker.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let _ = stream.read(&mut [0; 4096]);
                let _ = stream.write_all(head.as_bytes());
                while stream.write_all(&[b' '; 65536]).is_ok() {}
            });
        }
    });
    (folder, Config { docker: Some(socket), ..Config::default() })
}

fn error_of(inventory: &Inventory) -> String {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(error) = inventory.statuses().remove(0).error {
            return error.with_fix();
        }
        assert!(Instant::now() < deadline, "no error");
        pace(Duration::from_millis(10));
    }
}

#[test]
fn a_socket_that_floods_is_left_when_its_answer_is_too_long() {
    let (_folder, config) = endless("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n");
    let error = error_of(&Inventory::start(config));
    assert!(error.contains("/containers/json: length limit exceeded"), "{error}");
}

#[test]
fn a_socket_that_hangs_is_left_and_blocks_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("docker.sock");
    let _listener = UnixListener::bind(&socket).unwrap();
    let config = Config { docker: Some(socket), ..Config::default() };
    let started = Instant::now();
    let inventory = Inventory::start(config);
    assert!(inventory.snapshot().container("x").is_none());
    let error = error_of(&inventory);
    assert!(error.contains("no answer"), "{error}");
    drop(inventory);
    assert!(started.elapsed() < Duration::from_secs(25), "ends at once with its last handle");
}

#[test]
fn a_socket_that_may_not_be_used_says_so_with_the_way_out() {
    let config = Config { docker: Some("/no/such/docker.sock".into()), ..Config::default() };
    let error = error_of(&Inventory::start(config));
    assert!(
        error.contains("No such file") && error.contains("see that the engine runs"),
        "{error}"
    );
}
