//! The store itself: opening, paging, and trying again.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sqlx::any::AnyPoolOptions;
use sqlx::pool::PoolConnection;
use sqlx::{Any, AnyConnection, AnyPool, Executor, Transaction};

use crate::error::{self, Error};
use crate::location::Location;
use crate::schema;

/// A page has at most this many entries, whatever is asked for.
pub const MAX_PAGE: u32 = 1000;

/// How long a statement may take unless told otherwise.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits between tries of a transaction that another one was in the way of.
const WAITS_MS: [u64; 6] = [5, 20, 50, 150, 400, 1000];

/// The processor's tables.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use crosstalk_store::{Page, Store};
/// let folder = tempfile::tempdir().unwrap();
/// let store = Store::open(&format!("sqlite://{}/db.sqlite", folder.path().display())).await.unwrap();
/// assert!(store.workloads(&Page::default()).await.unwrap().items.is_empty());
/// # });
/// ```
#[derive(Clone)]
pub struct Store {
    pub(crate) pool: AnyPool,
    pub(crate) location: Location,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Store").field(&self.location.shown).finish()
    }
}

/// Which page of a list.
#[derive(Clone, Debug, Default, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub struct Page {
    /// The `next` of the page before; none for the first page.
    pub cursor: Option<String>,
    /// How many entries; 100 where not given, at most 1000.
    pub limit: Option<u32>,
}

impl Page {
    pub(crate) fn limit(&self) -> i64 {
        i64::from(self.limit.unwrap_or(100).clamp(1, MAX_PAGE))
    }
}

/// One page of a list.
#[derive(Clone, Debug, Serialize, utoipa::ToSchema)]
pub struct Listing<T> {
    /// The entries.
    pub items: Vec<T>,
    /// The cursor of the next page; none on the last.
    pub next: Option<String>,
}

impl<T> Listing<T> {
    /// Makes a page of what a query for one entry more than the limit gave.
    pub(crate) fn of(mut items: Vec<T>, limit: i64, cursor: impl Fn(&T) -> String) -> Listing<T> {
        let more = items.len() as i64 > limit;
        items.truncate(limit as usize);
        let next = items.last().filter(|_| more).map(cursor);
        Listing { items, next }
    }
}

impl Store {
    /// Opens the database at `sqlite://FILE`, `postgres://...` or `mysql://...`, makes an SQLite
    /// file that is not there, and brings the tables up to date.
    ///
    /// # Errors
    /// Where the URL is for no known database, there is no connection, or the tables are newer
    /// than this program.
    pub async fn open(url: &str) -> Result<Store, Error> {
        Store::open_within(url, STATEMENT_TIMEOUT).await
    }

    /// Opens as [`Store::open`] does; the server ends a statement that takes longer than this.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub async fn open_within(url: &str, statement: Duration) -> Result<Store, Error> {
        sqlx::any::install_default_drivers();
        let location = Location::read(url)?;
        let dialect = location.dialect;
        let mut options = AnyPoolOptions::new()
            .max_connections(8)
            .acquire_timeout(Duration::from_secs(10))
            .after_connect(move |connection, _| Box::pin(prepare(connection, dialect, statement)));
        if url.contains(":memory:") {
            // Such a database lives as long as its one connection.
            options = options.max_connections(1).idle_timeout(None).max_lifetime(None);
        }
        let pool =
            options.connect_lazy(&location.url).map_err(|e| Error::connect(&location, &e))?;
        let store = Store { pool, location };
        store.migrate().await?;
        tracing::info!(database = store.location(), "tables are up to date");
        Ok(store)
    }

    /// The database's name for people: its URL without password and parameters.
    pub fn location(&self) -> &str {
        &self.location.shown
    }

    /// Whether the database answers.
    ///
    /// # Errors
    /// Where it does not.
    pub async fn ping(&self) -> Result<(), Error> {
        let mut connection = self.connection().await?;
        let answer = connection.execute("SELECT 1").await;
        answer.map(drop).map_err(self.failed("ask for an answer"))
    }

    /// Runs a statement as it is, for tests of what a connection is told.
    #[doc(hidden)]
    pub async fn run_raw(&self, statement: &'static str) -> Result<(), Error> {
        let mut connection = self.connection().await?;
        let done = sqlx::raw_sql(statement).execute(&mut *connection).await;
        done.map(drop).map_err(self.failed("run a statement"))
    }

    /// Closes all connections after what they are doing.
    pub async fn close(&self) {
        self.pool.close().await;
    }

    async fn migrate(&self) -> Result<(), Error> {
        let mut waits = WAITS_MS.iter();
        loop {
            let outcome = match self.connection().await {
                Ok(mut connection) => schema::migrate(&mut connection, &self.location).await,
                Err(error) => Err(error),
            };
            match (outcome, waits.next()) {
                // Another process may be making the tables, or the file, at this moment.
                (Err(Error::Statement { transient: true, .. }), Some(wait)) => pause(*wait).await,
                (outcome, _) => return outcome,
            }
        }
    }

    pub(crate) async fn connection(&self) -> Result<PoolConnection<Any>, Error> {
        self.pool.acquire().await.map_err(|source| Error::connect(&self.location, &source))
    }

    /// Begins a transaction that writes.
    pub(crate) async fn begin(&self) -> Result<Transaction<'static, Any>, sqlx::Error> {
        self.pool.begin_with(self.location.dialect.begin()).await
    }

    /// Tries for something that is done in one transaction.
    pub(crate) fn tries(&self, what: &'static str) -> Tries<'_> {
        Tries { store: self, what, waits: WAITS_MS.iter() }
    }

    pub(crate) fn failed(&self, what: &'static str) -> impl Fn(sqlx::Error) -> Error + '_ {
        move |source| Error::statement(&self.location, what, &source)
    }
}

/// Counts the tries of a transaction.
pub(crate) struct Tries<'s> {
    store: &'s Store,
    what: &'static str,
    waits: std::slice::Iter<'static, u64>,
}

impl Tries<'_> {
    /// Waits before another try; fails where one more would not help.
    pub(crate) async fn after(&mut self, failure: sqlx::Error) -> Result<(), Error> {
        let store = self.store;
        match self.waits.next() {
            Some(wait) if error::is_conflict(&failure) => {
                tracing::debug!(database = store.location(), what = self.what, "trying again");
                pause(*wait).await;
                Ok(())
            }
            _ => Err(Error::statement(&store.location, self.what, &failure)),
        }
    }
}

/// Waiting is what trying again consists of.
async fn pause(milliseconds: u64) {
    tokio::time::sleep(Duration::from_millis(milliseconds)).await;
}

/// What each new connection is told.
async fn prepare(
    connection: &mut AnyConnection,
    dialect: crate::dialect::Dialect,
    longest: Duration,
) -> Result<(), sqlx::Error> {
    use crate::dialect::Dialect;
    let statements: &[&'static str] = match dialect {
        // FULL: a transaction that was acknowledged survives a power cut, not only a crash.
        Dialect::Sqlite => &[
            "PRAGMA busy_timeout = 10000",
            "PRAGMA journal_mode = WAL",
            "PRAGMA synchronous = FULL",
        ],
        Dialect::Postgres => &[],
        // What a transaction reads after it has waited for a row must be what is there then.
        Dialect::Mysql => &["SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"],
    };
    for statement in statements {
        sqlx::raw_sql(*statement).execute(&mut *connection).await?;
    }
    let milliseconds = longest.as_millis().max(1);
    // MariaDB's variable ends statements of every kind; MySQL has none that does.
    let (limit, may_be_unknown) = match dialect {
        Dialect::Sqlite => return Ok(()),
        Dialect::Postgres => (format!("SET statement_timeout = {milliseconds}"), false),
        Dialect::Mysql => {
            let seconds = milliseconds as f64 / 1e3;
            (format!("SET SESSION max_statement_time = {seconds}"), true)
        }
    };
    let limited = sqlx::raw_sql(sqlx::AssertSqlSafe(limit)).execute(connection).await.map(drop);
    if may_be_unknown { Ok(()) } else { limited }
}
