//! What the crate promises: one round over a tree of cgroups, whatever kernel made it.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

use crosstalk_coldmem::{
    ABOUT, Backend, Choice, ColdBoundary, ColdRow, ColdSource, Kind, Policy, ShowError, Surveyor,
    UsageRow, WarmUp, advise, probe, show,
};
use crosstalk_collect::{Collect, Delivery, Wants};
use crosstalk_host::{Clock, HostRoot, Verdict};
use crosstalk_model::{Placement, SlotLength};
use std::fs;
use std::path::Path;
use std::time::Duration;

const V2: &str = "c /sys/fs/cgroup cgroup2 rw 0 0\n";
const STAT: &str = "inactive_anon 1000\nactive_anon 2000\ninactive_file 40000\nactive_file 8000\n\
                    file_mapped 48000\nunevictable 0\nworkingset_refault_file 5\nworkingset_refault_anon 1\n";

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
        // Some kernels say so of all files in one place.
        let machine = Machine::new(mounts);
        machine.group(root, Some("memory.idle_page_stats"), 1);
        machine.group(&format!("{root}/a"), Some("memory.idle_page_stats"), 10);
        let cold = || cold_by_path(&machine, None).into_iter().map(|(_, cold)| cold.unwrap());
        for (setting, expected) in [("1\n", [4, 40]), ("0\n", [44, 40])] {
            machine.put("sys/kernel/mm/kidled/use_hierarchy", setting);
            assert_eq!(cold().collect::<Vec<_>>(), expected);
        }
        let shown = show(&machine.host, Choice::default(), None, |_| {}).unwrap();
        assert_eq!(shown.idle.unwrap().use_hierarchy, Some(0));
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
    machine.put(&format!("{root}/odd/memory.idle_page_stats"), idle(6));
    fs::create_dir_all(machine.root.path().join(format!("{root}/odd/memory.stat"))).unwrap();
    let survey = machine.open(None).look().map_err(|c| c.found).unwrap();
    let of = |path: &str| survey.groups.iter().find(|group| group.path == path).unwrap();
    assert_eq!(of("/good").cold_bytes(), Some(28));
    assert_eq!((of("/bad").cold_bytes(), of("/bad").stat.is_some()), (None, true));
    assert!(of("/bad").problem.as_ref().unwrap().contains("line 2, column 3"));
    assert_eq!((of("/gone").cold_bytes(), of("/gone").stat), (Some(20), None));
    // One whose charges cannot be read still has ages.
    assert_eq!((of("/odd").cold_bytes(), of("/odd").stat), (Some(24), None));
    assert!(of("/odd").problem.as_ref().unwrap().starts_with("memory.stat: "));
    // That it has no memory controller is no fault.
    assert_eq!((survey.unreadable(), survey.cold_bytes()), (2, Some(400)));
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
    assert_eq!(survey.cold_bytes(), Some(111 * page));
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
    // The last bucket begins at 300 s: of an hour nothing is ever known.
    assert_eq!(kidled.capability.verdict, Verdict::Limited);
    assert_eq!(kidled.warm_up, WarmUp::OutOfReach { reaches_s: 300, needed_s: 3600 });
    assert!(kidled.capability.fix.unwrap().contains("up to 300 s"));
    assert!(kidled.resolution.contains("100 s in 2 buckets"));
    let long = idle(100).replace("buckets: 1,3", "buckets: 1,36");
    machine.put("sys/fs/cgroup/memory.idle_page_stats", long);
    let [kidled, ..] = probe(&machine.host, &boundary);
    assert_eq!(kidled.capability.verdict, Verdict::Ok);
    assert_eq!(kidled.warm_up, WarmUp::Warming { watched_s: 900, needed_s: 3600 });
}

#[test]
fn the_source_delivers_a_row_for_each_cgroup_kind_and_age() {
    let machine = Machine::new(V2);
    machine.group("sys/fs/cgroup", Some("memory.idle_page_stats"), 100);
    machine.group("sys/fs/cgroup/a", Some("memory.idle_page_stats"), 7);
    let mut collect = Collect::new(Clock::measure());
    let batches = collect.subscribe("test", 16, Wants::Rows);
    let (slot, period) = (SlotLength::MILLISECOND, Duration::from_secs(60));
    let source = ColdSource::new(&machine.host, slot, period, Choice::default(), Box::new(nowhere));
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
    let advice = advise(&before, &now, two, &boundary, |_| None, nowhere);
    let [b, a] = &advice[..] else { panic!("{advice:?}") };
    assert_eq!((b.cgroup.as_str(), b.cold_bytes, b.refaults_per_s), ("/b", Some(36), Some(0.0)));
    assert_eq!((a.cold_bytes, a.refaults_per_s, a.stalled), (Some(28), Some(10.0), Some(0.25)));
    assert_eq!((a.usage.unwrap().bytes, b.stalled), (51_000 - 28, None));
    // Half of what counts is locked in memory. 25 pages of files and one from swap came back ever.
    assert_eq!((a.reclaimable_bytes, a.refaults), (Some(14), Some(26)));
    // Where there are containers, only they are advised on.
    let placed = |path: &str| Placement {
        container_id: path.ends_with('a').then(|| "c".into()),
        ..Placement::default()
    };
    assert_eq!(advise(&before, &now, two, &boundary, |_| None, placed).len(), 1);
}

#[test]
fn a_container_is_advised_on_once_whatever_it_has_within() {
    let machine = Machine::new(V2);
    for group in ["", "/pod-x", "/pod-x/c1", "/pod-x/c1/init.scope", "/pod-x/c1/app/deep"] {
        let folder = format!("sys/fs/cgroup{group}");
        machine.group(&folder, Some("memory.idle_page_stats"), 7);
    }
    let survey = machine.open(None).look().map_err(|c| c.found).unwrap();
    let placed = |path: &str| Placement {
        container_id: path.contains("/c1").then(|| "c1".into()),
        pod_uid: path.contains("/pod-x").then(|| "x".into()),
        ..Placement::default()
    };
    let advice =
        advise(&survey, &survey, Duration::ZERO, &ColdBoundary::default(), |_| None, placed);
    let mut cgroups: Vec<_> = advice.iter().map(|one| one.cgroup.as_str()).collect();
    cgroups.sort_unstable();
    assert_eq!(cgroups, ["/pod-x", "/pod-x/c1"]);
}

#[test]
fn anonymous_memory_can_be_taken_only_as_far_as_swap_has_room() {
    let machine = Machine::new(V2);
    machine.group("sys/fs/cgroup", Some("memory.idle_page_stats"), 1);
    machine.group("sys/fs/cgroup/a/b", Some("memory.idle_page_stats"), 1_000);
    let reclaimable = || {
        let boundary =
            ColdBoundary::new(Duration::from_secs(300), ["anon", "file", "slab"]).unwrap();
        let choice = Choice { boundary, ..Choice::default() };
        let mut surveyor = Surveyor::open(&machine.host, choice).map_err(|c| c.found).unwrap();
        let survey = surveyor.look().map_err(|c| c.found).unwrap();
        let room = |path: &str| surveyor.swap_room(path);
        let advice = advise(&survey, &survey, Duration::ZERO, &boundary, room, nowhere);
        let b = advice.iter().find(|one| one.cgroup == "/a/b").unwrap();
        assert_eq!(b.cold_bytes, Some(17_000));
        b.reclaimable_bytes
    };
    assert_eq!(reclaimable(), None, "the kernel does not say whether there is swap");
    let meminfo = "MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: 800 kB\n";
    machine.put("proc/meminfo", format!("{meminfo}SwapFree: 0 kB\n"));
    // Eight rows of files, of which four are locked in memory.
    assert_eq!(reclaimable(), Some(4_000));
    machine.put("proc/meminfo", format!("{meminfo}SwapFree: 2 kB\n"));
    assert_eq!(reclaimable(), Some(4_000 + 2_048));
    machine.put("sys/fs/cgroup/a/b/memory.swap.max", "max\n");
    machine.put("sys/fs/cgroup/a/memory.swap.max", "1000\n");
    machine.put("sys/fs/cgroup/a/memory.swap.current", "300\n");
    assert_eq!(reclaimable(), Some(4_000 + 700));
}

#[test]
fn what_was_not_watched_for_long_enough_is_not_called_nothing() {
    let machine = Machine::new(V2);
    let short = idle(100).replace("page_scans: 9", "page_scans: 2");
    machine.put("sys/fs/cgroup/memory.idle_page_stats", &short);
    machine.put("sys/fs/cgroup/a/memory.idle_page_stats", &short);
    let survey = machine.open(None).look().map_err(|c| c.found).unwrap();
    assert_eq!(survey.warm_up, WarmUp::Warming { watched_s: 200, needed_s: 300 });
    let cells = &survey.ages.as_ref().unwrap().cells;
    assert!(cells.iter().all(|cell| cell.bytes > 0 && cell.cold_bytes.is_none()), "{cells:?}");
    assert_eq!(survey.cold_bytes(), None);
    let advice =
        advise(&survey, &survey, Duration::ZERO, &ColdBoundary::default(), |_| None, nowhere);
    assert!(advice.iter().all(|one| one.cold_bytes.is_none()), "{advice:?}");
    assert_eq!(advice.len(), 1);
}

const NEVER_AGED: &str = " 0 900000 0 0\n 1 900000 0 0\n 2 900000 0 10\n 3 900000 0 0\n";
const AGED: &str = " 4 900000 0 10\n 5 400000 0 0\n 6 5 0 0\n";

fn mglru(machine: &Machine, lists: &[(&str, &str)]) {
    machine.put("sys/kernel/mm/lru_gen/enabled", "0x0007\n");
    let text = lists.iter().enumerate().map(|(at, (path, generations))| {
        format!("memcg {} {path}\n node 0\n{generations}", at + 1)
    });
    machine.put("sys/kernel/debug/lru_gen", text.collect::<String>());
}

#[test]
fn where_nobody_chose_mglru_comes_after_kidled_and_is_only_read() {
    let machine = Machine::new(V2);
    machine.group("sys/fs/cgroup", None, 0);
    machine.group("sys/fs/cgroup/a", None, 0);
    mglru(&machine, &[("/", AGED), ("/a", AGED)]);
    let before = fs::read_to_string(machine.root.path().join("sys/kernel/debug/lru_gen")).unwrap();
    let shown = show(&machine.host, Choice::default(), Some(Path::new("/a")), |_| {}).unwrap();
    let cold = 10 * crosstalk_host::page_bytes();
    assert_eq!((shown.backend, shown.cold_bytes), (Backend::Mglru, Some(cold)));
    // It finds cold memory on active lists too, so these count towards what at most is.
    assert_eq!(shown.at_most_bytes, Some(48_000));
    assert_eq!((shown.cold_from_ms, shown.refaults), (Some(399_995), Some(6)));
    let after = fs::read_to_string(machine.root.path().join("sys/kernel/debug/lru_gen")).unwrap();
    assert_eq!(before, after);
    machine.group("sys/fs/cgroup", Some("memory.idle_page_stats"), 100);
    assert_eq!(machine.open(None).backend(), Backend::Kidled);
}

#[test]
fn one_list_that_was_watched_says_nothing_of_the_others() {
    let machine = Machine::new(V2);
    for group in ["", "/aged", "/aged/new", "/other"] {
        machine.group(&format!("sys/fs/cgroup{group}"), None, 0);
    }
    let new = NEVER_AGED.replace("900000", "5000");
    mglru(&machine, &[("/", AGED), ("/aged", AGED), ("/aged/new", &new), ("/other", NEVER_AGED)]);
    let cold = cold_by_path(&machine, None);
    let mut cold: Vec<_> = cold.iter().map(|(path, cold)| (path.as_str(), *cold)).collect();
    cold.sort_unstable();
    let ten = Some(10 * crosstalk_host::page_bytes());
    // What was made after the boundary holds nothing that is older than it.
    assert_eq!(cold, [("/", None), ("/aged", ten), ("/aged/new", Some(0)), ("/other", None)]);
    let survey = machine.open(None).look().map_err(|c| c.found).unwrap();
    assert_eq!(survey.warm_up, WarmUp::Warming { watched_s: 0, needed_s: 300 });
    assert_eq!(survey.cold_bytes(), None);
}

#[test]
fn page_cache_that_nobody_maps_is_not_called_cold_for_reading_it_does_not_make_it_younger() {
    let machine = Machine::new(V2);
    let page = crosstalk_host::page_bytes();
    for (group, mapped, shared, cold) in
        [("/all", 48_000, 0, 10), ("/most", 48_000 - 4 * page, 0, 6)]
            .into_iter()
            .chain([("/shared", 48_000, 2 * page, 8), ("/none", 0, 0, 0)])
    {
        let stat =
            STAT.replace("file_mapped 48000", &format!("file_mapped {mapped}\nshmem {shared}"));
        machine.put(&format!("sys/fs/cgroup{group}/memory.stat"), stat);
        mglru(&machine, &[(group, AGED)]);
        let told = cold_by_path(&machine, None);
        let own = told.iter().find(|(path, _)| path == group);
        assert_eq!(own, Some(&(group.to_owned(), Some(cold * page))), "{told:?}");
    }
    machine.put("sys/fs/cgroup/none/memory.stat", STAT.replace("file_mapped 48000\n", ""));
    // Where nobody says what is mapped, what is cold is open.
    let told = cold_by_path(&machine, None);
    assert!(told.contains(&("/none".to_owned(), None)), "{told:?}");
}

#[test]
fn a_cgroup_without_memory_or_without_a_list_has_no_ages() {
    let machine = Machine::new(V2);
    machine.group("sys/fs/cgroup", None, 0);
    machine.group("sys/fs/cgroup/unlisted", None, 0);
    machine.put("sys/fs/cgroup/bare/cgroup.procs", "");
    let cold = |path: &str| {
        let cold = cold_by_path(&machine, None);
        cold.into_iter().find(|(is, _)| is == path).unwrap().1
    };
    let ten = Some(10 * crosstalk_host::page_bytes());
    mglru(&machine, &[("/", AGED), ("/bare", AGED), ("/unlisted", AGED)]);
    assert_eq!((cold("/unlisted"), cold("/bare")), (ten, None));
    assert!(cold("/").is_some(), "one without a controller has no memory");
    mglru(&machine, &[("/", AGED), ("/bare", AGED)]);
    assert_eq!((cold("/unlisted"), cold("/")), (None, None), "a part of the whole is not known");
}

#[test]
fn where_each_has_its_own_alone_one_that_cannot_be_read_leaves_the_sums_open_and_no_other() {
    let machine = Machine::new(V2);
    let local = "memory.idle_page_stats.local";
    // In v2 the root has none: the node is the sum of the topmost.
    machine.group("sys/fs/cgroup", None, 0);
    for group in ["/a", "/a/b", "/c"] {
        machine.group(&format!("sys/fs/cgroup{group}"), Some(local), 10);
    }
    let look = || {
        let survey = machine.open(None).look().map_err(|c| c.found).unwrap();
        let of = |path: &str| {
            let group = survey.groups.iter().find(|group| group.path == path).unwrap();
            group.cold_bytes()
        };
        let cold = [of("/a"), of("/a/b"), of("/c"), survey.cold_bytes()];
        (cold, survey.groups[0].why_unknown(), survey.unreadable())
    };
    assert_eq!(look(), ([Some(80), Some(40), Some(40), Some(120)], None, 0));
    machine.put(&format!("sys/fs/cgroup/a/b/{local}"), "# version: 1.0\n");
    let why = "ages of 1 cgroups within are not known".to_owned();
    assert_eq!(look(), ([None, None, Some(40), None], Some(why), 1));
}

#[test]
fn cgroups_beyond_the_limit_are_not_looked_at_and_counted() {
    let machine = Machine::new(V2);
    let local = "memory.idle_page_stats.local";
    machine.group("sys/fs/cgroup", Some(local), 1);
    for at in 0..4_100 {
        let folder = machine.root.path().join(format!("sys/fs/cgroup/{at}/within"));
        fs::create_dir_all(folder).unwrap();
    }
    let mut surveyor = machine.open(None);
    let survey = surveyor.look().map_err(|c| c.found).unwrap();
    assert_eq!((survey.groups.len(), survey.beyond), (4_096, 1 + 8_200 - 4_096));
    // Some may have memory, and the node all of it.
    assert_eq!(survey.cold_bytes(), None);
    let why = survey.groups[0].why_unknown().unwrap();
    assert!(why.contains(&survey.beyond.to_string()), "{why}");
    let left_out = show(&machine.host, Choice::default(), Some(Path::new("/7/within")), |_| {});
    assert!(left_out.unwrap().problem.unwrap().contains("too many"), "it is one of them");
    // Values that hold those within need none of them.
    fs::remove_file(machine.root.path().join(format!("sys/fs/cgroup/{local}"))).unwrap();
    machine.group("sys/fs/cgroup", Some("memory.idle_page_stats"), 1);
    assert_eq!(machine.open(None).look().map_err(|c| c.found).unwrap().cold_bytes(), Some(4));

    let mut collect = Collect::new(Clock::measure());
    let (slot, period) = (SlotLength::MILLISECOND, Duration::from_secs(60));
    let source = ColdSource::new(&machine.host, slot, period, Choice::default(), Box::new(nowhere));
    let status = collect.start(Box::new(source)).unwrap();
    let standing = status.wait_until_started(Duration::from_secs(30)).capability;
    assert!(standing.found.contains("4105 beyond the limit"), "{}", standing.found);
    let lost = collect.overview().losses().all();
    assert!(lost.iter().any(|loss| loss.dataset == "memory"), "{lost:?}");
}

#[test]
fn usage_can_be_looked_at_alone() {
    let machine = Machine::new(V2);
    machine.group("sys/fs/cgroup", Some("memory.idle_page_stats"), 100);
    let mut surveyor = machine.open(None);
    let survey = surveyor.look_at_usage();
    assert_eq!((survey.backend, survey.cold_bytes()), (Backend::Kidled, None));
    assert!(survey.groups[0].stat.is_some() && survey.groups[0].ages.is_none());
    assert_eq!(survey.groups[0].why_unknown(), None, "nobody asked");
    assert_eq!(surveyor.look().map_err(|c| c.found).unwrap().cold_bytes(), Some(400));
}

/// Nobody's DAMON, as a kernel has it before anybody sets it up.
fn free_damon(machine: &Machine) {
    let root = "sys/kernel/mm/damon/admin/kdamonds";
    machine.put(&format!("{root}/nr_kdamonds"), "0\n");
    let context = format!("{root}/0/contexts/0");
    for folder in
        ["monitoring_attrs/intervals", "monitoring_attrs/nr_regions", "targets/0/regions/0"]
            .into_iter()
            .chain(["schemes/0/access_pattern/sz", "schemes/0/access_pattern/nr_accesses"])
            .chain(["schemes/0/access_pattern/age", "schemes/0/tried_regions"])
    {
        fs::create_dir_all(machine.root.path().join(format!("{context}/{folder}"))).unwrap();
    }
    machine.put("proc/iomem", "00001000-0009ffff : System RAM\n");
    machine.put("proc/sys/kernel/osrelease", "6.12.117-cloud\n");
    machine.put("proc/kpageflags", "");
    machine.put("proc/kpagecgroup", "");
}

fn foreign_damon(machine: &Machine) {
    let root = "sys/kernel/mm/damon/admin/kdamonds";
    machine.put(&format!("{root}/nr_kdamonds"), "1\n");
    machine.put(&format!("{root}/0/state"), "on\n");
    machine.put(&format!("{root}/0/pid"), "77\n");
}

#[test]
fn where_nobody_chose_and_nothing_else_tells_show_uses_damon_if_nobody_else_does() {
    let machine = Machine::new(V2);
    machine.group("sys/fs/cgroup", None, 0);
    mglru(&machine, &[("/", NEVER_AGED)]);
    free_damon(&machine);
    // Of five minutes nobody can be told at once, and so nobody is made to wait.
    let shown = show(&machine.host, Choice::default(), None, |_| {}).unwrap();
    assert_eq!((shown.backend, shown.cold_bytes), (Backend::Mglru, None));
    let soon = || {
        let boundary = ColdBoundary::inactive_page_cache(Duration::from_secs(8));
        Choice { boundary, ..Choice::default() }
    };
    let mut waited_for = None;
    let shown = show(&machine.host, soon(), None, |open| waited_for = Some(open.backend()));
    assert_eq!((shown.unwrap().backend, waited_for), (Backend::Damon, Some(Backend::Damon)));
    let count = machine.root.path().join("sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds");
    assert_eq!(fs::read_to_string(&count).unwrap(), "0", "and takes it down");
    foreign_damon(&machine);
    let shown = show(&machine.host, soon(), None, |_| {}).unwrap();
    assert_eq!((shown.backend, shown.cold_bytes), (Backend::Mglru, None));
    assert_eq!(fs::read_to_string(&count).unwrap(), "1\n");
    // The agent never starts it by itself.
    free_damon(&machine);
    assert_eq!(machine.open(None).backend(), Backend::Mglru);
}

#[test]
fn damon_that_nobody_chose_and_that_fails_costs_nobody_what_else_is_known() {
    let machine = Machine::new(V2);
    machine.group("sys/fs/cgroup", None, 0);
    mglru(&machine, &[("/", NEVER_AGED)]);
    free_damon(&machine);
    let boundary = ColdBoundary::inactive_page_cache(Duration::from_secs(8));
    let choice = || Choice { boundary, ..Choice::default() };
    // Its regions cannot be read, which shows only after the wait.
    let regions = "sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes/0/tried_regions";
    fs::remove_dir(machine.root.path().join(regions)).unwrap();
    let mut waited_for = Vec::new();
    let shown = show(&machine.host, choice(), None, |open| waited_for.push(open.backend()));
    let shown = shown.unwrap();
    assert_eq!((waited_for, shown.backend), (vec![Backend::Damon], Backend::Mglru));
    assert!(shown.at_most_bytes.is_some());
    let problem = shown.problem.unwrap();
    assert!(problem.starts_with("DAMON was tried: ") && problem.contains("tried_regions"));
    let chosen = Choice { backend: Some(Backend::Damon), ..choice() };
    assert!(matches!(show(&machine.host, chosen, None, |_| {}), Err(ShowError::Backend(_))));
    // Before 6.2 no kernel tells of regions, and nobody is made to wait.
    machine.put("proc/sys/kernel/osrelease", "6.1.0-40-amd64\n");
    let mut waited_for = Vec::new();
    let shown = show(&machine.host, choice(), None, |open| waited_for.push(open.backend()));
    let shown = shown.unwrap();
    assert_eq!((waited_for, shown.backend), (vec![Backend::Mglru], Backend::Mglru));
    let damon = &shown.backends[1].capability;
    assert_eq!(damon.verdict, Verdict::Absent);
    assert!(damon.found.contains("6.1.0-40-amd64") && damon.fix.as_ref().unwrap().contains("6.2"));
}

/// A kernel that lets nobody see whose pages are, and whose filters count what passes them, or do not yet.
fn without_pages(machine: &Machine, release: &str) {
    free_damon(machine);
    for file in ["proc/kpageflags", "proc/kpagecgroup"] {
        fs::remove_file(machine.root.path().join(file)).unwrap();
    }
    machine.put("proc/sys/kernel/osrelease", release);
}

#[test]
fn damon_without_pages_is_limited_to_what_filters_are_asked_of_and_says_what_would_help() {
    let machine = Machine::new(V2);
    machine.group("sys/fs/cgroup", None, 0);
    let found = || {
        let [_, damon, ..] = probe(&machine.host, &ColdBoundary::default());
        let fix = damon.capability.fix.unwrap();
        assert!(fix.contains("/proc/kpagecgroup"), "{fix}");
        (damon.capability.verdict, damon.capability.found)
    };
    without_pages(&machine, "6.12.117-cloud\n");
    assert_eq!(found().0, Verdict::Absent);
    without_pages(&machine, "6.14.0\n");
    assert_eq!(found().0, Verdict::Limited);
    for at in 1..256 {
        machine.group(&format!("sys/fs/cgroup/{at}"), None, 0);
    }
    assert_eq!(found().0, Verdict::Limited, "256 with the root");
    machine.group("sys/fs/cgroup/256", None, 0);
    let (verdict, found) = found();
    assert_eq!(verdict, Verdict::Absent);
    assert!(found.contains("more than the 256 cgroups"), "{found}");
}

#[test]
fn shared_memory_which_filters_take_for_page_cache_is_not_called_cold() {
    let machine = Machine::new(V2);
    without_pages(&machine, "6.18.0\n");
    for folder in ["sys/fs/cgroup", "sys/fs/cgroup/a"] {
        machine.put(&format!("{folder}/memory.stat"), format!("{STAT}shmem 30000\n"));
    }
    // Two cgroups and two kinds: four schemes, each of which tells of ten pages.
    let schemes = "sys/kernel/mm/damon/admin/kdamonds/0/contexts/0/schemes";
    for at in 0..4 {
        for folder in ["sz", "nr_accesses", "age"] {
            machine.put(&format!("{schemes}/{at}/access_pattern/{folder}/max"), "");
        }
        for file in ["type", "matching", "allow", "memcg_path"] {
            machine.put(&format!("{schemes}/{at}/ops_filters/0/{file}"), "");
            machine.put(&format!("{schemes}/{at}/ops_filters/1/{file}"), "");
        }
        for (name, value) in [("start", 0), ("age", 9), ("sz_filter_passed", 40_960)] {
            machine.put(&format!("{schemes}/{at}/tried_regions/0/{name}"), value.to_string());
        }
    }
    let boundary = ColdBoundary::new(Duration::ZERO, ["file"]).unwrap();
    let choice = Choice { backend: Some(Backend::Damon), boundary, ..Choice::default() };
    let mut surveyor = Surveyor::open(&machine.host, choice).map_err(|c| c.found).unwrap();
    let survey = surveyor.look().map_err(|c| c.found).unwrap();
    let cold: Vec<_> = survey.groups.iter().map(|g| (g.path.as_str(), g.cold_bytes())).collect();
    assert_eq!(cold, [("/", Some(2 * 40_960 - 30_000)), ("/a", Some(40_960 - 30_000))]);
}

#[test]
fn a_back_end_that_does_not_work_costs_ages_and_not_usage_and_is_tried_again() {
    let machine = Machine::new(V2);
    machine.group("sys/fs/cgroup", None, 0);
    machine.group("sys/fs/cgroup/a", None, 0);
    free_damon(&machine);
    foreign_damon(&machine);
    let choice = Choice { backend: Some(Backend::Damon), ..Choice::default() };
    let opened = Surveyor::open_or_bounds(&machine.host, choice);
    let mut surveyor = opened.map_err(|c| c.found).unwrap().retry_after(Duration::ZERO);
    let survey = surveyor.look_or_bounds();
    assert_eq!((survey.backend, survey.groups.len()), (Backend::Bounds, 2));
    assert!(survey.fallen.unwrap().found.contains("pid 77"));
    assert!(survey.groups[1].ages.is_none() && survey.groups[1].stat.is_some());
    // Once it is free it is used, until somebody stops it.
    free_damon(&machine);
    let survey = surveyor.look_or_bounds();
    assert_eq!((survey.backend, survey.fallen), (Backend::Damon, None));
    machine.put("sys/kernel/mm/damon/admin/kdamonds/0/pid", "78\n");
    let survey = surveyor.look_or_bounds();
    assert_eq!(survey.backend, Backend::Bounds);
    assert!(survey.fallen.unwrap().found.contains("stopped by somebody else"));

    let machine = Machine::new(V2);
    machine.group("sys/fs/cgroup", None, 0);
    mglru(&machine, &[("/", AGED)]);
    let mut surveyor = machine.open(None);
    machine.put("sys/kernel/debug/lru_gen", "not as the kernel writes it\n");
    let survey = surveyor.look_or_bounds();
    assert!(survey.fallen.unwrap().found.contains("lru_gen line 1"));
    assert!(survey.groups[0].stat.is_some());
}

#[test]
fn the_source_tells_usage_and_why_there_are_no_ages_while_somebody_else_runs_damon() {
    let machine = Machine::new(V2);
    machine.group("sys/fs/cgroup", None, 0);
    free_damon(&machine);
    foreign_damon(&machine);
    let mut collect = Collect::new(Clock::measure());
    let batches = collect.subscribe("test", 16, Wants::Rows);
    let (slot, period) = (SlotLength::MILLISECOND, Duration::from_secs(60));
    let choice = Choice { backend: Some(Backend::Damon), ..Choice::default() };
    let source = ColdSource::new(&machine.host, slot, period, choice, Box::new(nowhere));
    let status = collect.start(Box::new(source)).unwrap();
    let mut usage = None;
    while usage.is_none() {
        let Delivery::Rows(batch) = batches.next(Duration::from_secs(10)).unwrap().delivery else {
            panic!("rows are delivered");
        };
        usage = batch.rows::<UsageRow>().map(<[UsageRow]>::to_vec);
    }
    let node = &usage.unwrap()[0];
    assert_eq!(node.without_page_cache, Some(200 * 1024));
    let hot = node.usage_under(Policy::UsageWithHotPageCache).unwrap();
    assert!(hot.fallback().is_some());
    let standing = status.wait_until_started(Duration::from_secs(10)).capability;
    assert_eq!(standing.verdict, Verdict::Limited);
    assert!(standing.found.contains("pid 77"), "{}", standing.found);
}

#[test]
fn a_boundary_that_kidled_cannot_tell_is_rounded_up_or_called_out_of_reach() {
    let machine = Machine::new(V2);
    machine.group("sys/fs/cgroup", Some("memory.idle_page_stats"), 100);
    let of = |age_s: u64| {
        let boundary = ColdBoundary::inactive_page_cache(Duration::from_secs(age_s));
        let choice = Choice { boundary, ..Choice::default() };
        show(&machine.host, choice, None, |_| {}).unwrap()
    };
    let within = of(250);
    assert_eq!((within.cold_from_ms, within.cold_bytes), (Some(300_000), Some(400)));
    let beyond = of(301);
    assert_eq!((beyond.cold_from_ms, beyond.cold_bytes), (None, None));
    assert_eq!(beyond.warm_up, WarmUp::OutOfReach { reaches_s: 300, needed_s: 301 });
    // Ages end at 255 scans, whatever the buckets say.
    let deep = idle(100).replace("buckets: 1,3", "buckets: 1,300");
    machine.put("sys/fs/cgroup/memory.idle_page_stats", deep);
    assert_eq!(of(20_000).warm_up, WarmUp::OutOfReach { reaches_s: 100, needed_s: 20_000 });
}

#[test]
fn a_malformed_idle_file_is_said_and_costs_nothing_else() {
    let machine = Machine::new(V2);
    machine.group("sys/fs/cgroup", Some("memory.idle_page_stats"), 100);
    machine.group("sys/fs/cgroup/a", None, 0);
    machine.put("sys/fs/cgroup/a/memory.idle_page_stats", "# version: 1.0\n  csei x\n");
    for backend in [None, Some(Backend::Bounds)] {
        let choice = Choice { backend, ..Choice::default() };
        let shown = show(&machine.host, choice, Some(Path::new("/a")), |_| {}).unwrap();
        assert!(shown.problem.unwrap().contains("line 2, column 3"));
        assert_eq!((shown.usage[1].bytes, shown.at_most_bytes), (3_000, Some(40_000)));
        assert!(shown.idle.is_none() && shown.cold_bytes.is_none());
    }
}
