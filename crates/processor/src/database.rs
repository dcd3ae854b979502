//! The database, opened when it can be: metrics go on while it is away.

use std::time::Duration;

use crosstalk_store::{Error, Store};
use tokio::sync::OnceCell;

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

/// A database that may not be there yet.
#[derive(Debug)]
pub(crate) struct Database {
    url: crate::config::Secret,
    store: OnceCell<Store>,
}

impl Database {
    /// Opens the configured database. One that is away or slow now is opened by the first who needs it; a URL that can
    /// never work is an error.
    pub(crate) async fn open(config: &Config) -> Result<Database, Error> {
        let database = Database { url: url_of(config), store: OnceCell::new() };
        let reached = tokio::time::timeout(PATIENCE, Store::reach(database.url.reveal())).await;
        let Ok(reached) = reached else {
            let database_url = database.url.to_string();
            tracing::warn!(database_url, "no answer yet; logs are refused until there is one");
            return Ok(database);
        };
        let opened = match reached {
            Ok(()) => database.store().await.map(drop),
            Err(error) => Err(error),
        };
        match opened {
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, "database is away; logs are refused until it is back");
                Ok(database)
            }
            Err(error) => Err(error),
            Ok(()) => Ok(database),
        }
    }

    pub(crate) async fn store(&self) -> Result<&Store, Error> {
        let open = || async {
            Store::reach(self.url.reveal()).await?;
            Store::open(self.url.reveal()).await
        };
        self.store.get_or_try_init(open).await
    }

    pub(crate) async fn close(&self) {
        if let Some(store) = self.store.get() {
            store.close().await;
        }
    }
}
