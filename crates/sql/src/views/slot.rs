//! How long a slot is: recordings say it, and runs of different lengths may lie in one folder.

use crosstalk_recording::{Reader, RecordedFile};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Runs that are asked at most, evenly among all: each is a file to open before the first query.
const ASKED: usize = 64;
/// What `record` takes unless told.
const USUAL_NS: u64 = 1_000_000;

type Run<'a> = (&'a str, &'a str);

/// The length in nanoseconds as SQL: a number where all runs agree, otherwise told by `node` and `run`.
pub(crate) fn length(reader: &Reader) -> String {
    let mut first: BTreeMap<Run<'_>, &RecordedFile> = BTreeMap::new();
    for file in reader.files().iter().filter(|file| file.dataset == "tasks") {
        first.entry((&file.node, &file.run)).or_insert(file);
    }
    let step = first.len().div_ceil(ASKED).max(1);
    let slots = first.iter().step_by(step).filter_map(|(run, file)| {
        let about = file.metadata().ok()?;
        Some((*run, about.get("slot_ns").and_then(Value::as_u64).filter(|ns| *ns > 0)?))
    });
    expression(&slots.collect())
}

/// Runs that were not asked, or do not say, are taken to be as most are.
fn expression(lengths: &BTreeMap<Run<'_>, u64>) -> String {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    for ns in lengths.values() {
        *counts.entry(*ns).or_default() += 1;
    }
    let usual = counts.iter().max_by_key(|(_, count)| **count).map_or(USUAL_NS, |(ns, _)| *ns);
    let quoted = |text: &str| text.replace('\'', "''");
    let mut text = String::new();
    for ((node, run), ns) in lengths.iter().filter(|(_, ns)| **ns != usual) {
        // Writing to a string cannot fail.
        let _ =
            write!(text, " WHEN node = '{}' AND run = '{}' THEN {ns}", quoted(node), quoted(run));
    }
    if text.is_empty() { usual.to_string() } else { format!("(CASE{text} ELSE {usual} END)") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_differ_are_told_by_name_and_the_others_by_what_most_have() {
        assert_eq!(expression(&BTreeMap::new()), "1000000");
        let mut lengths = BTreeMap::from([(("a", "1"), 100_000), (("b", "1"), 100_000)]);
        assert_eq!(expression(&lengths), "100000");
        lengths.insert(("o'c", "2"), 10_000_000);
        assert_eq!(
            expression(&lengths),
            "(CASE WHEN node = 'o''c' AND run = '2' THEN 10000000 ELSE 100000 END)"
        );
    }
}
