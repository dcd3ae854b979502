//! The time of a record, without going through a double: its fraction is exact.

use crosstalk_training_log::timestamp;

/// Reads a JSON value: a number of seconds (or milli-, micro-, nanoseconds), or text with a number or a date in it.
pub(super) fn read(json: &str) -> Result<i64, String> {
    let result = match json.starts_with('"') {
        true => {
            let text: String = serde_json::from_str(json).map_err(|error| error.to_string())?;
            timestamp::parse(text.trim())
        }
        false => timestamp::parse_number(json),
    };
    result.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_are_exact() {
        assert_eq!(read("1234567890.123"), Ok(1_234_567_890_123_000_000));
        assert_eq!(read("1761223152.000000001"), Ok(1_761_223_152_000_000_001));
        assert_eq!(read("\"2025-10-23T12:39:12.123456789Z\""), Ok(1_761_223_152_123_456_789));
        assert!(read("true").is_err());
        assert!(read("\"yesterday\"").is_err());
    }
}
