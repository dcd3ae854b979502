//! Crates depend on each other one way, as ARCHITECTURE.md says.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// What each crate may build on. A crate is listed after all it may build on.
const MAY: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("host", &[]),
    ("figure", &["host"]),
    ("remote-write", &[]),
    ("training-log", &[]),
    ("window", &[]),
    ("interference", &[]),
    ("settings", &[]),
    ("store", &["settings", "training-log"]),
    ("serve", &["host", "settings"]),
    ("counters", &["host", "model"]),
    ("probe", &["host", "model"]),
    ("detector", &["host", "interference", "model"]),
    ("pcm", &["host"]),
    ("resctrl", &["host"]),
    ("resctrl-sim", &["host", "resctrl"]),
    ("inventory", &["host", "model"]),
    ("collect", &["host", "model"]),
    ("coldmem", &["collect", "host", "model"]),
    ("pressure", &["collect", "host", "inventory", "model"]),
    (
        "sources",
        &[
            "coldmem",
            "collect",
            "counters",
            "host",
            "inventory",
            "model",
            "pcm",
            "pressure",
            "probe",
            "resctrl",
        ],
    ),
    ("recording", &["collect", "host", "model"]),
    ("analysis", &["interference", "recording", "training-log"]),
    ("simulate", &["model", "recording", "settings"]),
    ("accuracy", &["interference", "simulate"]),
    ("sql", &["analysis", "interference", "recording", "settings"]),
    ("workload", &["host"]),
    (
        "bench",
        &[
            "collect",
            "counters",
            "detector",
            "host",
            "interference",
            "inventory",
            "model",
            "recording",
            "resctrl",
            "settings",
            "sources",
        ],
    ),
    (
        "agent",
        &[
            "coldmem",
            "collect",
            "detector",
            "host",
            "interference",
            "inventory",
            "model",
            "recording",
            "serve",
            "settings",
            "sources",
            "window",
        ],
    ),
    (
        "processor",
        &["host", "inventory", "remote-write", "serve", "settings", "store", "training-log"],
    ),
];

fn manifests() -> BTreeMap<String, toml::Table> {
    let crates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(crates).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if let Ok(text) = fs::read_to_string(entry.path().join("Cargo.toml")) {
            found.insert(name, text.parse().unwrap());
        }
    }
    found
}

fn ours(manifest: &toml::Table) -> BTreeSet<String> {
    let empty = toml::Table::new();
    let dependencies = manifest.get("dependencies").and_then(|d| d.as_table()).unwrap_or(&empty);
    let names = dependencies.keys().filter_map(|name| name.strip_prefix("crosstalk-"));
    names.map(str::to_owned).collect()
}

#[test]
fn every_crate_builds_only_on_what_it_may_know() {
    let mut listed = BTreeSet::new();
    let manifests = manifests();
    for (name, may) in MAY {
        for below in *may {
            assert!(listed.contains(below), "{below} is listed after {name}: a circle");
        }
        listed.insert(*name);
        let uses = ours(&manifests[*name]);
        let more: Vec<&String> = uses.iter().filter(|used| !may.contains(&used.as_str())).collect();
        assert!(more.is_empty(), "{name} builds on {more:?}; is that the right way round?");
    }
    let unlisted: Vec<&String> = manifests
        .keys()
        .filter(|name| *name != "crosstalk" && !listed.contains(name.as_str()))
        .collect();
    assert!(unlisted.is_empty(), "say here what they may know: {unlisted:?}");
}

#[test]
fn the_code_map_names_every_crate() {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../ARCHITECTURE.md"));
    let text = text.unwrap();
    for name in manifests().keys() {
        assert!(text.contains(&format!("| `{name}` |")), "{name} is not in the code map");
    }
}

/// Both are compositions of the same sources and the same recorder: what one needs of the other belongs into a crate.
#[test]
fn recording_knows_nothing_of_the_agent() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src/record"));
    let files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.iter().any(|file| file.ends_with("mod.rs")), "{files:?}");
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        assert!(!text.contains("crosstalk_agent"), "{}", file.display());
    }
}

/// Whose own interface a path below `/proc` or `/sys` is: a source that is the only one to speak it, and speaks it whole.
const OWN_INTERFACES: &[(&str, &str)] = &[
    ("coldmem/src/damon/mod.rs", "DAMON's sysfs"),
    ("coldmem/src/damon/session.rs", "DAMON's sysfs"),
    ("coldmem/src/damon/pages.rs", "page by page, what DAMON found idle"),
    ("coldmem/src/kidled/file.rs", "how kidled is set"),
    ("coldmem/src/mglru.rs", "MGLRU's debugfs"),
    ("coldmem/src/backend.rs", "whether kidled and MGLRU are switched on"),
    ("counters/src/pmu.rs", "the PMUs that perf events are opened on"),
    ("resctrl/src/mount.rs", "where resctrl is mounted by custom"),
    // For benchmarks only: what is measured must not hold the ruler.
    ("figure/src/lib.rs", "the machine that a figure is from"),
    ("figure/src/process.rs", "what a benchmark's processes cost"),
];

/// What cgroups keep in files, in either version, and `host` reads.
const CGROUP_FILES: &[&str] = &[
    "cgroup.kill",
    "cgroup.procs",
    "cgroup.threads",
    "cpu.max",
    "cpu.pressure",
    "cpu.stat",
    "cpuacct.usage",
    "cpuset.cpus",
    "io.max",
    "io.pressure",
    "io.stat",
    "memory.current",
    "memory.limit_in_bytes",
    "memory.max",
    "memory.pressure",
    "memory.stat",
    "memory.swap.current",
    "memory.swap.max",
    "memory.usage_in_bytes",
    "{}.pressure",
];

/// Paths below `/proc` and `/sys`, and names of cgroups' files, in the text of a program, however they are put together later. What has a space is
/// a message, and what is indented with slashes a comment.
fn kernel_paths(code: &str) -> Vec<&str> {
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let literals = lines.flat_map(|line| line.split('"').skip(1).step_by(2));
    let is_below = |literal: &&str| {
        // `{root}/proc/...` is one too.
        let path = literal.rsplit_once('}').map_or(*literal, |(before, behind)| {
            if before.contains('/') { *literal } else { behind }
        });
        let inside = path.trim_start_matches('/');
        if CGROUP_FILES.contains(&literal.rsplit('/').next().unwrap_or_default()) {
            return true;
        }
        let named = inside.starts_with("proc/") || inside.starts_with("sys/");
        (named || path == "/proc" || path == "/sys") && !literal.contains(' ')
    };
    literals.filter(is_below).collect()
}

#[test]
fn a_path_of_the_kernel_is_seen_however_it_is_opened() {
    let code = r#"
        // host.line("/proc/comment")
        let a = host.line("/proc/stat");
        for entry in fs::read_dir(host.path("/proc")) {}
        File::open(host.path(format!("/proc/{pid}/task/{tid}/stat")))?;
        let b = root.join("sys/class/kfd");
        let c = format!("{root}/sys/block");
        let d = folder.join("memory.current");
        let e = format!("{folder}/cpu.stat");
        say("/proc/stat is missing", "/system.slice/docker.service", "proc", "/run/sys/x");
    "#;
    let found = kernel_paths(code);
    let all = [
        "/proc/stat",
        "/proc",
        "/proc/{pid}/task/{tid}/stat",
        "sys/class/kfd",
        "{root}/sys/block",
        "memory.current",
        "{folder}/cpu.stat",
    ];
    assert_eq!(found, all);
}

/// Every file below `crates` that is a part of a program: path, and text without its tests.
fn programs() -> Vec<(String, String)> {
    let crates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let (mut left, mut found) = (vec![crates.to_owned()], Vec::new());
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            let shown = path.strip_prefix(crates).unwrap().display().to_string();
            if path.is_dir() {
                let skipped = ["tests", "benches", "examples", "fuzz", "target"];
                if !skipped.iter().any(|name| path.ends_with(name)) {
                    left.push(path);
                }
            } else if shown.ends_with(".rs") && !shown.ends_with("tests.rs") {
                let text = fs::read_to_string(&path).unwrap();
                // Tests stand last in a file.
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                found.push((shown, code.to_owned()));
            }
        }
    }
    found
}

#[test]
fn only_host_names_files_below_proc_and_sys() {
    let mut exempt: BTreeSet<&str> = OWN_INTERFACES.iter().map(|(file, _)| *file).collect();
    let mut wrong = Vec::new();
    for (file, code) in programs() {
        let paths = kernel_paths(&code);
        if file.starts_with("host/") || paths.is_empty() || exempt.remove(file.as_str()) {
            continue;
        }
        wrong.push(format!("{file}: {paths:?}"));
    }
    assert!(wrong.is_empty(), "ask `host` for it, where it is understood once: {wrong:#?}");
    assert!(exempt.is_empty(), "these need no exception: {exempt:?}");
}

/// Where the kernel or libc is called without a safe door.
const UNSAFE: &[&str] = &[
    "counters/src/cores.rs",
    "counters/src/cost.rs",
    "counters/src/collector.rs",
    "counters/src/family.rs",
    "counters/src/perf.rs",
    "counters/src/program.rs",
    "crosstalk/src/main.rs",
    "crosstalk/src/record/child.rs",
    "host/src/thread.rs",
    "host/src/usage.rs",
    "pcm/src/child.rs",
    "probe/src/burst.rs",
    "resctrl-sim/src/task_clock.rs",
    "sql/src/main.rs",
];

#[test]
fn unsafe_stands_only_where_the_kernel_or_libc_is_called_and_says_why_it_is_sound() {
    let mut listed: BTreeSet<&str> = UNSAFE.iter().copied().collect();
    let mut wrong = Vec::new();
    for (file, code) in programs() {
        let lines: Vec<&str> = code.lines().map(str::trim).collect();
        let is_code = |line: &str| !line.starts_with("//") && !line.starts_with("#!");
        for (at, line) in lines.iter().enumerate() {
            if !is_code(line) || !["unsafe {", "unsafe impl"].iter().any(|word| line.contains(word))
            {
                continue;
            }
            // From the block before this one on.
            let before =
                lines[..at].iter().rposition(|line| is_code(line) && line.contains("unsafe {"));
            let above = &lines[before.map_or(0, |at| at + 1).max(at.saturating_sub(12))..=at];
            if !above.iter().any(|line| line.contains("SAFETY")) {
                wrong.push(format!("{file}:{}: without its reason", at + 1));
            }
            listed.remove(file.as_str());
            if !UNSAFE.contains(&file.as_str()) {
                wrong.push(format!("{file}:{}: not where it is expected", at + 1));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(listed.is_empty(), "nothing unsafe is left in {listed:?}");
}

/// Where code looks into the text of an error, or of what a capability says in prose, to decide by it.
fn decides_by_text(code: &str) -> Vec<String> {
    // However it is broken into lines; examples in comments may look at what is said.
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: String = lines.flat_map(str::split_whitespace).collect();
    let said =
        ["error.to_string()", "err.to_string()", "e.to_string()", "reason", ".found", ".fix"];
    let asks = [
        ".contains(\"",
        ".starts_with(\"",
        ".ends_with(\"",
        ".find(\"",
        ".split(\"",
        ".split_once(\"",
        ".strip_prefix(\"",
        ".strip_suffix(\"",
        "==\"",
    ];
    let all = said.iter().flat_map(|said| asks.iter().map(move |ask| format!("{said}{ask}")));
    all.filter(|text| code.contains(text)).collect()
}

#[test]
fn a_look_into_the_text_of_an_error_is_seen() {
    for code in [
        "if error.to_string().contains(\"busy\") {}",
        "if e\n    .to_string()\n    .starts_with(\"no\") {}",
        "capability.fix.contains(\"mount -t\")",
        "for part in capability.found.split(\"; \") {}",
        "if reason == \"gone\" {}",
    ] {
        assert_eq!(decides_by_text(code).len(), 1, "{code}");
    }
    let plain =
        "// error.to_string().contains(\"x\")\nsay(error.to_string()); names.contains(\"x\");";
    assert_eq!(decides_by_text(plain), Vec::<String>::new());
}

#[test]
fn nothing_decides_by_the_text_of_an_error() {
    let programs = programs();
    assert!(programs.len() > 500, "only {} files", programs.len());
    let wrong: Vec<String> = programs
        .iter()
        .flat_map(|(file, code)| {
            decides_by_text(code).into_iter().map(move |text| format!("{file}: {text}"))
        })
        .collect();
    assert!(wrong.is_empty(), "give the error a variant or a field: {wrong:#?}");
}
