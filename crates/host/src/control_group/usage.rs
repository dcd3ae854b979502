//! What a group has used, read many times a second.

use super::ControlGroup;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// What a group has used since it was made; what nothing counts is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupUsage {
    /// Processor time.
    pub cpu_ns: Option<u64>,
    /// Time its tasks stood still because they were over the group's quota.
    pub throttled_ns: Option<u64>,
    /// Memory charged to it now.
    pub memory_bytes: Option<u64>,
    /// Bytes read from block devices.
    pub read_bytes: Option<u64>,
    /// Bytes written to block devices.
    pub written_bytes: Option<u64>,
}

/// The files behind it, kept open: opening costs more than reading.
#[derive(Debug, Default)]
pub struct UsageFiles {
    cpu: Option<(File, Kind)>,
    throttled: Option<(File, Kind)>,
    memory: Option<File>,
    blocks: Option<(File, Kind)>,
    buffer: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    V1,
    V2,
}

/// Longer than any of these files on a machine with many disks.
const LONGEST: usize = 16_384;

impl UsageFiles {
    pub(super) fn open(group: &ControlGroup) -> Self {
        let in_folder = |controller: &str, v1: &str, v2: &str| {
            let folder = group.folder(controller)?;
            let (name, kind) = if folder.unified { (v2, Kind::V2) } else { (v1, Kind::V1) };
            Some((File::open(folder.path.join(name)).ok()?, kind))
        };
        // v2 counts processor time in every group, with or without the controller.
        let unified = || {
            let folder = group.folders.iter().find(|folder| folder.unified)?;
            Some((File::open(folder.path.join("cpu.stat")).ok()?, Kind::V2))
        };
        let blocks = || in_folder("blkio", "blkio.throttle.io_service_bytes_recursive", "");
        let older = || in_folder("blkio", "blkio.throttle.io_service_bytes", "");
        Self {
            cpu: in_folder("cpuacct", "cpuacct.usage", "").or_else(unified),
            throttled: in_folder("cpu", "cpu.stat", "cpu.stat"),
            memory: in_folder("memory", "memory.usage_in_bytes", "memory.current").map(|f| f.0),
            blocks: in_folder("io", "", "io.stat").or_else(blocks).or_else(older),
            buffer: vec![0; LONGEST],
        }
    }

    /// Reads all of them.
    pub fn read(&mut self) -> GroupUsage {
        let Self { cpu, throttled, memory, blocks, buffer } = self;
        let cpu_ns = cpu.as_ref().and_then(|(file, kind)| {
            let text = text(file, buffer)?;
            match kind {
                Kind::V1 => text.trim().parse().ok(),
                Kind::V2 => value_of(text, "usage_usec")?.checked_mul(1_000),
            }
        });
        let throttled_ns = throttled.as_ref().and_then(|(file, kind)| {
            let text = text(file, buffer)?;
            match kind {
                Kind::V1 => value_of(text, "throttled_time"),
                Kind::V2 => value_of(text, "throttled_usec")?.checked_mul(1_000),
            }
        });
        let memory_bytes = memory.as_ref().and_then(|file| text(file, buffer)?.trim().parse().ok());
        let (read_bytes, written_bytes) = blocks
            .as_ref()
            .and_then(|(file, kind)| Some(moved(text(file, buffer)?, *kind)))
            .map_or((None, None), |(read, written)| (Some(read), Some(written)));
        GroupUsage { cpu_ns, throttled_ns, memory_bytes, read_bytes, written_bytes }
    }
}

fn text<'a>(file: &File, buffer: &'a mut [u8]) -> Option<&'a str> {
    let length = file.read_at(buffer, 0).ok()?;
    std::str::from_utf8(&buffer[..length]).ok()
}

/// The value of a line `KEY NUMBER`.
pub(crate) fn value_of(text: &str, key: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(name, _)| *name == key)?.1.trim().parse().ok()
}

/// Bytes read and written over all devices; a group that touched none has moved none.
fn moved(text: &str, kind: Kind) -> (u64, u64) {
    let (mut read, mut written) = (0, 0);
    for line in text.lines() {
        match kind {
            Kind::V1 => {
                let mut words = line.split(' ').skip(1);
                let bytes = |word: Option<&str>| word.and_then(|w| w.parse().ok()).unwrap_or(0);
                match words.next() {
                    Some("Read") => read += bytes(words.next()),
                    Some("Write") => written += bytes(words.next()),
                    _ => {}
                }
            }
            Kind::V2 => {
                let sum = |key: &str| -> u64 {
                    let word = line.split(' ').find_map(|word| word.strip_prefix(key));
                    word.and_then(|number| number.parse().ok()).unwrap_or(0)
                };
                read += sum("rbytes=");
                written += sum("wbytes=");
            }
        }
    }
    (read, written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_traffic_is_summed_over_devices_in_either_version() {
        let v1 = "8:0 Read 10\n8:0 Write 20\n8:0 Sync 3\n8:16 Read 1\nTotal 31\n";
        assert_eq!(moved(v1, Kind::V1), (11, 20));
        let v2 = "8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0 dios=0\n8:16 rbytes=1 wbytes=0\n";
        assert_eq!(moved(v2, Kind::V2), (11, 20));
        assert_eq!(moved("", Kind::V2), (0, 0));
    }

    #[test]
    fn a_key_is_not_taken_for_one_that_begins_like_it() {
        let text = "nr_periods 3\nnr_throttled 2\nthrottled_time 77\n";
        assert_eq!(value_of(text, "throttled_time"), Some(77));
        assert_eq!(value_of(text, "throttled_usec"), None);
    }
}
