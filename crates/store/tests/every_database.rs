//! The store's promises, on SQLite, on PostgreSQL and on MariaDB: one suite, real servers.

#![allow(clippy::unwrap_used, reason = "a check that cannot go on fails where it stands")]

mod owners;
mod servers;

use crosstalk_store::{
    Container, Device, Error, EventFilter, Inventory, Observation, Page, Pod, PodWorkload,
    Sighting, Store, Table, TrainingQuery, Workload,
};
use crosstalk_training_log::{Metric, Outcome, Parser};
use owners::{
    a_run_knows_what_part_each_of_its_pods_plays, a_workload_ends_once_and_goes_on_when_told,
    members_of_a_group_have_runs_of_their_own_and_are_listed_by_it, tables_without_groups_get_them,
    tables_without_starts_and_roles_get_them, the_first_start_of_a_workload_stands,
};
use servers::Server;
use sqlx::{Connection, Row};

/// A database of its own for each check.
struct Databases {
    server: Option<Server>,
    folder: tempfile::TempDir,
    count: usize,
}

impl Databases {
    fn new(server: Option<Server>) -> Databases {
        sqlx::any::install_default_drivers();
        Databases { server, folder: tempfile::tempdir().unwrap(), count: 0 }
    }

    /// The URL of a new, empty database.
    async fn fresh(&mut self) -> String {
        self.count += 1;
        let name = format!("check{}", self.count);
        match &self.server {
            None => format!("sqlite://{}/{name}.sqlite", self.folder.path().display()),
            Some(server) => {
                let url = format!("{}{}", server.url, server.first_database);
                execute(&url, &format!("CREATE DATABASE {name}")).await;
                format!("{}{name}", server.url)
            }
        }
    }
}

async fn execute(url: &str, sql: &str) {
    let mut connection = sqlx::AnyConnection::connect(url).await.unwrap();
    sqlx::raw_sql(sqlx::AssertSqlSafe(sql.to_owned())).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

async fn count(url: &str, table: &str) -> i64 {
    let mut connection = sqlx::AnyConnection::connect(url).await.unwrap();
    let sql = format!("SELECT COUNT(*) FROM {table}");
    let row = sqlx::query(sqlx::AssertSqlSafe(sql)).fetch_one(&mut connection).await.unwrap();
    let count = row.try_get(0).unwrap();
    connection.close().await.unwrap();
    count
}

const SECOND: i64 = 1_000_000_000;

/// Of the tables.
const VERSIONS: i64 = 4;

fn line(workload: &str, pod: &str, at: i64, line: &str) -> Observation {
    let sighting = match Parser::default().parse(line) {
        Outcome::Performance { performance, .. } => Sighting::Performance(Box::new(performance)),
        Outcome::Start => Sighting::Start,
        Outcome::Nothing(reason) => panic!("{line}: {reason}"),
    };
    Observation {
        workload_uid: workload.to_owned(),
        workload_name: Some(format!("name of {workload}")),
        workload_kind: None,
        workload_namespace: None,
        group: None,
        pod_uid: pod.to_owned(),
        replica_role: None,
        data_source: "log".to_owned(),
        at,
        sighting,
    }
}

fn iteration(workload: &str, pod: &str, at: i64, number: i64) -> Observation {
    line(
        workload,
        pod,
        at,
        &format!("iteration {number}/1000 | lm loss: {number}.5 | grad norm: 1.0"),
    )
}

async fn iterations(store: &Store, workload: &str, run: i64) -> Vec<i64> {
    let query = TrainingQuery { run: Some(run), ..TrainingQuery::new(workload) };
    store.training(&query).await.unwrap().points.iter().map(|point| point.iteration).collect()
}

async fn kinds(store: &Store, workload: &str) -> Vec<(String, Option<i64>, Option<i64>)> {
    let filter = EventFilter { workload_uid: Some(workload.to_owned()), kind: None };
    let events = store.events(&filter, &Page::default()).await.unwrap().items;
    events.into_iter().rev().map(|event| (event.kind, event.run_serial, event.iteration)).collect()
}

async fn tables_are_made_once_however_many_start_at_once(url: &str) {
    let opening: Vec<_> = (0..6)
        .map(|_| {
            let url = url.to_owned();
            tokio::spawn(async move { Store::open(&url).await.map(drop) })
        })
        .collect();
    for opened in opening {
        opened.await.unwrap().unwrap();
    }
    Store::open(url).await.unwrap().ping().await.unwrap();
    assert_eq!(count(url, "crosstalk_schema").await, VERSIONS);
}

/// As a start leaves it that was killed between a change and the note that it was made.
async fn a_change_of_the_tables_that_was_cut_short_is_finished(url: &str) {
    Store::open(url).await.unwrap().close().await;
    if url.starts_with("sqlite") {
        // Its changes are all made or none.
        execute(url, "ALTER TABLE training_run DROP COLUMN line_interval").await;
        execute(url, "ALTER TABLE training_reporter DROP COLUMN last_at").await;
        execute(url, "ALTER TABLE training_reporter DROP COLUMN start_at").await;
    } else {
        execute(url, "ALTER TABLE training_reporter DROP COLUMN start_at").await;
    }
    execute(url, "DELETE FROM crosstalk_schema WHERE version = 2").await;
    let store = Store::open(url).await.unwrap();
    store.record(&[iteration("w", "p", 1, 1)]).await.unwrap();
    assert_eq!(count(url, "crosstalk_schema").await, VERSIONS);
}

async fn prune_all(store: &Store, table: Table, before: i64) -> u64 {
    let mut rows = 0;
    loop {
        let pruned = store.prune_some(table, before).await.unwrap();
        rows += pruned.rows;
        if !pruned.more {
            return rows;
        }
    }
}

async fn old_rows_go_table_by_table_and_new_ones_stay(url: &str) {
    let store = Store::open(url).await.unwrap();
    let start = line("w", "p", SECOND, "training ...");
    let batch: Vec<_> = (1..=20).map(|n| iteration("w", "p", n * SECOND, n)).collect();
    store.record(&[vec![start], batch].concat()).await.unwrap();
    let prune = |table| prune_all(&store, table, 11 * SECOND);
    assert_eq!(prune(Table::TrainingPerformance).await, 10);
    assert_eq!(prune(Table::TrainingPerformance).await, 0);
    assert_eq!(iterations(&store, "w", 1).await, (11..=20).collect::<Vec<_>>());
    assert_eq!(kinds(&store, "w").await.len(), 1);
    assert_eq!(prune(Table::WorkloadEvent).await, 1);
    assert_eq!(prune(Table::EventStream).await, 1);
    assert_eq!(kinds(&store, "w").await, []);
    // The run goes on as the one it was.
    store.record(&[iteration("w", "p", 21 * SECOND, 21)]).await.unwrap();
    assert_eq!(iterations(&store, "w", 1).await.last(), Some(&21));
}

/// SQLite has no server that could end a statement, and nobody to wait for but its one writer.
async fn a_statement_that_takes_too_long_is_ended_by_the_server(url: &str) {
    let slow = match url.split(':').next() {
        Some("postgres") => "SELECT 1 FROM pg_sleep(20)",
        Some("mysql") => "SELECT SLEEP(20) FROM crosstalk_schema",
        _ => return,
    };
    let limit = std::time::Duration::from_millis(300);
    let store = Store::open_within(url, limit).await.unwrap();
    let began = std::time::Instant::now();
    // MariaDB's SLEEP gives an answer when it is ended; PostgreSQL fails.
    let _ = store.run_raw(slow).await;
    assert!(began.elapsed() < std::time::Duration::from_secs(15), "{:?}", began.elapsed());
    store.ping().await.unwrap();
}

async fn tables_of_a_newer_program_are_left_alone(url: &str) {
    drop(Store::open(url).await.unwrap());
    execute(url, "INSERT INTO crosstalk_schema (version, applied_at) VALUES (99, 0)").await;
    let error = Store::open(url).await.unwrap_err();
    assert!(matches!(error, Error::NewerSchema { found: 99, .. }), "{error}");
}

async fn what_a_line_says_comes_back_as_it_was(url: &str) {
    let store = Store::open(url).await.unwrap();
    let batch = [line(
        "w",
        "p",
        7_000_000_001,
        "iteration 3/10 | lm loss: nan | grad norm: inf | z_loss: -inf | learning rate: 1.5E-07 | consumed samples: 9007199254740991 |",
    )];
    let recorded = store.record(&batch).await.unwrap();
    assert_eq!((recorded.iterations, recorded.runs_opened, recorded.rejected.len()), (1, 1, 0));
    assert_eq!(recorded.events.get("nan_loss"), Some(&1));
    let series = store.training(&TrainingQuery::new("w")).await.unwrap();
    let point = &series.points[0];
    assert_eq!(
        (point.iteration, point.created_at, point.pod_uid.as_str()),
        (3, 7_000_000_001, "p")
    );
    assert!(point.performance.get(Metric::LmLoss).unwrap().is_nan());
    assert_eq!(point.performance.get(Metric::GradNorm), Some(f64::INFINITY));
    assert_eq!(point.performance.get(Metric::LearningRate), Some(1.5e-7));
    assert_eq!(point.performance.get(Metric::ConsumedSamples), Some(9007199254740991.0));
    assert_eq!(point.performance.extra().collect::<Vec<_>>(), [("z_loss", f64::NEG_INFINITY)]);
    let workload = store.workload("w").await.unwrap().unwrap();
    assert_eq!(workload.name.as_deref(), Some("name of w"));
    assert_eq!((workload.run, workload.last_iteration), (Some(1), Some(3)));
}

async fn a_workload_gets_its_name_when_it_becomes_known_and_keeps_it(url: &str) {
    let store = Store::open(url).await.unwrap();
    for name in [None, Some("first"), None, Some("second")] {
        let mut observation = iteration("w", "p", 1, 1);
        observation.workload_name = name.map(str::to_owned);
        store.record(&[observation]).await.unwrap();
    }
    assert_eq!(store.workload("w").await.unwrap().unwrap().name.as_deref(), Some("first"));
    assert_eq!(store.workload("other").await.unwrap(), None);
}

async fn the_same_batch_again_changes_nothing(url: &str) {
    let store = Store::open(url).await.unwrap();
    let mut batch = vec![line("w", "p", 1, "training ...")];
    batch.extend((1..=20).map(|n| iteration("w", "p", n * 10, n)));
    batch.push(line("w", "p", 210, "iteration 21/1000 | loss scale: 1.0 | number of skipped iterations: 1 | number of nan iterations: 1"));
    let first = store.record(&batch).await.unwrap();
    assert_eq!(first.events.values().sum::<u64>(), 3);
    for part in [&batch[..], &batch[5..9], &batch[..1]] {
        let again = store.record(part).await.unwrap();
        assert_eq!((again.runs_opened, again.events.len()), (0, 0));
    }
    assert_eq!(count(url, "training_performance").await, 21);
    assert_eq!(count(url, "workload_event").await, 3);
    assert_eq!(count(url, "event_stream").await, 3);
    assert_eq!(count(url, "training_run").await, 1);
    let expected =
        [("training_start", None), ("nan_loss", Some(21)), ("skipped_iterations", Some(21))];
    let expected: Vec<_> = expected.map(|(kind, at)| (kind.to_owned(), Some(1), at)).into();
    assert_eq!(kinds(&store, "w").await, expected);
}

async fn lines_about_one_iteration_are_merged_and_the_newer_value_stays(url: &str) {
    let store = Store::open(url).await.unwrap();
    // DeepSpeed tells of a step in three lines; they may come at once, one by one, or late.
    let lines = [
        line("w", "p", 100, "[Rank 0] step=10, skipped=0, lr=[9.6e-05], mom=[(0.9, 0.95)]"),
        line("w", "p", 110, "step: 10 loss: 0.7000 iter time (s): 1.200 samples/sec: 20.0"),
        line(
            "w",
            "p",
            120,
            "epoch=0/micro_step=10/global_step=10, CurrSamplesPerSec=8.01, MemAllocated=59.65GB",
        ),
    ];
    let named = |name: &str, order: [usize; 3]| {
        order.map(|place| Observation { workload_uid: name.to_owned(), ..lines[place].clone() })
    };
    store.record(&named("at once", [0, 1, 2])).await.unwrap();
    for observation in named("one by one", [0, 1, 2]).iter().chain(&named("late", [2, 0, 1])) {
        store.record(std::slice::from_ref(observation)).await.unwrap();
    }
    for workload in ["at once", "one by one", "late"] {
        let points = store.training(&TrainingQuery::new(workload)).await.unwrap().points;
        assert_eq!(points.len(), 1, "{workload}");
        let (point, found) = (&points[0], &points[0].performance);
        assert_eq!(found.get(Metric::LearningRate), Some(9.6e-5), "{workload}");
        assert_eq!(found.get(Metric::LmLoss), Some(0.7), "{workload}");
        assert_eq!(found.get(Metric::MemUsage), Some(59.65), "{workload}");
        assert_eq!(found.extra().filter(|(name, _)| *name == "samples_sec").count(), 1);
        assert_eq!(point.created_at, 120, "{workload}");
    }
    // A newer line's value replaces, an older one's does not, and a field of neither stays.
    for (pod, at, loss) in [("q", 130, 0.5), ("r", 90, 0.9)] {
        store.record(&[line("late", pod, at, &format!("step: 10 loss: {loss}"))]).await.unwrap();
        let point = store.training(&TrainingQuery::new("late")).await.unwrap().points.remove(0);
        assert_eq!(point.performance.get(Metric::LmLoss), Some(0.5));
        assert_eq!(point.performance.get(Metric::LearningRate), Some(9.6e-5));
        assert_eq!((point.pod_uid.as_str(), point.created_at), ("q", 130));
    }
    assert_eq!(count(url, "training_performance").await, 3);
}

async fn pods_in_step_share_a_run_and_a_date_that_cannot_be_true_spoils_nothing(url: &str) {
    let store = Store::open(url).await.unwrap();
    // Iterations of 100 ms, and a clock that is 250 ms ahead.
    let mut batch = Vec::new();
    for number in 1..20 {
        batch.push(iteration("skew", "a", number * SECOND / 10, number));
        batch.push(iteration("skew", "b", number * SECOND / 10 + SECOND / 4, number));
    }
    batch.sort_by_key(|observation| observation.at);
    for observation in &batch {
        store.record(std::slice::from_ref(observation)).await.unwrap();
    }
    assert_eq!(store.runs("skew").await.unwrap().len(), 1);
    assert_eq!(iterations(&store, "skew", 1).await, (1..20).collect::<Vec<_>>());

    let in_2121 = 4_794_785_000 * SECOND;
    for bodies in [
        vec![vec![iteration("w", "p", SECOND, 1), iteration("w", "p", in_2121, 2)]],
        vec![vec![iteration("v", "p", SECOND, 1)], vec![iteration("v", "p", in_2121, 2)]],
    ] {
        let workload = bodies[0][0].workload_uid.clone();
        for body in &bodies {
            store.record(body).await.unwrap();
        }
        let at = |number: i64| number * SECOND;
        let going_on = [iteration(&workload, "p", at(3), 3), iteration(&workload, "p", at(4), 4)];
        store.record(&going_on).await.unwrap();
        let restart = [
            line(&workload, "p", at(10), "training ..."),
            iteration(&workload, "p", at(11), 1),
            iteration(&workload, "p", at(12), 2),
        ];
        assert_eq!(store.record(&restart).await.unwrap().runs_opened, 1);
        assert_eq!(iterations(&store, &workload, 1).await, [1, 2, 3, 4]);
        assert_eq!(iterations(&store, &workload, 2).await, [1, 2]);
        // Nothing of it is dated later than its run.
        let runs = store.runs(&workload).await.unwrap();
        assert_eq!((runs[0].last_at, runs[1].last_at), (at(4), at(12)));
    }
}

async fn runs_are_numbered_right_across_restarts_of_everything(url: &str) {
    let store = Store::open(url).await.unwrap();
    store
        .record(&(1..=5).map(|n| iteration("w", "p", n * SECOND, n)).collect::<Vec<_>>())
        .await
        .unwrap();
    store.close().await;
    // The processor restarts, then the training, from iteration 3.
    let store = Store::open(url).await.unwrap();
    store.record(&[iteration("w", "p", 6 * SECOND, 6)]).await.unwrap();
    let restarted = store
        .record(&(3..=4).map(|n| iteration("w", "p", (n + 10) * SECOND, n)).collect::<Vec<_>>())
        .await
        .unwrap();
    assert_eq!(restarted.runs_opened, 1);
    // A start with the iteration going on, printed by two ranks.
    let started = [
        line("w", "p", 20 * SECOND, "training ..."),
        line("w", "q", 21 * SECOND, "training ..."),
        iteration("w", "p", 22 * SECOND, 5),
    ];
    assert_eq!(store.record(&started).await.unwrap().runs_opened, 1);
    // A new pod whose iteration goes back.
    assert_eq!(store.record(&[iteration("w", "r", 30 * SECOND, 1)]).await.unwrap().runs_opened, 1);
    // A line of the first run that comes late.
    assert_eq!(store.record(&[iteration("w", "p", 3 * SECOND, 3)]).await.unwrap().runs_opened, 0);
    assert_eq!(iterations(&store, "w", 1).await, [1, 2, 3, 4, 5, 6]);
    assert_eq!(iterations(&store, "w", 2).await, [3, 4]);
    assert_eq!(iterations(&store, "w", 3).await, [5]);
    assert_eq!(iterations(&store, "w", 4).await, [1]);
    let runs = store.runs("w").await.unwrap();
    assert_eq!(runs.iter().map(|run| run.serial).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert_eq!(store.training(&TrainingQuery::new("w")).await.unwrap().run, Some(4));
}

async fn writers_at_once_agree_on_the_run_and_lose_nothing(url: &str) {
    let store = Store::open(url).await.unwrap();
    store
        .record(&(1..=50).map(|n| iteration("w0", "p0", n * SECOND, n)).collect::<Vec<_>>())
        .await
        .unwrap();
    let writers: Vec<_> = (0..8)
        .map(|writer: i64| {
            // Stores of their own, as processes have, over workloads that overlap in other orders.
            let url = url.to_owned();
            tokio::spawn(async move {
                let store = Store::open(&url).await.unwrap();
                let mut opened = 0;
                for round in 0..5 {
                    let mut batch = Vec::new();
                    for workload in 0..3 {
                        let workload = (workload + writer) % 3;
                        let (pod, number) = (format!("p{writer}"), round + 1);
                        let at = (1000 + round) * SECOND;
                        batch.push(iteration(&format!("w{workload}"), &pod, at, number));
                    }
                    opened += store.record(&batch).await.unwrap().runs_opened;
                }
                opened
            })
        })
        .collect();
    let mut opened = 0;
    for writer in writers {
        opened += writer.await.unwrap();
    }
    // Every line is of the time of its iteration, so there is one training of each workload,
    // and for the first that is its second run.
    assert_eq!(opened, 3);
    for (workload, run) in [("w0", 2), ("w1", 1), ("w2", 1)] {
        let serials: Vec<_> =
            store.runs(workload).await.unwrap().iter().map(|run| run.serial).collect();
        assert_eq!(serials, (1..=run).collect::<Vec<_>>());
        assert_eq!(iterations(&store, workload, run).await, [1, 2, 3, 4, 5], "{workload}");
    }
    assert_eq!(iterations(&store, "w0", 1).await.len(), 50);
}

async fn a_long_run_is_shown_in_as_few_points_as_asked(url: &str) {
    let store = Store::open(url).await.unwrap();
    let batch: Vec<_> = (1..=2500).map(|n| iteration("w", "p", n, n)).collect();
    assert_eq!(store.record(&batch).await.unwrap().iterations, 2500);
    for (points, expected_width) in [(100, 25), (1000, 3), (5000, 1), (1, 2500), (0, 2500)] {
        let query = TrainingQuery { max_points: points, ..TrainingQuery::new("w") };
        let series = store.training(&query).await.unwrap();
        assert!(series.points.len() <= points.max(1) as usize, "{points}: {}", series.points.len());
        assert_eq!(series.iterations_per_point, expected_width);
        assert_eq!(series.points.last().unwrap().iteration, 2500);
        assert!(series.points.is_sorted_by_key(|point| point.iteration));
    }
    let part = TrainingQuery {
        from_iteration: Some(10),
        to_iteration: Some(12),
        ..TrainingQuery::new("w")
    };
    let part = store.training(&part).await.unwrap();
    assert_eq!(part.points.iter().map(|point| point.iteration).collect::<Vec<_>>(), [10, 11, 12]);
    let none = store.training(&TrainingQuery::new("nobody")).await.unwrap();
    assert_eq!((none.run, none.points.len()), (None, 0));
}

async fn lists_come_in_pages_without_gaps_or_repeats(url: &str) {
    let store = Store::open(url).await.unwrap();
    let batch: Vec<_> = (1..=25)
        .map(|n| line(&format!("w{n:02}"), "p", n, &format!("step: {n} loss: nan")))
        .collect();
    store.record(&batch).await.unwrap();
    let (mut seen, mut page) = (Vec::new(), Page { cursor: None, limit: Some(10) });
    loop {
        let listing = store.workloads(&page).await.unwrap();
        seen.extend(listing.items.into_iter().map(|workload| workload.uid));
        match listing.next {
            Some(next) => page.cursor = Some(next),
            None => break,
        }
    }
    assert_eq!(seen, (1..=25).map(|n| format!("w{n:02}")).collect::<Vec<_>>());

    let (mut seen, mut page) = (Vec::new(), Page { cursor: None, limit: Some(10) });
    loop {
        let listing = store.events(&EventFilter::default(), &page).await.unwrap();
        seen.extend(listing.items.into_iter().map(|event| event.id));
        // New events come first in the list and do not disturb the pages after.
        store
            .record(&[line("late", "p", 1, &format!("step: {} loss: nan", seen.len()))])
            .await
            .unwrap();
        match listing.next {
            Some(next) => page.cursor = Some(next),
            None => break,
        }
    }
    assert_eq!(seen.len(), 25);
    assert!(seen.is_sorted_by(|a, b| a > b));
    let page = Page { cursor: Some("'; DROP TABLE pod".to_owned()), limit: None };
    assert!(matches!(
        store.events(&EventFilter::default(), &page).await,
        Err(Error::Cursor { .. })
    ));
    let filter = EventFilter { workload_uid: None, kind: Some("no such".to_owned()) };
    assert!(store.events(&filter, &Page::default()).await.unwrap().items.is_empty());
}

async fn what_cannot_be_stored_is_named_and_the_rest_kept(url: &str) {
    let store = Store::open(url).await.unwrap();
    let mut long = iteration("w", "p", 1, 1);
    long.pod_uid = "p".repeat(256);
    let mut zero = iteration("w\0", "p", 1, 1);
    zero.workload_name = None;
    let mut bare = iteration("w", "p", 1, 1);
    bare.sighting = Sighting::Performance(Box::default());
    let quoted = iteration("w'); DROP TABLE workload; --", "é\u{1F600}", 1, 1);
    let recorded =
        store.record(&[long, zero, iteration("w", "p", 1, 1), bare, quoted]).await.unwrap();
    let rejected: Vec<_> = recorded.rejected.iter().map(|r| (r.index, r.reason.as_str())).collect();
    assert_eq!(
        rejected,
        [
            (0, "pod UID is longer than 255 characters"),
            (1, "workload UID holds a zero byte"),
            (3, "no iteration number")
        ]
    );
    assert_eq!(recorded.iterations, 2);
    let series = store.training(&TrainingQuery::new("w'); DROP TABLE workload; --")).await.unwrap();
    assert_eq!(series.points[0].pod_uid, "é\u{1F600}");
    assert!(store.record(&[]).await.unwrap().rejected.is_empty());
}

async fn the_inventory_comes_back_and_forgets_what_was_deleted_long_ago(url: &str) {
    let store = Store::open(url).await.unwrap();
    let pod = |uid: &str, namespace: &str, deleted_at| Pod {
        uid: uid.into(),
        name: "trainer-0".into(),
        namespace: namespace.into(),
        node: Some("node-1".into()),
        replica_role: Some("worker".into()),
        created_at: Some(5),
        started_at: Some(7),
        deleted_at,
    };
    let device = |name: &str, pod: &str| Device {
        node: "node-1".into(),
        label: "gpu_id".into(),
        name: name.into(),
        pod_uid: pod.into(),
    };
    let reference = |pod: &str, workload: &str| PodWorkload {
        pod_uid: pod.into(),
        workload_uid: workload.into(),
    };
    let workload = |uid: &str| Workload {
        uid: uid.into(),
        name: Some("job".into()),
        kind: Some("Job".into()),
        started_at: Some(6),
        ..Workload::default()
    };
    let inventory = Inventory {
        // Same name in two namespaces, UIDs that differ in case only, one deleted long ago.
        pods: vec![
            pod("A", "left", None),
            pod("a", "right", Some(100)),
            pod("old", "left", Some(10)),
        ],
        containers: vec![Container { id: "c1".into(), pod_uid: "A".into(), name: "main".into() }],
        devices: vec![device("0", "old"), device("0", "A"), device("1", "old")],
        workloads: vec![workload("W1"), workload("w1"), workload("gone")],
        references: vec![reference("A", "W1"), reference("a", "w1"), reference("old", "gone")],
    };
    for _ in 0..2 {
        store.save_inventory(&inventory).await.unwrap();
    }
    let mut loaded = store.load_inventory(50).await.unwrap();
    loaded.pods.sort_by(|a, b| a.uid.cmp(&b.uid));
    loaded.workloads.sort_by(|a, b| a.uid.cmp(&b.uid));
    loaded.references.sort_by(|a, b| a.pod_uid.cmp(&b.pod_uid));
    assert_eq!(loaded.pods, inventory.pods[..2]);
    assert_eq!(loaded.containers, inventory.containers);
    assert_eq!(loaded.devices, inventory.devices[1..2]);
    assert_eq!(loaded.workloads, inventory.workloads[..2]);
    assert_eq!(loaded.references, inventory.references[..2]);
    assert_eq!(store.load_inventory(5).await.unwrap().pods.len(), 3);
    let many = (0..1200).map(|n| pod(&format!("pod{n}"), "many", None)).collect();
    store.save_inventory(&Inventory { pods: many, ..Inventory::default() }).await.unwrap();
    assert_eq!(store.load_inventory(50).await.unwrap().pods.len(), 1202);
    let bad = Inventory { pods: vec![pod("", "left", None)], ..Inventory::default() };
    assert!(store.save_inventory(&bad).await.unwrap_err().to_string().contains("pod UID is empty"));
}

/// Runs every check on a database of its own.
async fn suite(databases: &mut Databases) {
    macro_rules! check {
        ($($name:ident),* $(,)?) => {$(
            let start = std::time::Instant::now();
            $name(&databases.fresh().await).await;
            println!("{:>8.0?}  {}", start.elapsed(), stringify!($name));
        )*};
    }
    check!(
        tables_are_made_once_however_many_start_at_once,
        a_change_of_the_tables_that_was_cut_short_is_finished,
        tables_without_groups_get_them,
        tables_without_starts_and_roles_get_them,
        tables_of_a_newer_program_are_left_alone,
        members_of_a_group_have_runs_of_their_own_and_are_listed_by_it,
        a_run_knows_what_part_each_of_its_pods_plays,
        a_workload_ends_once_and_goes_on_when_told,
        the_first_start_of_a_workload_stands,
        old_rows_go_table_by_table_and_new_ones_stay,
        a_statement_that_takes_too_long_is_ended_by_the_server,
        what_a_line_says_comes_back_as_it_was,
        a_workload_gets_its_name_when_it_becomes_known_and_keeps_it,
        the_same_batch_again_changes_nothing,
        lines_about_one_iteration_are_merged_and_the_newer_value_stays,
        pods_in_step_share_a_run_and_a_date_that_cannot_be_true_spoils_nothing,
        runs_are_numbered_right_across_restarts_of_everything,
        writers_at_once_agree_on_the_run_and_lose_nothing,
        a_long_run_is_shown_in_as_few_points_as_asked,
        lists_come_in_pages_without_gaps_or_repeats,
        what_cannot_be_stored_is_named_and_the_rest_kept,
        the_inventory_comes_back_and_forgets_what_was_deleted_long_ago,
    );
}

/// No error and no name shows the password, whether it is wrong or the server is gone; and what
/// failed because of that may be tried again.
async fn secrets_stay_secret(databases: &mut Databases) {
    let url = databases.fresh().await;
    let store = Store::open(&url).await.unwrap();
    let server = databases.server.as_mut().unwrap();
    let wrong = url.replace(servers::PASSWORD, "wr0ng%21word");
    let refused = Store::open(&wrong).await.unwrap_err();
    server.stop();
    let gone = store.record(&[iteration("w", "p", 1, 1)]).await.unwrap_err();
    assert!(gone.is_transient(), "{gone}");
    for text in [
        format!("{refused} {refused:?}"),
        format!("{gone} {gone:?}"),
        format!("{store:?} {}", store.location()),
    ] {
        for secret in ["s3cret", "wr0ng"] {
            assert!(!text.contains(secret), "{text}");
        }
        assert!(text.contains("127.0.0.1"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_holds_on_sqlite() {
    suite(&mut Databases::new(None)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_holds_on_postgresql() {
    let mut databases = Databases::new(Some(Server::postgres()));
    suite(&mut databases).await;
    secrets_stay_secret(&mut databases).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_suite_holds_on_mariadb() {
    let mut databases = Databases::new(Some(Server::mariadb()));
    suite(&mut databases).await;
    secrets_stay_secret(&mut databases).await;
}

/// Web servers hand requests from thread to thread, and what they wait for with them.
#[tokio::test]
async fn every_call_may_be_waited_for_on_any_thread() {
    fn any_thread<T: Send>(_: T) {}
    let store = Store::open("sqlite::memory:").await.unwrap();
    any_thread(Store::open("sqlite::memory:"));
    any_thread(store.record(&[]));
    any_thread(store.training(&TrainingQuery::new("w")));
    any_thread(store.workloads(&Page::default()));
    any_thread(store.note_ends(&[], &[]));
    any_thread(store.note_starts(&[]));
    any_thread(store.events(&EventFilter::default(), &Page::default()));
    any_thread(store.save_inventory(&Inventory::default()));
    any_thread(store.load_inventory(0));
    store.record(&[iteration("w", "p", 1, 1)]).await.unwrap();
    assert_eq!(iterations(&store, "w", 1).await, [1]);
}

#[tokio::test]
async fn a_file_that_cannot_be_made_is_named() {
    let error = Store::open("sqlite:///proc/no/such.sqlite").await.unwrap_err();
    assert!(error.to_string().contains("/proc/no/such.sqlite"), "{error}");
    let error = Store::open("oracle://db").await.unwrap_err();
    assert!(error.to_string().contains("use sqlite://FILE"), "{error}");
}
