//! A database's URL, and its name without secrets.

use std::str::FromStr;
use std::time::Duration;

use crosstalk_settings::{Redacted, is_password};
use sqlx::any::AnyConnectOptions;
use sqlx::mysql::MySqlConnectOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AnyConnection, Connection};

use crate::dialect::Dialect;
use crate::error::Error;
use crate::store::Store;

/// Where the database is.
#[derive(Clone)]
pub(crate) struct Location {
    pub(crate) dialect: Dialect,
    /// With secrets; only ever handed to the driver.
    pub(crate) url: String,
    /// Without secrets; for people.
    pub(crate) shown: String,
    redacted: Redacted,
}

impl Location {
    pub(crate) fn read(url: &str) -> Result<Location, Error> {
        let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
        let dialect = match scheme {
            "sqlite" => Dialect::Sqlite,
            "postgres" | "postgresql" => Dialect::Postgres,
            "mysql" | "mariadb" => Dialect::Mysql,
            _ => return Err(Error::UnknownScheme { scheme: printable_scheme(scheme) }),
        };
        let redacted =
            if dialect == Dialect::Sqlite { Redacted::default() } else { Redacted::of(url) };
        let shown = match dialect {
            Dialect::Sqlite => url.to_owned(),
            _ if !url.contains("://") => scheme.to_owned(),
            _ => redacted.shown.clone(),
        };
        let url = &without_ignored_secrets(url, dialect);
        let url = match dialect {
            Dialect::Sqlite if !rest.contains("mode=") && !rest.contains(":memory:") => {
                format!("{url}{}mode=rwc", if rest.contains('?') { '&' } else { '?' })
            }
            _ => url.to_owned(),
        };
        let location = Location { dialect, url, shown, redacted };
        location.parse().map_err(|source| location.malformed(&source))?;
        Ok(location)
    }

    /// What the driver will make of the URL, now rather than when it connects: a URL that makes no sense is no database
    /// that is away.
    fn parse(&self) -> Result<(), sqlx::Error> {
        let parameters = self.url.split_once('?').map_or("", |(_, parameters)| parameters);
        let mut names = parameters.split('&').filter_map(|parameter| parameter.split('=').next());
        if self.dialect != Dialect::Sqlite && names.any(|name| name.contains('@')) {
            return Err(sqlx::Error::Configuration("an @ follows a question mark".into()));
        }
        AnyConnectOptions::from_str(&self.url)?;
        match self.dialect {
            Dialect::Sqlite => SqliteConnectOptions::from_str(&self.url).map(drop),
            Dialect::Postgres => PgConnectOptions::from_str(&self.url).map(drop),
            Dialect::Mysql => MySqlConnectOptions::from_str(&self.url).map(drop),
        }
    }

    fn malformed(&self, source: &sqlx::Error) -> Error {
        Error::Statement {
            location: self.shown.clone(),
            what: "read the database URL (percent-encode special characters of user and password)",
            reason: self.scrub(&source.to_string()),
            transient: false,
            of_the_data: false,
        }
    }

    /// A text without this location's secrets.
    pub(crate) fn scrub(&self, text: &str) -> String {
        self.redacted.scrub(text)
    }
}

/// Somebody may have put anything where the scheme belongs, a password too.
fn printable_scheme(scheme: &str) -> String {
    let plain = scheme.len() <= 16 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if plain { scheme.to_owned() } else { String::new() }
}

/// The PostgreSQL driver logs parameters it does not know, value and all. Of those that look like passwords it knows one.
fn without_ignored_secrets(url: &str, dialect: Dialect) -> String {
    let (Dialect::Postgres, Some((address, parameters))) = (dialect, url.split_once('?')) else {
        return url.to_owned();
    };
    let known = |parameter: &&str| {
        let name = parameter.split('=').next().unwrap_or_default();
        name == "password" || !is_password(name)
    };
    let kept: Vec<&str> = parameters.split('&').filter(known).collect();
    format!("{address}?{}", kept.join("&"))
}

/// Time to reach a server.
const REACH_TIMEOUT: Duration = Duration::from_secs(10);

impl Store {
    /// Whether `url` names a database this crate can open, without connecting to it.
    ///
    /// ```
    /// use crosstalk_store::Store;
    /// assert!(Store::check_url("postgres://me:pw@db/x").is_ok());
    /// assert!(Store::check_url("foo://db/x").is_err());
    /// ```
    ///
    /// # Errors
    /// Where it is for no known database, or malformed.
    pub fn check_url(url: &str) -> Result<(), Error> {
        Location::read(url).map(drop)
    }

    /// Connects once and hangs up. Unlike a pool, which tries until its time is over and then says only that, this says
    /// at once what is wrong. An SQLite file is always reached.
    ///
    /// # Errors
    /// Where the server cannot be reached, or refuses.
    pub async fn reach(url: &str) -> Result<(), Error> {
        let location = Location::read(url)?;
        if location.dialect == Dialect::Sqlite {
            return Ok(());
        }
        sqlx::any::install_default_drivers();
        let connecting = <AnyConnection as Connection>::connect(&location.url);
        match tokio::time::timeout(REACH_TIMEOUT, connecting).await {
            Ok(Ok(connection)) => {
                // It was only to see whether there is one.
                let _ = connection.close().await;
                Ok(())
            }
            Ok(Err(source)) => Err(Error::connect(&location, &source)),
            Err(_) => Err(Error::Connect {
                location: location.shown,
                reason: format!("no answer within {REACH_TIMEOUT:?}"),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_shows_everything_but_secrets() {
        for (url, shown) in [
            ("sqlite:///var/lib/crosstalk/db.sqlite", "sqlite:///var/lib/crosstalk/db.sqlite"),
            (
                "postgres://me:p%40ss@db:5432/x?sslmode=require&sslpassword=key",
                "postgres://me:***@db:5432/x?***",
            ),
            ("mysql://me:a:b@c@db/x", "mysql://me:***@db/x"),
            ("mysql://db/x", "mysql://db/x"),
            ("mysql://me@db/x", "mysql://***@db/x"),
        ] {
            assert_eq!(Location::read(url).unwrap().shown, shown);
        }
        let location = Location::read("postgres://me:p%40ss@db/x?sslpassword=key").unwrap();
        assert_eq!(location.scrub("p@ss and p%40ss and key"), "*** and *** and ***");
        let error = Location::read("hunter2secret@db").err().unwrap().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn a_password_with_a_question_mark_is_not_shown() {
        for url in [
            "postgres://me:s3c?ret@db/x",
            "mysql://me:s3c?ret@db/x?sslmode=required",
            "postgres://me:s@3c?ret@db/x",
            "postgres://me@db/x?password=s3c@ret",
        ] {
            let shown = Redacted::of(url).shown;
            assert!(!shown.contains("3c") && !shown.contains("ret"), "{url}: {shown}");
            let error = Location::read(url).err().map(|error| error.to_string());
            let error = error.unwrap_or_default();
            assert!(!error.contains("3c") && !error.contains("ret@"), "{url}: {error}");
        }
    }

    #[test]
    fn a_url_that_makes_no_sense_is_not_a_database_that_is_away() {
        for url in [
            "foo://db/x",
            "postgres://db:port/x",
            "postgres://db/x?sslmode=maybe",
            "mysql://me:pw@:3306:1/x",
            "sqlite://a.db?mode=sometimes",
            "postgres",
        ] {
            let error = Location::read(url).err().unwrap_or_else(|| panic!("{url} is accepted"));
            assert!(!error.is_transient(), "{url}: {error}");
        }
    }

    #[test]
    fn a_parameter_the_driver_would_log_is_not_handed_to_it() {
        let location = Location::read("postgres://db/x?sslpassword=key&sslmode=disable").unwrap();
        assert_eq!(location.url, "postgres://db/x?sslmode=disable");
        let location = Location::read("postgres://db/x?password=pw").unwrap();
        assert_eq!(location.url, "postgres://db/x?password=pw");
    }

    #[test]
    fn a_file_that_is_not_there_yet_is_made() {
        assert!(Location::read("sqlite://a.db").unwrap().url.ends_with("a.db?mode=rwc"));
        assert!(Location::read("sqlite://a.db?mode=ro").unwrap().url.ends_with("a.db?mode=ro"));
        assert!(Location::read("sqlite://a.db?cache=private").unwrap().url.ends_with("&mode=rwc"));
    }
}
