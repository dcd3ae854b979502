//! Lists, then watches, and starts over when it must.

use super::access::{RIGHTS, judge};
use super::owners::{MAX_STEPS, Owners};
use super::pods::{Object, Pods};
use super::pulse::Pulse;
use super::{Kubernetes, NAME};
use crate::inventory::Inventory;
use crate::source::{Backoff, Failure, FailureKind, Outcome};
use crosstalk_host::WithFix;
use futures_util::{Stream, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
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
    pulse: Pulse,
    /// How far the pulse was when the inventory was last told.
    published_at: Option<std::time::Instant>,
    /// Whether the inventory takes the API for away.
    failed: bool,
}

impl Watch {
    pub(super) fn new(config: Kubernetes, every: Duration) -> Self {
        let (pods, owners) = (Pods::new(config.containers), Owners::new(config.owner_ttl));
        Watch {
            config,
            every,
            pods,
            owners,
            unpublished: false,
            listed: false,
            gather: GATHER,
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
                    self.tell(&client, inventory).await;
                    tell_at = self.tell_at();
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
        // That the API is back is worth knowing soon: until then whoever is unknown is kept waiting.
        let anyway = if self.failed { AFTER_FAILURE.min(self.every) } else { self.every };
        let wait = if self.unpublished { self.gather } else { anyway };
        let at = Instant::now() + wait;
        self.owners.retry_at().map_or(at, |retry| retry.min(at))
    }

    /// Learns owners that are new or no longer believed and tells the inventory everything. An owner that cannot be asked
    /// for now is the end of its chain until it can, unless an earlier process knew more; the other pods do not wait for it.
    async fn tell(&mut self, client: &Client, inventory: &Inventory) {
        let listed = self.unpublished || self.published_at.is_some();
        if !listed {
            return;
        }
        let mut learnt = false;
        for _ in 0..MAX_STEPS {
            let due = self.owners.due(self.pods.owners());
            if due.is_empty() {
                break;
            }
            learnt = true;
            self.learn(client, due, inventory).await;
        }
        let heard = self.pulse.last();
        let news = self.pulse.felt() && self.published_at.is_none_or(|at| at < heard);
        if !(self.unpublished || learnt || news) {
            return;
        }
        let started = Instant::now();
        let heard = self.published_at.map_or(heard, |at| at.max(heard));
        self.tell_what_changed(inventory, heard);
        self.published_at = Some(heard);
        self.gather = GATHER.max(started.elapsed() * TELL_SHARE);
        // An owner that was learnt says nothing of the watch.
        self.failed &= !(self.unpublished || news);
        self.unpublished = false;
    }

    /// A list is told whole; after it those pods that changed, or whose owners did.
    fn tell_what_changed(&mut self, inventory: &Inventory, heard: std::time::Instant) {
        if self.published_at.is_none() {
            self.pods.remember(inventory.facts_of(NAME).pods);
        }
        let mut uids = self.pods.take_untold();
        let changed = self.owners.take_changed();
        let owners = &self.owners;
        uids.extend(self.pods.forget_remembered(|owner| owners.chain(owner).learnt));
        if std::mem::take(&mut self.listed) {
            inventory.update_heard(NAME, self.pods.facts(|owner| owners.chain(owner)), heard);
        } else {
            if !changed.is_empty() {
                uids.extend(self.pods.below(|owner| owners.leads_over(owner, &changed)));
            }
            let uids: Vec<_> = uids.into_iter().collect();
            let facts = self.pods.some(&uids, |owner| owners.chain(owner));
            inventory.update_pods(NAME, &uids, facts, heard);
        }
        self.owners.forget_unused(self.pods.owners().map(|(_, owner)| owner));
    }

    async fn learn(
        &mut self,
        client: &Client,
        due: Vec<(String, OwnerReference)>,
        inventory: &Inventory,
    ) {
        let learnt = self.owners.learn(client, due).await;
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
