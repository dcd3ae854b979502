use super::*;
use crosstalk_collect::{Collect, Delivery, Wants};
use crosstalk_host::Clock;
use crosstalk_inventory::{Container, Facts};
use proptest::prelude::*;

const ID: &str = "4f1d2c3b4a5968778695a4b3c2d1e0f00112233445566778899aabbccddeeff0";

fn write(root: &Path, file: &str, some_us: u64) {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let full = format!("full avg10=0.00 avg60=0.00 avg300=0.00 total={}\n", some_us / 2);
    fs::write(path, format!("some avg10=1.00 avg60=0.00 avg300=0.00 total={some_us}\n{full}"))
        .unwrap();
}

#[test]
fn the_node_and_every_cgroup_have_a_row_of_what_was_added_since_the_last_look() {
    let root = tempfile::tempdir().unwrap();
    let group = format!("sys/fs/cgroup/unified/docker/{ID}");
    let stall = |us: u64| {
        write(root.path(), "proc/pressure/memory", us);
        write(root.path(), &format!("{group}/memory.pressure"), us * 10);
    };
    fs::create_dir_all(root.path().join("proc/1")).unwrap();
    let mounts = "c /sys/fs/cgroup/memory cgroup rw,memory 0 0\n\
                  c /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
    fs::write(root.path().join("proc/1/mounts"), mounts).unwrap();
    stall(100);
    let mut collect = Collect::new(Clock::measure());
    let rows = collect.subscribe("test", 16, Wants::Rows);
    let host = HostRoot::new(root.path());
    let period = Duration::from_millis(20);
    let names = Inventory::new(Duration::ZERO);
    let worker = Container { id: ID.into(), name: "worker".into(), ..Container::default() };
    names.update("test", Facts { containers: vec![worker], ..Facts::default() });
    let source = PressureSource::new(&host, SlotLength::MILLISECOND, period, &names);
    collect.start(Box::new(source)).unwrap();
    let next = || match rows.next(Duration::from_secs(10)).unwrap().delivery {
        Delivery::Rows(batch) => batch.rows::<PressureRow>().unwrap().to_vec(),
        other => panic!("{other:?}"),
    };
    next();
    stall(107);
    let stalled = loop {
        let rows = next();
        let [node, container] = &rows[..] else { panic!("{rows:?}") };
        assert_eq!((&*node.cgroup, node.cgroup_id), ("/", 0));
        assert_eq!(container.place.container_id.as_deref(), Some(ID));
        assert_eq!(container.place.container_name.as_deref(), Some("worker"));
        if node.stalled.some_ns > Some(0) && container.stalled.some_ns > Some(0) {
            break (node.stalled, container.stalled);
        }
    };
    let of = |some, full| Stalled { some_ns: Some(some), full_ns: Some(full) };
    assert_eq!(stalled, (of(7_000, 3_000), of(70_000, 35_000)));
}

#[test]
fn a_kernel_without_pressure_is_absent_with_the_way_to_have_it() {
    let root = tempfile::tempdir().unwrap();
    let host = HostRoot::new(root.path());
    let mut collect = Collect::new(Clock::measure());
    let names = Inventory::new(Duration::ZERO);
    let period = Duration::from_secs(1);
    let source = PressureSource::new(&host, SlotLength::MILLISECOND, period, &names);
    let status = collect.start(Box::new(source)).unwrap();
    let standing = status.wait_until_started(Duration::from_secs(10)).capability;
    assert_eq!(standing.verdict, Verdict::Absent);
    assert!(standing.fix.unwrap().contains("CONFIG_PSI"));
}

#[test]
fn cgroups_beyond_the_limit_are_counted() {
    let root = tempfile::tempdir().unwrap();
    for number in 0..MOST_CGROUPS + 5 {
        fs::create_dir(root.path().join(number.to_string())).unwrap();
    }
    fs::create_dir(root.path().join("7/within")).unwrap();
    let (host, names) = (HostRoot::new(root.path()), Inventory::new(Duration::ZERO));
    let source = PressureSource::new(&host, SlotLength::MILLISECOND, Duration::ZERO, &names);
    let (places, beyond) = source.places(Some(root.path()));
    assert_eq!((places.len(), beyond), (1 + MOST_CGROUPS, 6), "the node, and cgroups");
}

proptest! {
    #[test]
    fn any_text_is_read_without_panic(text in "\\PC*") {
        let _ = Stalled::parse(&text);
    }
}
