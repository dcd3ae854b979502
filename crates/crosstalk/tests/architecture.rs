//! Crates depend on each other one way, as ARCHITECTURE.md says.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// What each crate may build on. A crate is listed after all it may build on.
const MAY: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("host", &[]),
    ("figure", &[]),
    ("remote-write", &[]),
    ("training-log", &[]),
    ("window", &[]),
    ("interference", &[]),
    ("settings", &[]),
    ("store", &["training-log"]),
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
            "window",
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

/// The kernel's files are read through one crate. These are the places that may name them: messages and comments.
#[test]
fn only_host_opens_files_below_proc_and_sys() {
    let crates = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let mut left = vec![crates.to_owned()];
    let mut wrong = Vec::new();
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            let shown = path.strip_prefix(crates).unwrap().display().to_string();
            if path.is_dir() {
                let skipped = ["tests", "benches", "examples", "fuzz", "target"];
                if !skipped.iter().any(|name| shown.ends_with(name)) && shown != "host" {
                    left.push(path);
                }
                continue;
            }
            if path.extension().is_none_or(|ending| ending != "rs") || shown.ends_with("tests.rs") {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
                let opens =
                    ["File::open(\"/", "read_to_string(\"/", "fs::read(\"/", "read_dir(\"/"];
                let kernel = line.contains("/proc") || line.contains("/sys");
                if kernel && opens.iter().any(|open| line.contains(open)) {
                    wrong.push(format!("{shown}: {}", line.trim()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
