//! Lists, then watches, and starts over when it must.

use super::access::{CONNECT_TIMEOUT, judge};
use super::owners::{MAX_STEPS, Owners};
use super::pods::{Object, Pods};
use super::{Kubernetes, NAME};
use crate::inventory::Inventory;
use crate::source::{Backoff, Failure, FailureKind, Outcome};
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
    untold: bool,
    gather: Duration,
    failed_at: Option<Instant>,
}

impl Watch {
    pub(super) fn new(config: Kubernetes, every: Duration) -> Self {
        let (pods, owners) = (Pods::default(), Owners::default());
        Watch { config, every, pods, owners, untold: false, gather: GATHER, failed_at: None }
    }

    /// Lists and watches until that has to begin anew, and says why.
    pub(super) async fn run(&mut self, inventory: &Inventory, backoff: &mut Backoff) -> Failure {
        let client = match self.config.client().await {
            Ok(client) => client,
            Err(failure) => return failure,
        };
        let events = self.events(client.clone());
        let mut events = pin!(events);
        let mut listed = Vec::new();
        let mut failures = 0;
        let mut tell_at = self.tell_at();
        loop {
            let event = tokio::select! {
                biased;
                () = tokio::time::sleep_until(tell_at) => {
                    self.tell_unless_failing(&client, inventory).await;
                    tell_at = self.tell_at();
                    continue;
                }
                event = events.try_next() => event,
            };
            match event {
                Ok(Some(event)) => {
                    // That a list begins says nothing of how it ends.
                    if !matches!(event, Event::Init) {
                        failures = 0;
                        backoff.reset();
                    }
                    self.take(event, &mut listed);
                    if self.untold {
                        tell_at = tell_at.min(Instant::now() + self.gather);
                    }
                }
                Ok(None) => return Failure::away("the watch ended", ""),
                Err(error) => {
                    self.failed_at = Some(Instant::now());
                    let (failure, anew) = judge(error);
                    failures += 1;
                    if anew || failures >= MAX_FAILURES {
                        return failure;
                    }
                    inventory.fail(NAME, failure);
                    backoff.wait().await;
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
                self.failed_at = None;
                self.untold = true;
            }
            Event::Apply(pod) => {
                self.failed_at = None;
                self.untold |= self.pods.apply(pod);
            }
            Event::Delete(pod) => {
                self.failed_at = None;
                self.untold |= self.pods.delete(&pod);
            }
        }
    }

    /// When the inventory is to be told next: soon after a change, when a failed owner is due, and every so often anyway.
    fn tell_at(&self) -> Instant {
        let wait = if self.untold { self.gather } else { self.every };
        let at = Instant::now() + wait;
        self.owners.retry_at().map_or(at, |retry| retry.min(at))
    }

    /// A watch that was begun again says nothing while nothing happens, so silence after a failure means that it
    /// works only once the time to fail again is over.
    async fn tell_unless_failing(&mut self, client: &Client, inventory: &Inventory) {
        let failing =
            self.failed_at.is_some_and(|at| at.elapsed() < self.every.max(CONNECT_TIMEOUT * 2));
        if failing && !self.untold {
            return;
        }
        self.failed_at = None;
        self.tell(client, inventory).await;
    }

    /// Learns owners that are new and tells the inventory everything. An owner that cannot be asked for now is the end of
    /// its chain until it can; the other pods do not wait for it.
    async fn tell(&mut self, client: &Client, inventory: &Inventory) {
        for _ in 0..MAX_STEPS {
            let due = self.owners.due(self.pods.owners());
            if due.is_empty() {
                break;
            }
            for failed in self.owners.learn(client, due).await {
                tracing::warn!(error = %failed.failure, "cannot follow an owner; will ask again");
                inventory.tell(NAME, Outcome::Failed(FailureKind::Owner));
            }
        }
        self.owners.forget_unused(self.pods.owners().map(|(_, owner)| owner));
        let started = Instant::now();
        inventory.update(NAME, self.pods.facts(|owner| self.owners.top(owner)));
        self.gather = GATHER.max(started.elapsed() * TELL_SHARE);
        self.untold = false;
    }
}
