//! When workloads started and which have ended, told to the database: one starts with the first of its pods, and has ended
//! when the last of them has, until another comes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crosstalk_inventory::{Inventory, Pod, Snapshot, Workload};
use tokio::sync::watch;

use crate::database::Database;

/// Time between two looks at the inventory.
const PERIOD: Duration = Duration::from_secs(2);

/// How often everything is told again: a workload's row may be made after its end, by log lines that come late.
const AGAIN: Duration = Duration::from_secs(60);

/// Tells until shutdown.
pub(crate) async fn run(
    inventory: Inventory,
    database: Arc<Database>,
    mut stopping: watch::Receiver<bool>,
) {
    let mut ends = Ends::default();
    let (mut seen, mut wrote_all) = (0, None::<Instant>);
    loop {
        tokio::select! {
            biased;
            _ = stopping.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
        let version = inventory.version();
        let again = wrote_all.is_none_or(|at| at.elapsed() >= AGAIN);
        if version == seen && !again {
            continue;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let snapshot = inventory.snapshot();
        let current = ends.of(&snapshot, now.as_nanos() as u64);
        let started = starts(&snapshot);
        let news = ends.news(&current, again);
        let new_starts = ends.new_starts(&started, again);
        let written = async {
            if news != News::default() {
                database.store().await?.note_ends(&news.going_on, &news.ended).await?;
            }
            if !new_starts.is_empty() {
                database.store().await?.note_starts(&new_starts).await?;
            }
            Ok::<(), crosstalk_store::Error>(())
        };
        let written = tokio::select! {
            biased;
            _ = stopping.wait_for(|stop| *stop) => return,
            written = database.within(written) => written,
        };
        match written {
            Ok(()) => {
                (ends.written, ends.written_starts) = (current, started);
                seen = version;
                wrote_all = if again { Some(Instant::now()) } else { wrote_all };
            }
            Err(error) => tracing::debug!(%error, "cannot note which workloads have ended yet"),
        }
    }
}

/// When each workload ended, in Unix nanoseconds; `None` for one that goes on.
type Lives = HashMap<Arc<str>, Option<u64>>;

/// When the first pod of each workload was taken on by its node, in Unix nanoseconds, as far as that is told.
type Starts = HashMap<Arc<str>, u64>;

fn starts(snapshot: &Snapshot) -> Starts {
    let mut starts = Starts::new();
    for pod in snapshot.pods() {
        let Some(started) = pod.started_ns else { continue };
        for workload in workloads(pod) {
            let start = starts.entry(Arc::clone(&workload.uid)).or_insert(started);
            *start = started.min(*start);
        }
    }
    starts
}

/// Those that a pod belongs to, up to the top.
fn workloads(pod: &Pod) -> impl Iterator<Item = &Workload> {
    pod.workloads.iter().chain(pod.nearest_owner.iter().map(|nearest| &nearest.owner))
}

#[derive(Debug, Default)]
struct Ends {
    written: Lives,
    written_starts: Starts,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct News<'a> {
    going_on: Vec<&'a str>,
    ended: Vec<(&'a str, i64)>,
}

impl Ends {
    /// How it is with every workload that has pods, or had some not long ago.
    fn of(&self, snapshot: &Snapshot, now_ns: u64) -> Lives {
        let mut lives = Lives::new();
        for pod in snapshot.pods() {
            for workload in workloads(pod) {
                // A time that nobody tells is that of the first look, which was told before.
                let written = || self.written.get(&workload.uid).copied().flatten();
                let end = end_of(pod, || written().unwrap_or(now_ns));
                lives
                    .entry(Arc::clone(&workload.uid))
                    .and_modify(|life| *life = life.zip(end).map(|(one, other)| one.max(other)))
                    .or_insert(end);
            }
        }
        lives
    }

    /// Those of which no start was told, or all.
    fn new_starts<'a>(&self, starts: &'a Starts, all: bool) -> Vec<(&'a str, i64)> {
        let new = starts.iter().filter(|(uid, _)| all || !self.written_starts.contains_key(*uid));
        new.map(|(uid, at)| (&**uid, i64::try_from(*at).unwrap_or(i64::MAX))).collect()
    }

    /// What is different from what was told, or everything.
    fn news<'a>(&self, current: &'a Lives, all: bool) -> News<'a> {
        let mut news = News::default();
        for (uid, life) in current {
            let written = self.written.get(uid);
            if !all && written == Some(life) {
                continue;
            }
            // One that came back and ended again between two looks goes on first.
            let again = life.is_some()
                && written.is_some_and(|written| written.is_some() && written != life);
            if life.is_none() || again {
                news.going_on.push(uid);
            }
            news.ended.extend(life.map(|at| (&**uid, i64::try_from(at).unwrap_or(i64::MAX))));
        }
        news
    }
}

/// When a pod ended, as far as it has.
fn end_of(pod: &Pod, unknown: impl FnOnce() -> u64) -> Option<u64> {
    match (pod.finished_ns, pod.valid.valid_to_ns) {
        (Some(0), None) => Some(unknown()),
        (Some(0) | None, gone) => gone,
        (finished, _) => finished,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_inventory::{Facts, NearestOwner};

    fn pod(name: &str, trial: &str, finished_ns: Option<u64>) -> Pod {
        let workload = |uid: &str| Workload { uid: uid.into(), ..Workload::default() };
        let nearest_owner = NearestOwner { owner: workload(trial), top_uid: "top".into() };
        Pod {
            name: name.into(),
            uid: name.into(),
            workloads: vec![workload("top")],
            nearest_owner: Some(nearest_owner),
            finished_ns,
            ..Pod::default()
        }
    }

    fn lives(ends: &Ends, pods: &[Pod], now_ns: u64) -> Lives {
        let inventory = Inventory::new(Duration::from_secs(60));
        inventory.update("static", Facts { pods: pods.to_vec(), ..Facts::default() });
        ends.of(&inventory.snapshot(), now_ns)
    }

    #[test]
    fn a_workload_goes_on_while_any_of_its_pods_does() {
        let mut ends = Ends::default();
        let pods = [pod("a", "one", Some(5)), pod("b", "one", Some(7)), pod("c", "two", None)];
        let current = lives(&ends, &pods, 100);
        let life = |lives: &Lives, uid: &str| lives.get(uid).copied().flatten();
        assert_eq!((life(&current, "one"), life(&current, "two")), (Some(7), None));
        assert_eq!(life(&current, "top"), None);
        let news = ends.news(&current, false);
        assert_eq!((news.going_on.len(), &news.ended[..]), (2, &[("one", 7)][..]));
        ends.written = current;
        // An end without a time has that of the first look.
        let pods = [pod("a", "one", Some(9)), pod("c", "two", Some(0))];
        let current = lives(&ends, &pods, 200);
        assert_eq!((life(&current, "two"), life(&current, "top")), (Some(200), Some(200)));
        let mut news = ends.news(&current, false);
        news.ended.sort_unstable();
        assert_eq!(news.going_on, ["one"], "it came back in between");
        assert_eq!(news.ended, [("one", 9), ("top", 200), ("two", 200)]);
        ends.written = current;
        let current = lives(&ends, &pods, 300);
        assert_eq!(life(&current, "two"), Some(200));
        assert_eq!(ends.news(&current, false), News::default());
        assert_eq!(ends.news(&current, true).ended.len(), 3, "all of it, now and then");
    }

    #[test]
    fn a_workload_started_with_the_first_of_its_pods() {
        let inventory = Inventory::new(Duration::from_secs(60));
        let started =
            |name: &str, trial: &str, at| Pod { started_ns: at, ..pod(name, trial, None) };
        let pods = vec![
            started("a", "one", Some(9)),
            started("b", "one", Some(7)),
            started("c", "two", None),
        ];
        inventory.update("static", Facts { pods, ..Facts::default() });
        let found = starts(&inventory.snapshot());
        let mut ends = Ends::default();
        let mut new = ends.new_starts(&found, false);
        new.sort_unstable();
        assert_eq!(new, [("one", 7), ("top", 7)]);
        ends.written_starts = found.clone();
        assert_eq!(ends.new_starts(&found, false), []);
        assert_eq!(ends.new_starts(&found, true).len(), 2, "all of it, now and then");
    }

    #[test]
    fn a_pod_that_is_gone_ended_when_it_finished_or_else_when_it_went() {
        let inventory = Inventory::new(Duration::from_secs(60));
        let pods = vec![pod("a", "one", Some(5)), pod("b", "two", None)];
        inventory.update("static", Facts { pods, ..Facts::default() });
        inventory.update("static", Facts::default());
        let snapshot = inventory.snapshot();
        let lives = Ends::default().of(&snapshot, 1);
        assert_eq!(lives["one"], Some(5));
        assert_eq!(lives["two"], snapshot.pod("b").unwrap().valid.valid_to_ns);
        assert!(lives["two"].is_some());
    }
}
