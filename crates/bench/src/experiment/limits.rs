//! What a container may read, write, receive and send in a second.

use super::reading::Table;
use super::{Io, NetworkLimits};
use crosstalk_host::IoLimits;
use crosstalk_settings::parse_bytes;

pub(super) const IO: &[&str] = &["disk", "read", "write", "read_ops", "write_ops"];
pub(super) const NETWORK: &[&str] = &["receive", "send"];

/// No operations at all would be no limit but a stop.
const MOST_OPS: i64 = 1_000_000_000;

fn bytes(table: &Table<'_>, key: &str) -> Option<u64> {
    parse_bytes(&table.text(key)?).map_err(|what| table.wrong(key, &what)).ok()
}

pub(super) fn read_io(table: &Table<'_>) -> Option<Io> {
    let inner = table.table("io")?;
    inner.only(IO);
    let ops = |key: &str| inner.whole(key, 1..=MOST_OPS).map(i64::unsigned_abs);
    let limits = IoLimits {
        read_bytes: bytes(&inner, "read"),
        written_bytes: bytes(&inner, "write"),
        reads: ops("read_ops"),
        writes: ops("write_ops"),
    };
    if limits == IoLimits::default() {
        // A value that is none was told already.
        if IO[1..].iter().all(|key| inner.node(key).is_none()) {
            table.wrong("io", "must have one of read, write, read_ops and write_ops");
        }
        return None;
    }
    let disk = inner.text("disk").map(|disk| disk.trim_start_matches("/dev/").to_owned());
    Some(Io { disk, limits })
}

pub(super) fn read_network(table: &Table<'_>) -> Option<NetworkLimits> {
    let inner = table.table("network")?;
    inner.only(NETWORK);
    let limits = NetworkLimits { receive: bytes(&inner, "receive"), send: bytes(&inner, "send") };
    if limits == NetworkLimits::default() {
        if NETWORK.iter().all(|key| inner.node(key).is_none()) {
            table.wrong("network", "must have receive, send or both");
        }
        return None;
    }
    Some(limits)
}
