//! How a source is kept going: asked again and again, left alone for a while when it fails.

use crate::facts::Facts;
use crate::inventory::Inventory;
use crosstalk_host::{BackOff, WithFix};
use std::fmt;
use std::time::{Duration, SystemTime};

/// How a source stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceStatus {
    /// The source.
    pub name: &'static str,
    /// When it last said something.
    pub heard_at: Option<SystemTime>,
    /// When an earlier process heard what is used until this one has heard something itself.
    pub remembered_at: Option<SystemTime>,
    /// How long ago that is.
    pub age: Option<Duration>,
    /// Why it says nothing now.
    pub error: Option<Failure>,
}

/// Why a source says nothing; as every error that knows the way out, it keeps that apart ([`WithFix`]).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{found}")]
pub struct Failure {
    /// What kind of failure, for counting.
    pub kind: FailureKind,
    /// What was found.
    pub found: String,
    fix: Option<String>,
}

/// Kinds of failures that are worth telling apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// The source cannot be reached or refuses to answer.
    Away,
    /// The source no longer knows where we were; everything is asked for anew.
    Gone,
    /// An owner of a pod cannot be asked for; its pods have the owner below as their workload.
    Owner,
    /// An owner of a pod may not be read; it counts as the top until it may.
    Forbidden,
}

/// What a source did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It said what it knows.
    Heard,
    /// It failed.
    Failed(FailureKind),
}

impl Failure {
    /// A source that is away, with the way out; empty where waiting is all there is to do.
    pub fn away(found: impl fmt::Display, fix: impl Into<String>) -> Self {
        let fix = Some(fix.into()).filter(|fix| !fix.is_empty());
        Failure { kind: FailureKind::Away, found: found.to_string(), fix }
    }
}

impl WithFix for Failure {
    fn fix(&self) -> Option<&str> {
        self.fix.as_deref()
    }
}

/// Something that can say everything it knows.
pub trait Source: Send {
    /// Its name in statuses and metrics.
    fn name(&self) -> &'static str;

    /// Everything it knows now.
    fn load(&mut self) -> impl Future<Output = Result<Facts, Failure>> + Send;

    /// Returns when it is worth asking again before the time; never, unless told otherwise.
    fn changed(&mut self) -> impl Future<Output = Result<(), Failure>> + Send {
        std::future::pending()
    }
}

/// First pause after a failure; failures in a row double it up to the interval.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// Time for a source to say everything. One that hangs is a failure like any other.
const LOAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Changes are gathered for this long, so that a source that floods is still asked at most twice a second.
const GATHER: Duration = Duration::from_millis(500);

/// Grows with each failure in a row.
#[derive(Debug)]
pub struct Backoff(BackOff);

impl Backoff {
    /// Never longer than `most`.
    pub fn new(most: Duration) -> Self {
        Self(BackOff::new(FIRST_PAUSE, most))
    }

    /// What failed works again.
    pub fn reset(&mut self) {
        self.0.reset();
    }

    /// Waits, between half and all of the pause, so that not everyone comes back at once.
    pub async fn wait(&mut self) {
        tokio::time::sleep(self.0.next().mul_f64(0.5 + fastrand::f64() / 2.0)).await;
    }
}

/// Keeps `inventory` up to date with what `source` says: at once, when it changes and every `every`. Never returns.
pub async fn follow(mut source: impl Source, every: Duration, inventory: &Inventory) {
    let name = source.name();
    inventory.announce(name);
    let mut backoff = Backoff::new(every);
    loop {
        let loaded = tokio::time::timeout(LOAD_TIMEOUT, source.load()).await;
        let late = |_| Failure::away(format!("no answer within {LOAD_TIMEOUT:?}"), "");
        let waited = match loaded.map_err(late).flatten() {
            Ok(facts) => {
                inventory.update(name, facts);
                backoff.reset();
                tokio::select! {
                    biased;
                    () = tokio::time::sleep(every) => Ok(()),
                    changed = source.changed() => changed,
                }
            }
            Err(failure) => Err(failure),
        };
        match waited {
            Ok(()) => tokio::time::sleep(GATHER.min(every)).await,
            Err(failure) => {
                inventory.fail(name, failure);
                backoff.wait().await;
            }
        }
    }
}
