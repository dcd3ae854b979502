//! URLs without what must not be shown.

use percent_encoding::percent_decode_str;

/// A URL as people may see it.
///
/// ```
/// use crosstalk_settings::Redacted;
///
/// let url = Redacted::of("postgres://me:p%40ss@db/x?sslmode=require");
/// assert_eq!(url.shown, "postgres://me:***@db/x?***");
/// assert_eq!(url.scrub("p@ss is wrong, and so is p%40ss"), "*** is wrong, and so is ***");
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Redacted {
    /// Its password as stars, and its parameters, which may hold keys. One who is named without a password may be a
    /// token. What is no URL is all stars, and so is all of one in which what is secret cannot be told.
    pub shown: String,
    secrets: Vec<String>,
}

impl Redacted {
    /// Looks what of a URL is secret.
    #[must_use]
    pub fn of(url: &str) -> Self {
        let mut redacted = Self::default();
        redacted.shown = redacted.hide(url);
        redacted
    }

    /// A text without this URL's secrets, as they are written and as they are meant.
    #[must_use]
    pub fn scrub(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "***"))
    }

    fn hide(&mut self, url: &str) -> String {
        let Some((scheme, rest)) = url.split_once("://") else {
            return if url.is_empty() { String::new() } else { "***".to_owned() };
        };
        let (place, parameters) = match rest.split_once('?') {
            // A password with a bare question mark, or a parameter with a bare @.
            Some((_, parameters)) if parameters.contains('@') => {
                self.remember(rest);
                if let Some((user, _)) = rest.rsplit_once('@') {
                    self.remember(match user.split_once(':') {
                        Some((token, "")) => token,
                        Some((_, password)) => password,
                        None => user,
                    });
                }
                return format!("{scheme}://***");
            }
            Some((place, parameters)) => (place, Some(parameters)),
            None => (rest, None),
        };
        for parameter in parameters.into_iter().flat_map(|all| all.split('&')) {
            if let Some((name, value)) = parameter.split_once('=')
                && is_password(name)
            {
                self.remember(value);
            }
        }
        let hidden = if parameters.is_some() { "?***" } else { "" };
        match place.rsplit_once('@').map(|(user, host)| (user.split_once(':'), host)) {
            // As who gives a token writes it.
            Some((Some((token, "")), host)) => {
                self.remember(token);
                format!("{scheme}://***@{host}{hidden}")
            }
            Some((Some((user, password)), host)) => {
                self.remember(password);
                format!("{scheme}://{user}:***@{host}{hidden}")
            }
            Some((None, host)) => format!("{scheme}://***@{host}{hidden}"),
            None => format!("{scheme}://{place}{hidden}"),
        }
    }

    fn remember(&mut self, secret: &str) {
        let decoded = percent_decode_str(secret).decode_utf8_lossy().into_owned();
        for secret in [secret.to_owned(), decoded] {
            if !secret.is_empty() && !self.secrets.contains(&secret) {
                self.secrets.push(secret);
            }
        }
    }
}

/// Whether a parameter of this name holds a password.
#[must_use]
pub fn is_password(parameter: &str) -> bool {
    parameter.to_ascii_lowercase().contains("pass")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_shows_everything_but_secrets() {
        for (url, shown) in [
            ("", ""),
            ("t0ken", "***"),
            ("mysql://db/x", "mysql://db/x"),
            ("mysql://me:a:b@c@db/x", "mysql://me:***@db/x"),
            ("https://t0ken@git/x", "https://***@git/x"),
            ("https://t0ken:@git/x", "https://***@git/x"),
            ("postgres://me:p%40ss@db:5432/x?sslpassword=key", "postgres://me:***@db:5432/x?***"),
            ("http://db/x?token=1", "http://db/x?***"),
        ] {
            assert_eq!(Redacted::of(url).shown, shown);
        }
        let url = Redacted::of("postgres://me:p%40ss@db/x?sslpassword=key");
        assert_eq!(url.scrub("p@ss and p%40ss and key"), "*** and *** and ***");
        assert_eq!(Redacted::of("https://t0ken:@git/x").scrub("t0ken is wrong"), "*** is wrong");
    }

    #[test]
    fn where_it_cannot_be_told_what_is_secret_all_of_it_is() {
        for url in [
            "postgres://me:s3c?ret@db/x",
            "mysql://me:s3c?ret@db/x?sslmode=required",
            "postgres://me:s@3c?ret@db/x",
            "postgres://me@db/x?password=s3c@ret",
        ] {
            let shown = Redacted::of(url).shown;
            assert!(!shown.contains("3c") && !shown.contains("ret"), "{url}: {shown}");
        }
    }
}
