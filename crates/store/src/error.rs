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
        /// Whether a value is what the database cannot take.
        of_the_data: bool,
    },
    /// Nothing was heard in time.
    #[error("{location}: no answer within {longest:?}")]
    Timeout {
        /// The database, without secrets.
        location: String,
        /// How long it had.
        longest: std::time::Duration,
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
            Error::Connect { .. } | Error::Timeout { .. } => true,
            Error::Statement { transient, .. } => *transient,
            _ => false,
        }
    }

    /// Whether what was to be written holds a value that the database will take at no time.
    pub fn is_of_the_data(&self) -> bool {
        matches!(self, Error::Statement { of_the_data: true, .. })
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
            of_the_data: is_of_the_data(source),
        }
    }
}

/// Whether another transaction, a lost connection or a server at its limits was in the way, rather
/// than the statement itself.
fn is_transient(error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Io(_) | sqlx::Error::PoolTimedOut | sqlx::Error::PoolClosed => true,
        sqlx::Error::Database(source) => {
            // SQLSTATE classes: 08 connection, 53 resources, 57P0 shutdown.
            let code = source.code().unwrap_or_default();
            let class = |class: &&str| code.len() == 5 && code.starts_with(*class);
            is_conflict(error) || ["08", "53", "57P0"].iter().any(class)
        }
        _ => false,
    }
}

/// Whether a value was in the way.
fn is_of_the_data(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(error) = error else { return false };
    let code = error.code().unwrap_or_default();
    // SQLite: 18 too big, 19 constraint, 20 mismatch, in the low byte. SQLSTATE: class 22 data, 23 constraint. MySQL has a
    // general state for text that is not of the column's character set, and a number of its own.
    let number = code.parse::<u32>().ok().filter(|_| code.len() < 5);
    number.is_some_and(|code| matches!(code & 0xff, 18..=20))
        || (code.len() == 5 && (code.starts_with("22") || code.starts_with("23")))
        || mysql_number(&**error) == Some(INCORRECT_VALUE)
}

/// `ER_TRUNCATED_WRONG_VALUE_FOR_FIELD`, of MySQL and MariaDB.
const INCORRECT_VALUE: u16 = 1366;

/// Whether another transaction was in the way, so that trying again at once may help.
pub(crate) fn is_conflict(error: &sqlx::Error) -> bool {
    let sqlx::Error::Database(error) = error else { return false };
    let code = error.code().unwrap_or_default();
    // SQLite: 5 busy and 6 locked, in the low byte of its extended codes, which are shorter than
    // an SQLSTATE. SQLSTATE: class 40 rollback, 55P03 lock. MySQL has a general state for a lock that
    // took too long, and a number of its own.
    let number = code.parse::<u32>().ok().filter(|_| code.len() < 5);
    number.is_some_and(|code| matches!(code & 0xff, 5 | 6))
        || (code.len() == 5 && code.starts_with("40"))
        || code == "55P03"
        || mysql_number(&**error) == Some(LOCK_WAIT_TIMEOUT)
}

/// `ER_LOCK_WAIT_TIMEOUT`, of MySQL and MariaDB.
const LOCK_WAIT_TIMEOUT: u16 = 1205;

/// The number of an error, where MySQL or MariaDB said it.
fn mysql_number(error: &dyn sqlx::error::DatabaseError) -> Option<u16> {
    error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>().map(|error| error.number())
}
