//! The database, opened when it can be: metrics go on while it is away.

use crosstalk_store::Store;
use tokio::sync::OnceCell;

use crate::config::Config;

/// A database that may not be there yet.
#[derive(Debug)]
pub(crate) struct Database {
    url: crate::config::Secret,
    store: OnceCell<Store>,
}

impl Database {
    /// Opens the configured database. One that is away now is opened by the first who needs it; a URL that can never
    /// work is an error.
    pub(crate) async fn open(config: &Config) -> Result<Database, crosstalk_store::Error> {
        let url = match config.database.is_empty() {
            true => {
                let file = config.data_dir.join("crosstalk.sqlite");
                crate::config::Secret::new(format!("sqlite://{}", file.display()))
            }
            false => config.database.clone(),
        };
        let database = Database { url, store: OnceCell::new() };
        match database.store().await {
            Err(error) if error.is_transient() => {
                tracing::warn!(%error, "database is away; logs are refused until it is back");
                Ok(database)
            }
            Err(error) => Err(error),
            Ok(_) => Ok(database),
        }
    }

    pub(crate) async fn store(&self) -> Result<&Store, crosstalk_store::Error> {
        self.store.get_or_try_init(|| Store::open(self.url.reveal())).await
    }

    pub(crate) async fn close(&self) {
        if let Some(store) = self.store.get() {
            store.close().await;
        }
    }
}
