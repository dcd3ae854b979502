//! Roll-ups in an object store: sums stand beside the rows, whole at every step, and every row is in them once.

use crate::support::*;
use std::process::{Command, Stdio};
use std::time::Duration;

fn command(what: &str, address: &str, more: &[&str]) -> Command {
    let mut command = program();
    command.args([what, "s3://cluster/rec"]).args(more).envs(keys(address));
    command
}

fn rollup(address: &str, more: &[&str]) -> String {
    printed(&mut command("rollup", address, more))
}

/// Rows and sums by node, of rows, of seconds and of minutes; none of those that are not there.
fn sums(address: &str) -> [String; 3] {
    ["tasks", "tasks_per_second", "tasks_per_minute"].map(|table| {
        let rows = if table == "tasks" { "count(*)" } else { "sum(rows)" };
        let query = format!(
            "SELECT node, {rows}, sum(on_cpu_ns), sum(runq_wait_ns) FROM {table} GROUP BY node ORDER BY node"
        );
        let answer = command("sql", address, &[&query, "--format", "csv"]).output().unwrap();
        let told = String::from_utf8(answer.stderr).unwrap();
        assert!(answer.status.success() || told.contains("no table"), "{told}");
        assert!(!told.contains("not used"), "{told}");
        let text = String::from_utf8(answer.stdout).unwrap();
        text.lines().skip(1).collect::<Vec<_>>().join(" ")
    })
}

fn is_note(name: &str) -> bool {
    name.contains("~exchange")
}

/// Two nodes of which a part was summed up before the rest came and was merged with it.
fn summed_and_merged() -> (Moto, String) {
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    of_two_files_each_in(first.path(), second.path());
    let (server, address) = moto();
    upload(first.path(), &address);
    rollup(&address, &[]);
    upload(second.path(), &address);
    printed(&mut command("compact", &address, &["--grace", "0s"]));
    (server, address)
}

#[test]
fn sums_stand_beside_the_rows_and_a_second_call_finds_nothing_new() {
    let (_server, address) = bucket();
    let done = rollup(&address, &[]);
    assert_eq!(done.matches(" minutes in ").count(), 4, "{done}");
    let [rows, seconds, minutes] = sums(&address);
    assert!(rows.contains("sim-0000,") && rows.contains("sim-0001,"), "{rows}");
    assert_eq!((&rows, &rows), (&seconds, &minutes));
    let there = names(&address);
    assert!(!there.iter().any(|name| is_note(name)), "{there:?}");
    let again = rollup(&address, &[]);
    assert!(again.lines().all(|line| line.ends_with(": nothing new")), "{again}");
    assert_eq!(names(&address), there);
    // Merged rows are summed up already, and sums are left as they are.
    let merged = printed(&mut command("compact", &address, &["--grace", "0s"]));
    let of_sums = merged.lines().filter(|line| line.contains("/tasks_per_"));
    assert!(
        of_sums.clone().count() == 4 && of_sums.clone().all(|line| line.contains("left: sums"))
    );
    assert!(rollup(&address, &[]).lines().all(|line| line.ends_with(": nothing new")));
    assert_eq!(sums(&address), [rows, seconds, minutes]);
}

#[test]
fn what_was_merged_with_summed_objects_is_summed_again_and_counted_once_at_every_step() {
    let (_server, address) = summed_and_merged();
    let before = names(&address);
    let done = rollup(&address, &[]);
    assert_eq!(done.matches(" minutes in ").count(), 4, "{done}");
    let [rows, seconds, minutes] = sums(&address);
    assert_eq!((&rows, &rows), (&seconds, &minutes));
    // Nor does a part of the place have them twice.
    for part in ["tasks_per_second", "tasks_per_second/node=sim-0000"] {
        let (place, query) =
            (format!("s3://cluster/rec/{part}"), "SELECT sum(rows) FROM tasks_per_second");
        let mut sql = program();
        let of_part =
            printed(sql.args(["sql", &place, query, "--format", "csv"]).envs(keys(&address)));
        let of_nodes =
            seconds.split(' ').filter(|node| part.len() < 20 || node.starts_with("sim-0000"));
        let rows: u64 =
            of_nodes.map(|node| node.split(',').nth(1).unwrap().parse::<u64>().unwrap()).sum();
        assert_eq!(of_part.lines().nth(1), Some(rows.to_string().as_str()), "{part}");
    }
    // Who listed the folder before still finds the old sums.
    let between = names(&address);
    assert!(before.iter().all(|name| between.contains(name)), "{between:?}");
    assert!(between.iter().any(|name| is_note(name)), "{between:?}");
    let again = rollup(&address, &[]);
    assert!(again.lines().all(|line| line.ends_with(": nothing new")), "{again}");
    assert_eq!(sums(&address), [rows.clone(), seconds.clone(), minutes.clone()]);
    rollup(&address, &["--grace", "0s"]);
    let after = names(&address);
    assert!(!after.iter().any(|name| is_note(name)), "{after:?}");
    assert_eq!(after.iter().filter(|name| name.contains("/tasks_per_")).count(), 4, "{after:?}");
    assert_eq!(sums(&address), [rows, seconds, minutes]);
}

#[test]
fn killed_at_any_moment_sums_are_the_old_or_the_new_ones_and_the_next_call_goes_on() {
    let (_server, address) = summed_and_merged();
    let [rows, old, _] = sums(&address);
    let known: Vec<&str> = rows.split(' ').chain(old.split(' ')).collect();
    let mut began = 0;
    for moment in (0..12).map(|step| Duration::from_millis(100 * step)) {
        let mut child = command("rollup", &address, &["--grace", "0s", "--unfinished", "0s"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        #[allow(clippy::disallowed_methods)] // the moment is what is tried
        std::thread::sleep(moment);
        child.kill().unwrap();
        child.wait().unwrap();
        began += usize::from(names(&address).iter().any(|name| is_note(name)));
        let [_, seconds, minutes] = sums(&address);
        assert_eq!(seconds, minutes, "killed after {moment:?}");
        assert!(seconds.split(' ').all(|node| known.contains(&node)), "{moment:?}: {seconds}");
    }
    assert!(began > 0, "it was never killed in the middle");
    rollup(&address, &["--grace", "0s", "--unfinished", "0s"]);
    assert_eq!(sums(&address), [rows.clone(), rows.clone(), rows]);
    let after = names(&address);
    assert!(!after.iter().any(|name| is_note(name)), "{after:?}");
    assert_eq!(after.iter().filter(|name| name.contains("/tasks_per_")).count(), 4, "{after:?}");
}

#[test]
fn of_two_at_once_one_sums_up_and_the_other_does_not_or_finds_nothing_new() {
    let (_server, address) = bucket();
    let start = || {
        let mut one = command("rollup", &address, &[]);
        one.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let both = [start(), start()].map(|child| child.wait_with_output().unwrap());
    assert!(both.iter().any(|one| one.status.success()), "{both:?}");
    for one in both.iter().filter(|one| !one.status.success()) {
        let told = String::from_utf8_lossy(&one.stderr);
        assert!(told.contains("s3://cluster/rec: somebody is adding to it"), "{told}");
    }
    let [rows, seconds, minutes] = sums(&address);
    assert_eq!((&rows, &rows), (&seconds, &minutes));
}

#[test]
fn rows_that_are_old_and_summed_up_are_removed_unless_they_are_being_merged() {
    let (_server, address) = bucket();
    printed(&mut command("compact", &address, &[]));
    let output = command("rollup", &address, &["--keep", "7d"]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(told.matches("a compact is not done with its folder").count(), 2, "{told}");
    let [rows, _, _] = sums(&address);
    printed(&mut command("compact", &address, &["--grace", "0s"]));
    // Simulated time is long ago: everything is older than a week.
    rollup(&address, &["--keep", "7d"]);
    let left = names(&address);
    let is_sums = |name: &String| name.contains("/tasks_per_") || name.contains("/slots_per_");
    assert!(left.iter().all(is_sums), "{left:?}");
    assert_eq!(sums(&address), ["".to_owned(), rows.clone(), rows.clone()]);
    rollup(&address, &["--keep-seconds", "90d", "--grace", "0s"]);
    assert_eq!(sums(&address), ["".to_owned(), "".to_owned(), rows]);
    assert_eq!(names(&address).len(), 8, "what is summed up is still known");
}

#[test]
fn a_place_that_is_none_and_an_out_that_is_no_folder_are_refused() {
    let (_server, address) = bucket();
    let refused = |place: &str, more: &[&str]| {
        let mut command = program();
        let output = command.args(["rollup", place]).args(more).envs(keys(&address)).output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let told = refused("s3://cluster/nowhere", &[]);
    assert!(told.contains("s3://cluster/nowhere: no recording here"), "{told}");
    let told = refused("s3://nobody/rec", &[]);
    assert!(told.contains("s3://nobody") && told.contains("NoSuchBucket"), "{told}");
    let told = refused("s3://cluster/rec", &["--out", "s3://cluster/sums"]);
    assert!(told.contains("--out is a folder"), "{told}");
    assert!(!names(&address).iter().any(|name| is_note(name)));
}
