//! Text that must not appear in a log.

use serde::Deserialize;

/// A token, or a URL that may hold a password. `Debug` and `Display` show no more than the part after an `@`.
///
/// ```
/// use crosstalk_processor::config::Secret;
/// assert_eq!(format!("{:?}", Secret::new("t0ken")), "***");
/// assert_eq!(Secret::new("postgres://me:pw@db/x").to_string(), "postgres://***@db/x");
/// assert_eq!(Secret::new("http://db/x?token=1").to_string(), "http://db/x?***");
/// ```
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// The text itself: for connecting and comparing, never for printing.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Display for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some((scheme, rest)) = self.0.split_once("://") else {
            return f.write_str(if self.0.is_empty() { "" } else { "***" });
        };
        let (place, query) = match rest.split_once('?') {
            Some((place, _)) => (place, "?***"),
            None => (rest, ""),
        };
        match place.rsplit_once('@') {
            Some((_, host)) => write!(f, "{scheme}://***@{host}{query}"),
            None => write!(f, "{scheme}://{place}{query}"),
        }
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
