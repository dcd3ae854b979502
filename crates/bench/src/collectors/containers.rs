//! Processor time, memory, network and block I/O of every container, from its cgroup and its network namespace.
//!
//! Data set: containers.

use crate::roster::{Member, Roster};
use crosstalk_collect::{About, Outlet, Source};
use crosstalk_host::{Capability, GroupUsage, HostRoot, UsageFiles, Verdict, monotonic_ns};
use crosstalk_model::{Row, SlotLength};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

static ABOUT: About =
    About { name: "containers", datasets: &[ContainerRow::DATASET], metrics: &[], subjects: &[] };

/// What a container used in a stretch of time: a row of the `containers` data set.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerRow {
    /// Start of the slot in which it was read, Unix nanoseconds.
    pub slot_start_ns: u64,
    /// The time before it that the row tells of.
    pub covers_ns: u64,
    /// The round.
    pub round: u32,
    /// The container's index.
    pub index: u32,
    /// Its name.
    pub container: Arc<str>,
    /// Processor time.
    pub cpu_ns: Option<u64>,
    /// Time it stood still over its quota.
    pub throttled_ns: Option<u64>,
    /// Memory charged to it at the end.
    pub memory_bytes: Option<u64>,
    /// Read from block devices.
    pub block_read_bytes: Option<u64>,
    /// Written to block devices.
    pub block_written_bytes: Option<u64>,
    /// Received.
    pub network_received_bytes: Option<u64>,
    /// Sent.
    pub network_sent_bytes: Option<u64>,
    /// The ways of caches it was given, where a scheduler put it into a group.
    pub cache_allocation: Option<Arc<str>>,
    /// The part of memory's bandwidth, likewise.
    pub bandwidth_allocation: Option<Arc<str>>,
}

crosstalk_model::dataset! {
    ContainerRow: "containers", "one row per container and sample: what it used since the one before",
    by |row| (row.index, row.slot_start_ns),
    covers_ns [int] "ns" "the time the row tells of, up to its reading" = |row| row.covers_ns;
    round [int] "" "number of the round" = |row| row.round;
    index [int] "" "index of the container" = |row| row.index;
    container [text] "" "name of the container" = |row| &row.container;
    cpu_ns [int?] "ns" "processor time used" = |row| row.cpu_ns;
    throttled_ns [int?] "ns" "time its tasks stood still over the container's quota"
        = |row| row.throttled_ns;
    memory_bytes [int?] "bytes" "memory charged to it at the end" = |row| row.memory_bytes;
    block_read_bytes [int?] "bytes" "read from block devices" = |row| row.block_read_bytes;
    block_written_bytes [int?] "bytes" "written to block devices" = |row| row.block_written_bytes;
    network_received_bytes [int?] "bytes" "received; absent where the network is the host's"
        = |row| row.network_received_bytes;
    network_sent_bytes [int?] "bytes" "sent; absent where the network is the host's"
        = |row| row.network_sent_bytes;
    cache_allocation [text?] "" "cache ways it was given, as resctrl writes them; absent where it has all"
        = |row| row.cache_allocation.as_deref();
    bandwidth_allocation [text?] "" "memory bandwidth it was given, as resctrl writes it; absent where it has all"
        = |row| row.bandwidth_allocation.as_deref();
}

pub(super) struct ContainerSource {
    host: HostRoot,
    roster: Roster,
    period: Duration,
}

/// A container as it was last read.
struct Known {
    files: UsageFiles,
    at_ns: u64,
    usage: GroupUsage,
    network: Option<(u64, u64)>,
}

impl ContainerSource {
    pub(super) fn new(host: &HostRoot, roster: Roster, period: Duration) -> Self {
        Self { host: host.clone(), roster, period }
    }

    fn sample(
        &self,
        member: &Member,
        known: &mut HashMap<(u32, u32), Known>,
        out: &Outlet,
    ) -> Option<ContainerRow> {
        let at_ns = monotonic_ns();
        let network = member.network_of.and_then(|pid| network(&self.host, pid));
        let key = (member.round, member.index);
        let Some(before) = known.get_mut(&key) else {
            let mut files = member.group.usage_files();
            let usage = files.read();
            known.insert(key, Known { files, at_ns, usage, network });
            return None;
        };
        let now = before.files.read();
        let given = member.allocation.get().unwrap_or_default();
        let grown = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?);
        let moved =
            |pick: fn((u64, u64)) -> u64| grown(network.map(pick), before.network.map(pick));
        let row = ContainerRow {
            slot_start_ns: SlotLength::MILLISECOND.floor(out.clock().unix_ns(at_ns)),
            covers_ns: at_ns.saturating_sub(before.at_ns),
            round: member.round,
            index: member.index,
            container: Arc::clone(&member.name),
            cpu_ns: grown(now.cpu_ns, before.usage.cpu_ns),
            throttled_ns: grown(now.throttled_ns, before.usage.throttled_ns),
            memory_bytes: now.memory_bytes,
            block_read_bytes: grown(now.read_bytes, before.usage.read_bytes),
            block_written_bytes: grown(now.written_bytes, before.usage.written_bytes),
            network_received_bytes: moved(|both| both.0),
            network_sent_bytes: moved(|both| both.1),
            cache_allocation: given.cache,
            bandwidth_allocation: given.bandwidth,
        };
        (before.at_ns, before.usage, before.network) = (at_ns, now, network);
        Some(row)
    }
}

impl Source for ContainerSource {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
        out.report(Verdict::Ok, "cgroups of the experiment's containers");
        let mut known = HashMap::new();
        let mut next = Instant::now();
        loop {
            let mut members = self.roster.members();
            members.retain(|member| member.data.containers);
            known.retain(|key, _| members.iter().any(|m| (m.round, m.index) == *key));
            let rows = members.iter().filter_map(|m| self.sample(m, &mut known, out)).collect();
            out.deliver(rows);
            // After a stall there is one longer sample, not many short ones.
            next = (next + self.period).max(Instant::now());
            if out.pause(next.saturating_duration_since(Instant::now())) {
                return Ok(());
            }
        }
    }
}

/// Bytes received and sent on all but the loopback interface of a process's network.
fn network(host: &HostRoot, pid: u32) -> Option<(u64, u64)> {
    parse_network(&host.line(format!("/proc/{pid}/net/dev"))?)
}

fn parse_network(text: &str) -> Option<(u64, u64)> {
    let mut sum = None;
    for line in text.lines() {
        let Some((name, rest)) = line.split_once(':') else { continue };
        if name.trim() == "lo" {
            continue;
        }
        let mut words = rest.split_whitespace().map(|word| word.parse::<u64>().ok());
        let (received, sent) = (words.next()??, words.nth(7)??);
        let (r, s) = sum.unwrap_or((0, 0));
        sum = Some((r + received, s + sent));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_interfaces_but_the_loopback_are_summed() {
        let text = "Inter-|   Receive |  Transmit\n face |bytes packets\n\
                    lo: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n\
                    eth0: 100 2 0 0 0 0 0 0 30 1 0 0 0 0 0 0\n\
                    eth1:5 1 0 0 0 0 0 0 6 1 0 0 0 0 0 0\n";
        assert_eq!(parse_network(text), Some((105, 36)));
        assert_eq!(parse_network("lo: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n"), None);
    }
}
