//! Cold memory in a guest whose kernel has DAMON and MGLRU: two programs hold 64 MiB each and use half of it, one of anonymous
//! memory and one of page cache, each in a cgroup of its own. `make test-kernel` runs it.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

#[path = "../../coldmem/tests/guest/mod.rs"]
mod guest;

use guest::{Guest, HOLD, between, kernel};
use serde_json::Value;
use std::path::Path;

const MIB: f64 = (1 << 20) as f64;

/// Memory is cold after so long; DAMON watches for four times as long before it is asked, and the programs touch their half
/// all the while. A machine so busy that DAMON cannot look as often as it should is given more time once.
const AGES_S: [u32; 2] = [8, 20];

fn script(age_s: u32) -> String {
    let show = "/bin/crosstalk coldmem show --json --kinds anon,file";
    format!(
        "
{HOLD}
for kind in anon file; do
    echo \"<damon-$kind>\"; {show} --age {age_s}s --backend damon --cgroup /$kind; echo \"</damon-$kind>\"
    echo \"<mglru-$kind>\"; {show} --age {age_s}s --backend mglru --ageing --cgroup /$kind; echo \"</mglru-$kind>\"
done
# A context of somebody else: named, refused and not touched.
d=/sys/kernel/mm/damon/admin/kdamonds
echo 1 > $d/nr_kdamonds; echo 1 > $d/0/contexts/nr_contexts; echo vaddr > $d/0/contexts/0/operations
echo 1 > $d/0/contexts/0/targets/nr_targets; echo $$ > $d/0/contexts/0/targets/0/pid_target; echo on > $d/0/state
echo '<before>'; $b cat $d/nr_kdamonds $d/0/state $d/0/pid $d/0/contexts/0/operations; echo '</before>'
echo '<taken>'; {show} --backend damon 2>&1; echo \"status $?\"; echo '</taken>'
echo '<after>'; $b cat $d/nr_kdamonds $d/0/state $d/0/pid $d/0/contexts/0/operations; echo '</after>'
"
    )
}

#[test]
#[ignore = "boots a guest: make test-kernel"]
fn damon_and_mglru_find_the_cold_half_of_anonymous_memory_and_of_page_cache_by_cgroup() {
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernel-6.12");
    let image = match kernel(&kept) {
        Ok(image) => image,
        Err(why) => {
            eprintln!("skipped: the kernel cannot be had here: {why}");
            return;
        }
    };
    let ours = Path::new(env!("CARGO_BIN_EXE_crosstalk"));
    let mut wrong = Vec::new();
    for age_s in AGES_S {
        let guest = Guest::new(image.clone(), ours, &script(age_s)).unwrap();
        let text = guest.boot(200 + 15 * age_s).unwrap();
        assert_left_alone(&text);
        wrong = wrong_halves(&text);
        if wrong.is_empty() {
            return;
        }
        eprintln!("with {age_s} s: {wrong:?}");
    }
    panic!("{wrong:#?}");
}

/// The halves that were not found within a quarter.
fn wrong_halves(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for backend in ["damon", "mglru"] {
        for kind in ["anon", "file"] {
            let mark = format!("{backend}-{kind}");
            let shown = between(text, &mark).unwrap_or_else(|| panic!("no {mark} in {text}"));
            let json = shown.find('{').map_or("", |at| &shown[at..]);
            let shown: Value =
                serde_json::from_str(json).unwrap_or_else(|e| panic!("{e}: {shown}"));
            let cells = shown["ages"].as_array().unwrap();
            let of_kind = cells.iter().filter(|cell| cell["kind"] == kind);
            let cold: f64 = of_kind.map(|cell| cell["cold_bytes"].as_f64().unwrap()).sum();
            println!("{mark}: {:.1} MiB of 32 cold", cold / MIB);
            if !(24.0..=40.0).contains(&(cold / MIB)) {
                wrong.push(format!("{mark}: {:.1} MiB: {}", cold / MIB, shown["ages"]));
            }
        }
    }
    wrong
}

/// What somebody else runs is named, and is afterwards as it was.
fn assert_left_alone(text: &str) {
    let taken = between(text, "taken").unwrap();
    assert!(taken.contains("somebody else") && !taken.contains("status 0"), "{taken}");
    let before = between(text, "before").unwrap();
    assert!(before.contains("on\n"), "{before}");
    assert_eq!(before, between(text, "after").unwrap());
}
