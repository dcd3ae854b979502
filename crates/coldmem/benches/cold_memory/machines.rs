//! Machines in folders, with 500 cgroups and each a kernel with another back end.

use super::CGROUPS;
use crosstalk_coldmem::IdleRow;
use crosstalk_host::{HostRoot, page_bytes};
use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

type Made = Result<HostRoot, Box<dyn Error>>;

const KDAMOND: &str = "sys/kernel/mm/damon/admin/kdamonds/0";

fn put(root: &Path, file: &str, text: impl AsRef<[u8]>) -> std::io::Result<()> {
    let path = root.join(file);
    fs::create_dir_all(path.parent().unwrap())?;
    fs::write(path, text)
}

/// The path of each cgroup.
fn paths() -> impl Iterator<Item = String> {
    (0..CGROUPS).map(|at| match at {
        0 => String::new(),
        at => format!("/kubepods/pod{}/container{at}", at / 5),
    })
}

/// What every kernel has.
fn plain(root: &Path) -> std::io::Result<()> {
    // As long as a real one.
    let stat = [
        "inactive_anon",
        "active_anon",
        "inactive_file",
        "active_file",
        "unevictable",
        "file_mapped",
    ];
    let stat =
        stat.map(|key| format!("{key} 4096000\n")).concat() + &"other_line 12345\n".repeat(50);
    let pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 total=0\n";
    put(root, "proc/1/mounts", "c /sys/fs/cgroup cgroup2 rw 0 0\n")?;
    put(root, "proc/meminfo", "MemTotal: 1000 kB\nMemFree: 300 kB\nMemAvailable: 800 kB\n")?;
    for path in paths() {
        put(root, &format!("sys/fs/cgroup{path}/memory.stat"), &stat)?;
        put(root, &format!("sys/fs/cgroup{path}/memory.pressure"), pressure)?;
    }
    Ok(())
}

/// With kidled.
pub(super) fn kidled(root: &Path) -> Made {
    plain(root)?;
    let cells = (0..8).map(|at| format!(" {:>14}", at * 4_096_000)).collect::<String>();
    let rows = IdleRow::NAMES.map(|row| format!("  {row}   {cells}\n")).concat();
    let idle = format!(
        "# version: 1.0\n# page_scans: 24\n# slab_scans: 1\n# scan_period_in_seconds: 120\n\
         # use_hierarchy: 1\n# buckets: 1,2,5,15,30,60,120,240\n{rows}"
    );
    for path in paths() {
        put(root, &format!("sys/fs/cgroup{path}/memory.idle_page_stats"), &idle)?;
    }
    Ok(HostRoot::new(root))
}

/// With MGLRU, four generations for each cgroup.
pub(super) fn mglru(root: &Path) -> Made {
    plain(root)?;
    put(root, "sys/kernel/mm/lru_gen/enabled", "0x0007\n")?;
    let mut text = String::new();
    for (at, path) in paths().enumerate() {
        let path = if path.is_empty() { "/" } else { &path };
        write!(text, "memcg {at:5} {path}\n node     0\n")?;
        for (number, age_ms) in [900_000, 400_000, 200_000, 100].into_iter().enumerate() {
            writeln!(text, " {number:10} {age_ms:10} {:10} {:10} ", 1_000, 2_000)?;
        }
    }
    put(root, "sys/kernel/debug/lru_gen", text)?;
    Ok(HostRoot::new(root))
}

/// With DAMON that finds a GiB of page cache idle, of all cgroups in turn.
pub(super) fn damon(root: &Path) -> Made {
    plain(root)?;
    put(root, "proc/sys/kernel/osrelease", "6.12.0\n")?;
    put(root, "proc/iomem", "00000000-3fffffff : System RAM\n")?;
    let kdamonds = Path::new(KDAMOND).parent().unwrap();
    put(root, &format!("{}/nr_kdamonds", kdamonds.display()), "0\n")?;
    let context = format!("{KDAMOND}/contexts/0");
    let attributes = ["intervals", "nr_regions"].map(|name| format!("monitoring_attrs/{name}"));
    let pattern = ["sz", "nr_accesses", "age"].map(|n| format!("schemes/0/access_pattern/{n}"));
    for folder in attributes.iter().chain(&pattern).chain([&"targets/0/regions/0".to_owned()]) {
        fs::create_dir_all(root.join(format!("{context}/{folder}")))?;
    }
    // As many regions as are asked for, all idle.
    let (gib, regions) = (1u64 << 30, 1_000);
    for at in 0..regions {
        let region = format!("{context}/schemes/0/tried_regions/{at}");
        let edges = [at, at + 1].map(|at| (gib / regions * at).to_string());
        put(root, &format!("{region}/start"), &edges[0])?;
        put(root, &format!("{region}/end"), &edges[1])?;
        put(root, &format!("{region}/age"), "200")?;
    }
    let inodes: Vec<u64> = paths()
        .map(|path| Ok(fs::metadata(root.join(format!("sys/fs/cgroup{path}")))?.ino()))
        .collect::<std::io::Result<_>>()?;
    let pages = (gib / page_bytes()) as usize;
    // Neighbours are mostly alike: eight pages of one cgroup, then of the next.
    let owners = (0..pages).flat_map(|page| inodes[page / 8 % inodes.len()].to_ne_bytes());
    put(root, "proc/kpagecgroup", owners.collect::<Vec<u8>>())?;
    let (on_a_list, mapped) = (1u64 << 5, 1u64 << 11);
    put(root, "proc/kpageflags", (on_a_list | mapped).to_ne_bytes().repeat(pages))?;
    Ok(HostRoot::new(root))
}
