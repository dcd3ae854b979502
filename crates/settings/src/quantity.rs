//! Lengths of time and sizes as people write them.

use serde::de::{Deserialize, Deserializer, Error, Visitor};
use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A length of time: `500ms`, `1s`, `10m`, `1h30m`, `90d`; never zero.
///
/// ```
/// use crosstalk_settings::Period;
///
/// assert_eq!("1h30m".parse::<Period>()?.get().as_secs(), 5400);
/// assert_eq!("1.5s".parse::<Period>()?.to_string(), "1.5s");
/// assert!("soon".parse::<Period>().is_err());
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(Duration);

/// Longer than any of these could be meant: thirty years.
const LONGEST_NANOS: f64 = 30.0 * 366.0 * 86_400.0 * 1e9;

impl Period {
    /// So many milliseconds.
    #[must_use]
    pub const fn millis(count: u64) -> Self {
        Self(Duration::from_millis(count))
    }

    /// So many seconds.
    #[must_use]
    pub const fn seconds(count: u64) -> Self {
        Self(Duration::from_secs(count))
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

impl From<Period> for Duration {
    fn from(period: Period) -> Self {
        period.0
    }
}

impl FromStr for Period {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("\"{text}\" is not a length of time; write 500ms, 1s, 10m, 1h30m or 90d");
        let mut nanos = 0.0;
        let mut rest = text.trim();
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
            let (number, after) = rest.split_at(digits);
            let number: f64 = number.parse().map_err(|_| wrong())?;
            let letters = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
            let (unit, after) = after.split_at(letters);
            nanos += number * nanos_of(unit).ok_or_else(wrong)?;
            rest = after.trim_start();
        }
        // Through whole nanoseconds, so that 0.1 s is exactly 100 ms.
        let nanos = nanos.round();
        if !(1.0..=LONGEST_NANOS).contains(&nanos) {
            return Err(wrong());
        }
        Ok(Self(Duration::from_nanos(nanos as u64)))
    }
}

fn nanos_of(unit: &str) -> Option<f64> {
    Some(match unit {
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" | "min" => 60e9,
        "h" => 3600e9,
        "d" => 86_400e9,
        _ => return None,
    })
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Period;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a length of time in quotes, such as \"30s\"")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Period, E> {
                text.parse().map_err(E::custom)
            }
        }
        from.deserialize_str(Text)
    }
}

impl Serialize for Period {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

/// A [`Period`] as a plain duration, for command lines.
///
/// # Errors
/// If the text is none.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    text.parse().map(Period::get)
}

/// `65536`, `512KiB`, `256MiB`, `1GiB`, `2TiB`; a bare number is bytes.
///
/// # Errors
/// If it is none of these, or zero.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("\"{text}\" is not a size; write 64KiB, 256MiB or 1GiB");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let shift = match text[digits..].trim() {
        "" | "B" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        "T" | "TiB" => 40,
        _ => return Err(wrong()),
    };
    number.checked_mul(1 << shift).filter(|size| *size > 0).ok_or_else(wrong)
}

/// A count of bytes that a configuration holds: `u64` or `usize`.
pub trait Bytes: Sized {
    /// From a count; `None` if it does not fit.
    fn of(count: u64) -> Option<Self>;
}

impl Bytes for u64 {
    fn of(count: u64) -> Option<Self> {
        Some(count)
    }
}

impl Bytes for usize {
    fn of(count: u64) -> Option<Self> {
        Self::try_from(count).ok()
    }
}

/// For `#[serde(deserialize_with = "crosstalk_settings::bytes")]`: a number of bytes, or a size as [`parse_bytes`] takes
/// it.
///
/// # Errors
/// If it is neither.
pub fn bytes<'de, T: Bytes, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    struct Size;
    impl Visitor<'_> for Size {
        type Value = u64;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a number of bytes, or a size such as \"64MiB\"")
        }
        fn visit_u64<E: Error>(self, count: u64) -> Result<u64, E> {
            Ok(count)
        }
        fn visit_i64<E: Error>(self, count: i64) -> Result<u64, E> {
            u64::try_from(count).map_err(|_| E::custom(format!("{count} is not a size")))
        }
        fn visit_str<E: Error>(self, text: &str) -> Result<u64, E> {
            parse_bytes(text).map_err(E::custom)
        }
    }
    let count = from.deserialize_any(Size)?;
    T::of(count).ok_or_else(|| D::Error::custom(format!("{count} is too large for this machine")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_may_write_times_and_sizes_as_they_are_used_to() {
        let time = |text: &str| text.parse::<Period>().map(Period::get);
        assert_eq!(time("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(time("1h 30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(time("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(time("0.1s"), Ok(Duration::from_millis(100)));
        assert_eq!(time("90d"), Ok(Duration::from_secs(90 * 86_400)));
        for text in ["0s", "-5s", "soon", "", "10", "1h30", "1 2s", "99999d", "1.2.3s", "s"] {
            assert!(time(text).is_err(), "{text}");
        }
        assert_eq!(parse_bytes("64KiB"), Ok(65_536));
        for text in ["0", "MiB", "99999999999GiB", "", "1.5MiB", "-1"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }
}
