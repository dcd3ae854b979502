use serde::de::{Deserialize, Deserializer, Error};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A length of time as people write it: `500ms`, `1s`, `10m`, `1h`.
///
/// ```
/// use crosstalk_agent::config::Period;
///
/// assert_eq!("1.5s".parse::<Period>()?.get().as_millis(), 1500);
/// assert!("soon".parse::<Period>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(Duration);

impl Period {
    /// So many milliseconds.
    #[must_use]
    pub const fn millis(count: u64) -> Self {
        Self(Duration::from_millis(count))
    }

    /// As a duration.
    #[must_use]
    pub const fn get(self) -> Duration {
        self.0
    }

    /// In nanoseconds; more than five centuries are not told apart.
    #[must_use]
    pub fn nanos(self) -> u64 {
        u64::try_from(self.0.as_nanos()).unwrap_or(u64::MAX)
    }

    /// Whether `other` goes into it without a rest.
    #[must_use]
    pub fn is_multiple_of(self, other: Self) -> bool {
        other.nanos() > 0 && self.nanos().is_multiple_of(other.nanos())
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is not a length of time; write 500ms, 1s, 10m or 1h");
        let text = text.trim();
        let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let (number, unit) = text.split_at(unit_at);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let scale = match unit.trim() {
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        // Through whole nanoseconds, so that 0.1 s is exactly 100 ms.
        let nanos = (number * scale * 1e9).round();
        if !(1.0..=1e18).contains(&nanos) {
            return Err(wrong());
        }
        Ok(Self(Duration::from_nanos(nanos as u64)))
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// `"auto"`, or a length of time.
pub(super) fn auto<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Period>, D::Error> {
    let text = String::deserialize(from)?;
    if text == "auto" { Ok(None) } else { text.parse().map(Some).map_err(D::Error::custom) }
}

/// Whether a source is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Where the machine has what it needs.
    #[default]
    Auto,
    /// Always; what it lacks is tried again and again.
    On,
    /// Never.
    Off,
}
