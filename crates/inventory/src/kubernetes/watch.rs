//! Lists, then watches, and starts over when it must.

use super::access::{RIGHTS, judge};
use super::asking::{ASK_TIMEOUT, Reply};
use super::owners::Owners;
use super::pods::{Object, Pods};
use super::pulse::Pulse;
use super::{Kubernetes, NAME};
use crate::inventory::Inventory;
use crate::source::{Backoff, Failure, FailureKind, Outcome};
use crosstalk_host::WithFix;
use futures_util::{Stream, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::core::ApiResource;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use std::pin::pin;
use std::time::Duration;
use tokio::time::Instant;

/// How long changes are gathered before they are told; longer where telling takes long.
const GATHER: Duration = Duration::from_millis(100);

/// Share of the time that may go into telling: of ten parts one.
const TELL_SHARE: u32 = 10;

/// How long what is new is held back for the answers about its owners. Whose are not known by then is told so.
const HOLD: Duration = Duration::from_millis(500);

/// How often it is looked whether an API that failed is there again.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// Failures in a row after which everything is begun anew, with a new client.
const MAX_FAILURES: u32 = 5;

/// What is known of the pods, over all watches.
#[derive(Debug)]
pub(super) struct Watch {
    config: Kubernetes,
    every: Duration,
    pods: Pods,
    owners: Owners,
    /// Whether not everything was told yet.
    unpublished: bool,
    /// Whether that is a whole list.
    listed: bool,
    gather: Duration,
    /// Until when news are held back for answers about owners.
    hold_until: Option<Instant>,
    pulse: Pulse,
    /// How far the pulse was when the inventory was last told.
    published_at: Option<std::time::Instant>,
    /// Whether the inventory takes the API for away.
    failed: bool,
}

impl Watch {
    pub(super) fn new(config: Kubernetes, every: Duration) -> Self {
        let pods = Pods::new(config.containers);
        let owners = Owners::new(config.owner_ttl, config.owner_wait);
        Watch {
            config,
            every,
            pods,
            owners,
            unpublished: false,
            listed: false,
            gather: GATHER,
            hold_until: None,
            pulse: Pulse::new(),
            published_at: None,
            failed: false,
        }
    }

    /// Lists and watches until that has to begin anew, and says why.
    pub(super) async fn run(&mut self, inventory: &Inventory, backoff: &mut Backoff) -> Failure {
        self.pulse = Pulse::new();
        let client = match self.config.client_with(self.pulse.clone()).await {
            Ok(client) => client,
            Err(failure) => return failure,
        };
        self.owners.begin_anew();
        let events = self.events(client.clone());
        let mut events = pin!(events);
        let mut listed = Vec::new();
        let mut failures = 0;
        let mut tell_at = self.tell_at();
        loop {
            let silent_at = Instant::from_std(self.pulse.last()) + self.config.longest_silence();
            let event = tokio::select! {
                biased;
                () = tokio::time::sleep_until(tell_at) => {
                    self.tell(&client, inventory);
                    tell_at = self.tell_at();
                    continue;
                }
                Some(reply) = self.owners.reply() => {
                    self.learn(&client, reply, inventory);
                    let rest = self.owners.is_asking();
                    let wait = if rest { self.gather } else { Duration::ZERO };
                    if !rest || self.hold_until.is_none() {
                        tell_at = tell_at.min(Instant::now() + wait);
                    }
                    continue;
                }
                event = events.try_next() => event,
                () = tokio::time::sleep_until(silent_at) => {
                    // Something may have come that was no event.
                    if self.pulse.last().elapsed() < self.config.longest_silence() {
                        continue;
                    }
                    let found = format!("nothing came for {:?}", self.config.longest_silence());
                    return Failure::away(found, "look at what stands between here and the API");
                }
            };
            match event {
                Ok(Some(event)) => {
                    // That a list begins says nothing of how it ends.
                    if !matches!(event, Event::Init) {
                        failures = 0;
                        backoff.reset();
                    }
                    self.take(event, &mut listed);
                    if self.unpublished {
                        tell_at = tell_at.min(Instant::now() + self.gather);
                    }
                }
                Ok(None) => return Failure::away("the watch ended", ""),
                Err(error) => {
                    let (failure, anew) = judge(error);
                    failures += 1;
                    if anew || failures >= MAX_FAILURES {
                        return failure;
                    }
                    inventory.fail(NAME, failure);
                    backoff.wait().await;
                    self.failed = true;
                    tell_at = self.tell_at();
                }
            }
        }
    }

    fn events(
        &self,
        client: Client,
    ) -> impl Stream<Item = watcher::Result<Event<Object>>> + Send + use<> {
        let resource = ApiResource::erase::<Pod>(&());
        let pods: Api<Object> = match self.config.namespace.as_str() {
            "" => Api::all_with(client, &resource),
            namespace => Api::namespaced_with(client, namespace, &resource),
        };
        let seconds = self.config.watch_timeout.as_secs().clamp(1, u64::from(u32::MAX));
        let mut config = watcher::Config::default().timeout(seconds as u32);
        if !self.config.node.is_empty() {
            config = config.fields(&format!("spec.nodeName={}", self.config.node));
        }
        watcher::watcher(pods, config)
    }

    fn take(&mut self, event: Event<Object>, listed: &mut Vec<Object>) {
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(pod) => listed.push(pod),
            Event::InitDone => {
                self.pods.replace(std::mem::take(listed));
                (self.unpublished, self.listed) = (true, true);
            }
            Event::Apply(pod) => self.unpublished |= self.pods.apply(pod),
            Event::Delete(pod) => self.unpublished |= self.pods.delete(&pod),
        }
    }

    /// When the inventory is to be told next: soon after a change, when a failed owner is due, and every so often anyway.
    fn tell_at(&self) -> Instant {
        if let Some(until) = self.hold_until {
            return until;
        }
        // That the API is back is worth knowing soon: until then whoever is unknown is kept waiting.
        let anyway = if self.failed { AFTER_FAILURE.min(self.every) } else { self.every };
        let wait = if self.unpublished { self.gather } else { anyway };
        let at = Instant::now() + wait;
        self.owners.retry_at().map_or(at, |retry| retry.min(at))
    }

    /// Asks for owners that are new or no longer believed and tells the inventory what changed. Nobody waits long for an owner
    /// that does not answer: its pods are told without a workload, so that nothing of them is billed on a guess, or as an
    /// earlier process knew them; after a time it is the end of its chain.
    fn tell(&mut self, client: &Client, inventory: &Inventory) {
        let listed = self.unpublished || self.published_at.is_some();
        if !listed {
            return;
        }
        self.owners.seek(client, self.pods.owners());
        let owners = &self.owners;
        let learnt = owners.has_answers() || self.pods.has_waited(|o| owners.chain(o).awaited);
        let heard = self.pulse.last();
        let news = self.pulse.felt() && self.published_at.is_none_or(|at| at < heard);
        if !(self.unpublished || learnt || news) || self.holds_back(self.unpublished || learnt) {
            return;
        }
        self.hold_until = None;
        let started = Instant::now();
        let heard = self.published_at.map_or(heard, |at| at.max(heard));
        let was_unpublished = std::mem::take(&mut self.unpublished);
        self.tell_what_changed(inventory, heard);
        self.published_at = Some(heard);
        self.gather = GATHER.max(started.elapsed() * TELL_SHARE);
        // An owner that was learnt says nothing of the watch.
        self.failed &= !(was_unpublished || news);
    }

    /// Whether what changed is still held back for answers.
    fn holds_back(&mut self, changed: bool) -> bool {
        if !changed || !self.owners.is_asking() {
            return false;
        }
        // Before the first list is told, nobody is served anyway.
        let hold = if self.published_at.is_none() { ASK_TIMEOUT } else { HOLD };
        let until = *self.hold_until.get_or_insert_with(|| Instant::now() + hold);
        Instant::now() < until
    }

    /// A list is told whole; after it those pods that changed, or whose owners did.
    fn tell_what_changed(&mut self, inventory: &Inventory, heard: std::time::Instant) {
        if self.published_at.is_none() {
            self.pods.remember(inventory.facts_of(NAME).pods);
        }
        let mut uids = self.pods.take_unpublished();
        let changed = self.owners.take_changed();
        let owners = &self.owners;
        uids.extend(self.pods.forget_remembered(|owner| owners.chain(owner).learnt));
        let waited = self.pods.take_waited(|owner| owners.chain(owner).awaited);
        let chain = |owner| owners.chain(owner);
        let forgotten = if std::mem::take(&mut self.listed) {
            let facts = self.pods.facts(chain);
            let forgotten = self.pods.note_published(&facts.pods);
            inventory.update_heard(NAME, facts, heard);
            forgotten
        } else {
            uids.extend(waited);
            if !changed.is_empty() {
                uids.extend(self.pods.below(|owner| owners.leads_over(owner, &changed)));
            }
            let uids: Vec<_> = uids.into_iter().collect();
            let facts = self.pods.some(&uids, chain);
            let forgotten = self.pods.note_published(&facts.pods);
            inventory.update_pods(NAME, &uids, facts, heard);
            forgotten
        };
        self.unpublished |= forgotten;
        self.owners.forget_unused(self.pods.owners().map(|(_, owner)| owner));
    }

    fn learn(&mut self, client: &Client, reply: Reply, inventory: &Inventory) {
        let learnt = self.owners.learn(client, reply);
        for failed in learnt.failed {
            tracing::warn!(
                error = failed.failure.with_fix(),
                "cannot follow an owner; will ask again"
            );
            inventory.tell(NAME, Outcome::Failed(FailureKind::Owner));
        }
        for _ in 0..learnt.forbidden {
            inventory.tell(NAME, Outcome::Failed(FailureKind::Forbidden));
        }
        for kind in learnt.newly_forbidden {
            tracing::warn!(
                kind,
                fix = RIGHTS,
                "an owner may not be read (403), so it counts as the top; will ask again"
            );
        }
    }
}
