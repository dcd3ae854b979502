//! What the crate promises: one round over a tree of cgroups, whatever kernel made it.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

use crosstalk_coldmem::{
    ABOUT, Backend, Choice, ColdBoundary, ColdRow, ColdSource, Kind, Policy, ShowError, Surveyor,
    WarmUp, advise, probe, show,
};
use crosstalk_collect::{Collect, Delivery, Wants};
use crosstalk_host::{Clock, HostRoot, Verdict};
use crosstalk_model::{Placement, SlotLength};
use std::fs;
use std::path::Path;
use std::time::Duration;

const V2: &str = "c /sys/fs/cgroup cgroup2 rw 0 0\n";
const STAT: &str = "inactive_anon 1000\nactive_anon 2000\ninactive_file 40000\nactive_file 8000\n\
                    unevictable 0\nworkingset_refault_file 5\nworkingset_refault_anon 1\n";

struct Machine {
    root: tempfile::TempDir,
    host: HostRoot,
}

impl Machine {
    fn new(mounts: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        let host = HostRoot::new(root.path());
        let machine = Self { root, host };
        machine.put("proc/1/mounts", mounts);
        machine.put("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: 800 kB\n");
        machine
    }

    fn put(&self, file: &str, text: impl AsRef<[u8]>) {
        let path = self.root.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn group(&self, folder: &str, idle_name: Option<&str>, bytes: u64) {
        self.put(&format!("{folder}/memory.stat"), STAT);
        if let Some(name) = idle_name {
            self.put(&format!("{folder}/{name}"), idle(bytes));
        }
    }

    fn open(&self, backend: Option<Backend>) -> Surveyor {
        let choice = Choice { backend, ..Choice::default() };
        Surveyor::open(&self.host, choice).map_err(|c| c.found).unwrap()
    }
}

/// Every row has `bytes` that are idle for 300 s, so with the shipped boundary four times as much is cold.
fn idle(bytes: u64) -> String {
    let header = "# version: 1.0\n# page_scans: 9\n# slab_scans: 0\n\
                  # scan_period_in_seconds: 100\n# buckets: 1,3\n";
    let rows = ["csei", "dsei", "cfei", "dfei", "csui", "dsui", "cfui", "dfui"].into_iter();
    let rows = rows.chain(["csea", "dsea", "cfea", "dfea", "csua", "dsua", "cfua", "dfua", "slab"]);
    rows.fold(header.to_owned(), |text, row| text + &format!("{row} 1 {bytes}\n"))
}

fn nowhere(_: &str) -> Placement {
    Placement::default()
}

fn cold_by_path(machine: &Machine, backend: Option<Backend>) -> Vec<(String, Option<u64>)> {
    let survey = machine.open(backend).look().map_err(|c| c.found).unwrap();
    survey.groups.iter().map(|group| (group.path.clone(), group.cold_bytes())).collect()
}

#[test]
fn every_name_of_kidleds_file_is_read_in_both_hierarchies() {
    let v1 = "c /sys/fs/cgroup/memory cgroup rw,memory 0 0\n";
    for (mounts, root) in [(V2, "sys/fs/cgroup"), (v1, "sys/fs/cgroup/memory")] {
        for name in ["memory.idle_page_stats", "memory.idle_stat"] {
            let machine = Machine::new(mounts);
            machine.group(root, Some(name), 100);
            machine.group(&format!("{root}/pod"), Some(name), 7);
            let found = cold_by_path(&machine, None);
            assert_eq!(found, [("/".into(), Some(400)), ("/pod".into(), Some(28))], "{name}");
            machine.group(root, Some(&format!("{name}.local")), 1);
            assert_eq!(cold_by_path(&machine, None), found, "the whole comes before the part");
        }
        // The cgroups' own values alone: the sums are made here.
        let machine = Machine::new(mounts);
        machine.group(root, Some("memory.idle_page_stats.local"), 1);
        machine.group(&format!("{root}/a"), Some("memory.idle_page_stats.local"), 10);
        machine.group(&format!("{root}/a/b"), Some("memory.idle_page_stats.local"), 100);
        let found = cold_by_path(&machine, None);
        let cold: Vec<_> = found.into_iter().map(|(_, cold)| cold.unwrap()).collect();
        assert_eq!(cold, [444, 440, 400]);
    }
}

#[test]
fn one_unreadable_cgroup_costs_no_other_its_values() {
    let machine = Machine::new(V2);
    let root = "sys/fs/cgroup";
    machine.group(root, Some("memory.idle_page_stats"), 100);
    machine.group(&format!("{root}/good"), Some("memory.idle_page_stats"), 7);
    machine.group(&format!("{root}/bad"), None, 0);
    machine.put(&format!("{root}/bad/memory.idle_page_stats"), "# version: 1.0\n  csei x\n");
    machine.put(&format!("{root}/gone/memory.idle_page_stats"), idle(5));
    let survey = machine.open(None).look().map_err(|c| c.found).unwrap();
    let of = |path: &str| survey.groups.iter().find(|group| group.path == path).unwrap();
    assert_eq!(of("/good").cold_bytes(), Some(28));
    assert_eq!((of("/bad").cold_bytes(), of("/bad").stat.is_some()), (None, true));
    assert!(of("/bad").problem.as_ref().unwrap().contains("line 2, column 3"));
    assert_eq!((of("/gone").cold_bytes(), of("/gone").stat), (Some(20), None));
    assert_eq!((survey.unreadable(), survey.ages.clone().unwrap().cold_bytes()), (2, 400));
}

#[test]
fn generations_are_added_up_over_the_cgroups_within() {
    let machine = Machine::new(V2);
    machine.group("sys/fs/cgroup", None, 0);
    machine.group("sys/fs/cgroup/a/b", None, 0);
    machine.put("sys/kernel/mm/lru_gen/enabled", "0x0007\n");
    let lists = "memcg 1 /\n node 0\n 0 900000 1 1\n 1 400000 0 0\n 2 5 9 9\n\
                 memcg 5 /a/b\n node 0\n 0 900000 1 10\n 1 350000 0 0\n 2 5 0 0\n\
                 memcg 9 /gone\n node 0\n 0 900000 0 100\n 1 350000 0 0\n 2 6000 0 0\n";
    machine.put("sys/kernel/debug/lru_gen", lists);
    let page = crosstalk_host::page_bytes();
    let cold = cold_by_path(&machine, Some(Backend::Mglru));
    let expected = [("/", 11), ("/a", 10), ("/a/b", 10)];
    assert_eq!(cold, expected.map(|(path, pages)| (path.to_owned(), Some(pages * page))));
    // A cgroup that is being removed is still in the node's memory.
    let survey = machine.open(Some(Backend::Mglru)).look().map_err(|c| c.found).unwrap();
    assert_eq!(survey.ages.unwrap().cold_bytes(), 111 * page);
    assert_eq!(
        fs::read_to_string(machine.root.path().join("sys/kernel/debug/lru_gen")).unwrap(),
        lists
    );

    let boundary = ColdBoundary::new(Duration::from_secs(10), ["file"]).unwrap();
    let choice = Choice { backend: Some(Backend::Mglru), boundary, ageing: true };
    let mut ageing = Surveyor::open(&machine.host, choice).map_err(|c| c.found).unwrap();
    ageing.look().map_err(|c| c.found).unwrap();
    let asked = fs::read_to_string(machine.root.path().join("sys/kernel/debug/lru_gen")).unwrap();
    assert_eq!(asked, "+ 9 0 2 1 1", "lists that are young are left alone");
}

#[test]
fn where_nothing_tells_ages_bounds_are_given_and_usage_falls_back() {
    let machine = Machine::new(V2);
    machine.group("sys/fs/cgroup", None, 0);
    machine.group("sys/fs/cgroup/a", None, 0);
    let look =
        |cgroup: &str| show(&machine.host, Choice::default(), Some(Path::new(cgroup)), |_| {});
    let shown = look("/a/").unwrap();
    assert_eq!(
        (shown.backend, shown.cold_bytes, shown.at_most_bytes),
        (Backend::Bounds, None, Some(40_000))
    );
    let usage: Vec<_> = shown.usage.iter().map(|u| (u.asked, u.policy, u.bytes)).collect();
    let (hot, without, with) =
        (Policy::UsageWithHotPageCache, Policy::UsageWithoutPageCache, Policy::UsageWithPageCache);
    assert_eq!(usage, [(hot, without, 3_000), (without, without, 3_000), (with, with, 51_000)]);
    assert!(matches!(look("/nowhere"), Err(ShowError::NoCgroup { .. })));
    assert!(matches!(look("/../../proc"), Err(ShowError::NoCgroup { .. })));
    let node = look("/").unwrap();
    assert_eq!(node.usage[2].bytes, 700 * 1024);
    let json = serde_json::to_value(&node).unwrap();
    assert!(json["idle_total_bytes"].is_null() && json["cold_bytes"].is_null());

    let choice = Choice { backend: Some(Backend::Kidled), ..Choice::default() };
    let absent = Surveyor::open(&machine.host, choice).err().unwrap();
    assert_eq!(absent.verdict, Verdict::Absent);
    assert!(absent.fix.unwrap().contains("CONFIG_KIDLED"));
}

#[test]
fn the_proposals_structure_is_shown_under_its_own_names() {
    let machine = Machine::new(V2);
    machine.group("sys/fs/cgroup", Some("memory.idle_stat"), 100);
    let shown = show(&machine.host, Choice::default(), None, |_| {}).unwrap();
    let json = serde_json::to_value(&shown).unwrap();
    assert_eq!(json["page_scans"], 9);
    assert_eq!(json["scan_period_in_seconds"], 100);
    assert_eq!(json["buckets"], serde_json::json!([1, 3]));
    assert_eq!(json["dfua"], serde_json::json!([1, 100]));
    assert_eq!(json["idle_total_bytes"], 17 * 101);
    assert!(json["use_hierarchy"].is_null());
    assert_eq!((shown.backend, shown.cold_bytes), (Backend::Kidled, Some(400)));
    assert_eq!(shown.usage[0].bytes, 700 * 1024 - 400);
    // What is shown of the file is what the file says.
    let idle = serde_json::to_value(shown.idle.unwrap()).unwrap();
    for (key, value) in idle.as_object().unwrap() {
        assert_eq!(&json[key], value, "{key}");
    }
}

#[test]
fn each_back_end_says_how_it_stands() {
    let machine = Machine::new(V2);
    machine.group("sys/fs/cgroup", Some("memory.idle_page_stats"), 100);
    machine.put("sys/kernel/mm/kidled/scan_period_in_seconds", "0\n");
    let boundary = ColdBoundary::inactive_page_cache(Duration::from_secs(3600));
    let [kidled, damon, mglru, bounds] = probe(&machine.host, &boundary);
    assert_eq!(kidled.capability.verdict, Verdict::Absent);
    assert!(kidled.capability.fix.unwrap().contains("scan_period_in_seconds"));
    assert_eq!(
        (damon.capability.verdict, mglru.capability.verdict),
        (Verdict::Absent, Verdict::Absent)
    );
    assert_eq!(bounds.capability.verdict, Verdict::Limited);
    machine.put("sys/kernel/mm/kidled/scan_period_in_seconds", "100\n");
    let [kidled, ..] = probe(&machine.host, &boundary);
    assert_eq!(kidled.capability.verdict, Verdict::Ok);
    assert_eq!(kidled.warm_up, WarmUp::Warming { watched_s: 900, needed_s: 3600 });
    assert!(kidled.resolution.contains("100 s in 2 buckets"));
}

#[test]
fn the_source_delivers_a_row_for_each_cgroup_kind_and_age() {
    let machine = Machine::new(V2);
    machine.group("sys/fs/cgroup", Some("memory.idle_page_stats"), 100);
    machine.group("sys/fs/cgroup/a", Some("memory.idle_page_stats"), 7);
    let mut collect = Collect::new(Clock::measure());
    let batches = collect.subscribe("test", 16, Wants::Rows);
    let (slot, period) = (SlotLength::MILLISECOND, Duration::from_secs(60));
    let source = ColdSource::new(&machine.host, slot, period, Choice::default(), nowhere);
    let status = collect.start(Box::new(source)).unwrap();
    let Delivery::Rows(batch) = batches.next(Duration::from_secs(10)).unwrap().delivery else {
        panic!("rows are delivered");
    };
    let rows = batch.rows::<ColdRow>().unwrap();
    assert_eq!(rows.len(), 2 * 3 * 2);
    let cold: Vec<_> = rows.iter().filter(|row| row.cold_bytes > Some(0)).collect();
    let [node, group] = &cold[..] else { panic!("{cold:?}") };
    assert_eq!((node.cgroup_id, &*node.cgroup, node.cold_bytes), (0, "/", Some(400)));
    assert_eq!((&*group.cgroup, group.kind, group.age_from_ms), ("/a", Kind::File, 300_000));
    assert_eq!((group.bytes, group.cold_bytes, group.at_most_bytes), (Some(56), Some(28), None));
    let standing = status.wait_until_started(Duration::from_secs(10)).capability;
    assert_eq!((standing.name, standing.verdict), (ABOUT.name, Verdict::Ok));
}

#[test]
fn advice_tells_what_is_cold_and_what_came_back() {
    let machine = Machine::new(V2);
    machine.group("sys/fs/cgroup", Some("memory.idle_page_stats"), 100);
    machine.group("sys/fs/cgroup/a", Some("memory.idle_page_stats"), 7);
    machine.group("sys/fs/cgroup/b", Some("memory.idle_page_stats"), 9);
    machine.put("sys/fs/cgroup/a/memory.pressure", "some avg10=0.00 total=1000\n");
    let mut surveyor = machine.open(None);
    let before = surveyor.look().map_err(|c| c.found).unwrap();
    machine.put("sys/fs/cgroup/a/memory.stat", STAT.replace("file 5\n", "file 25\n"));
    machine.put("sys/fs/cgroup/a/memory.pressure", "some avg10=0.00 total=501000\n");
    let now = surveyor.look().map_err(|c| c.found).unwrap();
    let boundary = ColdBoundary::default();
    let two = Duration::from_secs(2);
    let advice = advise(&before, &now, two, &boundary, nowhere);
    let [b, a] = &advice[..] else { panic!("{advice:?}") };
    assert_eq!((b.cgroup.as_str(), b.cold_bytes, b.refaults_per_s), ("/b", Some(36), Some(0.0)));
    assert_eq!((a.cold_bytes, a.refaults_per_s, a.stalled), (Some(28), Some(10.0), Some(0.25)));
    assert_eq!((a.usage.unwrap().bytes, b.stalled), (51_000 - 28, None));
    // Where there are containers, only they are advised on.
    let placed = |path: &str| Placement {
        container_id: path.ends_with('a').then(|| "c".into()),
        ..Placement::default()
    };
    assert_eq!(advise(&before, &now, two, &boundary, placed).len(), 1);
}
