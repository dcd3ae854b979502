//! Divides a body into records.
//!
//! Only the ends of records are looked for here, not what they hold: one that is no JSON then costs itself and not the
//! whole body.

use super::Refusal;

/// The records of a body, which is an array of them or has one a line, and what is left over of an array that does not
/// end.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    pub(super) records: Vec<&'a str>,
    pub(super) rest: Option<&'a str>,
}

/// Divides a body into records, `most` at most.
pub(super) fn split(body: &str, most: usize) -> Result<Parts<'_>, Refusal> {
    let body = body.trim_ascii();
    if let Some(elements) = body.strip_prefix('[') {
        let parts = split_array(elements, most);
        return if parts.records.len() > most { Err(Refusal::Records { most }) } else { Ok(parts) };
    }
    let lines = body.split('\n').filter(|line| !line.trim_ascii().is_empty());
    let records: Vec<&str> = lines.take(most.saturating_add(1)).collect();
    match records.len() {
        0 => Err(Refusal::Empty),
        count if count > most => Err(Refusal::Records { most }),
        _ => Ok(Parts { records, rest: None }),
    }
}

/// Divides what follows the bracket that opens an array; stops after one record too many.
fn split_array(text: &str, most: usize) -> Parts<'_> {
    let bytes = text.as_bytes();
    let mut parts = Parts::default();
    let (mut start, mut depth, mut at) = (0, 0usize, 0);
    while let Some(byte) = bytes.get(at).filter(|_| parts.records.len() <= most) {
        match byte {
            b'"' => at += string_length(&bytes[at..]) - 1,
            b'{' | b'[' => depth += 1,
            b',' if depth == 0 => {
                parts.records.push(text[start..at].trim_ascii());
                start = at + 1;
            }
            b']' if depth == 0 => {
                let last = text[start..at].trim_ascii();
                parts.records.extend(Some(last).filter(|last| !last.is_empty()));
                parts.rest = left_over(&text[at + 1..]);
                return parts;
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    parts.rest = left_over(&text[start.min(text.len())..]).or(Some(""));
    parts
}

fn left_over(text: &str) -> Option<&str> {
    Some(text.trim_ascii()).filter(|text| !text.is_empty())
}

/// Length of a string with its quotes, or of all there is where it does not end.
fn string_length(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(body: &str) -> Result<Parts<'_>, Refusal> {
        super::split(body, 1000)
    }

    #[test]
    fn elements_end_where_their_brackets_and_strings_do() {
        let parts = split(r#" [ {"a": [1, {"b": "],}\\\"["}]} ,2,"x,\\" , {} ] "#).unwrap();
        assert_eq!(parts.records, [r#"{"a": [1, {"b": "],}\\\"["}]}"#, "2", r#""x,\\""#, "{}"]);
        assert_eq!(parts.rest, None);
        assert_eq!(split("[]").unwrap(), Parts::default());
        assert_eq!(split("[ ]\n").unwrap(), Parts::default());
    }

    #[test]
    fn what_is_left_of_an_array_that_does_not_end_is_told() {
        let parts = split(r#"[{"a": 1}, {"b": "#).unwrap();
        assert_eq!((parts.records, parts.rest), (vec![r#"{"a": 1}"#], Some(r#"{"b":"#)));
        assert_eq!(split("[1,").unwrap(), Parts { records: vec!["1"], rest: Some("") });
        assert_eq!(split("[\"\\").unwrap(), Parts { records: vec![], rest: Some("\"\\") });
        assert_eq!(split("[] x").unwrap(), Parts { records: vec![], rest: Some("x") });
    }

    #[test]
    fn lines_are_records_and_empty_ones_are_not() {
        assert_eq!(split("{}\r\n \n1\n").unwrap().records, ["{}\r", "1"]);
        assert_eq!(split(" \n"), Err(Refusal::Empty));
    }

    #[test]
    fn more_records_than_allowed_are_refused_however_they_are_written() {
        for body in ["1\n2\n3", "[1,2,3]", "[1,2,3,4,5,6"] {
            assert_eq!(super::split(body, 2), Err(Refusal::Records { most: 2 }), "{body}");
            assert!(super::split(body, 6).is_ok(), "{body}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_serde_calls_an_array_is_divided_as_serde_divides_it(
            values in proptest::collection::vec(r#"["\\,\[\]{}a-zé]{0,12}"#, 0..8), spaces in "[ \n]{0,2}",
        ) {
            let records: Vec<String> = values.iter().map(|text| serde_json::json!({"log": text, "n": [text, 1]}).to_string()).collect();
            let body = format!("{spaces}[{spaces}{}{spaces}]", records.join(&format!("{spaces},{spaces}")));
            let parts = split(&body).unwrap();
            proptest::prop_assert_eq!(parts.records, records.iter().map(String::as_str).collect::<Vec<_>>());
            proptest::prop_assert_eq!(parts.rest, None);
        }

        #[test]
        fn no_body_makes_it_panic(body in r#"[\[\]{},":\\ aé1]{0,40}"#) {
            let _ = split(&body);
        }
    }
}
