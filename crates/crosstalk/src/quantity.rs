//! Lengths of time and sizes as people write them.

use std::time::Duration;

/// `10s`, `5m`, `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("\"{text}\" is not a length of time; write 10s, 5m or 1h30m");
    let parsed: jiff::SignedDuration = text.parse().map_err(|_| wrong())?;
    match Duration::try_from(parsed) {
        Ok(length) if !length.is_zero() => Ok(length),
        _ => Err(wrong()),
    }
}

/// `65536`, `512KiB`, `256MiB`, `1GiB`; a `B` alone or a bare number are bytes.
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("\"{text}\" is not a size; write 64KiB, 256MiB or 1GiB");
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().map_err(|_| wrong())?;
    let shift = match text[digits..].trim() {
        "" | "B" => 0,
        "K" | "KiB" => 10,
        "M" | "MiB" => 20,
        "G" | "GiB" => 30,
        _ => return Err(wrong()),
    };
    number.checked_mul(1 << shift).filter(|size| *size > 0).ok_or_else(wrong)
}

/// A count with its thousands apart: `1,234,567`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A size a person can read: `3.4 MiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

/// A time a person can read: `12.3 ms`.
pub(crate) fn time(ns: u64) -> String {
    match ns {
        0 => "0".to_owned(),
        1..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_may_write_times_and_sizes_as_they_are_used_to() {
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert!(duration("0s").is_err() && duration("-5s").is_err() && duration("soon").is_err());
        assert_eq!(bytes("64KiB"), Ok(65_536));
        assert!(bytes("0").is_err() && bytes("MiB").is_err() && bytes("99999999999GiB").is_err());
    }

    #[test]
    fn numbers_are_printed_for_reading() {
        assert_eq!(thousands(1_234_567), "1,234,567");
        assert_eq!(thousands(12), "12");
        assert_eq!(size(3_565_158), "3.4 MiB");
        assert_eq!(time(12_300_000), "12.3 ms");
    }
}
