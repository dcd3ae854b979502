//! A Ballista cluster answers as this process does, and leads to the same verdicts; what it loses is made up for or told.

use crate::support::*;
use crosstalk_analysis::{Question, Report, SubjectKind, analyze};
use crosstalk_recording::Format;
use crosstalk_sql::{Error, Options, Session, verdicts};
use rustix::fs::inotify;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// A scheduler and two executors.
struct Cluster {
    _scheduler: Server,
    executors: Vec<Server>,
    port: String,
}

/// Seconds after which the scheduler misses an executor.
const PATIENCE: &str = "4";

impl Cluster {
    fn start(work: &Path) -> Self {
        Self::start_with(work, &[])
    }

    /// With keys of an object store, which the cluster's machines have from their own environment.
    fn start_with(work: &Path, keys: &[(&'static str, String)]) -> Self {
        let node = || {
            let mut node = Command::new(env!("CARGO_BIN_EXE_ballista-node"));
            // As docs/sql.md says that executors of a cluster are to be started.
            node.env("RUST_MIN_STACK", (32 << 20).to_string());
            node.envs(keys.iter().map(|(name, value)| (*name, value)));
            node
        };
        let mut scheduler = node();
        scheduler.args(["scheduler", "--patience", PATIENCE]).stdout(Stdio::piped());
        let mut scheduler = scheduler.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(scheduler.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim().rsplit_once(':').unwrap().1.to_owned();
        let scheduler = Server(scheduler);
        let executor = |name: &str| {
            let mut executor = node();
            executor.args(["executor", "--scheduler", &port, "--work"]).arg(work.join(name));
            std::fs::create_dir(work.join(name)).unwrap();
            Server(executor.spawn().unwrap())
        };
        let executors = vec![executor("a"), executor("b")];
        Self { _scheduler: scheduler, executors, port }
    }

    fn options(&self) -> Options {
        let engine = format!("ballista://127.0.0.1:{}", self.port);
        Options { engine: engine.parse().unwrap(), ..Options::default() }
    }

    /// The scheduler's socket is there a moment after its address is printed.
    fn open(&self, runtime: &Runtime, place: &[String]) -> Session {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            match runtime.block_on(Session::open(place, &self.options())) {
                Ok(session) => return session,
                Err(error) if Instant::now() > until => panic!("{error}"),
                Err(_) => runtime.block_on(async {
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }),
            }
        }
    }
}

const QUERIES: [&str; 5] = [
    "SELECT node, count(*), sum(on_cpu_ns), sum(runq_wait_ns) FROM tasks GROUP BY node ORDER BY node",
    "SELECT node, second, comm, cores, waited_ms FROM per_second ORDER BY node, second, comm LIMIT 50",
    "SELECT node, comm, neighbour, round(sum(beside_ms), 3) FROM neighbours GROUP BY node, comm, neighbour \
     ORDER BY node, comm, neighbour",
    "SELECT node, comm, holder, round(sum(waited_ms), 3) FROM waited_for GROUP BY node, comm, holder \
     ORDER BY node, comm, holder",
    "SELECT pid, comm FROM tasks WHERE node = 'sim-0001' AND comm = 'victim' ORDER BY slot_start_ns LIMIT 3",
];

#[test]
fn two_executors_give_the_rows_and_the_verdicts_of_one_machine() {
    let (out, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    simulate(out.path(), 2, 40, Format::Parquet);
    let place = place(out.path());
    let cluster = Cluster::start(work.path());
    let runtime = Runtime::new().unwrap();
    let here = runtime.block_on(Session::open(&place, &Options::default())).unwrap();
    let there = cluster.open(&runtime, &place);
    for query in QUERIES {
        let expected = ask(&runtime, &here, query).unwrap();
        assert!(!expected.is_empty(), "{query}");
        assert_eq!(ask(&runtime, &there, query).unwrap(), expected, "{query}");
    }
    let wrong = ask(&runtime, &there, "SELECT on_cpu FROM tasks").unwrap_err().to_string();
    assert_eq!(wrong, "query:1:8: no column \"on_cpu\"; did you mean on_cpu_ns?");
    for subject in [SubjectKind::Process, SubjectKind::Container] {
        judged_alike(&cluster, &place, &Question { subject, ..Question::default() });
    }
}

#[test]
fn a_busy_build_a_run_longer_than_its_sample_quotas_and_losses_are_judged_by_a_cluster_as_here() {
    let work = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(work.path());
    let runtime = Runtime::new().unwrap();
    let records: [fn(&Path); 4] = [
        |out| record_build(out, 8),
        record_long,
        |out| record_quotas(out, 40),
        |out| record_lossy(out, 60),
    ];
    for record in records {
        let out = tempfile::tempdir().unwrap();
        record(out.path());
        let place = place(out.path());
        drop(cluster.open(&runtime, &place));
        judged_alike(&cluster, &place, &Question::default());
    }
}

fn judged_alike(cluster: &Cluster, place: &[String], question: &Question) {
    let streamed = analyze(place, question, |_| {}).unwrap();
    assert!(!streamed.verdicts().is_empty());
    let gathered = verdicts::analyze(place, question, &cluster.options()).unwrap();
    assert_eq!(gathered.unread, Vec::<String>::new());
    same(&streamed, &gathered);
}

#[test]
fn files_of_other_days_and_hours_than_a_query_asks_for_are_not_opened_by_a_cluster() {
    let (out, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for hour in [0, 5, 48, 96, 101, 200] {
        simulate_hour(out.path(), hour);
    }
    let place = place(out.path());
    let cluster = Cluster::start(work.path());
    let runtime = Runtime::new().unwrap();
    let all = "SELECT count(*), sum(on_cpu_ns) FROM tasks";
    let midnight = |days: u64| START + days * 86_400_000_000_000;
    let third =
        format!("{all} WHERE slot_start_ns >= {} AND slot_start_ns < {}", midnight(2), midnight(3));
    let named = "SELECT count(*) FROM tasks t JOIN tasks o ON t.slot_start_ns = o.slot_start_ns AND t.pid = o.pid
        WHERE t.time >= '2026-01-05T04:00:00Z' AND o.time >= '2026-01-05T04:00:00Z' AND t.time < '2026-01-06T00:00:00Z' \
        AND o.time < '2026-01-06T00:00:00Z'";
    let none = format!("{all} WHERE slot_start_ns > {}", midnight(400));
    let here = runtime.block_on(Session::open(&place, &Options::default())).unwrap();
    let there = cluster.open(&runtime, &place);
    for query in
        [all, "SELECT * FROM tasks ORDER BY slot_start_ns, pid LIMIT 3", &third, named, &none]
    {
        let (here, there) = (ask(&runtime, &here, query), ask(&runtime, &there, query));
        assert_eq!(here.unwrap(), there.unwrap(), "{query}");
    }
    // Of the first day, of the hour before the one that is asked for, and of days later than rows may be filed.
    for hour in ["date=2026-01-01/hour=00", "date=2026-01-05/hour=00", "date=2026-01-09/hour=08"] {
        let folder = out.path().join("tasks/node=a/run=r").join(hour);
        std::fs::write(files(&folder, ".parquet").remove(0), "damaged").unwrap();
    }
    let there = cluster.open(&runtime, &place);
    there.notes.take();
    for query in [&third, named, &none] {
        let here = ask(&runtime, &here, query).unwrap();
        assert_eq!(ask(&runtime, &there, query).unwrap(), here, "{query}");
    }
    assert_eq!(there.notes.take(), Vec::<String>::new(), "nobody opened them");
    let here = runtime.block_on(Session::open(&place, &Options::default())).unwrap();
    for query in [all, "SELECT comm, count(*) FROM tasks GROUP BY comm ORDER BY comm"] {
        assert_eq!(
            ask(&runtime, &there, query).unwrap(),
            ask(&runtime, &here, query).unwrap(),
            "{query}: those that are whole"
        );
        let notes = there.notes.take();
        assert_eq!(notes.len(), 3, "{notes:?}");
    }
}

#[test]
fn what_a_cluster_cannot_read_is_named_and_the_rest_is_answered_and_judged() {
    let (out, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    // A run of two files of tasks, of which one is half written, and a run of another node.
    simulate(out.path(), 2, 40, Format::Parquet);
    let mut damaged = files(&out.path().join("tasks/node=sim-0001"), ".parquet").remove(0);
    let whole = std::fs::read(&damaged).unwrap();
    damaged.set_file_name("tasks-20260101T000900.000Z.parquet");
    std::fs::write(&damaged, &whole[..whole.len() / 2]).unwrap();
    let place = place(out.path());
    let cluster = Cluster::start(work.path());
    let runtime = Runtime::new().unwrap();
    let here = runtime.block_on(Session::open(&place, &Options::default())).unwrap();
    let there = cluster.open(&runtime, &place);
    there.notes.take();
    for query in QUERIES {
        let expected = ask(&runtime, &here, query).unwrap();
        assert_eq!(ask(&runtime, &there, query).unwrap(), expected, "{query}");
        let notes = there.notes.take();
        assert!(notes.len() == 1 && notes[0].contains(damaged.to_str().unwrap()), "{notes:?}");
    }
    let twice = "SELECT count(*) FROM tasks a JOIN tasks b ON a.slot_start_ns = b.slot_start_ns \
        WHERE a.node = 'sim-0000' AND b.node = 'sim-0001'";
    let refused = ask(&runtime, &there, twice).unwrap_err().to_string();
    assert!(refused.contains(damaged.to_str().unwrap()), "{refused}");
    assert!(refused.contains("--engine datafusion"), "{refused}");
    let question = Question::default();
    let streamed = analyze(&place, &question, |_| {}).unwrap();
    let gathered = verdicts::analyze(&place, &question, &cluster.options()).unwrap();
    let named = |report: &Report| report.unread.iter().filter(|u| u.contains("T000900")).count();
    assert_eq!((named(&streamed), named(&gathered), gathered.has_failed), (1, 1, false));
    same(&streamed, &gathered);
}

#[test]
fn a_cluster_asked_over_a_bucket_answers_and_judges_as_one_machine_does_and_names_what_is_damaged()
{
    let (out, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    simulate(out.path(), 2, 40, Format::Parquet);
    let (_server, address) = moto();
    upload(out.path(), &address);
    let cluster = Cluster::start_with(work.path(), &keys(&address));
    // Until the scheduler listens.
    drop(cluster.open(&Runtime::new().unwrap(), &place(out.path())));
    let ballista = format!("ballista://127.0.0.1:{}", cluster.port);
    let asked = |of: &[&str], engine: &str| {
        let mut asked = program();
        asked.args(of).args(["--engine", engine]).envs(keys(&address)).output().unwrap()
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let same_rows = || {
        let mut told = String::new();
        for query in QUERIES {
            let of = ["sql", "s3://cluster/rec", query, "--format", "csv"];
            let (here, there) = (asked(&of, "datafusion"), asked(&of, &ballista));
            assert!(there.status.success(), "{}", text(&there.stderr));
            assert!(here.stdout.len() > 40, "{query}: {}", text(&here.stderr));
            assert_eq!(text(&there.stdout), text(&here.stdout), "{query}");
            told += &text(&there.stderr);
        }
        told
    };
    let told = same_rows();
    assert!(!told.contains("not used"), "{told}");
    let verdicts = |engine: &str| -> Report {
        let judged = asked(&["analyze", "s3://cluster/rec"], engine);
        assert!(judged.status.success(), "{}", text(&judged.stderr));
        Report::from_json(&text(&judged.stdout)).unwrap()
    };
    let (here, there) = (verdicts("datafusion"), verdicts(&ballista));
    assert!(!here.verdicts().is_empty());
    same(&here, &there);
    // An upload that ended half way, under a name of its own.
    let half = tempfile::tempdir().unwrap();
    let file = files(&out.path().join("tasks/node=sim-0001"), ".parquet").remove(0);
    let below = file.strip_prefix(out.path()).unwrap().with_file_name("tasks-1.parquet");
    std::fs::create_dir_all(half.path().join(&below).parent().unwrap()).unwrap();
    let whole = std::fs::read(&file).unwrap();
    std::fs::write(half.path().join(&below), &whole[..whole.len() / 2]).unwrap();
    upload(half.path(), &address);
    let told = same_rows();
    let named = told.matches(&format!("s3://cluster/rec/{}", below.display())).count();
    assert_eq!(named, QUERIES.len(), "{told}");
    same(&here, &verdicts(&ballista));
}

#[test]
fn a_cluster_that_loses_an_executor_finishes_and_one_that_loses_all_says_why() {
    let (out, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    simulate(out.path(), 2, 40, Format::Parquet);
    let place = place(out.path());
    let mut cluster = Cluster::start(work.path());
    let runtime = Runtime::new().unwrap();
    let here = runtime.block_on(Session::open(&place, &Options::default())).unwrap();
    let expected = ask(&runtime, &here, QUERIES[2]).unwrap();
    let there = cluster.open(&runtime, &place);
    // Both are there, and have worked.
    assert_eq!(ask(&runtime, &there, QUERIES[2]).unwrap(), expected);
    let lost = cluster.executors.remove(0);
    let begun = begun_in(&work.path().join("a"));
    let (told, killed) = mpsc::channel();
    thread::spawn(move || {
        // Its folder gets one for the query as soon as it has something to pass on.
        begun();
        drop(lost);
        // Nobody waits for it where the query had ended before.
        let _ = told.send(());
    });
    let answered = ask(&runtime, &there, QUERIES[2]);
    killed.try_recv().expect("it had a part in the query, and was gone before the answer came");
    assert_eq!(answered.unwrap(), expected);
    assert_eq!(ask(&runtime, &there, QUERIES[2]).unwrap(), expected);
    cluster.executors.clear();
    let began = Instant::now();
    let error = ask(&runtime, &there, QUERIES[0]).unwrap_err();
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    assert!(matches!(error, Error::Engine(_)), "the query is right: {error:?}");
    assert!(error.to_string().contains("executor"), "{error}");
}

/// Watches a folder from now on; what it answers waits until something is made in it.
fn begun_in(folder: &Path) -> impl FnOnce() + Send + 'static {
    let watch = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
    inotify::add_watch(&watch, folder, inotify::WatchFlags::CREATE).unwrap();
    move || {
        let mut event = [0_u8; 4096];
        rustix::io::read(&watch, &mut event[..]).unwrap();
    }
}

#[test]
fn a_cluster_that_is_not_there_is_named_and_so_is_what_it_cannot_read() {
    let (out, work) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    simulate(out.path(), 1, 1, Format::Csv);
    let runtime = Runtime::new().unwrap();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let engine = format!("ballista://{nobody}").parse().unwrap();
    let options = Options { engine, ..Options::default() };
    let refused = runtime.block_on(Session::open(&place(out.path()), &options));
    let error = refused.err().unwrap().to_string();
    assert!(error.starts_with(&format!("ballista://{nobody}: ")), "{error}");
    assert!(error.contains("is a scheduler running there?"), "{error}");
    let cluster = Cluster::start(work.path());
    let session = cluster.open(&runtime, &place(out.path()));
    let notes = session.notes.take();
    assert!(notes.iter().any(|note| note.contains("no finished Parquet file")), "{notes:?}");
}

#[test]
fn a_bucket_whose_folders_are_being_merged_is_asked_by_a_cluster_as_by_one_machine() {
    let (_server, address) = bucket();
    let work = tempfile::tempdir().unwrap();
    let cluster = Cluster::start_with(work.path(), &keys(&address));
    let ballista = format!("ballista://127.0.0.1:{}", cluster.port);
    let asked = |of: &[&str], engine: &str| {
        let mut asked = program();
        asked.args(of).args(["--engine", engine]).envs(keys(&address)).output().unwrap()
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // One node is merged and waits for its readers, then both are.
    for merged in ["s3://cluster/rec/tasks/node=sim-0000", "s3://cluster/rec"] {
        printed(program().args(["compact", merged]).envs(keys(&address)));
        assert!(names(&address).iter().any(|name| name.ends_with("~exchange.json")));
        let of_one = "SELECT node, count(*), sum(on_cpu_ns) FROM tasks WHERE node = 'sim-0000' GROUP BY node";
        let of_all = QUERIES.iter().copied().filter(|_| merged.ends_with("rec"));
        for query in of_all.chain([of_one]) {
            let of = ["sql", "s3://cluster/rec", query, "--format", "csv"];
            let (here, there) = (asked(&of, "datafusion"), asked(&of, &ballista));
            assert!(there.status.success(), "{query}: {}", text(&there.stderr));
            assert!(here.stdout.len() > 30, "{query}: {}", text(&here.stderr));
            assert_eq!(text(&there.stdout), text(&here.stdout), "{query}");
        }
    }
    // Every row is read once in a plan that is only shown, too.
    let of = ["sql", "s3://cluster/rec", "SELECT count(*) FROM tasks", "--explain"];
    let plan = text(&asked(&of, &ballista).stdout);
    assert!(plan.contains("tasks beside 0"), "{plan}");
}
