//! Lists, then watches, and starts over when it must.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::client::{Api, ApiError};
use super::objects::PodList;
use super::owners::Owners;
use super::state::{Next, State};
use crate::cache::Cache;
use crate::metrics::Metrics;

/// Keeps the cache's `kubernetes` part current.
#[derive(Debug)]
pub struct Watcher {
    api: Api,
    /// `/api/v1/pods`, or those of one namespace.
    path: String,
    cache: Arc<Cache>,
    metrics: Arc<Metrics>,
    every: Duration,
    state: State,
    owners: Owners,
    /// Whether the cache has not been told everything yet.
    unpublished: bool,
}

/// Pods of one page of a list.
const PAGE: usize = 500;

/// How long events are gathered before the cache is rebuilt for them.
const GATHER: Duration = Duration::from_millis(100);

/// Seconds after which the server ends a watch, which is then begun again where it ended.
const WATCH_SECONDS: u32 = 290;

/// Pause after a failure; failures in a row double it up to the refresh interval.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

impl Watcher {
    /// A watcher of all pods, or of one namespace's.
    pub fn new(
        api: Api,
        namespace: String,
        cache: Arc<Cache>,
        metrics: Arc<Metrics>,
        every: Duration,
    ) -> Self {
        let path = match namespace.as_str() {
            "" => "/api/v1/pods".to_owned(),
            namespace => format!("/api/v1/namespaces/{namespace}/pods"),
        };
        let (state, owners) = (State::default(), Owners::default());
        Watcher { api, path, cache, metrics, every, state, owners, unpublished: false }
    }

    /// Runs until shutdown. What was known stays known while the API is away.
    pub async fn run(mut self, mut stopping: watch::Receiver<bool>) {
        let mut pause = FIRST_PAUSE;
        let mut listed = false;
        loop {
            let work = self.list_and_watch(&mut listed, &mut pause);
            let result = tokio::select! {
                biased;
                _ = stopping.wait_for(|stop| *stop) => return,
                result = work => result,
            };
            match result {
                // The server ended the watch, as it does every few minutes: go on from there at once.
                Ok(()) => continue,
                Err(ApiError::Gone) => {
                    self.metrics.cache_errors.add(["kubernetes_gone"], 1);
                    listed = false;
                }
                Err(error) => {
                    tracing::warn!(%error, "kubernetes API; what was known stays");
                    self.metrics.cache_errors.add(["kubernetes"], 1);
                }
            }
            tokio::select! {
                biased;
                _ = stopping.wait_for(|stop| *stop) => return,
                () = tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)) => {}
            }
            pause = (pause * 2).min(self.every.max(FIRST_PAUSE));
        }
    }

    async fn list_and_watch(
        &mut self,
        listed: &mut bool,
        pause: &mut Duration,
    ) -> Result<(), ApiError> {
        if !*listed {
            self.list().await?;
            *listed = true;
            self.publish().await;
            *pause = FIRST_PAUSE;
        }
        let path = format!(
            "{}?watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&resourceVersion={}",
            self.path, self.state.resource_version
        );
        let mut lines = self.api.watch(&path).await?;
        let mut publish_at = self.publish_at();
        loop {
            let line = tokio::select! {
                biased;
                () = tokio::time::sleep_until(publish_at) => {
                    self.publish().await;
                    publish_at = self.publish_at();
                    continue;
                }
                line = lines.next() => line?,
            };
            let Some(line) = line else {
                self.publish().await;
                return Ok(());
            };
            *pause = FIRST_PAUSE;
            match self.state.apply(&line) {
                Next::Changed => {
                    self.unpublished = true;
                    publish_at = publish_at.min(Instant::now() + GATHER);
                }
                Next::Nothing => {}
                Next::ListAgain => return Err(ApiError::Gone),
                Next::Failed(reason) => return Err(ApiError::Away(reason)),
            }
        }
    }

    async fn list(&mut self) -> Result<(), ApiError> {
        let mut pods = Vec::new();
        let mut more = String::new();
        loop {
            let path = format!("{}?limit={PAGE}{more}", self.path);
            let page: PodList = self.api.get(&path).await?;
            pods.extend(page.items);
            if page.metadata.r#continue.is_empty() {
                self.state.replace(pods.into_iter(), page.metadata.resource_version);
                return Ok(());
            }
            more = format!("&continue={}", page.metadata.r#continue);
        }
    }

    /// When the cache is to be told next: soon after a change, when a failed owner is due, and every so often anyway.
    fn publish_at(&self) -> Instant {
        let wait = if self.unpublished { GATHER } else { self.every };
        let at = Instant::now() + wait;
        self.owners.retry_at().map_or(at, |retry| retry.min(at))
    }

    /// Learns owners that are new and hands everything to the cache. An owner that cannot be asked for now is the end of
    /// its chain until it can; the other pods do not wait for it.
    async fn publish(&mut self) {
        for (namespace, owner) in self.state.owners() {
            if let Err(failed) = self.owners.learn(&self.api, namespace, owner).await {
                let (kind, name) = (&owner.kind, &owner.name);
                tracing::warn!(error = %failed.error, namespace, kind, name, "cannot follow an owner; will ask again");
                self.metrics.cache_errors.add(["kubernetes_owner"], 1);
            }
        }
        self.owners.forget_unused(self.state.owners().map(|(_, owner)| owner));
        let inventory = self.state.inventory(|owner| self.owners.top(owner));
        self.cache.update("kubernetes", inventory);
        self.unpublished = false;
        self.metrics.cache_refreshes.add(["kubernetes"], 1);
    }
}
