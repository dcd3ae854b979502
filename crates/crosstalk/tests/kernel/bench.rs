//! The benchmark driver on cgroup v2 alone, all controllers in it.

use crate::guest::between;
use crate::{alone, guest};
use serde_json::Value;

/// Two that compute, one of which may use half of its core. While they run it is noted what the kernel holds them to and what
/// the one gets of it; then a driver is killed.
const SCRIPT: &str = r#"
$b ln -s busybox /bin/sh
$b cat > /tmp/experiment.yaml <<'END'
benchmark: {name: halved, max_t: 9, data: {probe: false}}
held: {index: 0, command: crosstalk workload compute, core: 1, cpus: 0.5, memory: 96MiB}
free: {index: 1, command: crosstalk workload compute, core: 0}
END
run='/bin/crosstalk bench --runs /tmp/runs run /tmp/experiment.yaml'
begin() {
    $run --json > /tmp/result 2> /tmp/said &
    driver=$!
    until $b grep -q 'held starts' /tmp/said; do
        $b kill -0 $driver || { $b cat /tmp/said; break; }
        $b sleep 0.2
    done
}
begin
cd /sys/fs/cgroup/crosstalk-bench-*-held
echo '<limits>'
$b head -v -n 1 cpu.max cpuset.cpus cpuset.cpus.effective memory.max
for pid in $($b cat cgroup.procs); do $b grep Cpus_allowed_list /proc/$pid/status; done
echo '</limits>'
note() { $b awk '/^usage_usec/ {u = $2} /^nr_throttled/ {n = $2} END {printf "%d %d\n", u, n}' cpu.stat; $b cat /proc/uptime; }
echo '<used>'; note; $b sleep 4; note; echo '</used>'
cd /
wait $driver
echo '<result>'; $b cat /tmp/result; echo '</result>'
echo '<said>'; $b cat /tmp/said; echo '</said>'
echo '<page>'; $b grep -o '>held</text><text x="0" y="30">[A-Za-z ]*' /tmp/runs/*/report.html; echo '</page>'
left() { $b ls /sys/fs/cgroup | $b grep crosstalk-bench; }
echo '<after>'; left; echo '</after>'
begin
$b kill -KILL $driver
echo '<killed>'; left; echo '</killed>'
echo '<cleaned>'; /bin/crosstalk bench --runs /tmp/runs clean; echo '</cleaned>'
echo '<gone>'; left; echo '</gone>'
"#;

#[test]
#[ignore = "boots a guest: make test-kernel"]
fn on_cgroup_v2_a_run_holds_its_limits_is_measured_and_leaves_nothing() {
    let _alone = alone();
    let text = guest(SCRIPT).boot(240).unwrap();
    let part = |mark: &str| between(&text, mark).unwrap_or_else(|| panic!("no {mark} in {text}"));
    let limits = part("limits");
    println!("{limits}");
    for expected in [
        "==> cpu.max <==\n50000 100000\n",
        "==> cpuset.cpus <==\n1\n",
        "==> cpuset.cpus.effective <==\n1\n",
        "==> memory.max <==\n100663296\n",
        "Cpus_allowed_list:\t1\n",
    ] {
        assert!(limits.contains(expected), "{expected} in {limits}");
    }
    let (share, throttled) = used(part("used"));
    println!("held used {share:.2} of its core and was throttled {throttled} times");
    assert!((0.35..=0.55).contains(&share), "half of a core: {share}");
    assert!(throttled > 5.0, "{throttled}");

    println!("{}", part("said"));
    let result: Value = serde_json::from_str(part("result")).unwrap();
    let summary = &result["summary"];
    assert_eq!(summary["run"]["outcome"]["how"], "completed", "{result:#}");
    let rate = |at: usize| summary["containers"][at]["fared"][0]["rate"]["value"].as_f64();
    let (held, free) = (rate(0).unwrap(), rate(1).unwrap());
    println!("pieces in a second: {held:.0} held, {free:.0} free");
    assert!(held > 0.0 && held < free, "what it got done is less too: {held} of {free}");
    assert_eq!(result["odd_ends"].as_array().map(Vec::len), Some(0), "{result:#}");
    // Who waits for the core, which is what is judged by, is seen too.
    for series in ["processor", "memory", "waits for a core"] {
        assert!(part("page").contains(series), "{series} in {}", part("page"));
    }
    assert_eq!(part("after").trim(), "", "nothing is left");

    let count = |mark: &str| part(mark).matches("crosstalk-bench-").count();
    assert_eq!((count("killed"), count("cleaned"), count("gone")), (2, 2, 0), "{text}");
}

/// The share of a core that was used, and how often it was taken away.
fn used(text: &str) -> (f64, f64) {
    let numbers: Vec<f64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [used, throttled, up, _, used_then, throttled_then, up_then, _] = numbers[..] else {
        panic!("{text}")
    };
    ((used_then - used) / 1e6 / (up_then - up), throttled_then - throttled)
}
