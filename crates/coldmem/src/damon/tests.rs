use super::*;
use crate::age::{Ages, ColdBoundary, Kind};
use crosstalk_host::WithFix;
use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

fn put(root: &Path, file: &str, text: impl AsRef<[u8]>) {
    let path = root.join(file.trim_start_matches('/'));
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// A sysfs in which every folder there can be exists already.
fn machine() -> (tempfile::TempDir, HostRoot) {
    let root = tempfile::tempdir().unwrap();
    let iomem = "00001000-0009fbff : System RAM\n00100000-001fffff : System RAM\n\
                 \x20 00100000-0010ffff : Kernel code\n00200000-002fffff : Reserved\n";
    put(root.path(), "/proc/iomem", iomem);
    for (file, _) in session::set_up(&[(0, 1), (2, 3)], Duration::ZERO) {
        put(root.path(), &format!("{KDAMONDS}/{file}"), "");
    }
    put(root.path(), &format!("{KDAMONDS}/nr_kdamonds"), "0\n");
    put(root.path(), "/proc/sys/kernel/osrelease", "6.12.117\n");
    let host = HostRoot::new(root.path());
    (root, host)
}

fn line(host: &HostRoot, file: &str) -> String {
    host.line(format!("{KDAMONDS}/{file}")).unwrap()
}

#[test]
fn a_session_sets_up_a_scheme_that_only_counts_and_takes_it_down_again() {
    let (_root, host) = machine();
    let session = Session::start(&host, &ColdBoundary::default()).unwrap();
    assert_eq!(line(&host, "0/contexts/0/schemes/0/action"), "stat");
    assert_eq!(line(&host, "0/contexts/0/targets/0/regions/1/end"), (0x20_0000).to_string());
    assert_eq!((line(&host, "nr_kdamonds"), line(&host, "0/state")), ("1".into(), "on".into()));
    drop(session);
    assert_eq!((line(&host, "nr_kdamonds"), line(&host, "0/state")), ("0".into(), "off".into()));
}

#[test]
fn a_kdamond_that_took_the_place_of_ours_is_left_alone() {
    let (root, host) = machine();
    put(root.path(), &format!("{KDAMONDS}/0/pid"), "77\n");
    let mut session = Session::start(&host, &ColdBoundary::default()).unwrap();
    put(root.path(), &format!("{KDAMONDS}/0/pid"), "78\n");
    let Err(DamonError::Taken(whose)) = session.idle_regions() else { panic!("it was taken") };
    assert!(whose.contains("78"), "{whose}");
    drop(session);
    assert_eq!((line(&host, "nr_kdamonds"), line(&host, "0/state")), ("1".into(), "on".into()));
}

#[test]
fn what_somebody_switched_off_is_taken_down_unless_it_was_made_into_something_else() {
    for (changed, left) in [(None, "0"), (Some(("0/contexts/0/operations", "vaddr")), "1")] {
        let (root, host) = machine();
        let set = |file: &str, value: &str| put(root.path(), &format!("{KDAMONDS}/{file}"), value);
        set("0/pid", "77\n");
        let session = Session::start(&host, &ColdBoundary::default()).unwrap();
        put(root.path(), "/run/crosstalk-damon", "77 1 1\n");
        set("0/state", "off\n");
        set("0/pid", "-1\n");
        if let Some((file, value)) = changed {
            set(file, value);
        }
        drop(session);
        assert_eq!(line(&host, "nr_kdamonds"), left);
        assert_eq!(host.line("/run/crosstalk-damon").is_none(), left == "0");
    }
}

#[test]
fn what_somebody_else_has_set_up_is_named_and_not_touched() {
    let (root, host) = machine();
    put(root.path(), &format!("{KDAMONDS}/nr_kdamonds"), "1\n");
    put(root.path(), &format!("{KDAMONDS}/0/state"), "on\n");
    put(root.path(), &format!("{KDAMONDS}/0/pid"), "77\n");
    put(root.path(), &format!("{KDAMONDS}/0/contexts/0/schemes/0/action"), "pageout\n");
    let Err(DamonError::Taken(whose)) = Session::start(&host, &ColdBoundary::default()) else {
        panic!("it was taken")
    };
    assert!(whose.contains("pid 77") && whose.contains("pageout"), "{whose}");
    assert_eq!((line(&host, "nr_kdamonds"), line(&host, "0/state")), ("1".into(), "on".into()));
    put(root.path(), &format!("{KDAMONDS}/0/state"), "off\n");
    assert!(matches!(Session::start(&host, &ColdBoundary::default()), Err(DamonError::Taken(_))));
    assert_eq!(line(&host, "nr_kdamonds"), "1");

    let (root, host) = machine();
    put(root.path(), "/sys/module/damon_stat/parameters/enabled", "Y\n");
    assert!(matches!(find(&host), Found::Taken(_)));
}

#[test]
fn a_short_boundary_is_watched_in_short_aggregations() {
    let of =
        |s| aggregation(&ColdBoundary::inactive_page_cache(Duration::from_secs(s))).as_millis();
    assert_eq!([of(1), of(10), of(30), of(300)], [200, 500, 1_500, 2_000]);
    let (_root, host) = machine();
    let _session = Session::start(&host, &ColdBoundary::default()).unwrap();
    let interval =
        |name: &str| line(&host, &format!("0/contexts/0/monitoring_attrs/intervals/{name}"));
    assert_eq!((interval("sample_us"), interval("aggr_us")), ("200000".into(), "2000000".into()));
}

#[test]
fn a_set_up_that_is_refused_leaves_nothing_behind() {
    let (root, host) = machine();
    let file =
        root.path().join(format!("{KDAMONDS}/0/contexts/0/operations").trim_start_matches('/'));
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert!(matches!(
        Session::start(&host, &ColdBoundary::default()),
        Err(DamonError::Refused { .. })
    ));
    assert_eq!(line(&host, "nr_kdamonds"), "0");
}

#[test]
fn idle_pages_are_counted_by_cgroup_kind_and_age() {
    let (root, host) = machine();
    let (anon, file, head, tail) = (1 << 12 | 1 << 5, 1 << 5, 1 << 15 | 1 << 5, 1u64 << 16);
    let bytes = |words: &[u64]| words.iter().flat_map(|w| w.to_ne_bytes()).collect::<Vec<u8>>();
    // Ten pages: free, two anonymous of 7, a folio of four pages of 8, one of 7, one of none, a slab.
    put(
        root.path(),
        pages::FLAGS,
        bytes(&[1 << 10, anon, anon, head, tail, tail, tail, file, file, 1 << 7]),
    );
    put(root.path(), pages::CGROUPS, bytes(&[0, 7, 7, 8, 0, 0, 0, 7, 0, 0]));
    let tried = format!("{KDAMONDS}/0/contexts/0/schemes/0/tried_regions");
    // The second begins within the folio and ends beyond memory.
    for (at, (start, end, age)) in [(0, 5, 1), (5, 40, 200)].into_iter().enumerate() {
        for (name, value) in [("start", start * 4096), ("end", end * 4096), ("age", age)] {
            put(root.path(), &format!("{tried}/{at}/{name}"), value.to_string());
        }
    }
    put(root.path(), &format!("{tried}/9/start"), "cut");
    let mut session = Session::start(&host, &ColdBoundary::default()).unwrap();
    let mut regions = session.idle_regions().unwrap();
    regions.sort_by_key(|region| region.start);
    assert_eq!(regions[1], Region { start: 5 * 4096, end: 40 * 4096, idle_ms: 400_000 });
    // The boundary lies between two edges and is one.
    let boundary = ColdBoundary::new(Duration::from_secs(399), ["anon", "file", "slab"]).unwrap();
    let joined = PageAges::join(&host, &regions, 4096, &boundary).unwrap().by_cgroup(4096);
    let found = |cgroup: u64| {
        let cells = joined[&cgroup].cells.iter();
        cells
            .map(|c| (c.kind, c.from_ms, c.bytes / 4096, c.cold_bytes.unwrap() / 4096))
            .collect::<Vec<_>>()
    };
    assert_eq!(found(7), [(Kind::Anon, 0, 2, 0), (Kind::File, 399_000, 1, 1)]);
    assert_eq!(found(8), [(Kind::File, 0, 2, 0), (Kind::File, 399_000, 2, 2)]);
    assert_eq!(found(0), [(Kind::File, 399_000, 1, 1), (Kind::Slab, 399_000, 1, 1)]);
    // With MGLRU only what is mapped is told of page cache.
    put(root.path(), "/sys/kernel/mm/lru_gen/enabled", "0x0007\n");
    let mapped = file | 1 << 11;
    put(
        root.path(),
        pages::FLAGS,
        bytes(&[1 << 10, anon, anon, head, tail, tail, tail, mapped, file]),
    );
    let joined = PageAges::join(&host, &regions, 4096, &boundary).unwrap().by_cgroup(4096);
    let found = |cgroup: u64| joined.get(&cgroup).map_or(0, |ages| ages.cells.len());
    assert_eq!((found(7), found(8), found(0)), (2, 0, 0));
}

#[test]
fn the_damon_of_this_machine_is_only_looked_at() {
    let host = HostRoot::default();
    let files = ["nr_kdamonds", "0/state", "0/pid", "0/contexts/0/operations"];
    let look = || files.map(|file| host.line(format!("{KDAMONDS}/{file}")));
    let before = look();
    let found = find(&host);
    assert_eq!(found == Found::Absent, before[0].is_none());
    // Only where somebody has it: where nobody has, starting would be using it.
    if let Found::Taken(whose) = found {
        let Err(DamonError::Taken(refused)) = Session::start(&host, &ColdBoundary::default())
        else {
            panic!("it was taken: {whose}")
        };
        assert_eq!(refused, whose);
    } else {
        eprintln!("skipped: nobody uses DAMON here, so there is nothing to leave alone");
    }
    assert_eq!(before, look());
}

#[test]
fn a_kernel_that_says_busy_is_somebody_elses() {
    let busy = std::io::Error::from_raw_os_error(16);
    let error = session::refused("/sys/x".into(), "1", busy);
    assert!(matches!(error, DamonError::Taken(why) if why.contains("busy")));
}

#[test]
fn a_kernel_whose_filters_count_is_asked_by_cgroup_and_kind() {
    let (root, host) = machine();
    let boundary = ColdBoundary::new(Duration::from_secs(300), ["anon", "file"]).unwrap();
    let scheme = |at: usize| format!("{KDAMONDS}/0/contexts/0/schemes/{at}");
    put(root.path(), &format!("{}/ops_filters/nr_filters", scheme(0)), "0");
    let cgroups = ["/a".to_owned(), "/b".to_owned()];
    for (file, _) in filters::set_up("ops_filters", &cgroups) {
        put(root.path(), &format!("{KDAMONDS}/{file}"), "");
    }
    // Regions of 100 and 200 aggregations of 2 s; of each scheme other bytes pass.
    for at in 0..4usize {
        for (region, age) in [(0u64, 100u64), (1, 200)] {
            let passed = (at as u64 * 10 + region) * 4096;
            for (name, value) in [("start", region), ("age", age), ("sz_filter_passed", passed)] {
                put(
                    root.path(),
                    &format!("{}/tried_regions/{region}/{name}", scheme(at)),
                    value.to_string(),
                );
            }
        }
    }
    let mut session = Session::start(&host, &boundary).unwrap();
    let filtered = session.cgroup_ages(&cgroups, |_| Some(1), &boundary).unwrap();
    let filtered = filtered.expect("regions are there");
    assert!(filtered.refused.is_empty());
    let found = |cgroup: &str| {
        let cells = filtered.ages[cgroup].cells.iter();
        cells
            .map(|c| (c.kind, c.from_ms, c.bytes / 4096, c.cold_bytes.unwrap() / 4096))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        found("/a"),
        [(Kind::Anon, 300_000, 1, 1), (Kind::File, 120_000, 10, 0), (Kind::File, 300_000, 11, 11),]
    );
    assert_eq!(found("/b")[0], (Kind::Anon, 120_000, 20, 0));
    // Schemes with filters cost time for as long as they are there.
    assert_eq!(line(&host, "0/contexts/0/schemes/nr_schemes"), "1");
    let filter = |at: usize, file: &str| {
        line(&host, &format!("0/contexts/0/schemes/{at}/ops_filters/{file}"))
    };
    assert_eq!((filter(1, "0/matching"), filter(2, "0/matching")), ("Y".into(), "N".into()));
    assert_eq!((filter(3, "1/memcg_path"), filter(3, "1/allow")), ("/b".into(), "Y".into()));
    // A scheme for which no region is told was not applied yet.
    let tried = root.path().join(format!("{}/tried_regions", scheme(3)).trim_start_matches('/'));
    fs::remove_dir_all(&tried).unwrap();
    fs::create_dir(&tried).unwrap();
    assert_eq!(session.cgroup_ages(&cgroups, |_| Some(1), &boundary).unwrap(), None);
}

/// A machine whose schemes, `count` of them, each tell of one idle region of which one page passes.
fn filtering(count: usize) -> (tempfile::TempDir, HostRoot) {
    let (root, host) = machine();
    let cgroups: Vec<String> = (0..count).map(|at| format!("/{at}")).collect();
    let schemes = format!("{KDAMONDS}/0/contexts/0/schemes");
    put(root.path(), &format!("{schemes}/0/ops_filters/nr_filters"), "0");
    for (file, _) in filters::set_up("ops_filters", &cgroups) {
        put(root.path(), &format!("{KDAMONDS}/{file}"), "");
    }
    for at in 0..2 * count {
        for (name, value) in [("start", 0), ("age", 200), ("sz_filter_passed", 4096)] {
            let file = format!("{schemes}/{at}/tried_regions/0/{name}");
            put(root.path(), &file, value.to_string());
        }
    }
    (root, host)
}

#[test]
fn cgroups_are_asked_in_batches_and_too_many_are_told() {
    let (_root, host) = filtering(32);
    let mut session = Session::start(&host, &ColdBoundary::default()).unwrap();
    let mut ask = |count: usize| {
        let cgroups: Vec<String> = (0..count).map(|at| format!("/{at}")).collect();
        session.cgroup_ages(&cgroups, |_| Some(1), &ColdBoundary::default())
    };
    for count in [1, 32, 33, 256] {
        let found = ask(count).unwrap().expect("regions are there").ages;
        assert_eq!(found.len(), count);
        assert!(found.values().all(|ages| ages.cells.len() == 2), "{count}");
    }
    let Err(error @ DamonError::TooMany(257)) = ask(257) else { panic!("they are too many") };
    assert!(error.fix().is_some_and(|fix| fix.contains("kpagecgroup")), "{error}");
}

#[test]
fn a_cgroup_that_the_kernel_refuses_leaves_no_filters_behind() {
    let (root, host) = filtering(1);
    let mut session = Session::start(&host, &ColdBoundary::default()).unwrap();
    let path = format!("{KDAMONDS}/0/contexts/0/schemes/1/ops_filters/1/memcg_path");
    let path = root.path().join(path.trim_start_matches('/'));
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let asked = session.cgroup_ages(&["/a".to_owned()], |_| Some(1), &ColdBoundary::default());
    assert!(matches!(asked, Err(DamonError::Refused { .. })), "{asked:?}");
    assert_eq!(line(&host, "0/contexts/0/schemes/nr_schemes"), "1");
    assert_eq!(line(&host, "0/state"), "commit");
}

/// What is told of so many cgroups by a kernel that refuses every batch with one of these; how often it was asked, too.
fn refusing(
    count: usize,
    bad: &[&str],
    is_there: impl Fn(&str) -> bool,
) -> (Result<Option<Filtered>, DamonError>, usize) {
    look_again(count, bad, |cgroup| is_there(cgroup).then_some(1), &mut HashMap::new())
}

/// The same with what is known of earlier looks.
fn look_again(
    count: usize,
    bad: &[&str],
    inode: impl Fn(&str) -> Option<u64>,
    known: &mut filters::Refusals,
) -> (Result<Option<Filtered>, DamonError>, usize) {
    let cgroups: Vec<String> = (0..count).map(|at| format!("/{at}")).collect();
    let mut asked = 0;
    let found = filters::in_batches(&cgroups, inode, known, |batch| {
        asked += 1;
        if batch.iter().any(|cgroup| bad.contains(&cgroup.as_str())) {
            let error = std::io::Error::from_raw_os_error(22);
            return Err(session::refused("/sys/x".into(), "commit", error));
        }
        Ok(Some(batch.iter().map(|cgroup| (cgroup.clone(), Ages::default())).collect()))
    });
    (found, asked)
}

#[test]
fn a_cgroup_that_the_kernel_refuses_costs_only_itself_its_ages() {
    let (found, asked) = refusing(100, &["/40", "/99"], |_| true);
    let found = found.unwrap().expect("regions are there");
    assert_eq!(found.ages.len(), 98);
    let mut refused: Vec<&String> = found.refused.keys().collect();
    refused.sort();
    assert_eq!(refused, ["/40", "/99"]);
    assert!(found.refused["/40"].contains("/sys/x"), "{:?}", found.refused);
    assert!(asked <= 20, "{asked}");
}

#[test]
fn cgroups_that_go_while_others_are_asked_are_left_out() {
    let (found, asked) = refusing(64, &["/3", "/50"], |cgroup| cgroup != "/3" && cgroup != "/50");
    let found = found.unwrap().expect("regions are there");
    assert_eq!((found.ages.len(), found.refused.len(), asked), (62, 0, 2));
    // One that goes between being listed and being asked: the batch is asked again without it.
    let gone = std::cell::Cell::new(0);
    let (found, asked) = refusing(32, &["/3"], |cgroup| {
        gone.set(gone.get() + u32::from(cgroup == "/3"));
        cgroup != "/3" || gone.get() < 2
    });
    let found = found.unwrap().expect("regions are there");
    assert_eq!((found.ages.len(), found.refused.len(), asked), (31, 0, 2));
}

#[test]
fn a_kernel_that_refuses_every_cgroup_is_asked_a_bounded_number_of_times_and_is_an_error() {
    let all: Vec<String> = (0..256).map(|at| format!("/{at}")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let (found, asked) = refusing(256, &all, |_| true);
    assert!(matches!(found, Err(DamonError::Refused { .. })), "{found:?}");
    assert!(asked <= 40, "{asked}");
}

#[test]
fn a_cgroup_that_is_refused_alone_is_not_asked_again_until_another_has_its_name() {
    let bad: Vec<String> = (0..8).map(|batch| format!("/{}", batch * 32 + 5)).collect();
    let bad: Vec<&str> = bad.iter().map(String::as_str).collect();
    let mut known = HashMap::new();
    let mut look = |inode: u64| {
        let (found, asked) = look_again(256, &bad, |_| Some(inode), &mut known);
        let found = found.unwrap().expect("regions are there");
        assert_eq!(found.ages.len() + found.refused.len() + found.not_asked.len(), 256);
        (found.refused.len(), found.not_asked.len(), asked)
    };
    let (refused, not_asked, asked) = look(7);
    // There was no time for all of them, so some are not said to be refused.
    assert!(refused < 8 && not_asked > 0 && asked > 28, "{refused} {not_asked} {asked}");
    let (refused, not_asked, _) = look(7);
    assert_eq!((refused, not_asked), (8, 0), "the next look gets further");
    assert_eq!(look(7), (8, 0, 8), "and is as short as any after that");
    let (refused, _, asked) = look(8);
    assert!(refused < 8 && asked > 28, "others by the same names are asked: {refused} {asked}");
}

#[test]
fn a_kernel_that_takes_the_root_alone_is_an_error() {
    let all: Vec<String> = ["/", "/a", "/b"].map(str::to_owned).into();
    let found = filters::in_batches(
        &all,
        |_| Some(1),
        &mut HashMap::new(),
        |batch| {
            if batch.iter().any(|cgroup| cgroup != "/") {
                let error = std::io::Error::from_raw_os_error(22);
                return Err(session::refused("/sys/x".into(), "commit", error));
            }
            Ok(Some(batch.iter().map(|cgroup| (cgroup.clone(), Ages::default())).collect()))
        },
    );
    assert!(matches!(found, Err(DamonError::Refused { .. })), "{found:?}");
}

#[test]
fn a_kernel_whose_damon_does_not_tell_idle_regions_is_not_started() {
    let (root, host) = machine();
    for (release, old) in [("5.18.0", true), ("6.1.100-amd64", true), ("6.2.0", false)] {
        put(root.path(), "/proc/sys/kernel/osrelease", release);
        assert_eq!(find(&host) == Found::Old(release.to_owned()), old, "{release}");
        let started = Session::start(&host, &ColdBoundary::default());
        assert_eq!(matches!(&started, Err(DamonError::Old(_))), old, "{release}");
        match started {
            Ok(session) => drop(session),
            Err(error) => {
                assert!(error.to_string().contains(release), "{error}");
                assert!(error.fix().unwrap().contains("6.2"), "{error}");
            }
        }
        assert_eq!(line(&host, "nr_kdamonds"), "0");
    }
}

#[test]
fn a_kernel_without_such_filters_is_not_asked() {
    let (_root, host) = machine();
    let mut session = Session::start(&host, &ColdBoundary::default()).unwrap();
    let asked = session.cgroup_ages(&["/a".to_owned()], |_| Some(1), &ColdBoundary::default());
    assert!(matches!(asked, Err(DamonError::NoFilters)), "{asked:?}");
    assert!(!can_filter(&host), "of 6.12");
}

#[test]
fn what_a_killed_process_of_ours_left_is_swept_and_nothing_else() {
    let (root, host) = machine();
    let run = |note: &str, pid: &str| {
        put(root.path(), "/run/crosstalk-damon", note);
        put(root.path(), &format!("{KDAMONDS}/nr_kdamonds"), "1\n");
        put(root.path(), &format!("{KDAMONDS}/0/state"), "on\n");
        put(root.path(), &format!("{KDAMONDS}/0/pid"), pid);
        sweep(&host);
        Session::start(&host, &ColdBoundary::default()).map(drop).is_ok()
    };
    assert!(run("77 4242 1\n", "77\n"), "its process is gone");
    assert_eq!(line(&host, "nr_kdamonds"), "0");
    assert!(!run("77 4242 1\n", "78\n"), "another kdamond");
    assert!(!run("", "77\n"), "no note");
    // A process of that number that started when the note says.
    let stat = fs::read("/proc/self/stat").unwrap();
    put(root.path(), "/proc/4242/stat", &stat);
    let start = crosstalk_host::ProcStat::parse(stat).unwrap().start_boottime_ns().unwrap();
    assert!(!run(&format!("77 4242 {start}\n"), "77\n"), "it lives");
    assert_eq!(line(&host, "0/state"), "on");
}
