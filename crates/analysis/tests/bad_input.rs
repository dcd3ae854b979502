//! Whatever is wrong with a recording is said with the file's name; the rest is analysed; nothing leads to a verdict
//! from nothing.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

mod support;

use crosstalk_analysis::{Question, Report, analyze};
use crosstalk_model::{Row, Table, TaskRow};
use crosstalk_recording::{Format, Recording, Run};
use std::fs;
use std::path::{Path, PathBuf};
use support::*;

/// A table of somebody else that happens to be called tasks.
struct Foreign {
    slot_start_ns: u64,
}

crosstalk_model::dataset! {
    Foreign: "tasks", "what a planner calls tasks",
    by |row| row.slot_start_ns,
    pid [text] "" "who has to do it" = |_row| "Ann";
}

fn files(out: &Path, ending: &str) -> Vec<PathBuf> {
    let (mut found, mut left) = (Vec::new(), vec![out.to_owned()]);
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                left.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The good run still leads to its verdict, and exactly one sentence names what is wrong.
#[track_caller]
fn rest_is_analysed(report: &Report, file: &str, word: &str) {
    let said: Vec<&String> = report.unread.iter().filter(|text| text.contains(file)).collect();
    let [said] = said[..] else { panic!("{file}: {:?}", report.unread) };
    assert!(said.contains(word), "{said}");
    let verdicts = report.verdicts();
    assert!(verdicts.iter().any(|v| v.node == "n" && v.aggressor == "stream (9)"), "{verdicts:?}");
    assert!(verdicts.iter().all(|v| v.node == "n"), "{verdicts:?}");
}

fn beside(out: &Path, name: &str, bytes: &[u8]) {
    let folder = out.join("tasks/node=bad/run=r");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join(name), bytes).unwrap();
}

#[test]
fn truncated_empty_and_foreign_parquet_is_named() {
    let whole = tempfile::tempdir().unwrap();
    record(whole.path(), 250_000);
    let good = fs::read(&files(whole.path(), ".parquet")[0]).unwrap();
    for (name, bytes) in [
        ("tasks-cut.parquet", &good[..good.len() / 2]),
        ("tasks-none.parquet", &[]),
        ("tasks-text.parquet", b"hello"),
    ] {
        let out = tempfile::tempdir().unwrap();
        record(out.path(), 250_000);
        beside(out.path(), name, bytes);
        rest_is_analysed(&ask_process(out.path()), name, "arquet");
    }
    // Broken in the middle: the footer is whole, a page is not.
    let out = tempfile::tempdir().unwrap();
    record(out.path(), 250_000);
    let mut broken = good.clone();
    for byte in &mut broken[1_000..5_000] {
        *byte = 0xa5;
    }
    beside(out.path(), "tasks-page.parquet", &broken);
    rest_is_analysed(&ask_process(out.path()), "tasks-page.parquet", "");
}

#[test]
fn a_foreign_table_under_our_name_is_told_by_its_columns() {
    let out = tempfile::tempdir().unwrap();
    record(out.path(), 250_000);
    let options = options(out.path(), Format::Parquet);
    let run = Run::new("planner", START);
    let (mut recording, _) = Recording::create(options, run, about()).unwrap();
    recording.open(Foreign::DATASET, START).unwrap();
    let rows = [Foreign { slot_start_ns: START }, Foreign { slot_start_ns: START + MS }];
    recording.write(Table::of(rows.iter().collect())).unwrap();
    recording.finish().unwrap();
    rest_is_analysed(&ask_process(out.path()), "node=planner", "its column pid holds Utf8");
}

#[test]
fn truncated_empty_and_foreign_csv_is_named_or_read_to_its_last_whole_line() {
    let out = tempfile::tempdir().unwrap();
    record(out.path(), 250_000);
    write(out.path(), "csv", START, about(), Format::Csv, &scene(START, 40, 250_000));
    let csv = files(out.path(), ".csv").remove(0);
    // Of the files of its run, the first will do.
    files(out.path(), ".csv")[1..].iter().for_each(|file| fs::remove_file(file).unwrap());
    let text = fs::read_to_string(&csv).unwrap();
    // Cut in the middle of a line.
    fs::write(&csv, &text[..text.len() / 4 * 3 + 7]).unwrap();
    let report = ask_process(out.path());
    assert!(report.unread.is_empty(), "{:?}", report.unread);
    assert_eq!(report.verdicts().len(), 2);
    // A line that is no row, among those that are.
    let lines: Vec<&str> = text.lines().collect();
    let half = lines.len() / 2;
    fs::write(
        &csv,
        format!("{}\nwhat,is,this\n{}\n", lines[..half].join("\n"), lines[half..].join("\n")),
    )
    .unwrap();
    let name = csv.file_name().unwrap().to_string_lossy().into_owned();
    let report = ask_process(out.path());
    let said: Vec<&String> = report.unread.iter().filter(|text| text.contains(&name)).collect();
    assert!(!said.is_empty() && said.len() < 3, "{:?}", report.unread);
    assert!(report.verdicts().iter().any(|v| v.node == "n"));
    // Nothing at all, and somebody else's.
    fs::write(&csv, "").unwrap();
    rest_is_analysed(&ask_process(out.path()), &name, "it is empty");
    fs::write(&csv, "name,age\nAnn,7\n").unwrap();
    rest_is_analysed(&ask_process(out.path()), &name, "does not say what \"name\" holds");
    fs::remove_file(csv.with_extension("json")).unwrap();
    rest_is_analysed(&ask_process(out.path()), csv.with_extension("json").to_str().unwrap(), "");
}

#[test]
fn a_recording_of_another_version_is_read_by_its_columns_and_says_so() {
    let out = tempfile::tempdir().unwrap();
    write(out.path(), "n", START, about(), Format::Csv, &scene(START, 60, 250_000));
    files(out.path(), ".json").iter().for_each(|json| of_version_1(json));
    let report = ask_process(out.path());
    assert!(is_of_version_1(&report, "n"));
    assert_eq!(report.verdicts().len(), 1);
}

/// Says in a file that it is of an earlier version, in what it says of itself.
fn of_version_1(file: &Path) {
    let mut bytes = fs::read(file).unwrap();
    let mut times = 0;
    // In JSON; and at the end of Parquet, where a text of one byte follows its name.
    for said in [&b"\"schema_version\": 2"[..], b"schema_version\x18\x012"] {
        while let Some(at) = bytes.windows(said.len()).position(|some| some == said) {
            bytes[at + said.len() - 1] = b'1';
            times += 1;
        }
    }
    assert!(times > 0, "{} does not say its version", file.display());
    fs::write(file, bytes).unwrap();
}

fn is_of_version_1(report: &Report, node: &str) -> bool {
    let run = report.runs.iter().find(|run| run.node == node).unwrap();
    run.caveats.iter().any(|text| text.contains("version 1 of the schema"))
}

/// What an earlier version knew of who ran: fewer columns, in another order, and one that is gone.
struct Earlier {
    slot_start_ns: u64,
    ran: Ran,
}

crosstalk_model::dataset! {
    Earlier: "tasks", "one row per process, core and slot",
    by |row| (row.ran.pid, row.slot_start_ns),
    comm [text] "" "name" = |row| row.ran.comm;
    core [int] "" "logical CPU" = |row| row.ran.core;
    priority [int] "" "nobody asks for it any more" = |_row| 20_u64;
    pid [int] "" "process id" = |row| row.ran.pid;
    process_start_ns [int] "ns" "start of the process" = |_row| START - 1_000 * MS;
    on_cpu_ns [int] "ns" "time on the core" = |row| row.ran.on_cpu_ns;
    cycles [int?] "" "cycles" = |row| row.ran.counters.map(|counted| counted.0);
    instructions [int?] "" "instructions" = |row| row.ran.counters.map(|counted| counted.1);
}

fn write_earlier(out: &Path, node: &str, format: Format) {
    let run = Run::new(node, START);
    let (mut recording, _) = Recording::create(options(out, format), run, about()).unwrap();
    recording.open(Earlier::DATASET, START).unwrap();
    for some in scene(START, 60, 250_000).chunks(2_000) {
        let row = |ran: &Ran| Earlier { slot_start_ns: ran.at_ns, ran: ran.clone() };
        let rows: Vec<Earlier> = some.iter().map(row).collect();
        recording.write(Table::of(rows.iter().collect())).unwrap();
    }
    recording.finish().unwrap();
}

#[test]
fn recordings_of_several_versions_in_one_folder_are_read_by_their_columns_each() {
    let out = tempfile::tempdir().unwrap();
    write_earlier(out.path(), "earlier", Format::Parquet);
    write_earlier(out.path(), "text", Format::Csv);
    for ending in [".parquet", ".json"] {
        files(out.path(), ending).iter().for_each(|file| of_version_1(file));
    }
    record(out.path(), 250_000);
    let report = ask_process(out.path());
    assert_eq!(report.unread, Vec::<String>::new());
    assert_eq!(
        ["earlier", "text", "n"].map(|node| is_of_version_1(&report, node)),
        [true, true, false]
    );
    let verdicts = report.verdicts();
    let told = |node: &str| {
        let verdict = verdicts.iter().find(|verdict| verdict.node == node).unwrap();
        (verdict.victim.clone(), verdict.aggressor.clone(), verdict.slowdown)
    };
    // They hold the same, and what was not asked of them is not missed.
    assert_eq!([told("earlier"), told("text")], [told("n"), told("n")]);
}

#[test]
fn data_sets_that_are_missing_are_said_and_without_tasks_nothing_is() {
    let out = tempfile::tempdir().unwrap();
    record(out.path(), 250_000);
    let caveats = ask_process(out.path()).runs[0].caveats.join("; ");
    assert!(
        caveats.contains("no data set slots") && caveats.contains("no data set probe"),
        "{caveats}"
    );
    fs::rename(out.path().join("tasks"), out.path().join("x")).unwrap();
    for file in files(out.path(), ".parquet") {
        let name = file.file_name().unwrap().to_string_lossy().replace("tasks", "slots");
        fs::rename(&file, file.with_file_name(name)).unwrap();
    }
    let report = ask_process(out.path());
    assert!(report.is_from_nothing() && report.verdicts().is_empty());
    assert!(report.unread[0].contains("no data set tasks, only slots"), "{:?}", report.unread);
    let empty = tempfile::tempdir().unwrap();
    let places = [empty.path().to_str().unwrap().to_owned()];
    let error = analyze(&places, &Question::default(), |_| {}).unwrap_err().to_string();
    assert!(error.contains("no recording here"), "{error}");
}

#[test]
fn two_machines_of_one_name_are_judged_apart_and_said_to_be_two() {
    let out = tempfile::tempdir().unwrap();
    let later = START + 5_000 * MS;
    for (start, boot) in [(START, 1_000_000_000_000_u64), (later, 9_000_000_000_000)] {
        let about = about().with("clock", serde_json::json!({ "boot_unix_ns": boot }));
        write(out.path(), "n", start, about, Format::Parquet, &scene(start, 40, 250_000));
    }
    let report = ask_process(out.path());
    assert_eq!((report.runs.len(), report.verdicts().len()), (2, 2));
    for run in &report.runs {
        let said = run.caveats.join("; ");
        assert!(said.contains("another machine that is called n as well"), "{said}");
    }
    // The same machine twice, and the same folder given twice: neither counts twice.
    let out = tempfile::tempdir().unwrap();
    for start in [START, later] {
        write(out.path(), "n", start, about(), Format::Parquet, &scene(start, 40, 250_000));
    }
    let places = [out.path().to_str().unwrap().to_owned(), format!("{}/.", out.path().display())];
    let report = analyze(&places, &Question::default(), |_| {}).unwrap();
    assert_eq!((report.runs.len(), report.runs[0].rows), (2, ask_process(out.path()).runs[0].rows));
    assert!(report.runs[0].caveats.join("; ").contains("losses are the same ones"));
}

#[test]
fn a_copy_of_a_file_is_not_counted_twice() {
    let out = tempfile::tempdir().unwrap();
    record(out.path(), 250_000);
    let rows = ask_process(out.path()).runs[0].rows;
    let file = files(out.path(), ".parquet").remove(0);
    let copies =
        out.path().join("backup").join(file.parent().unwrap().strip_prefix(out.path()).unwrap());
    fs::create_dir_all(&copies).unwrap();
    fs::copy(&file, copies.join(file.file_name().unwrap())).unwrap();
    let report = ask_process(out.path());
    assert_eq!(report.runs[0].rows, rows);
    assert!(report.unread[0].contains("the same file as"), "{:?}", report.unread);
}

#[test]
fn a_clock_that_jumps_costs_the_rows_it_moves_and_says_so() {
    let out = tempfile::tempdir().unwrap();
    let mut ran = scene(START, 60, 250_000);
    let hour = 3_600_000 * MS;
    // The last third is an hour earlier.
    for one in ran.iter_mut().filter(|one| one.at_ns >= START + 40_000 * MS) {
        one.at_ns -= hour;
    }
    write(out.path(), "n", START, about(), Format::Parquet, &ran);
    let report = ask_process(out.path());
    let run = &report.runs[0];
    assert!(run.late_rows > 10_000, "{run:?}");
    assert!(run.caveats.join("; ").contains("out of order"), "{:?}", run.caveats);
    assert_eq!(report.verdicts().len(), 1, "what came before the jump is judged");
    // Half an hour ahead in the middle is a gap, not an end.
    let out = tempfile::tempdir().unwrap();
    let mut ran = scene(START, 60, 250_000);
    for one in ran.iter_mut().filter(|one| one.at_ns >= START + 30_000 * MS) {
        one.at_ns += hour / 2;
    }
    write(out.path(), "n", START, about(), Format::Parquet, &ran);
    let report = ask_process(out.path());
    assert_eq!((report.runs[0].late_rows, report.verdicts().len()), (0, 1));
}

#[test]
fn a_recorder_that_was_held_up_for_some_seconds_costs_no_row() {
    let (in_order, late) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut ran = scene(START, 60, 250_000);
    write(in_order.path(), "n", START, about(), Format::Parquet, &ran);
    // What ran in a second comes seven seconds later.
    let second = START + 20_000 * MS..START + 21_000 * MS;
    ran.sort_by_key(|one| match second.contains(&one.at_ns) {
        true => one.at_ns + 7_000 * MS,
        false => one.at_ns,
    });
    write(late.path(), "n", START, about(), Format::Parquet, &ran);
    let [in_order, late] = [in_order, late].map(|out| ask_process(out.path()));
    let run = &late.runs[0];
    assert_eq!((run.late_rows, run.slots), (0, in_order.runs[0].slots), "{:?}", run.caveats);
    assert_eq!(run.caveats, in_order.runs[0].caveats);
    let lost = |report: &Report| report.verdicts()[0].lost_seconds;
    assert_eq!(lost(&late), lost(&in_order));
}

#[test]
fn a_few_seconds_and_a_machine_that_never_rested_lead_to_no_verdict_but_to_the_reason() {
    let out = tempfile::tempdir().unwrap();
    write(out.path(), "n", START, about(), Format::Parquet, &scene(START, 1, 250_000));
    let report = ask_process(out.path());
    assert!(report.verdicts().is_empty());
    assert!(
        report.runs[0].caveats.join("; ").contains("too short"),
        "{:?}",
        report.runs[0].caveats
    );
    assert!(report.cannot_tell().iter().any(|one| one.because.contains("too short")));

    let out = tempfile::tempdir().unwrap();
    let mut ran = scene(START, 30, 250_000);
    ran.retain(|one| one.pid == 7);
    let beside: Vec<Ran> = ran.iter().map(|one| Ran::new(one.at_ns, 9, "stream", 1)).collect();
    ran.extend(beside);
    ran.sort_by_key(|one| one.at_ns);
    write(out.path(), "n", START, about(), Format::Parquet, &ran);
    let report = ask_process(out.path());
    assert!(report.verdicts().is_empty(), "{:?}", report.verdicts());
    let never = report.cannot_tell().iter().any(|one| {
        one.victim == "victim (7)"
            && one.neighbours == ["stream (9)"]
            && one.because.contains("never quiet")
    });
    assert!(never, "{:?}", report.cannot_tell());
}

#[test]
fn a_recording_without_rows_is_nothing_to_judge_by() {
    let out = tempfile::tempdir().unwrap();
    let run = Run::new("n", START);
    let (mut recording, _) =
        Recording::create(options(out.path(), Format::Parquet), run, about()).unwrap();
    recording.open(TaskRow::DATASET, START).unwrap();
    recording.finish().unwrap();
    let report = ask_process(out.path());
    assert!(report.is_from_nothing() && report.verdicts().is_empty());
    assert!(!report.unread.is_empty());
}
