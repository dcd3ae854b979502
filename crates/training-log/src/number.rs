//! Reads one number with its unit from the start of a text.

use crate::unit::{self, Scale, Unit};

/// A number as printed, and its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quantity {
    pub(crate) value: f64,
    pub(crate) unit: Unit,
}

/// Whether a number can start here: a digit, or a sign or point before one.
pub(crate) fn may_start(text: &[u8]) -> bool {
    matches!(
        text,
        [b'0'..=b'9', ..]
            | [b'+' | b'-' | b'.', b'0'..=b'9', ..]
            | [b'+' | b'-', b'.', b'0'..=b'9', ..]
    )
}

/// The number at the start of `text` and the length it takes with its unit. None for what only
/// starts like a number: dates, times, addresses, versions, `7B-chat`.
pub(crate) fn read(text: &[u8]) -> Option<(Quantity, usize)> {
    read_after(text, false)
}

/// Reads as [`read`] does. After a name without a colon, `tflops` in `loss 2.5 tflops 253` is not
/// the unit of what precedes it but the name of what follows.
pub(crate) fn read_after(text: &[u8], bare_name: bool) -> Option<(Quantity, usize)> {
    let (mut value, digits) = if may_start(text) { decimal(text)? } else { not_finite(text)? };
    let rest = &text[digits..];
    let word = rest.iter().take_while(|byte| byte.is_ascii_alphabetic() || **byte == b'%').count();
    let mut length = digits;
    let mut unit = Unit::None;
    if word > 0 {
        let taken;
        (unit, taken) = attached_unit(rest, word)?;
        length += taken;
    } else if let [b'/', after @ ..] = rest {
        let rate = 1 + letters(after);
        if rate > 1 && unit::parse(&rest[..rate]) == Some(Unit::PerSecond) {
            (unit, length) = (Unit::PerSecond, length + rate);
        }
    }
    if goes_on(&text[length..]) {
        return None;
    }
    if matches!(text[length..], [b' ', b'a'..=b'z' | b'A'..=b'Z' | b'%' | b'/', ..])
        && matches!(unit, Unit::None | Unit::Magnitude(_))
        && let Some((spaced, taken)) = spaced_unit(&text[length..], bare_name)
        && (unit == Unit::None || spaced.is_throughput())
    {
        value *= unit.magnitude();
        (unit, length) = (spaced, length + taken);
    }
    Some((Quantity { value, unit }, length))
}

/// The longest unit right after a number: of `TFLOP/s/GPU` all, of `GB/sum` only `GB`.
fn attached_unit(rest: &[u8], word: usize) -> Option<(Unit, usize)> {
    let mut length = word;
    while rest.get(length) == Some(&b'/') {
        let after = letters(&rest[length + 1..]);
        if after == 0 {
            break;
        }
        length += 1 + after;
    }
    loop {
        if let Some(unit) = unit::parse(&rest[..length]) {
            return Some((unit, length));
        }
        length = rest[..length].iter().rposition(|byte| *byte == b'/')?;
    }
}

fn letters(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_alphabetic()).count()
}

/// Whether what follows shows that this was part of something longer.
fn goes_on(rest: &[u8]) -> bool {
    match rest {
        [b'_' | b'@' | b'<' | b'~' | b'^', ..] => true,
        [b'.' | b':' | b'-' | b'+', next, ..] => next.is_ascii_alphanumeric(),
        [byte, ..] => byte.is_ascii_alphanumeric() || *byte >= 0x80,
        [] => false,
    }
}

/// A unit one space away, as in `300.12 ms`; a single letter counts only where it is seconds, and
/// nothing counts that is itself a key.
fn spaced_unit(rest: &[u8], bare_name: bool) -> Option<(Unit, usize)> {
    let [b' ', word @ ..] = rest else { return None };
    let length = word
        .iter()
        .take_while(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'%' | b'/'))
        .count();
    if length == 0 || length > unit::LONGEST || (length == 1 && !matches!(word[0], b's' | b'%')) {
        return None;
    }
    let unit = unit::parse(&word[..length])?;
    let after = word[length..].iter().copied().find(|byte| *byte != b' ');
    let names_next = bare_name && unit.is_throughput() && after.is_some_and(|b| b.is_ascii_digit());
    let is_key = matches!(after, Some(b':' | b'='))
        || names_next
        || word.get(length).is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    (!is_key).then_some((unit, length + 1))
}

/// A decimal number, with thousands separators or an exponent.
fn decimal(text: &[u8]) -> Option<(f64, usize)> {
    let mut reader =
        Decimal { text, at: usize::from(matches!(text[0], b'+' | b'-')), digits: 0, mantissa: 0 };
    let whole = reader.at;
    reader.digits();
    let separated = thousands(&text[reader.at..], reader.at - whole);
    if separated > 0 {
        return separated_decimal(text, reader.at + separated);
    }
    let mut scale = 0i32;
    if text.get(reader.at) == Some(&b'.') {
        reader.at += 1;
        let point = reader.at;
        reader.digits();
        scale -= (reader.at - point) as i32;
    }
    let (exponent, at) = exponent(text, reader.at);
    scale = scale.saturating_add(exponent);
    let value = match reader.exactly(scale) {
        Some(value) if text[0] == b'-' => -value,
        Some(value) => value,
        None => std::str::from_utf8(&text[..at]).ok()?.parse().ok()?,
    };
    Some((value, at))
}

/// Digits gathered on the way through a number.
struct Decimal<'a> {
    text: &'a [u8],
    at: usize,
    digits: u32,
    mantissa: u64,
}

impl Decimal<'_> {
    fn digits(&mut self) {
        while let Some(byte @ b'0'..=b'9') = self.text.get(self.at) {
            // Too many digits wrap around; `exactly` then does not use them.
            self.mantissa = self.mantissa.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
            self.digits += 1;
            self.at += 1;
        }
    }

    /// The value where one operation on exact floats gives it, which is then rounded once and so
    /// right (Clinger 1990): a mantissa below 2^53 and a power of ten up to 10^22.
    fn exactly(&self, scale: i32) -> Option<f64> {
        const POWERS: [f64; 23] = [
            1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
            1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
        ];
        let power = POWERS.get(scale.unsigned_abs() as usize)?;
        if self.digits > 19 || self.mantissa >= 1 << 53 {
            return None;
        }
        let mantissa = self.mantissa as f64;
        Some(if scale < 0 { mantissa / power } else { mantissa * power })
    }
}

/// The exponent at `at`, and where it ends; zero where there is none.
fn exponent(text: &[u8], at: usize) -> (i32, usize) {
    if !matches!(text.get(at), Some(b'e' | b'E')) {
        return (0, at);
    }
    let sign = usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
    let start = at + 1 + sign;
    let count = digits(&text[start.min(text.len())..]);
    if count == 0 {
        return (0, at);
    }
    let value = text[start..start + count]
        .iter()
        .fold(0i32, |value, byte| value.saturating_mul(10).saturating_add(i32::from(byte - b'0')));
    (if text[at + 1] == b'-' { -value } else { value }, start + count)
}

/// `1,234.5`, whose whole part ends at `at`; never with an exponent.
fn separated_decimal(text: &[u8], mut at: usize) -> Option<(f64, usize)> {
    if text.get(at) == Some(&b'.') {
        at += 1 + digits(&text[at + 1..]);
    }
    let printed = std::str::from_utf8(&text[..at]).ok()?;
    Some((printed.replace(',', "").parse().ok()?, at))
}

fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Length of `,376` groups after one to three leading digits; other commas divide fields.
fn thousands(text: &[u8], leading: usize) -> usize {
    if !(1..=3).contains(&leading) {
        return 0;
    }
    let mut at = 0;
    while text.get(at) == Some(&b',') && digits(&text[at + 1..]) == 3 {
        at += 4;
    }
    at
}

/// `nan`, `inf` and their spellings, with a sign or without.
fn not_finite(text: &[u8]) -> Option<(f64, usize)> {
    let sign = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let length = text[sign..].iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    let word = &text[sign..sign + length];
    let value = if word.eq_ignore_ascii_case(b"nan") {
        f64::NAN
    } else if word.eq_ignore_ascii_case(b"inf") || word.eq_ignore_ascii_case(b"infinity") {
        if text[0] == b'-' { f64::NEG_INFINITY } else { f64::INFINITY }
    } else {
        return None;
    };
    Some((value, sign + length))
}

impl Quantity {
    /// The value with a bare K, M or G multiplied out, a percentage as a ratio, FLOP/s in TFLOP/s.
    pub(crate) fn plain(self) -> f64 {
        match self.unit {
            Unit::Percent => self.value / 100.0,
            Unit::Magnitude(Scale::One) | Unit::Flops(Scale::Tera) => self.value,
            Unit::Flops(scale) => self.value * (scale.factor() / Scale::Tera.factor()),
            unit => self.value * unit.magnitude(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_number_is_what_the_standard_library_reads(text in r"[+-]?[0-9]{1,20}(\.[0-9]{0,20})?([eE][+-]?[0-9]{1,3})?") {
            let (found, length) = read(text.as_bytes()).unwrap();
            prop_assert_eq!(length, text.len());
            prop_assert_eq!(found.value, text.parse::<f64>().unwrap());
        }
    }

    #[test]
    fn numbers_are_read_with_their_units_and_other_text_is_left() {
        for (text, value, unit, length) in [
            ("424/ 40000", 424.0, Unit::None, 3),
            ("9.997254E-06 |", 9.997254e-6, Unit::None, 12),
            ("4,376  tflops", 4376.0, Unit::None, 5),
            ("1,234,567.5", 1_234_567.5, Unit::None, 11),
            ("1,23", 1.0, Unit::None, 1),
            ("48.87GiB(51.44%)", 48.87, Unit::Bytes(Scale::Gibi), 8),
            ("98.98% |", 98.98, Unit::Percent, 6),
            ("300.12 ms |", 300.12, Unit::Time(Scale::Milli), 9),
            ("3 ms: 4", 3.0, Unit::None, 1),
            ("1.2s/it]", 1.2, Unit::TimePerIteration(Scale::One), 7),
            ("3000/s", 3000.0, Unit::PerSecond, 6),
            ("0/micro_step=34", 0.0, Unit::None, 1),
            ("310.5 TFLOP/s/GPU,", 310.5, Unit::Flops(Scale::Tera), 17),
            ("310.5TFLOP/s/GPU,", 310.5, Unit::Flops(Scale::Tera), 16),
            ("4567 tokens/s/GPU: 1", 4567.0, Unit::None, 4),
            ("4567 tokens/s/GPU 1 GB", 4567.0, Unit::TokensPerSecondPerDevice, 17),
            ("12.3k tok/s", 12300.0, Unit::TokensPerSecond, 11),
            ("1.39K |", 1.39, Unit::Magnitude(Scale::Kilo), 5),
            ("-inf", f64::NEG_INFINITY, Unit::None, 4),
            ("001:     10", 1.0, Unit::None, 3),
            ("-.5", -0.5, Unit::None, 3),
        ] {
            let expected = Quantity { value, unit };
            assert_eq!(read(text.as_bytes()), Some((expected, length)), "{text}");
        }
        assert!(read(b"NaN").unwrap().0.value.is_nan());
        for text in [
            "2025-12-25",
            "08:40:22",
            "10.0.0.1",
            "7B-chat",
            "1.5.2",
            "2nd",
            "abc",
            "nano",
            "",
            "00:10<01:30",
        ] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }
}
