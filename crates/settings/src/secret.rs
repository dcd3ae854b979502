//! Text that must not appear in a log.

use crate::Redacted;
use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::{Serialize, Serializer};

/// A token, or a URL that may hold a password. `Debug` and `Display` show no more than a [`Redacted`] URL does. What is no text is refused without being repeated.
///
/// ```
/// use crosstalk_settings::Secret;
/// assert_eq!(format!("{:?}", Secret::new("t0ken")), "***");
/// assert_eq!(Secret::new("postgres://me:pw@db/x").to_string(), "postgres://me:***@db/x");
/// assert_eq!(Secret::new("http://db/x?token=1").to_string(), "http://db/x?***");
/// assert_eq!(Secret::new("postgres://me:p?w@db/x").to_string(), "postgres://***");
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps `text`.
    pub fn new(text: impl Into<String>) -> Self {
        Secret(text.into())
    }

    /// The text itself: for connecting and comparing, never for printing.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether there is no text.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Display for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&Redacted::of(&self.0).shown)
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// As it may be shown: an effective configuration can be printed.
impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_string(SecretVisitor)
    }
}

/// Takes text. A number is refused: `0x1f` and `1_000` are numbers too, and would become another secret.
struct SecretVisitor;

const NOT_TEXT: &str = "must be text; put it in quotes";

impl Visitor<'_> for SecretVisitor {
    type Value = Secret;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("text in quotes")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Secret, E> {
        Ok(Secret::new(text))
    }

    fn visit_string<E: Error>(self, text: String) -> Result<Secret, E> {
        Ok(Secret(text))
    }

    // The answers these would give otherwise repeat the value.
    fn visit_bool<E: Error>(self, _: bool) -> Result<Secret, E> {
        Err(E::custom(NOT_TEXT))
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Secret, E> {
        Err(E::custom(NOT_TEXT))
    }

    fn visit_i128<E: Error>(self, _: i128) -> Result<Secret, E> {
        Err(E::custom(NOT_TEXT))
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Secret, E> {
        Err(E::custom(NOT_TEXT))
    }

    fn visit_u128<E: Error>(self, _: u128) -> Result<Secret, E> {
        Err(E::custom(NOT_TEXT))
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Secret, E> {
        Err(E::custom(NOT_TEXT))
    }
}
