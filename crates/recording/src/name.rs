//! What files are called and where they are.

use crosstalk_model::Dataset;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::fmt::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Whether files lie in folders by date and hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// `tasks/node=N/run=R/FILE`: for runs that end.
    #[default]
    Flat,
    /// `tasks/node=N/run=R/date=2026-11-15/hour=22/FILE`, UTC: for runs that go on, and engines that
    /// prune.
    Hive,
}

impl FromStr for Layout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "flat" => Ok(Self::Flat),
            "hive" => Ok(Self::Hive),
            other => Err(format!("\"{other}\" is not one of flat, hive")),
        }
    }
}

/// Who recorded: every row belongs to a node and a run, by the folder its file is in. Query engines
/// read both as columns (Hive partitions), so a thousand nodes can share a folder and no query needs to
/// sum two recordings.
///
/// ```
/// use crosstalk_recording::Run;
///
/// let run = Run::new("rack 7/node-3", 1_794_779_999_123_000_000);
/// assert_eq!(run.node(), "rack 7/node-3");
/// assert!(run.id().starts_with("20261115T215959.123Z-"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    node: String,
    id: String,
}

impl Run {
    /// A run of this process that starts at `unix_ns`. Its id is the start and the process's pid: no
    /// two runs of one node have the same.
    pub fn new(node: &str, unix_ns: u64) -> Self {
        let node = if node.is_empty() { "unknown" } else { node };
        Self { node: node.to_owned(), id: format!("{}-{}", stamp(unix_ns), std::process::id()) }
    }

    /// The node's name.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// The run's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The folder of a data set of this run.
    pub(crate) fn folder(&self, out: &Path, dataset: &str) -> PathBuf {
        out.join(dataset)
            .join(format!("node={}", escaped(&self.node)))
            .join(format!("run={}", self.id))
    }
}

/// The folder and stem for a file of `dataset` that starts at `unix_ns`.
pub(crate) fn place(
    out: &Path,
    dataset: &Dataset,
    run: &Run,
    layout: Layout,
    unix_ns: u64,
) -> (PathBuf, String) {
    let mut folder = run.folder(out, dataset.name);
    if layout == Layout::Hive {
        let time = utc(unix_ns);
        folder.push(format!("date={}", time.strftime("%Y-%m-%d")));
        folder.push(format!("hour={}", time.strftime("%H")));
    }
    (folder, format!("{}-{}", dataset.name, stamp(unix_ns)))
}

fn utc(unix_ns: u64) -> jiff::Zoned {
    let time = Timestamp::from_nanosecond(unix_ns.into()).unwrap_or(Timestamp::UNIX_EPOCH);
    time.to_zoned(TimeZone::UTC)
}

fn stamp(unix_ns: u64) -> String {
    let time = utc(unix_ns);
    format!("{}.{:03}Z", time.strftime("%Y%m%dT%H%M%S"), time.millisecond())
}

/// The number of the hour that `unix_ns` is in.
pub(crate) const fn hour(unix_ns: u64) -> u64 {
    unix_ns / 3_600_000_000_000
}

/// The time that folders of these names are for, Unix nanoseconds: an hour, or a day where none is said.
pub(crate) fn filed(date: &str, hour: Option<&str>) -> Option<Range<u64>> {
    const HOUR_NS: u64 = 3_600_000_000_000;
    let date: jiff::civil::Date = date.parse().ok()?;
    let day = date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_nanosecond();
    let day = u64::try_from(day).ok()?;
    match hour.and_then(|hour| hour.parse::<u64>().ok()).filter(|hour| *hour < 24) {
        Some(hour) => Some(day + hour * HOUR_NS..day + (hour + 1) * HOUR_NS),
        None => Some(day..day + 24 * HOUR_NS),
    }
}

/// A value as Hive writes it into a folder's name: what is not plain is `%XX`.
fn escaped(value: &str) -> String {
    let mut name = String::with_capacity(value.len());
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-') {
            name.push(byte.into());
        } else {
            let _ = write!(name, "%{byte:02X}");
        }
    }
    name
}

/// The value that a folder's name says, if it is one of `key`.
pub(crate) fn partition(folder: &str, key: &str) -> Option<String> {
    let value = folder.strip_prefix(key)?.strip_prefix('=')?;
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crosstalk_model::{Row, SlotCoverage};
    use proptest::prelude::*;

    #[test]
    fn a_long_run_is_filed_by_node_run_date_and_hour_in_utc() {
        let at = 1_794_779_999_123_000_000; // 2026-11-15T21:59:59.123Z
        let run = Run { node: "a b".to_owned(), id: "r1".to_owned() };
        let slots = SlotCoverage::DATASET;
        let (folder, stem) = place(Path::new("o"), slots, &run, Layout::Hive, at);
        assert_eq!(folder, Path::new("o/slots/node=a%20b/run=r1/date=2026-11-15/hour=21"));
        assert_eq!(stem, "slots-20261115T215959.123Z");
        let (folder, _) = place(Path::new("o"), slots, &run, Layout::Flat, at);
        assert_eq!(folder, Path::new("o/slots/node=a%20b/run=r1"));
    }

    proptest! {
        #[test]
        fn any_node_name_survives_its_folder(name in "\\PC{1,40}") {
            let folder = format!("node={}", escaped(&name));
            prop_assert!(!folder.contains('/'));
            prop_assert_eq!(partition(&folder, "node"), Some(name));
        }

        #[test]
        fn any_folder_name_is_read_without_panic(name in "\\PC*") {
            let _ = partition(&format!("node={name}"), "node");
        }
    }
}
