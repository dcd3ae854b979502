//! What can go wrong.

use crate::location::Location;

/// What can go wrong with the store. No variant holds a password.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The URL is for no database we know.
    #[error("database URL scheme {scheme:?}: use sqlite://FILE, postgres://... or mysql://...")]
    UnknownScheme {
        /// The scheme, where it can be shown.
        scheme: String,
    },
    /// No connection.
    #[error("cannot connect to {location}: {reason}")]
    Connect {
        /// The database, without secrets.
        location: String,
        /// What the driver says.
        reason: String,
    },
    /// The tables are of a later version of this program.
    #[error(
        "{location}: its tables are version {found}, this program knows up to {known}; run the newer program"
    )]
    NewerSchema {
        /// The database, without secrets.
        location: String,
        /// The version found.
        found: i64,
        /// The newest version known here.
        known: i64,
    },
    /// A statement failed.
    #[error("{location}: {what}: {reason}")]
    Statement {
        /// The database, without secrets.
        location: String,
        /// What was being done.
        what: &'static str,
        /// What the driver says.
        reason: String,
        /// Whether it may work when tried again.
        transient: bool,
    },
    /// A page's cursor was not made by this program.
    #[error("{cursor:?} is not a cursor; take it from the page before, or leave it out to start")]
    Cursor {
        /// The cursor, cut short if it is long.
        cursor: String,
    },
    /// A stored row cannot be read.
    #[error("{location}: table {table}: {reason}")]
    Row {
        /// The database, without secrets.
        location: String,
        /// The table.
        table: &'static str,
        /// What is wrong.
        reason: String,
    },
}

impl Error {
    /// Whether the same call may work later: the sender should try again.
    pub fn is_transient(&self) -> bool {
        match self {
            Error::Connect { .. } => true,
            Error::Statement { transient, .. } => *transient,
            _ => false,
        }
    }

    pub(crate) fn connect(location: &Location, source: &sqlx::Error) -> Error {
        let reason = location.scrub(&source.to_string());
        Error::Connect { location: location.shown.clone(), reason }
    }

    pub(crate) fn statement(
        location: &Location,
        what: &'static str,
        source: &sqlx::Error,
    ) -> Error {
        Error::Statement {
            location: location.shown.clone(),
            what,
            reason: location.scrub(&source.to_string()),
            transient: is_transient(source),
        }
    }
}

/// Whether another transaction or a lost connection was in the way, rather than the statement.
pub(crate) fn is_transient(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => true,
        sqlx::Error::Database(error) => {
            let code = error.code().unwrap_or_default();
            // SQLSTATE classes: 08 connection, 40 rollback, 53 resources, 57P0 shutdown, 55P03 lock.
            // SQLite: 5 busy, 6 locked, in the low byte of extended codes. MySQL: 1205 lock wait.
            let number = code.parse::<u32>().ok().filter(|_| code.len() < 5);
            let sqlite = number.is_some_and(|code| matches!(code & 0xff, 5 | 6));
            sqlite
                || ["08", "40", "53"].iter().any(|class| code.len() == 5 && code.starts_with(class))
                || code.starts_with("57P0")
                || code == "55P03"
                || error.message().contains("Lock wait timeout")
        }
        _ => false,
    }
}
