//! Processor time, memory, network and block I/O of every container, from its cgroup and its network namespace.
//!
//! Data set: containers.

use crate::roster::{Member, Roster, Stay, Used};
use crosstalk_collect::{About, Outlet, Source};
use crosstalk_host::{
    Capability, Clock, GroupUsage, HostRoot, Traffic, UsageFiles, Verdict, monotonic_ns,
};
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
    memory_bytes [int?] "bytes" "memory charged to it at the end; absent once it has ended" = |row| row.memory_bytes;
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
    used: Used,
    network: Option<Traffic>,
}

/// Containers by round and index.
type AllKnown = HashMap<(u32, u32), Known>;

impl ContainerSource {
    pub(super) fn new(host: &HostRoot, roster: Roster, period: Duration) -> Self {
        Self { host: host.clone(), roster, period }
    }

    /// What everybody used since they were last read, those who left since to their end; and when to look again.
    fn sample(
        &self,
        known: &mut AllKnown,
        seen: &mut u64,
        clock: &Clock,
    ) -> (Vec<ContainerRow>, Duration) {
        let mut stays = self.roster.stays(seen);
        stays.retain(|stay| stay.member.data.containers);
        // As often as the container that is sampled most.
        let own = stays.iter().filter_map(|stay| stay.member.data.period);
        let tick = own.min().map_or(self.period, |shortest| shortest.min(self.period));
        let is_here = |key: &(u32, u32)| stays.iter().any(|stay| key_of(&stay.member) == *key);
        known.retain(|key, _| is_here(key));
        let rows = stays.iter().filter_map(|stay| self.row(stay, known, tick, clock)).collect();
        (rows, tick)
    }

    fn row(
        &self,
        stay: &Stay,
        known: &mut AllKnown,
        tick: Duration,
        clock: &Clock,
    ) -> Option<ContainerRow> {
        let (member, key) = (&stay.member, key_of(&stay.member));
        let network = member.network_of.and_then(|pid| Traffic::of_process(&self.host, pid));
        let before = known.entry(key).or_insert_with(|| Known {
            files: member.group.usage_files(),
            used: stay.came,
            network,
        });
        let now = match stay.left {
            // Whose cgroup was gone by then has told all it will.
            Some(left) if left.usage == GroupUsage::default() => return None,
            // What it had of memory went with its processes.
            Some(left) => Used { usage: GroupUsage { memory_bytes: None, ..left.usage }, ..left },
            None => {
                let at_ns = monotonic_ns();
                let period = member.data.period.unwrap_or(self.period).as_nanos() as u64;
                // Nearer to its time now than at the next look.
                let slack = tick.as_nanos() as u64 / 2;
                if at_ns.saturating_sub(before.used.at_ns) + slack < period {
                    return None;
                }
                Used { at_ns, usage: before.files.read() }
            }
        };
        let row = row(member, before, &now, network, clock);
        (before.used, before.network) = (now, network);
        Some(row)
    }
}

fn key_of(member: &Member) -> (u32, u32) {
    (member.round, member.index)
}

fn row(
    member: &Member,
    before: &Known,
    now: &Used,
    network: Option<Traffic>,
    clock: &Clock,
) -> ContainerRow {
    let given = member.allocation.get().unwrap_or_default();
    let (then, usage) = (&before.used.usage, &now.usage);
    let grown = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?);
    let moved = |pick: fn(Traffic) -> u64| grown(network.map(pick), before.network.map(pick));
    ContainerRow {
        slot_start_ns: SlotLength::MILLISECOND.floor(clock.unix_ns(now.at_ns)),
        covers_ns: now.at_ns.saturating_sub(before.used.at_ns),
        round: member.round,
        index: member.index,
        container: Arc::clone(&member.name),
        cpu_ns: grown(usage.cpu_ns, then.cpu_ns),
        throttled_ns: grown(usage.throttled_ns, then.throttled_ns),
        memory_bytes: usage.memory_bytes,
        block_read_bytes: grown(usage.read_bytes, then.read_bytes),
        block_written_bytes: grown(usage.written_bytes, then.written_bytes),
        network_received_bytes: moved(|network| network.received_bytes),
        network_sent_bytes: moved(|network| network.sent_bytes),
        cache_allocation: given.cache,
        bandwidth_allocation: given.bandwidth,
    }
}

impl Source for ContainerSource {
    fn about(&self) -> &'static About {
        &ABOUT
    }

    fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
        out.report(Verdict::Ok, "cgroups of the experiment's containers");
        let (mut known, mut seen) = (HashMap::new(), 0);
        let mut next = Instant::now();
        loop {
            let (rows, tick) = self.sample(&mut known, &mut seen, out.clock());
            out.deliver(rows);
            // After a stall there is one longer sample, not many short ones.
            next = (next + tick).max(Instant::now());
            if out.pause(next.saturating_duration_since(Instant::now())) {
                // Those who left last.
                out.deliver(self.sample(&mut known, &mut seen, out.clock()).0);
                return Ok(());
            }
        }
    }
}
