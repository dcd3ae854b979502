//! The database, opened when it can be: metrics go on while it is away.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crosstalk_store::{Error, Store};
use tokio::sync::Mutex;

use crate::config::Config;

/// How long the start waits for a database that does not answer: metrics need none.
const PATIENCE: Duration = Duration::from_secs(2);

/// The configured URL, or that of a file in the data folder.
pub(crate) fn url_of(config: &Config) -> crate::config::Secret {
    match config.database.is_empty() {
        true => {
            let file = config.data_dir.join("crosstalk.sqlite");
            crate::config::Secret::new(format!("sqlite://{}", file.display()))
        }
        false => config.database.clone(),
    }
}

/// How much longer than a statement may take its answer is waited for: the server ends it first, where it is still there.
const GRACE: Duration = Duration::from_secs(5);

/// A database that may not be there yet.
#[derive(Debug)]
pub(crate) struct Database {
    url: crate::config::Secret,
    /// How long a statement may take.
    longest: Duration,
    store: Mutex<Option<Store>>,
    /// How often it was given up and opened anew.
    generation: AtomicU64,
    opened: AtomicBool,
}

impl Database {
    /// Opens the configured database. One that is away or slow now is opened by the first who needs it; a URL that can
    /// never work is an error.
    pub(crate) async fn open(config: &Config) -> Result<Database, Error> {
        let database = Database {
            url: url_of(config),
            longest: config.database_timeout.get(),
            store: Mutex::new(None),
            generation: AtomicU64::new(0),
            opened: AtomicBool::new(false),
        };
        let reached = tokio::time::timeout(PATIENCE, Store::reach(database.url.reveal())).await;
        let Ok(reached) = reached else {
            let database_url = database.url.to_string();
            tracing::warn!(
                database_url,
                "no answer yet; log lines wait on disk until there is one"
            );
            return Ok(database);
        };
        let opened = match reached {
            Ok(()) => database.store().await.map(drop),
            Err(error) => Err(error),
        };
        match opened {
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, "database is away; log lines wait on disk until it is back");
                Ok(database)
            }
            Err(error) => Err(error),
            Ok(()) => Ok(database),
        }
    }

    /// Whether it was open when it was last asked for.
    pub(crate) fn is_open(&self) -> bool {
        self.opened.load(Ordering::Relaxed)
    }

    /// The store, opened if it is not yet.
    pub(crate) async fn store(&self) -> Result<Store, Error> {
        let mut store = self.store.lock().await;
        if let Some(store) = &*store {
            return Ok(store.clone());
        }
        let opening = async {
            Store::reach(self.url.reveal()).await?;
            Store::open_within(self.url.reveal(), self.longest).await
        };
        let opened = self.in_time(opening).await;
        self.opened.store(opened.is_ok(), Ordering::Relaxed);
        let opened = opened?;
        *store = Some(opened.clone());
        Ok(opened)
    }

    /// Waits for work with the database as long as a statement may take. Connections on which nothing was heard by then
    /// are given up: the next who asks gets new ones.
    pub(crate) async fn within<T>(
        &self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let generation = self.generation.load(Ordering::Acquire);
        let done = self.in_time(work).await;
        if let Err(Error::Timeout { .. }) = &done {
            self.give_up(generation);
        }
        done
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let longest = self.longest + GRACE;
        let done = tokio::time::timeout(longest, work).await;
        done.unwrap_or_else(|_| Err(Error::Timeout { location: self.url.to_string(), longest }))
    }

    /// Gives up the connections of this generation, unless somebody did already or is opening new ones.
    fn give_up(&self, generation: u64) {
        let next = generation + 1;
        let ours = self
            .generation
            .compare_exchange(generation, next, Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        if ours
            && let Ok(mut store) = self.store.try_lock()
            && let Some(store) = store.take()
        {
            self.opened.store(false, Ordering::Relaxed);
            // Closing waits for whoever still uses one, and those hang.
            tokio::spawn(async move { tokio::time::timeout(GRACE, store.close()).await });
        }
    }

    pub(crate) async fn close(&self) {
        if let Some(store) = self.store.lock().await.take() {
            // A connection that hangs must not keep the processor from ending.
            let _ = tokio::time::timeout(GRACE, store.close()).await;
        }
    }
}
