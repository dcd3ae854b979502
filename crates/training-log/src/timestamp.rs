//! Times of log records as exact nanoseconds since 1970.
//!
//! Log shippers send times as text, or as numbers of seconds, milliseconds, microseconds or
//! nanoseconds. Digits are read as digits: nothing goes through a float, so a fraction is never
//! rounded and never a thousand times off.

use jiff::civil::{Date, DateTime};
use jiff::tz::Offset;

use crate::Error;

const NANOS: i64 = 1_000_000_000;

/// Reads a time: RFC 3339 (`2025-12-25T08:40:22.123456789+02:00`), the same with a space, a comma
/// before the fraction or no zone (then it is UTC), `20251225 08:40:22`, or a number as in
/// [`parse_number`].
///
/// ```
/// use crosstalk_training_log::timestamp::parse;
/// assert_eq!(parse("2025-01-01T00:00:00.5Z").unwrap(), 1_735_689_600_500_000_000);
/// assert_eq!(parse("2025-01-01 00:00:00,000000001").unwrap(), 1_735_689_600_000_000_001);
/// assert_eq!(parse("1735689600.5").unwrap(), 1_735_689_600_500_000_000);
/// ```
///
/// # Errors
/// Where the text is none of these, or the time is before 1970 or after 2262.
pub fn parse(text: &str) -> Result<i64, Error> {
    let text = text.trim();
    let body = text.strip_prefix('[').and_then(|t| t.strip_suffix(']')).unwrap_or(text);
    let numeric =
        |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'+' | b'-' | b'e' | b'E');
    if body.bytes().all(numeric)
        && let Ok(nanoseconds) = parse_number(body)
    {
        return Ok(nanoseconds);
    }
    let error = |why| Error::Time { text: shorten(text), why };
    civil(body).map_err(error)
}

/// Reads a number of seconds, or, if it is too large for that, of milliseconds, microseconds or
/// nanoseconds. Seconds reach the year 5138 before they could be taken for milliseconds of 1973.
///
/// ```
/// use crosstalk_training_log::timestamp::parse_number;
/// let expected = 1_234_567_890_123_000_000;
/// for text in ["1234567890.123", "1234567890123", "1234567890123000", "1234567890123000000", "1.234567890123e9"] {
///     assert_eq!(parse_number(text).unwrap(), expected, "{text}");
/// }
/// ```
///
/// # Errors
/// Where the text is not a number of digits, or the time is before 1970 or after 2262.
pub fn parse_number(text: &str) -> Result<i64, Error> {
    let error = |why| Error::Time { text: shorten(text), why };
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => {
            (mantissa, exponent.parse::<i32>().map_err(|_| error("bad exponent"))?)
        }
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = || whole.bytes().chain(fraction.bytes());
    if whole.is_empty() || !digits().all(|byte| byte.is_ascii_digit()) || digits().count() > 40 {
        return Err(error("not a positive number"));
    }
    let significant = digits()
        .try_fold(0u128, |value, byte| value.checked_mul(10)?.checked_add(u128::from(byte - b'0')));
    let significant = significant.ok_or_else(|| error("too many digits"))?;
    // value = significant * 10^scale, in the unit that its size gives away.
    let scale = exponent.saturating_sub(fraction.len() as i32);
    let whole_digits = magnitude(significant).saturating_add(scale);
    let to_nanoseconds = match whole_digits {
        ..=11 => 9,
        12..=14 => 6,
        15..=17 => 3,
        _ => 0,
    };
    let nanoseconds = shift(significant, scale.saturating_add(to_nanoseconds));
    nanoseconds
        .and_then(|value| i64::try_from(value).ok())
        .ok_or_else(|| error("after the year 2262"))
}

/// Decimal digits of a number.
fn magnitude(value: u128) -> i32 {
    value.checked_ilog10().map_or(0, |digits| digits as i32 + 1)
}

/// `value * 10^by`, digits below one cut off.
fn shift(value: u128, by: i32) -> Option<u128> {
    let factor = 10u128.checked_pow(by.unsigned_abs());
    if value == 0 {
        Some(0)
    } else if by >= 0 {
        value.checked_mul(factor?)
    } else {
        Some(factor.map_or(0, |factor| value / factor))
    }
}

/// A date and a time of day as they are written.
fn civil(text: &str) -> Result<i64, &'static str> {
    let mut rest = Digits(text);
    let year = rest.take(4)?;
    let dashed = rest.skip(&['-', '/']);
    let month = rest.take(2)?;
    if dashed && !rest.skip(&['-', '/']) {
        return Err("no day");
    }
    let day = rest.take(2)?;
    if !rest.skip(&['T', 't', ' ', '_']) {
        return Err("no time of day");
    }
    let hour = rest.take(2)?;
    rest.skip(&[':']);
    let minute = rest.take(2)?;
    rest.skip(&[':']);
    let second = rest.take(2)?;
    let fraction = if rest.skip(&['.', ',']) { rest.fraction()? } else { 0 };
    let offset = zone(rest.0.trim())?;
    // A leap second counts as the last second of its minute, as the kernel's clock does.
    let second = second.min(59);
    let date = Date::new(year as i16, month as i8, day as i8).map_err(|_| "no such day")?;
    let time = jiff::civil::Time::new(hour as i8, minute as i8, second as i8, 0)
        .map_err(|_| "no such time of day")?;
    let instant = offset
        .to_timestamp(DateTime::from_parts(date, time))
        .map_err(|_| "outside the years that can be told")?;
    let nanoseconds =
        instant.as_second().checked_mul(NANOS).and_then(|value| value.checked_add(fraction));
    nanoseconds.filter(|value| *value >= 0).ok_or("before 1970 or after the year 2262")
}

/// `Z`, `UTC`, nothing, `+02:00`, `+0200`, `+02`.
fn zone(text: &str) -> Result<Offset, &'static str> {
    let sign = match text.as_bytes().first() {
        None => return Ok(Offset::UTC),
        Some(b'+') => 1,
        Some(b'-') => -1,
        _ if ["Z", "UTC", "GMT"].iter().any(|zone| text.eq_ignore_ascii_case(zone)) => {
            return Ok(Offset::UTC);
        }
        _ => return Err("text after the time"),
    };
    let mut rest = Digits(&text[1..]);
    let hours = rest.take(2)?;
    rest.skip(&[':']);
    let minutes = if rest.0.is_empty() { 0 } else { rest.take(2)? };
    if !rest.0.is_empty() || hours > 23 || minutes > 59 {
        return Err("no such offset");
    }
    Offset::from_seconds(sign * (hours * 3600 + minutes * 60)).map_err(|_| "no such offset")
}

/// The text that is still to be read.
struct Digits<'a>(&'a str);

impl Digits<'_> {
    fn take(&mut self, count: usize) -> Result<i32, &'static str> {
        let digits =
            self.0.get(..count).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let digits = digits.ok_or("digits missing")?;
        self.0 = &self.0[count..];
        digits.parse().map_err(|_| "digits missing")
    }

    fn skip(&mut self, any: &[char]) -> bool {
        let Some(rest) = self.0.strip_prefix(any) else { return false };
        self.0 = rest;
        true
    }

    /// Digits of a fraction as nanoseconds; those below one are cut off.
    fn fraction(&mut self) -> Result<i64, &'static str> {
        let count = self.0.bytes().take_while(u8::is_ascii_digit).count();
        if count == 0 {
            return Err("no digits in the fraction");
        }
        let padded = self.0[..count].bytes().chain(std::iter::repeat(b'0')).take(9);
        let nanoseconds = padded.fold(0, |value, byte| value * 10 + i64::from(byte - b'0'));
        self.0 = &self.0[count..];
        Ok(nanoseconds)
    }
}

fn shorten(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_are_read_exactly() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2025-12-25 08:40:22", 1_766_652_022 * NANOS),
            ("[2025-12-25 08:40:22]", 1_766_652_022 * NANOS),
            ("2023-07-25 21:03:17,269", 1_690_318_997_269_000_000),
            ("20251023 12:39:12", 1_761_223_152 * NANOS),
            ("2024/01/01 12:00:00", 1_704_110_400 * NANOS),
            ("2025-01-01T02:00:00.000000001+02:00", 1_735_689_600_000_000_001),
            ("2024-12-31T19:00:00.1-0500", 1_735_689_600_100_000_000),
            ("2016-12-31T23:59:60Z", 1_483_228_799 * NANOS),
            ("1234567890.123", 1_234_567_890_123_000_000),
            ("1234567890.000123", 1_234_567_890_000_123_000),
            ("1234567890.123456789", 1_234_567_890_123_456_789),
            ("1700000000123.5", 1_700_000_000_123_500_000),
            ("0", 0),
        ] {
            assert_eq!(parse(text).unwrap(), expected, "{text}");
        }
        for text in [
            "",
            "-5",
            "yesterday",
            "2025-13-01T00:00:00Z",
            "2025-02-30 00:00:00",
            "2025-01-01",
            "1e400",
            "1e-400x",
            "9999-01-01T00:00:00Z",
            "1969-01-01T00:00:00Z",
            "2025-01-01T00:00:00.Z",
            "2025-01-01T00:00:00+99:00",
            "é025",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_time_in_seconds_keeps_every_digit(seconds in 100_000_000i64..9_000_000_000, nanos in 0i64..NANOS) {
            prop_assert_eq!(parse(&format!("{seconds}.{nanos:09}")).unwrap(), seconds * NANOS + nanos);
        }

        #[test]
        fn an_rfc_3339_time_keeps_every_digit(seconds in 0i64..9_000_000_000, nanos in 0i64..NANOS) {
            let second = jiff::Timestamp::from_second(seconds).unwrap().to_string();
            let text = format!("{}.{nanos:09}Z", second.trim_end_matches('Z'));
            prop_assert_eq!(parse(&text).unwrap(), seconds * NANOS + nanos);
        }

        #[test]
        fn no_text_panics(text in ".{0,40}") {
            let _ = parse(&text);
        }
    }
}
