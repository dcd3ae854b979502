//! A database's URL, and its name without secrets.

use crate::dialect::Dialect;
use crate::error::Error;

/// Where the database is.
#[derive(Clone)]
pub(crate) struct Location {
    pub(crate) dialect: Dialect,
    /// With secrets; only ever handed to the driver.
    pub(crate) url: String,
    /// Without secrets; for people.
    pub(crate) shown: String,
    secrets: Vec<String>,
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
        let mut secrets = Vec::new();
        let shown =
            if dialect == Dialect::Sqlite { url.to_owned() } else { hide(url, &mut secrets) };
        let url = match dialect {
            Dialect::Sqlite if !rest.contains("mode=") && !rest.contains(":memory:") => {
                format!("{url}{}mode=rwc", if rest.contains('?') { '&' } else { '?' })
            }
            _ => url.to_owned(),
        };
        Ok(Location { dialect, url, shown, secrets })
    }

    /// A text without this location's secrets.
    pub(crate) fn scrub(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "***"))
    }
}

/// Somebody may have put anything where the scheme belongs, a password too.
fn printable_scheme(scheme: &str) -> String {
    let plain = scheme.len() <= 16 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if plain { scheme.to_owned() } else { String::new() }
}

/// The URL with its password as stars and without parameters, which may hold keys.
fn hide(url: &str, secrets: &mut Vec<String>) -> String {
    let (address, parameters) = url.split_once('?').unwrap_or((url, ""));
    for parameter in parameters.split('&') {
        if let Some((name, value)) = parameter.split_once('=')
            && name.to_ascii_lowercase().contains("pass")
        {
            remember(value, secrets);
        }
    }
    let Some((scheme, rest)) = address.split_once("://") else { return String::new() };
    let Some((user, host)) = rest.rsplit_once('@') else { return address.to_owned() };
    match user.split_once(':') {
        Some((user, password)) => {
            remember(password, secrets);
            format!("{scheme}://{user}:***@{host}")
        }
        None => address.to_owned(),
    }
}

fn remember(secret: &str, secrets: &mut Vec<String>) {
    let decoded = percent_decode(secret);
    for secret in [secret.to_owned(), decoded] {
        if !secret.is_empty() && !secrets.contains(&secret) {
            secrets.push(secret);
        }
    }
}

fn percent_decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = text.get(at + 1..at + 3).and_then(|code| u8::from_str_radix(code, 16).ok());
        match (bytes[at], code) {
            (b'%', Some(byte)) => {
                decoded.push(byte);
                at += 3;
            }
            (byte, _) => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&decoded).into_owned()
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
                "postgres://me:***@db:5432/x",
            ),
            ("mysql://me:a:b@c@db/x", "mysql://me:***@db/x"),
            ("mysql://db/x", "mysql://db/x"),
        ] {
            assert_eq!(Location::read(url).unwrap().shown, shown);
        }
        let location = Location::read("postgres://me:p%40ss@db/x?sslpassword=key").unwrap();
        assert_eq!(location.scrub("p@ss and p%40ss and key"), "*** and *** and ***");
        let error = Location::read("hunter2secret@db").err().unwrap().to_string();
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn a_file_that_is_not_there_yet_is_made() {
        assert!(Location::read("sqlite://a.db").unwrap().url.ends_with("a.db?mode=rwc"));
        assert!(Location::read("sqlite://a.db?mode=ro").unwrap().url.ends_with("a.db?mode=ro"));
        assert!(Location::read("sqlite://a.db?cache=private").unwrap().url.ends_with("&mode=rwc"));
    }
}
