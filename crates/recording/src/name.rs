//! What files are called and where they are.

use crosstalk_model::Dataset;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// How a data set's files are laid out below the output folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// `tasks/FILE`: for runs that end.
    #[default]
    Flat,
    /// `tasks/date=2026-11-15/hour=22/FILE`, UTC: for runs that go on, and engines that prune.
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

/// The folder and stem for a file of `dataset` that starts at `unix_ns`.
pub(crate) fn place(
    out: &Path,
    dataset: Dataset,
    layout: Layout,
    unix_ns: u64,
) -> (PathBuf, String) {
    let time = Timestamp::from_nanosecond(unix_ns.into())
        .unwrap_or(Timestamp::UNIX_EPOCH)
        .to_zoned(TimeZone::UTC);
    let mut folder = out.join(dataset.name());
    if layout == Layout::Hive {
        folder.push(format!("date={}", time.strftime("%Y-%m-%d")));
        folder.push(format!("hour={}", time.strftime("%H")));
    }
    let millis = time.millisecond();
    (folder, format!("{}-{}.{millis:03}Z", dataset.name(), time.strftime("%Y%m%dT%H%M%S")))
}

/// The number of the hour that `unix_ns` is in.
pub(crate) const fn hour(unix_ns: u64) -> u64 {
    unix_ns / 3_600_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_is_filed_by_date_and_hour_in_utc() {
        let at = 1_794_779_999_123_000_000; // 2026-11-15T21:59:59.123Z
        let (folder, stem) = place(Path::new("o"), Dataset::Tasks, Layout::Hive, at);
        assert_eq!(folder, Path::new("o/tasks/date=2026-11-15/hour=21"));
        assert_eq!(stem, "tasks-20261115T215959.123Z");
        let (folder, _) = place(Path::new("o"), Dataset::Slots, Layout::Flat, at);
        assert_eq!(folder, Path::new("o/slots"));
    }
}
