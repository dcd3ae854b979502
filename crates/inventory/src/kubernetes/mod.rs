//! Pods and their top controllers from the Kubernetes API.
//!
//! Pods are listed and watched; the owners of a pod are followed up to the top (a ReplicaSet to its Deployment, a Job
//! to its CronJob or to whatever custom controller made it), each owner asked for once. Kinds are not built in: the API
//! itself says under which path a kind is found, so a PyTorchJob, a RayJob or anything to come is followed alike. An
//! owner that may not be read (no permission, or gone) ends the chain there: its name and UID stand in the reference. So
//! does one whose API fails or hangs, once it was waited for long enough; until then its pods have no workload. Nothing is
//! believed for ever: what was learnt is asked for again, the sooner the less it was.

mod access;
mod asking;
mod koordinator;
mod owners;
mod pods;
mod pulse;
mod token;
mod watch;

pub use access::{api_failure, watch_failure};

use crate::inventory::Inventory;
use crate::source::{Backoff, Failure};
use std::path::PathBuf;
use std::time::Duration;

/// The name of this source in statuses and metrics.
pub const NAME: &str = "kubernetes";

/// The Kubernetes API as a source.
#[derive(Debug, Clone)]
pub struct Kubernetes {
    /// Kubeconfig file; without one the pod's own service account is used or, outside a cluster, `$KUBECONFIG`.
    pub kubeconfig: Option<PathBuf>,
    /// Only this namespace; all when empty.
    pub namespace: String,
    /// Only the pods of this node; all when empty.
    pub node: String,
    /// Whether containers are told too, not only pods.
    pub containers: bool,
    /// How long one watch lasts. One that is silent for longer is taken for dead and begun again.
    pub watch_timeout: Duration,
    /// How long what was learnt of an owner is believed; a tenth of it where the owner could not be read.
    pub owner_ttl: Duration,
    /// How long pods have no workload while an owner of theirs cannot be asked for; then it counts as the top.
    pub owner_wait: Duration,
}

impl Default for Kubernetes {
    fn default() -> Self {
        Kubernetes {
            kubeconfig: None,
            namespace: String::new(),
            node: String::new(),
            containers: true,
            watch_timeout: Duration::from_secs(120),
            owner_ttl: Duration::from_secs(300),
            owner_wait: Duration::from_secs(300),
        }
    }
}

impl Kubernetes {
    /// Whether there is an API to speak to, as far as that can be told without asking it.
    pub fn check(&self) -> Result<(), Failure> {
        use futures_util::FutureExt;
        // Reading a kubeconfig waits for nothing; a plugin that it names is run only when a token is needed.
        self.access().now_or_never().map_or(Ok(()), |access| access.map(drop))
    }

    /// Keeps `inventory` up to date, telling it everything at least every `every`. Never returns. What was known stays
    /// known while the API is away.
    pub async fn follow(self, every: Duration, inventory: &Inventory) {
        inventory.announce(NAME);
        let mut backoff = Backoff::new(every);
        let mut watch = watch::Watch::new(self, every);
        loop {
            let failure = watch.run(inventory, &mut backoff).await;
            inventory.fail(NAME, failure);
            backoff.wait().await;
        }
    }
}
