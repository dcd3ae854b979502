//! Writes the file as the kernel does, and the proposal's structure as JSON.

use super::{IdleInfo, IdleRow};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::fmt;

const LEGEND: &str = "\
#
#   _-----=> clean/dirty
#  / _----=> swap/file
# | / _---=> evict/unevict
# || / _--=> inactive/active
# ||| / _-=> slab
# |||| /
";

impl fmt::Display for IdleInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# version: {}", self.version)?;
        match self.slab_scans {
            Some(slab) => {
                writeln!(f, "# page_scans: {}\n# slab_scans: {slab}", self.page_scans)?;
            }
            None => writeln!(f, "# scans: {}", self.page_scans)?,
        }
        writeln!(f, "# scan_period_in_seconds: {}", self.scan_period_in_seconds)?;
        if let Some(hierarchy) = self.use_hierarchy {
            writeln!(f, "# use_hierarchy: {hierarchy}")?;
        }
        if self.buckets.is_empty() {
            return writeln!(f, "# buckets: no valid bucket available");
        }
        let edges: Vec<String> = self.buckets.iter().map(u64::to_string).collect();
        write!(f, "# buckets: {}\n{LEGEND}# |||||", edges.join(","))?;
        let ends = edges.iter().skip(1).map(|edge| format!("{edge})"));
        for (from, to) in edges.iter().zip(ends.chain(["+inf)".to_owned()])) {
            write!(f, " {:>14}", format!("[{from},{to}"))?;
        }
        writeln!(f)?;
        for row in IdleRow::all() {
            let Some(values) = self.row(row) else { continue };
            write!(f, "  {}   ", row.name())?;
            for value in values {
                write!(f, " {value:>14}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Every field under the proposal's name, and `idle_total_bytes`. What the file does not have is null.
impl Serialize for IdleInfo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("version", &self.version)?;
        map.serialize_entry("page_scans", &self.page_scans)?;
        map.serialize_entry("slab_scans", &self.slab_scans)?;
        map.serialize_entry("scan_period_in_seconds", &self.scan_period_in_seconds)?;
        map.serialize_entry("use_hierarchy", &self.use_hierarchy)?;
        map.serialize_entry("buckets", &self.buckets)?;
        for row in IdleRow::all() {
            map.serialize_entry(row.name(), &self.row(row))?;
        }
        map.serialize_entry("idle_total_bytes", &self.idle_total_bytes())?;
        map.end()
    }
}
