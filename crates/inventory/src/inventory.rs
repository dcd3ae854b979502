//! The handle that everyone reads: the latest snapshot, and how each source stands.

use crate::changes::Different;
use crate::config::Config;
use crate::doubt::{Follows, Nodes};
use crate::facts::Facts;
use crate::index::{ContainerPart, DevicePart, PodPart};
use crate::merge::{Dating, Left, Merge, Now, date, facts_of, follow, is_due};
use crate::parts::{Gone, PARTS, Parted, Touched};
use crate::saved::{Saved, SavedSource};
use crate::snapshot::{Built, Snapshot};
use crate::source::{Failure, Outcome, SourceStatus};
use crate::standing::Standing;
use crate::state::{SourceState, State, unix_ns};
use arc_swap::ArcSwap;
use crosstalk_host::WithFix;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
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
    standing: ArcSwap<Standing>,
    history: History,
    begun_ns: u64,
    state: Mutex<State>,
    /// Grows with every snapshot.
    version: AtomicU64,
    observer: OnceLock<Observer>,
}

/// How long an inventory remembers what is over.
#[derive(Debug, Clone, Copy)]
pub struct History {
    /// How long after its end a fact counts as if it still were.
    pub grace: Duration,
    /// How long after its end a fact is found by a time at which it held.
    pub kept: Duration,
    /// Whether what a source says the first time may have held for ever; else it holds from then on.
    pub open_start: bool,
}

impl fmt::Debug for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Board").field("history", &self.history).finish_non_exhaustive()
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
        Self::remembering(History { grace, kept: grace, open_start: false })
    }

    /// An empty inventory that remembers as told.
    pub fn remembering(history: History) -> Self {
        let board = Board {
            current: ArcSwap::default(),
            standing: ArcSwap::default(),
            history,
            begun_ns: Now::here().unix_ns,
            state: Mutex::default(),
            version: AtomicU64::new(0),
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
        let status = |(name, entry): (&&'static str, &SourceState)| SourceStatus {
            name,
            heard_at: entry.heard.map(|(at, _)| at),
            remembered_at: entry.remembered_at.filter(|_| entry.heard.is_none()),
            age: entry.heard.map(|(_, at)| at.elapsed()),
            error: entry.error.clone(),
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
        self.update_heard(source, facts, Instant::now());
    }

    /// As [`Inventory::update`], with what was last heard of the source itself at `heard`: a source that puts facts together
    /// from a stream may have new facts of its own making while the stream is silent.
    pub fn update_heard(&self, source: &'static str, facts: Facts, heard: Instant) {
        self.update_at(source, facts, Now::here(), heard);
        self.tell(source, Outcome::Heard);
    }

    pub(crate) fn update_at(
        &self,
        source: &'static str,
        facts: Facts,
        now: Now,
        heard_at: Instant,
    ) {
        let mut state = self.state();
        let touched = state.source(source).replace(facts);
        self.heard(&mut state, source, &touched, now, Some(heard_at));
    }

    /// As [`Inventory::update_heard`], for a source that tells of nodes one by one. As long as it has not told of all that it
    /// will, `heard` is absent, and it is still waited for.
    pub fn update_nodes(
        &self,
        source: &'static str,
        facts: Facts,
        nodes: Nodes,
        heard: Option<Instant>,
    ) {
        let mut state = self.state();
        let entry = state.source(source);
        let touched = entry.replace(facts);
        if entry.nodes.as_deref() != Some(&nodes) {
            entry.nodes = Some(Arc::new(nodes));
        }
        self.heard(&mut state, source, &touched, Now::here(), heard);
        drop(state);
        if heard.is_some() {
            self.tell(source, Outcome::Heard);
        }
    }

    /// Notes that `source` was heard and says what it said before.
    pub fn hear(&self, source: &'static str, heard: Instant) {
        self.heard(&mut self.state(), source, &Touched::default(), Now::here(), Some(heard));
        self.tell(source, Outcome::Heard);
    }

    /// Puts `facts` in place of all that `source` said of the pods with these UIDs and of their devices, which it says to be on
    /// the pods' nodes; what else it said stays. It costs the parts that these pods are in, not all there is.
    pub fn update_pods(
        &self,
        source: &'static str,
        uids: &[Arc<str>],
        facts: Facts,
        heard: Instant,
    ) {
        let mut state = self.state();
        let known = self.board.current.load();
        let pods = uids.iter().filter_map(|uid| known.pod(uid));
        let gone = Gone {
            uids: uids.iter().map(|uid| &**uid).collect(),
            names: pods.map(|pod| Arc::clone(&pod.name)).collect(),
        };
        let entry = state.source(source);
        let mut facts = facts;
        facts.devices.iter_mut().for_each(|device| device.reporters = entry.bit);
        let touched = entry.facts.replace(&gone, facts);
        self.heard(&mut state, source, &touched, Now::here(), Some(heard));
        drop(state);
        self.tell(source, Outcome::Heard);
    }

    /// Notes that a source was heard, where it was, and publishes what changed by that.
    fn heard(
        &self,
        state: &mut State,
        source: &'static str,
        touched: &Touched,
        now: Now,
        heard_at: Option<Instant>,
    ) {
        let entry = state.source(source);
        let mut touched = touched.clone();
        let first = entry.heard.is_none() && entry.remembered_at.is_none();
        if let Some(heard_at) = heard_at
            && entry.heard.is_none_or(|(_, before)| before < heard_at)
        {
            let ago = Instant::now().saturating_duration_since(heard_at);
            let at = SystemTime::now().checked_sub(ago).unwrap_or(UNIX_EPOCH);
            entry.heard = Some((at, heard_at));
            if entry.failed_at.is_none_or(|failed| failed < heard_at) {
                entry.error = None;
            }
        }
        if heard_at.is_some() && entry.doubt_devices(Instant::now()) {
            touched.devices = [true; PARTS];
        }
        // What is over is spoken of for a time, so that time passes also where nothing changes.
        let doubted = || *self.board.current.load().doubts() != state.doubts();
        if !touched.is_empty() || !state.departed.is_empty() || doubted() {
            self.publish(state, &touched, now, first);
        }
        // Nobody may take a source for heard before what it said is there.
        self.note_standing(state);
    }

    /// Puts what an earlier process knew in place of what the announced sources will say. Devices are known to have been held
    /// until their source was last heard: they may have been handed over since.
    pub fn restore(&self, saved: Saved) {
        let mut state = self.state();
        for (name, entry) in &mut state.sources {
            let Some(known) = saved.sources.get(*name) else { continue };
            if entry.heard.is_none() {
                entry.facts = Parted::from(known.facts.clone()).reporters(entry.bit);
                // Who holds a device since is not known until the source is heard.
                entry.facts.devices_were_held_until(known.heard_ns);
                let heard = Duration::from_nanos(known.heard_ns);
                entry.remembered_at = Some(UNIX_EPOCH + heard);
            }
        }
        let now = Now::here();
        state.departed.restore(saved.departed, now);
        self.publish(&mut state, &Touched::all(), now, false);
        self.note_standing(&state);
    }

    /// What the sources have said, for a later process to begin with. Containers are left out.
    pub fn save(&self) -> Saved {
        let state = self.state();
        let mut sources = BTreeMap::new();
        for (name, entry) in &state.sources {
            let at = entry.heard.map(|(at, _)| at).or(entry.remembered_at);
            let Some(at) = at else { continue };
            let heard_ns = unix_ns(at);
            let mut facts = Parted { containers: Vec::new(), ..entry.facts.clone() };
            date(&mut facts, &state.last);
            sources.insert((*name).to_owned(), SavedSource { heard_ns, facts: facts.facts() });
        }
        let departed = Facts { containers: Vec::new(), ..state.departed.facts() };
        Saved { sources, departed }
    }

    /// What `source` said last, or an earlier process heard of it.
    pub fn facts_of(&self, source: &str) -> Facts {
        self.state().sources.get(source).map(|entry| entry.facts.facts()).unwrap_or_default()
    }

    /// Grows whenever there is something new to know.
    pub fn version(&self) -> u64 {
        self.board.version.load(Ordering::Acquire)
    }

    /// Makes a snapshot in which the touched parts are new, and those in which something is to be forgotten.
    fn publish(&self, state: &mut State, touched: &Touched, now: Now, first: bool) {
        let history = self.board.history;
        let doubts = state.doubts();
        let unknown_start_ns = if first && history.open_start { 1 } else { now.unix_ns };
        let dating = Dating { now, unknown_start_ns, history: history.kept };
        let mut snapshot = Snapshot::clone(&self.board.current.load());
        let mut different = Different::default();
        let State { sources, last, departed, changes, .. } = state;
        let facts = || sources.values().map(|source| &source.facts);
        for part in 0..PARTS {
            let left = &mut departed.pods[part];
            if touched.pods[part] || is_due(left, dating) {
                let pods = facts().flat_map(|facts| &facts.pods[part]);
                let current = renew(pods, &last.pods[part], left, dating);
                different.pods(&last.pods[part], &current);
                let all = facts_of(left).chain(current.iter().cloned());
                snapshot.set_pods(part, PodPart::new(all));
                last.pods[part] = current;
            }
            let left = &mut departed.devices[part];
            if touched.devices[part] || is_due(left, dating) {
                let devices = facts().flat_map(|facts| &facts.devices[part]);
                let current = renew(devices, &last.devices[part], left, dating);
                different.devices(&last.devices[part], &current);
                let all = facts_of(left).chain(current.iter().cloned());
                snapshot.set_devices(part, DevicePart::new(all));
                last.devices[part] = current;
            }
        }
        let left = &mut departed.containers;
        if touched.containers || is_due(left, dating) {
            let containers = facts().flat_map(|facts| &facts.containers);
            let current = renew(containers, &last.containers, left, dating);
            let all = facts_of(left).chain(current.iter().cloned());
            snapshot.set_containers(ContainerPart::new(all));
            last.containers = current;
        }
        // Of whom nothing was known a source may tell now.
        different.all = snapshot.set_labels() || snapshot.doubts().nodes != doubts.nodes;
        let version = self.board.version.fetch_add(1, Ordering::AcqRel) + 1;
        changes.add(version, different);
        snapshot.set_built(Built {
            at_ns: now.unix_ns,
            grace_ns: history.grace.as_nanos() as u64,
            version,
            changes: changes.clone(),
            doubts: Arc::new(doubts),
            begun_ns: self.board.begun_ns,
        });
        self.board.current.store(Arc::new(snapshot));
    }

    fn note_standing(&self, state: &State) {
        self.board.standing.store(Arc::new(state.standing()));
    }

    /// Whom the inventory still waits for. Costs next to nothing.
    pub fn standing(&self) -> Arc<Standing> {
        self.board.standing.load_full()
    }

    /// Whether `source` is heard; `None` where there is no such source.
    pub fn hears(&self, source: &str) -> Option<bool> {
        let state = self.state();
        let entry = state.sources.get(source)?;
        Some(entry.heard.is_some() && entry.is_well(Instant::now()))
    }

    /// Looks which sources were silent for longer than they ever should be. To be called every so often: that nothing comes
    /// tells nobody.
    pub fn notice_silence(&self) {
        let mut state = self.state();
        let now = Instant::now();
        let mut changed = false;
        for entry in state.sources.values_mut() {
            changed |= !entry.is_well(now) && entry.doubt_devices(now);
        }
        if changed {
            let touched = Touched { devices: [true; PARTS], ..Touched::default() };
            self.publish(&mut state, &touched, Now::here(), false);
        }
    }

    /// Notes that `source` exists though it has said nothing yet.
    pub fn announce(&self, source: &'static str) {
        let mut state = self.state();
        state.source(source);
        self.note_standing(&state);
    }

    /// As [`Inventory::announce`], for a source beside others that know as much: once it has failed nobody waits for it.
    pub fn announce_optional(&self, source: &'static str) {
        let mut state = self.state();
        state.source(source).optional = true;
        self.note_standing(&state);
    }

    /// Notes that `source` is to be heard at least so often while all is well: whoever is not known while it is silent for
    /// longer, or fails, may be new (see [`Standing::doubtful`]).
    pub fn expect(&self, source: &'static str, longest_silence: Duration) {
        let mut state = self.state();
        state.source(source).longest_silence = Some(longest_silence);
        self.note_standing(&state);
    }

    /// Notes that `source` hears of pods as they come, of one namespace or of all.
    pub fn follows(&self, source: &'static str, namespace: Option<&str>) {
        let mut state = self.state();
        let one = |namespace: &str| Follows::Namespace(namespace.into());
        state.source(source).follows = Some(namespace.map_or(Follows::All, one));
        self.publish(&mut state, &Touched::default(), Now::here(), false);
        self.note_standing(&state);
    }

    /// Forgets a source, with all that it said.
    pub fn retire(&self, source: &'static str) {
        let mut state = self.state();
        if state.sources.remove(source).is_some() {
            self.publish(&mut state, &Touched::all(), Now::here(), false);
            self.note_standing(&state);
        }
    }

    /// Notes that `source` failed. What it said before stays known.
    pub fn fail(&self, source: &'static str, failure: Failure) {
        self.tell(source, Outcome::Failed(failure.kind));
        let text = failure.with_fix();
        let known = self.note(source, failure);
        // Said once for as long as it stays the same; the status says it at any time.
        match known.is_none_or(|known| known.with_fix() != text) {
            true => tracing::warn!(source, error = text, "what was known stays"),
            false => tracing::debug!(source, error = text, "what was known stays"),
        }
    }

    /// Notes why `source` says nothing; what it said nothing for before.
    pub(crate) fn note(&self, source: &'static str, failure: Failure) -> Option<Failure> {
        let mut state = self.state();
        let entry = state.source(source);
        entry.failed_at = Some(Instant::now());
        let known = entry.error.replace(failure);
        // Nobody waits for it any more, so what it said before has to do.
        if let Some(before) = entry.remembered_at
            && !entry.is_awaited()
            && entry.heard.is_none()
            && known.is_none()
        {
            entry.facts.devices_are_held_beyond(unix_ns(before));
            let touched = Touched { devices: [true; PARTS], ..Touched::default() };
            self.publish(&mut state, &touched, Now::here(), false);
        } else if entry.doubt_devices(Instant::now()) {
            let touched = Touched { devices: [true; PARTS], ..Touched::default() };
            self.publish(&mut state, &touched, Now::here(), false);
        }
        self.note_standing(&state);
        known
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

/// What the sources say of one part now, dated; what is over goes to those that left.
fn renew<'a, F: Merge>(
    parts: impl Iterator<Item = &'a F> + Clone,
    last: &[F],
    left: &mut Left<F>,
    dating: Dating,
) -> Vec<F> {
    let mut current = F::merge(parts);
    follow(left, last, &mut current, dating);
    current
}
