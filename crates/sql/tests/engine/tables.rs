//! Data sets are tables, whatever their files are.

use crate::support::*;
use crosstalk_recording::Format;
use crosstalk_sql::views::VIEWS;
use crosstalk_sql::{Error, Options, Session};
use std::fs;
use tokio::runtime::Runtime;

/// Less than ten seconds of rows take, and enough to merge what lies on the disk.
const SORTED_IN: usize = 24 << 20;

#[test]
fn every_row_of_every_node_is_in_its_table_and_files_of_other_nodes_are_not_opened() {
    let out = tempfile::tempdir().unwrap();
    let written = simulate(out.path(), 2, 3, Format::Parquet);
    let runtime = Runtime::new().unwrap();
    let session = runtime.block_on(Session::open(&place(out.path()), &Options::default())).unwrap();
    let ask = |query: &str| ask(&runtime, &session, query).unwrap();
    assert_eq!(ask("SELECT count(*) FROM tasks"), [written.task_rows.to_string()]);
    assert_eq!(
        ask("SELECT node, count(DISTINCT slot_start_ns) FROM slots GROUP BY node ORDER BY node"),
        ["sim-0000,3000", "sim-0001,3000"]
    );
    // Every slot of every core adds up, as in one recording.
    let sums = "SELECT count(*) FROM (
        SELECT s.idle_ns + coalesce(sum(t.on_cpu_ns), 0) AS ns FROM slots s LEFT JOIN tasks t
        ON t.node = s.node AND t.run = s.run AND t.core = s.core AND t.slot_start_ns = s.slot_start_ns
        GROUP BY s.node, s.run, s.core, s.slot_start_ns, s.idle_ns) WHERE ns <> 1000000";
    assert_eq!(ask(sums), ["0"]);
    // A file of the other node that cannot be read is not missed by who does not ask for it.
    let other = files(&out.path().join("tasks/node=sim-0001"), ".parquet");
    fs::write(&other[0], "half").unwrap();
    // A session takes files as it finds them, and tells of one that cannot be read.
    let session = runtime.block_on(Session::open(&place(out.path()), &Options::default())).unwrap();
    let ask = |query: &str| crate::support::ask(&runtime, &session, query).unwrap();
    let mut notes = session.notes.take();
    let one = "SELECT count(DISTINCT run) FROM tasks WHERE node = 'sim-0000'";
    assert_eq!(ask(one), ["1"]);
    assert_eq!(session.notes.take(), Vec::<String>::new());
    assert_eq!(ask("SELECT node FROM tasks GROUP BY node"), ["sim-0000"]);
    notes.extend(session.notes.take());
    let names_it = |note: &String| note.starts_with(other[0].to_str().unwrap());
    assert!(!notes.is_empty() && notes.iter().all(names_it), "{notes:?}");
}

#[test]
fn csv_and_parts_that_a_crash_left_are_read_as_parquet_is() {
    let (csv, parquet) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    simulate(csv.path(), 1, 2, Format::Csv);
    simulate(parquet.path(), 1, 2, Format::Parquet);
    // A line cut off in the middle, as a kill leaves it.
    let slots = files(&csv.path().join("slots"), ".csv").remove(0);
    let text = fs::read_to_string(&slots).unwrap();
    fs::write(slots.with_extension("csv.part"), &text[..text.len() - 5]).unwrap();
    fs::rename(slots.with_extension("json"), slots.with_extension("json.part")).unwrap();
    fs::remove_file(&slots).unwrap();
    let runtime = Runtime::new().unwrap();
    let open =
        |folder| runtime.block_on(Session::open(&place(folder), &Options::default())).unwrap();
    let (csv, parquet) = (open(csv.path()), open(parquet.path()));
    let query = "SELECT pid, comm, sum(on_cpu_ns), sum(llc_misses), min(time), max(container_name), max(run) > ''
        FROM tasks GROUP BY pid, comm ORDER BY pid";
    let answer = ask(&runtime, &csv, query).unwrap();
    assert_eq!(answer, ask(&runtime, &parquet, query).unwrap());
    assert_eq!(answer.len(), 5);
    let slots = ask(&runtime, &csv, "SELECT count(*) FROM slots").unwrap();
    assert_eq!(slots, ["7999"], "the last line has no end");
}

#[test]
fn a_wrong_query_names_the_place_and_what_may_have_been_meant() {
    let out = tempfile::tempdir().unwrap();
    simulate(out.path(), 1, 1, Format::Parquet);
    let runtime = Runtime::new().unwrap();
    let session = runtime.block_on(Session::open(&place(out.path()), &Options::default())).unwrap();
    for (query, error) in [
        ("SELECT * FROM taks", "query:1:15: no table \"taks\"; did you mean tasks?"),
        (
            "SELECT\n on_cpu_nss FROM tasks",
            "query:2:2: no column \"on_cpu_nss\"; did you mean on_cpu_ns?",
        ),
        ("SELECT sum(pid FROM tasks", "query:1:16: "),
        (
            "SELECT node FROM tasks t JOIN slots s ON t.core = s.core",
            "query:1:8: column \"node\" is in several tables",
        ),
        (
            "SELECT pid FROM per_secnd",
            "query:1:17: no table \"per_secnd\"; did you mean per_second?",
        ),
        ("SELECT x.pid FROM tasks t", "query:1:8: no column x.pid; did you mean t.pid?"),
        (
            "SELECT comm FROM per_second WHERE coers > 1",
            "query:1:35: no column \"coers\"; did you mean cores?",
        ),
        ("SELECT summ(pid) FROM tasks", "query:1:8: invalid function 'summ'; did you mean 'sum'?"),
    ] {
        let said = ask(&runtime, &session, query).unwrap_err().to_string();
        assert!(said.starts_with(error), "{query}: {said}");
    }
    // A name given in the query itself is no table that is missing.
    assert!(ask(&runtime, &session, "WITH x AS (SELECT 1 AS a) SELECT a FROM x").is_ok());
    assert!(ask(&runtime, &session, "SELECT table_name FROM information_schema.tables").is_ok());
    let deep = format!("SELECT {}1{}", "(".repeat(5_000), ")".repeat(5_000));
    assert!(ask(&runtime, &session, &deep).is_err(), "an error, not a crash");
}

#[test]
fn views_of_a_recording_answer_and_say_what_they_are() {
    let out = tempfile::tempdir().unwrap();
    simulate(out.path(), 1, 3, Format::Parquet);
    let runtime = Runtime::new().unwrap();
    let session = runtime.block_on(Session::open(&place(out.path()), &Options::default())).unwrap();
    let ask = |query: &str| ask(&runtime, &session, query).unwrap();
    for view in VIEWS {
        assert!(view.about().len() > 20 && view.about().ends_with('.'), "{}", view.name);
    }
    let named = |name: &str| session.names().iter().any(|known| known == name);
    assert!(named("per_second") && !named("task_cache"), "there is no data set cache");
    let total = ask("SELECT sum(on_cpu_ns) / 1e9 FROM tasks");
    let seconds = ask("SELECT sum(cores) FROM per_second");
    let number = |text: &[String]| text[0].parse::<f64>().unwrap();
    assert!((number(&total) - number(&seconds)).abs() < 1e-6, "{total:?} {seconds:?}");
    assert_eq!(ask("SELECT count(*) FROM per_second WHERE comm = 'victim'"), ["3"]);
    assert_eq!(
        ask("SELECT DISTINCT container FROM per_container WHERE container IS NOT NULL"),
        ["web"]
    );
    // Who shares a core waits for the other and for nobody else.
    let waited = ask("SELECT DISTINCT holder FROM waited_for WHERE comm = 'redis'");
    assert_eq!(waited, ["cc1"]);
    let beside =
        ask("SELECT neighbour FROM neighbours WHERE comm = 'victim' AND neighbour = 'victim'");
    assert!(beside.is_empty());
    assert_eq!(
        ask("SELECT count(DISTINCT neighbour) FROM neighbours WHERE comm = 'victim'"),
        ["4"]
    );
}

#[test]
fn a_sort_that_does_not_fit_into_memory_goes_to_disk() {
    let out = tempfile::tempdir().unwrap();
    let written = simulate(out.path(), 1, 10, Format::Parquet);
    let runtime = Runtime::new().unwrap();
    let options = Options { memory: SORTED_IN, ..Options::default() };
    let session = runtime.block_on(Session::open(&place(out.path()), &options)).unwrap();
    let query = "SELECT * FROM tasks ORDER BY on_cpu_ns, slot_start_ns";
    assert_eq!(ask(&runtime, &session, query).unwrap().len() as u64, written.task_rows);
    let how = runtime.block_on(session.explain(query, true)).unwrap();
    let spilled = how.split("spill_count=").nth(1).expect("a sort says how often it spilled");
    assert!(!spilled.starts_with('0'), "all of it fitted: {how}");
}

#[test]
fn memory_that_is_too_small_for_anything_is_the_engines_error_and_no_crash() {
    let out = tempfile::tempdir().unwrap();
    simulate(out.path(), 1, 10, Format::Parquet);
    let runtime = Runtime::new().unwrap();
    let options = Options { memory: 64 << 10, ..Options::default() };
    let session = runtime.block_on(Session::open(&place(out.path()), &options)).unwrap();
    let query = "SELECT * FROM tasks ORDER BY on_cpu_ns, slot_start_ns";
    let error = ask(&runtime, &session, query).unwrap_err();
    assert!(error.to_string().contains("memory"), "{error}");
    assert!(matches!(error, Error::Engine(_)), "the query is right: {error:?}");
}

#[test]
fn what_a_query_creates_is_created_once() {
    let out = tempfile::tempdir().unwrap();
    simulate(out.path(), 1, 1, Format::Parquet);
    printed(program().arg("sql").arg(out.path()).arg("CREATE TABLE seen AS SELECT 1 AS a"));
}

#[test]
fn a_file_whose_end_is_whole_and_whose_pages_are_not_is_named_and_the_rest_is_used() {
    let out = tempfile::tempdir().unwrap();
    simulate(out.path(), 2, 2, Format::Parquet);
    let runtime = Runtime::new().unwrap();
    let query = "SELECT node, sum(on_cpu_ns), count(DISTINCT comm) FROM tasks WHERE pid > 0 GROUP BY node ORDER BY node";
    let open = || runtime.block_on(Session::open(&place(out.path()), &Options::default())).unwrap();
    let whole = ask(&runtime, &open(), query).unwrap();
    let file = files(&out.path().join("tasks/node=sim-0001"), ".parquet").remove(0);
    let mut bytes = fs::read(&file).unwrap();
    // The last eight bytes are the length of the end and its mark.
    let [.., a, b, c, d, _, _, _, _] = bytes[..] else { panic!("it is empty") };
    let end = bytes.len() - 8 - u32::from_le_bytes([a, b, c, d]) as usize;
    bytes[4..end].fill(0xee);
    fs::write(&file, bytes).unwrap();
    let session = open();
    assert_eq!(ask(&runtime, &session, query).unwrap(), whole[..1]);
    let notes = session.notes.take();
    assert!(notes.len() == 1 && notes[0].contains(file.to_str().unwrap()), "{notes:?}");
    // What the query does wrong is not a file's fault, be it found in the middle of one.
    let wrong = "SELECT sum(on_cpu_ns) FROM tasks WHERE 1 / (pid - pid) > 0 AND node = 'sim-0000'";
    assert!(matches!(ask(&runtime, &session, wrong), Err(Error::Query(_) | Error::Engine(_))));
}

#[test]
fn a_join_that_does_not_fit_into_memory_says_so_and_what_can_be_done() {
    let out = tempfile::tempdir().unwrap();
    simulate(out.path(), 1, 20, Format::Parquet);
    let runtime = Runtime::new().unwrap();
    let tight = Options { memory: 1 << 20, ..Options::default() };
    let session = runtime.block_on(Session::open(&place(out.path()), &tight)).unwrap();
    let joined = |when: &str| {
        let query = format!(
            "SELECT count(*) FROM tasks a JOIN tasks b ON a.slot_start_ns = b.slot_start_ns AND a.pid = b.pid {when}"
        );
        ask(&runtime, &session, &query)
    };
    let error = joined("").unwrap_err();
    assert!(matches!(error, Error::Engine(_)), "the query is right: {error:?}");
    let said = error.to_string();
    assert!(
        said.starts_with(
            "--memory is too little for it: sorts and groups go to disk, joins do not; "
        ),
        "{said}"
    );
    assert!(said.contains("WHERE time") && !said.contains('\n'), "{said}");
    let second = "WHERE a.time < '2026-01-01T00:00:01Z' AND b.time < '2026-01-01T00:00:01Z'";
    assert!(joined(second).is_ok());
}
