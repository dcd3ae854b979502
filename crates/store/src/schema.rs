//! Brings the tables up to date.
//!
//! A migration's statements can be run again, because MySQL commits each by itself: a crash half
//! way is mended by the next start. Two processes that start at once wait for each other.

use std::time::{SystemTime, UNIX_EPOCH};

use sqlx::{AnyConnection, AssertSqlSafe, Row};

use crate::dialect::Dialect;
use crate::error::Error;
use crate::location::Location;
use crate::sql::Sql;

/// Each version's statements for SQLite, PostgreSQL and MySQL. A version that has been released is
/// never edited; changes are a new version.
const MIGRATIONS: &[(i64, [&str; 3])] = &[
    (
        1,
        [
            include_str!("../migrations/0001_sqlite.sql"),
            include_str!("../migrations/0001_postgres.sql"),
            include_str!("../migrations/0001_mysql.sql"),
        ],
    ),
    (
        2,
        [
            include_str!("../migrations/0002_sqlite.sql"),
            include_str!("../migrations/0002_postgres.sql"),
            include_str!("../migrations/0002_mysql.sql"),
        ],
    ),
    (
        3,
        [
            include_str!("../migrations/0003_sqlite.sql"),
            include_str!("../migrations/0003_postgres.sql"),
            include_str!("../migrations/0003_mysql.sql"),
        ],
    ),
    (
        4,
        [
            include_str!("../migrations/0004_sqlite.sql"),
            include_str!("../migrations/0004_postgres.sql"),
            include_str!("../migrations/0004_mysql.sql"),
        ],
    ),
];

const VERSIONS: &str = "CREATE TABLE IF NOT EXISTS crosstalk_schema (version BIGINT NOT NULL PRIMARY KEY, applied_at BIGINT NOT NULL)";

/// PostgreSQL's locks have numbers; this is "crosstlk" in ASCII.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7165065861825653867)";

pub(crate) async fn migrate(
    connection: &mut AnyConnection,
    location: &Location,
) -> Result<(), Error> {
    let failed =
        |source: sqlx::Error| Error::statement(location, "bring tables up to date", &source);
    let (before, after): (&[&str], &[&str]) = match location.dialect {
        Dialect::Sqlite => (&["BEGIN IMMEDIATE"], &["COMMIT"]),
        Dialect::Postgres => (&["BEGIN", LOCK], &["COMMIT"]),
        Dialect::Mysql => (
            &["SELECT GET_LOCK('crosstalk_schema', 60)"],
            &["SELECT RELEASE_LOCK('crosstalk_schema')"],
        ),
    };
    for statement in before {
        run(connection, statement).await.map_err(failed)?;
    }
    let outcome = apply(connection, location).await;
    let close: &[&str] = match (&outcome, location.dialect) {
        (Err(_), Dialect::Sqlite | Dialect::Postgres) => &["ROLLBACK"],
        _ => after,
    };
    for statement in close {
        run(connection, statement).await.map_err(failed)?;
    }
    outcome
}

async fn apply(connection: &mut AnyConnection, location: &Location) -> Result<(), Error> {
    let failed =
        |source: sqlx::Error| Error::statement(location, "bring tables up to date", &source);
    run(connection, VERSIONS).await.map_err(failed)?;
    let rows =
        Sql::new(location.dialect, "SELECT version FROM crosstalk_schema").fetch(connection).await;
    let rows = rows.map_err(failed)?;
    let applied: Vec<i64> =
        rows.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>().map_err(failed)?;
    let known = MIGRATIONS.last().map_or(0, |(version, _)| *version);
    if let Some(found) = applied.iter().copied().find(|version| *version > known) {
        return Err(Error::NewerSchema { location: location.shown.clone(), found, known });
    }
    for (version, statements) in MIGRATIONS.iter().filter(|(version, _)| !applied.contains(version))
    {
        let statements = match location.dialect {
            Dialect::Sqlite => statements[0],
            Dialect::Postgres => statements[1],
            Dialect::Mysql => statements[2],
        };
        for statement in statements.split(';').map(str::trim).filter(|text| !text.is_empty()) {
            match run(connection, statement).await {
                Err(error) if is_there_already(location.dialect, &error) => {}
                outcome => outcome.map_err(failed)?,
            }
        }
        let mut insert = Sql::new(
            location.dialect,
            "INSERT INTO crosstalk_schema (version, applied_at) VALUES (",
        );
        insert.int(*version).push(", ").int(now()).push(")");
        insert.execute(connection).await.map_err(failed)?;
    }
    Ok(())
}

/// Whether a column was added by a start that then crashed: MySQL has no way to say "if not there".
fn is_there_already(dialect: Dialect, error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    dialect == Dialect::Mysql && code.as_deref() == Some("42S21")
}

/// Runs a statement of ours without preparing it, which MySQL does not do for some.
async fn run(connection: &mut AnyConnection, statement: &str) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(connection).await.map(drop)
}

/// Nanoseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}
