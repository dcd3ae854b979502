//! The handle that everyone reads: the latest snapshot, and how each source stands.

use crate::config::Config;
use crate::facts::Facts;
use crate::merge::{Departed, Now, merge};
use crate::snapshot::Snapshot;
use crate::source::{Failure, Outcome, SourceStatus};
use arc_swap::ArcSwap;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, Weak};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What is known of nodes, pods, containers, workloads and devices.
///
/// Sources hand in whole lists of facts; readers get an immutable snapshot that was swapped in at once, so nobody ever
/// sees half of an update. A clone is another handle to the same inventory.
///
/// ```
/// use crosstalk_inventory::{Container, Facts, Inventory};
/// use crosstalk_model::Placement;
/// let inventory = Inventory::new(std::time::Duration::from_secs(60));
/// let web = Container { id: "4f1d".into(), name: "web".into(), image: "nginx:1.27".into(), ..Default::default() };
/// inventory.update("engine", Facts { containers: vec![web], ..Default::default() });
/// let placement = Placement { container_id: Some("4f1d".into()), ..Default::default() };
/// let placement = inventory.snapshot().place(&placement);
/// assert_eq!(placement.container_name.as_deref(), Some("web"));
/// assert_eq!(placement.container_image.as_deref(), Some("nginx:1.27"));
/// ```
#[derive(Clone, Debug)]
pub struct Inventory {
    board: Arc<Board>,
    /// Ends the thread of [`Inventory::start`] with the last handle.
    _running: Option<Arc<Running>>,
}

/// See [`Inventory::downgrade`].
#[derive(Clone, Debug)]
pub struct WeakInventory(Weak<Board>);

impl WeakInventory {
    /// The inventory, while somebody has a handle to it.
    pub fn upgrade(&self) -> Option<Inventory> {
        self.0.upgrade().map(|board| Inventory { board, _running: None })
    }
}

type Observer = Box<dyn Fn(&'static str, Outcome) + Send + Sync>;

/// Where sources write and readers read.
pub(crate) struct Board {
    current: ArcSwap<Snapshot>,
    grace: Duration,
    state: Mutex<State>,
    observer: OnceLock<Observer>,
}

#[derive(Debug, Default)]
struct State {
    sources: BTreeMap<&'static str, Told>,
    /// The last merged facts, to see what left.
    last: Facts,
    departed: Departed,
}

/// What one source said, and how it stands.
#[derive(Debug, Default)]
struct Told {
    facts: Facts,
    heard: Option<(SystemTime, Instant)>,
    error: Option<Failure>,
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board").field("grace", &self.grace).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Running {
    /// Dropped to end the sources.
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Inventory {
    /// An empty inventory in which a fact stays known for `grace` after it is over.
    pub fn new(grace: Duration) -> Self {
        let board = Board {
            current: ArcSwap::default(),
            grace,
            state: Mutex::default(),
            observer: OnceLock::new(),
        };
        Inventory { board: Arc::new(board), _running: None }
    }

    /// An inventory that the configured sources fill, all on one thread of its own. They end with the last handle.
    ///
    /// ```
    /// use crosstalk_inventory::{Config, Inventory};
    /// let inventory = Inventory::start(Config::default());
    /// assert!(inventory.statuses().is_empty(), "a configuration without sources");
    /// assert!(inventory.snapshot().container("4f1d").is_none());
    /// ```
    pub fn start(config: Config) -> Self {
        let mut inventory = Inventory::new(config.grace);
        config.announce(&inventory);
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let feed = inventory.clone();
        let sources = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            match runtime {
                Ok(runtime) => runtime.block_on(async {
                    tokio::select! {
                        _ = stopped => {}
                        () = config.run(&feed) => {}
                    }
                }),
                Err(error) => {
                    tracing::warn!(%error, "cannot look for names of containers and pods")
                }
            }
        };
        match std::thread::Builder::new().name("inventory".to_owned()).spawn(sources) {
            Ok(thread) => {
                let running = Running { stop: Some(stop), thread: Some(thread) };
                inventory._running = Some(Arc::new(running));
            }
            Err(error) => tracing::warn!(%error, "cannot look for names of containers and pods"),
        }
        inventory
    }

    /// What is known now; does not change while held.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.board.current.load_full()
    }

    /// How every source stands, by name.
    pub fn statuses(&self) -> Vec<SourceStatus> {
        let status = |(name, told): (&&'static str, &Told)| SourceStatus {
            name,
            heard_at: told.heard.map(|(at, _)| at),
            age: told.heard.map(|(_, at)| at.elapsed()),
            error: told.error.clone(),
        };
        self.state().sources.iter().map(status).collect()
    }

    /// Calls `observer` for everything a source says or fails with from now on. There can be one.
    pub fn observe(&self, observer: impl Fn(&'static str, Outcome) + Send + Sync + 'static) {
        if self.board.observer.set(Box::new(observer)).is_err() {
            tracing::debug!("the inventory has an observer already");
        }
    }

    /// Replaces everything `source` said before.
    pub fn update(&self, source: &'static str, facts: Facts) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = Now { unix_ns: since.as_nanos() as u64, instant: Instant::now() };
        self.update_at(source, facts, now);
        self.tell(source, Outcome::Heard);
    }

    pub(crate) fn update_at(&self, source: &'static str, facts: Facts, now: Now) {
        let mut state = self.state();
        let told = state.sources.entry(source).or_default();
        let unchanged = told.heard.is_some() && told.facts == facts;
        told.heard = Some((SystemTime::now(), now.instant));
        told.error = None;
        if unchanged && state.departed.is_empty() {
            return;
        }
        if let Some(told) = state.sources.get_mut(source) {
            told.facts = facts;
        }
        let mut merged = merge(state.sources.values().map(|told| &told.facts));
        let last = std::mem::take(&mut state.last);
        state.departed.update(&last, &mut merged, now, self.board.grace);
        self.board.current.store(Arc::new(Snapshot::build(&merged, state.departed.facts())));
        state.last = merged;
    }

    /// Notes that `source` exists though it has said nothing yet.
    pub(crate) fn announce(&self, source: &'static str) {
        self.state().sources.entry(source).or_default();
    }

    /// Notes that `source` failed. What it said before stays known.
    pub fn fail(&self, source: &'static str, failure: Failure) {
        self.tell(source, Outcome::Failed(failure.kind));
        let text = failure.to_string();
        let known = self.note(source, failure);
        // Said once for as long as it stays the same; the status says it at any time.
        match known.is_none_or(|known| known.to_string() != text) {
            true => tracing::warn!(source, error = text, "what was known stays"),
            false => tracing::debug!(source, error = text, "what was known stays"),
        }
    }

    /// Notes why `source` says nothing; what it said nothing for before.
    pub(crate) fn note(&self, source: &'static str, failure: Failure) -> Option<Failure> {
        self.state().sources.entry(source).or_default().error.replace(failure)
    }

    /// Reports something about `source` that costs no fact.
    pub(crate) fn tell(&self, source: &'static str, outcome: Outcome) {
        if let Some(observer) = self.board.observer.get() {
            observer(source, outcome);
        }
    }

    /// A handle that keeps nothing alive, for an observer of this very inventory.
    pub fn downgrade(&self) -> WeakInventory {
        WeakInventory(Arc::downgrade(&self.board))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.board.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
