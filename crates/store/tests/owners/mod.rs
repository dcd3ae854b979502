//! Whose runs are, and until when.

use crosstalk_store::{Group, Observation, Page, Store, TrainingQuery, WorkloadSummary};

use super::{count, execute, iteration, iterations};

fn of_group(workload: &str, group: &str, at: i64) -> Observation {
    Observation {
        workload_kind: Some("Job".into()),
        workload_namespace: Some("ml".into()),
        group: Some(Group {
            uid: group.into(),
            name: Some(format!("name of {group}")),
            kind: Some("Experiment".into()),
        }),
        ..iteration(workload, "p", at, at)
    }
}

async fn workload(store: &Store, uid: &str) -> WorkloadSummary {
    store.workload(uid).await.unwrap().unwrap()
}

pub(crate) async fn members_of_a_group_have_runs_of_their_own_and_are_listed_by_it(url: &str) {
    let store = Store::open(url).await.unwrap();
    let batch: Vec<_> =
        (1..=5).flat_map(|n| ["a", "b"].map(|uid| of_group(uid, "top", n))).collect();
    store.record(&batch).await.unwrap();
    store.record(&[iteration("alone", "p", 1, 1)]).await.unwrap();
    for uid in ["a", "b"] {
        assert_eq!(iterations(&store, uid, 1).await, [1, 2, 3, 4, 5]);
        let member = workload(&store, uid).await;
        assert_eq!(
            (member.kind.as_deref(), member.namespace.as_deref()),
            (Some("Job"), Some("ml"))
        );
        assert_eq!((member.group_uid.as_deref(), member.run), (Some("top"), Some(1)));
    }
    let top = workload(&store, "top").await;
    assert_eq!(
        (top.name.as_deref(), top.kind.as_deref()),
        (Some("name of top"), Some("Experiment"))
    );
    assert_eq!((top.namespace.as_deref(), top.group_uid, top.run), (Some("ml"), None, None));
    let page = Page { cursor: None, limit: Some(1) };
    let first = store.workloads_of(Some("top"), &page).await.unwrap();
    assert_eq!((first.items[0].uid.as_str(), first.next.as_deref()), ("a", Some("a")));
    let all = store.workloads_of(Some("top"), &Page::default()).await.unwrap();
    assert_eq!(all.items.len(), 2);
    assert_eq!(count(url, "workload").await, 4);
    // The chain of owners was learnt further; what else is known stays, also where a line does not tell it.
    store.record(&[of_group("a", "above", 6), iteration("b", "p", 6, 6)]).await.unwrap();
    assert_eq!(workload(&store, "a").await.group_uid.as_deref(), Some("above"));
    assert_eq!(workload(&store, "b").await.group_uid.as_deref(), Some("top"));
}

pub(crate) async fn a_workload_ends_once_and_goes_on_when_told(url: &str) {
    let store = Store::open(url).await.unwrap();
    store.record(&["a", "b", "c"].map(|uid| of_group(uid, "top", 1))).await.unwrap();
    store.note_ends(&["c", "never seen"], &[("a", 7), ("b", 8), ("unknown", 9)]).await.unwrap();
    let ended = async |uid| workload(&store, uid).await.ended_at;
    assert_eq!((ended("a").await, ended("b").await, ended("c").await), (Some(7), Some(8), None));
    store.note_ends(&["b"], &[("a", 70)]).await.unwrap();
    assert_eq!((ended("a").await, ended("b").await), (Some(7), None), "the first end stands");
    assert!(store.workload("unknown").await.unwrap().is_none());
    store.note_ends(&[], &[]).await.unwrap();
}

pub(crate) async fn a_run_knows_what_part_each_of_its_pods_plays(url: &str) {
    let store = Store::open(url).await.unwrap();
    let by = |pod: &str, role: Option<&str>, at: i64| Observation {
        replica_role: role.map(str::to_owned),
        ..iteration("w", pod, at, at)
    };
    let batch = [by("p1", Some("worker"), 1), by("p0", Some("master"), 1), by("p2", None, 1)];
    store.record(&batch).await.unwrap();
    // A line that does not tell it takes nothing away.
    store.record(&[by("p0", None, 2), by("p2", Some("worker"), 2)]).await.unwrap();
    let series = store.training(&TrainingQuery::new("w")).await.unwrap();
    let reporters = series.reporters.iter();
    let roles: Vec<_> =
        reporters.map(|r| (r.pod_uid.as_str(), r.replica_role.as_deref(), r.last_at)).collect();
    assert_eq!(
        roles,
        [
            ("p0", Some("master"), Some(2)),
            ("p1", Some("worker"), Some(1)),
            ("p2", Some("worker"), Some(2))
        ]
    );
}

pub(crate) async fn the_first_start_of_a_workload_stands(url: &str) {
    let store = Store::open(url).await.unwrap();
    store.record(&["a", "b"].map(|uid| of_group(uid, "top", 1))).await.unwrap();
    store.note_starts(&[("a", 5), ("top", 5), ("never seen", 6)]).await.unwrap();
    store.note_starts(&[("a", 7), ("b", 8)]).await.unwrap();
    for (uid, at) in [("a", 5), ("b", 8), ("top", 5)] {
        assert_eq!(workload(&store, uid).await.started_at, Some(at), "{uid}");
    }
    assert!(store.workload("never seen").await.unwrap().is_none());
}

/// As version 3 left them, with what was stored by then.
pub(crate) async fn tables_without_starts_and_roles_get_them(url: &str) {
    let store = Store::open(url).await.unwrap();
    store.record(&[iteration("old", "p", 1, 1)]).await.unwrap();
    store.close().await;
    for column in [
        "pod DROP COLUMN started_at",
        "pod DROP COLUMN replica_role",
        "workload DROP COLUMN started_at",
        "training_reporter DROP COLUMN replica_role",
    ] {
        execute(url, &format!("ALTER TABLE {column}")).await;
    }
    execute(url, "DELETE FROM crosstalk_schema WHERE version = 4").await;
    let store = Store::open(url).await.unwrap();
    let line = Observation { replica_role: Some("master".into()), ..iteration("old", "p", 2, 2) };
    store.record(&[line]).await.unwrap();
    let series = store.training(&TrainingQuery::new("old")).await.unwrap();
    assert_eq!(series.reporters[0].replica_role.as_deref(), Some("master"));
    assert_eq!(iterations(&store, "old", 1).await, [1, 2]);
    assert_eq!(workload(&store, "old").await.started_at, None);
}

/// As version 2 left them, with what was stored by then.
pub(crate) async fn tables_without_groups_get_them(url: &str) {
    let store = Store::open(url).await.unwrap();
    store.record(&[iteration("old", "p", 1, 1)]).await.unwrap();
    store.close().await;
    let index = if url.starts_with("mysql") {
        "ALTER TABLE workload DROP INDEX workload_group"
    } else {
        "DROP INDEX workload_group"
    };
    execute(url, index).await;
    execute(url, "ALTER TABLE workload DROP COLUMN group_uid").await;
    execute(url, "DELETE FROM crosstalk_schema WHERE version = 3").await;
    let store = Store::open(url).await.unwrap();
    assert_eq!(workload(&store, "old").await.group_uid, None);
    store.record(&[of_group("old", "top", 2)]).await.unwrap();
    assert_eq!(workload(&store, "old").await.group_uid.as_deref(), Some("top"));
    assert_eq!(iterations(&store, "old", 1).await, [1, 2]);
}
