//! The benchmark driver on cgroup v2 alone, all controllers in it.

use crate::guest::between;
use crate::{alone, guest};
use serde_json::Value;

/// Two that compute, one of which may use half of its core, and one that may read 4 MiB of 16 in a second. While they run it is
/// noted what the kernel holds them to and what the one gets of it; then a driver is killed.
const SCRIPT: &str = r#"
$b ln -s busybox /bin/sh
$b cat > /tmp/experiment.yaml <<'END'
benchmark: {name: halved, max_t: 9, data: {probe: false}}
held: {index: 0, command: crosstalk workload compute, core: 1, cpus: 0.5, memory: 96MiB}
free: {index: 1, command: crosstalk workload compute, core: 0}
reads: {index: 2, command: [/bin/busybox, dd, if=/dev/nvme0n1, of=/dev/null, bs=65536, count=256], io: {read: 4MiB, disk: nvme0n1}}
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
$b cat /sys/fs/cgroup/crosstalk-bench-*-reads/io.max
echo '</limits>'
note() { $b awk '/^usage_usec/ {u = $2} /^nr_throttled/ {n = $2} END {printf "%d %d\n", u, n}' cpu.stat; $b cat /proc/uptime; }
echo '<used>'; note; $b sleep 4; note; echo '</used>'
cd /
wait $driver
echo '<result>'; $b cat /tmp/result; echo '</result>'
echo '<said>'; $b cat /tmp/said; echo '</said>'
echo '<events>'; $b cat /tmp/runs/*/events.jsonl; echo '</events>'
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
    let text = guest(SCRIPT).boot(400).unwrap();
    let part = |mark: &str| between(&text, mark).unwrap_or_else(|| panic!("no {mark} in {text}"));
    let limits = part("limits");
    println!("{limits}");
    for expected in [
        "==> cpu.max <==\n50000 100000\n",
        "==> cpuset.cpus <==\n1\n",
        "==> cpuset.cpus.effective <==\n1\n",
        "==> memory.max <==\n100663296\n",
        "Cpus_allowed_list:\t1\n",
        " rbps=4194304 wbps=max riops=max wiops=max\n",
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
    let read_s = lived(part("events"), "reads");
    println!("16 MiB were read in {read_s:.1} s");
    assert!((3.0..8.0).contains(&read_s), "at 4 MiB a second: {read_s}");
    // Who waits for the core, which is what is judged by, is seen too.
    for series in ["processor", "memory", "waits for a core"] {
        assert!(part("page").contains(series), "{series} in {}", part("page"));
    }
    assert_eq!(part("after").trim(), "", "nothing is left");

    let count = |mark: &str| part(mark).matches("crosstalk-bench-").count();
    assert_eq!((count("killed"), count("cleaned"), count("gone")), (3, 3, 0), "{text}");
}

/// How long a container ran, by the events of its run.
fn lived(events: &str, name: &str) -> f64 {
    let events = events.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mine: Vec<Value> = events.filter(|event| event["container"] == name).collect();
    let at = |what: &str| mine.iter().find(|e| e["event"] == what).unwrap()["seconds"].as_f64();
    at("ended").unwrap() - at("start").unwrap()
}

/// Two that want one core, the one more important than the other: once as the kernel offers it, once with a quota that it
/// will not take.
const LEVERS: &str = r#"
$b ln -s busybox /bin/sh
$b cat > /tmp/levers.yaml <<'END'
benchmark: {name: levers, max_t: 60, scheduler: {implementation: adaptive}, data: {probe: false}}
victim: {index: 0, command: crosstalk workload compute, core: 0, critical: true}
noisy: {index: 1, command: crosstalk workload compute, core: 0, start: 4}
END
until_said() {
    until $b grep -q "$@" /tmp/said; do
        $b kill -0 $driver || { $b cat /tmp/said; break; }
        $b sleep 0.2
    done
}
for lever in quota pinning; do
    /bin/crosstalk bench --runs /tmp/$lever run /tmp/levers.yaml > /tmp/result 2> /tmp/said &
    driver=$!
    until_said 'noisy starts'
    cd /sys/fs/cgroup/crosstalk-bench-*-noisy
    if [ $lever = pinning ]; then
        $b mount -o bind $PWD/cpu.max $PWD/cpu.max
        $b mount -o remount,ro,bind $PWD/cpu.max
    fi
    until_said 'acted: '
    echo "<$lever-held>"; $b head -v -n 1 cpu.max cpuset.cpus cpuset.cpus.effective; echo "</$lever-held>"
    [ $lever = quota ] || $b umount $PWD/cpu.max
    until_said -e 'kept: ' -e 'rolled back: '
    cd /
    $b kill -INT $driver
    wait $driver
    echo "<$lever-said>"; $b cat /tmp/said; echo "</$lever-said>"
done
echo '<left>'; $b ls /sys/fs/cgroup | $b grep crosstalk-bench; echo '</left>'
"#;

#[test]
#[ignore = "boots a guest: make test-kernel"]
fn on_cgroup_v2_adaptive_holds_an_aggressor_back_by_quota_and_where_that_is_refused_by_pinning() {
    let _alone = alone();
    let text = guest(LEVERS).boot(600).unwrap();
    let part = |mark: &str| between(&text, mark).unwrap_or_else(|| panic!("no {mark} in {text}"));
    for lever in ["quota", "pinning"] {
        println!("{}{}", part(&format!("{lever}-held")), part(&format!("{lever}-said")));
    }
    let quota = part("quota-held").lines().find(|line| line.ends_with(" 1000000"));
    let quota: f64 = quota.and_then(|line| line.split(' ').next()?.parse().ok()).unwrap();
    assert!((50_000.0..=200_000.0).contains(&quota), "a fifth of its half of a core: {quota}");
    assert!(part("quota-held").contains("==> cpuset.cpus <==\n0\n"), "{text}");
    assert!(part("quota-said").contains("to noisy (cpu time): cpu quota, at most "), "{text}");

    let held = part("pinning-held");
    for expected in ["==> cpu.max <==\nmax 100000\n", "==> cpuset.cpus.effective <==\n1\n"] {
        assert!(held.contains(expected), "{expected} in {held}");
    }
    assert!(part("pinning-said").contains("to noisy (cpu time): pinning, cores 0 -> 1"), "{text}");
    for lever in ["quota", "pinning"] {
        let said = part(&format!("{lever}-said"));
        assert!(said.contains("kept: "), "it helped: {said}");
    }
    assert_eq!(part("left").trim(), "", "nothing is left");
}

/// The share of a core that was used, and how often it was taken away.
fn used(text: &str) -> (f64, f64) {
    let numbers: Vec<f64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
    let [used, throttled, up, _, used_then, throttled_then, up_then, _] = numbers[..] else {
        panic!("{text}")
    };
    ((used_then - used) / 1e6 / (up_then - up), throttled_then - throttled)
}
