//! DAMON's filters, which count by cgroup from 6.14 on, beside page frames, on the newest kernel there is: what each finds of
//! memory half of which is cold, with more cgroups than are asked at once, and what one look costs the kernel.

use crate::cold_memory::{AGES_S, MIB, shown};
use crate::guest::{HOLD, between};
use crate::{alone, newer_guest};
use serde_json::Value;
use std::ops::RangeInclusive;

/// MiB within a quarter of half of what is held.
const HALF: RangeInclusive<f64> = 24.0..=40.0;

/// Beside those that hold memory; 32 are asked at once.
const MORE: u32 = 40;

fn script(age_s: u32) -> String {
    let advise = format!(
        "/bin/crosstalk coldmem advise --json --kinds anon,file --age {age_s}s --backend damon --over 2s"
    );
    format!(
        "
{HOLD}
$b mkdir /sys/fs/cgroup/shared
( echo 0 > /sys/fs/cgroup/shared/cgroup.procs; exec /bin/hold shared > /tmp/shared ) &
until $b grep -q held /tmp/shared; do $b sleep 0.2; done
for at in $($b seq 1 {MORE}); do $b mkdir /sys/fs/cgroup/more$at; done
# The same host, but nobody can see whose a page is.
$b mkdir -p /host/proc /host/run
for file in /proc/*; do $b ln -s $file /host/proc/; done
$b rm /host/proc/kpage*
$b ln -s /sys /host/sys
pid=/sys/kernel/mm/damon/admin/kdamonds/0/pid
for by in pages filters; do
    root=/; [ $by = filters ] && root=/host
    ( $b time -f '%U %S' -o /tmp/$by-own {advise} --host-root $root > /tmp/$by 2>&1; echo $? > /tmp/$by-ended ) &
    thread=-1
    until [ -f /tmp/$by-ended ]; do
        # It is not told while somebody asks. In hundredths of a second; the thread is gone when its user is.
        now=$($b cat $pid) && [ $now -gt 0 ] && thread=$now
        now=$($b awk '{{ print $14 + $15 }}' /proc/$thread/stat) && used=$now
        $b sleep 0.3
    done 2>/dev/null
    echo \"<$by>\"; $b cat /tmp/$by; echo \"</$by>\"
    echo \"<$by-own>\"; $b cat /tmp/$by-own; echo \"</$by-own>\"
    echo \"<$by-thread>$used</$by-thread>\"
done
# Generations are still told as they were.
echo '<mglru>'; /bin/crosstalk coldmem show --json --kinds anon,file --age {age_s}s --backend mglru --ageing --cgroup /anon; echo '</mglru>'
echo '<left>'; $b cat /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds; echo '</left>'
"
    )
}

#[test]
#[ignore = "boots a guest: make test-kernel"]
fn filters_find_what_page_frames_find_but_for_shared_memory_with_more_cgroups_than_are_asked_at_once()
 {
    let _alone = alone();
    let mut wrong = Vec::new();
    for age_s in AGES_S {
        let text = newer_guest(&script(age_s)).boot(200 + 15 * age_s).unwrap();
        assert_eq!(between(&text, "left").map(str::trim), Some("0"), "{text}");
        wrong = wrong_halves(&text);
        if wrong.is_empty() {
            return;
        }
        eprintln!("with {age_s} s: {wrong:?}");
    }
    panic!("{wrong:#?}");
}

fn wrong_halves(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let cold = shown(text, "mglru")["cold_bytes"].as_f64().map(|bytes| bytes / MIB);
    println!("by MGLRU: /anon: {cold:?} MiB of 32 cold");
    if !cold.is_some_and(|cold| HALF.contains(&cold)) {
        wrong.push(format!("by MGLRU: /anon: {cold:?} MiB"));
    }
    for by in ["pages", "filters"] {
        let all = shown(text, by);
        let of = |cgroup: &str, field: &str| of(&all, cgroup, field);
        let seconds = |mark: &str| -> f64 {
            let words = between(text, &format!("{by}-{mark}")).unwrap().split_whitespace();
            words.map(|word| word.parse().unwrap_or(f64::NAN)).sum()
        };
        let (thread_s, own_s) = (seconds("thread") / 100.0, seconds("own"));
        println!(
            "by {by}: two looks took the kernel's thread {thread_s:.1} s, and us {own_s:.1} s"
        );
        for cgroup in ["/anon", "/file", "/shared"] {
            let (cold, at_most) = (of(cgroup, "cold_bytes"), of(cgroup, "at_most_bytes"));
            println!("by {by}: {cgroup}: {cold:?} MiB of 32 cold, at most {at_most:?}");
            // Filters do not know shared memory from page cache, of which it is none: it is left out, within the bound.
            let expected = if (by, cgroup) == ("filters", "/shared") { 0.0..=8.0 } else { HALF };
            assert!(at_most.is_some_and(|at_most| at_most >= 48.0), "{by}: {cgroup}: {at_most:?}");
            if !cold.is_some_and(|cold| expected.contains(&cold)) {
                wrong.push(format!("by {by}: {cgroup}: {cold:?} MiB"));
            }
        }
        for more in [1, MORE] {
            let cold = of(&format!("/more{more}"), "cold_bytes");
            if cold != Some(0.0) {
                wrong.push(format!("by {by}: /more{more} is empty: {cold:?} MiB"));
            }
        }
    }
    wrong
}

/// What is advised of a cgroup, MiB; absent where that is not known.
fn of(all: &Value, cgroup: &str, field: &str) -> Option<f64> {
    let advice = all["advice"].as_array().unwrap_or_else(|| panic!("{all:#}"));
    let advice = advice.iter().find(|advice| advice["cgroup"] == cgroup);
    let advice = advice.unwrap_or_else(|| panic!("no {cgroup} in {all:#}"));
    advice[field].as_f64().map(|bytes| bytes / MIB)
}
