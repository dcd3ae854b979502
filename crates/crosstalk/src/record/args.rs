use crosstalk_counters::{EventOverride, Tick};
use crosstalk_model::SlotLength;
use crosstalk_recording::{Destination, Format, Layout, RecordingOptions};
use crosstalk_settings::{parse_bytes, parse_duration};
use crosstalk_sources::state_folder;
use std::path::PathBuf;
use std::time::Duration;

#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Folder for the recording, made if missing; or an object store, such as s3://bucket/recordings
    #[arg(long, value_name = "DIR|URL")]
    pub(super) out: String,
    /// Where files wait until they are in the object store [default: spool in the --state folder]
    #[arg(long, value_name = "DIR")]
    pub(super) spool: Option<PathBuf>,
    /// Stop after this long [default: until Ctrl-C, or until COMMAND ends]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(super) duration: Option<Duration>,
    /// Length of a slot, 100us to 1s
    #[arg(long, value_name = "TIME", default_value = "1ms")]
    pub(super) slot: SlotLength,
    /// csv or parquet
    #[arg(long, default_value = "csv")]
    pub(super) format: Format,
    /// Keep only rows of these processes
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pub(super) pid: Vec<u32>,
    /// Keep only rows of processes in this cgroup and below
    #[arg(long, value_name = "PATH")]
    pub(super) cgroup: Option<String>,
    /// auto, on or off: a timer on busy cores that reads counters at slot edges
    #[arg(long, default_value = "auto")]
    pub(super) tick: Tick,
    /// Count another event in a column, such as llc_misses=raw:0x412e
    #[arg(long, value_name = "COLUMN=EVENT", value_delimiter = ',')]
    pub(super) events: Vec<EventOverride>,
    /// Do not follow run-queue wait and migrations
    #[arg(long)]
    pub(super) no_runq_wait: bool,
    /// Where resctrl is mounted [default: where the host has it, else no cache data set]
    #[arg(long, value_name = "DIR")]
    pub(super) resctrl_root: Option<PathBuf>,
    /// Do not read cache occupancy and memory bandwidth
    #[arg(long, conflicts_with = "resctrl_root")]
    pub(super) no_cache: bool,
    /// Share of one core that reading the cache may take, in percent; beyond it processes take turns
    #[arg(long, value_name = "PERCENT", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(super) cache_budget: u8,
    /// Do not probe memory
    #[arg(long)]
    pub(super) no_probe: bool,
    /// Where the probe keeps what memory is like at rest [default: $STATE_DIRECTORY or /var/lib/crosstalk]
    #[arg(long, value_name = "DIR")]
    pub(super) state: Option<PathBuf>,
    /// Do not read pressure stall information
    #[arg(long)]
    pub(super) no_pressure: bool,
    /// Do not read the time that the hypervisor stole
    #[arg(long)]
    pub(super) no_steal: bool,
    /// Do not read the time that cgroups were stopped for their quota
    #[arg(long)]
    pub(super) no_throttling: bool,
    /// Do not look how cold memory is
    #[arg(long)]
    pub(super) no_coldmem: bool,
    /// The name of this machine in the recording [default: its host name]
    #[arg(long, value_name = "NAME")]
    pub(super) node: Option<String>,
    /// Add a run to a folder that holds others; queries tell runs apart by the column run
    #[arg(long)]
    pub(super) append: bool,
    /// flat or hive [default: hive for runs without an end or over an hour]
    #[arg(long)]
    pub(super) layout: Option<Layout>,
    /// Start a new file at this size
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_bytes)]
    pub(super) rotate_size: u64,
    /// Start a new file after this long
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = parse_duration)]
    pub(super) rotate_time: Duration,
    /// Size of the buffer between kernel and recorder [default: by cores and slot]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(super) ring_size: Option<u64>,
    /// How many processes the closing table shows
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(super) top: usize,
    /// Print the closing summary as JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Print nothing but errors
    #[arg(long, short)]
    pub(super) quiet: bool,
    /// Where the host's /proc and /sys are, when not at the root
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub(super) host_root: PathBuf,
    /// Record while this command runs, and exit with its status
    #[arg(last = true, value_name = "COMMAND")]
    pub(super) command: Vec<String>,
}

impl Args {
    pub(super) fn destination(&self) -> Destination {
        let spool = || state_folder(self.state.clone()).join("spool");
        Destination::new(&self.out, &self.spool.clone().unwrap_or_else(spool))
    }

    pub(super) fn recording(&self, to: &Destination) -> RecordingOptions {
        RecordingOptions {
            out: to.folder().to_owned(),
            // What waits in the spool is other runs'.
            append: self.append || to.url().is_some(),
            format: self.format,
            layout: self.layout(),
            rotate_bytes: self.rotate_size,
            rotate_after: self.rotate_time,
        }
    }

    /// Folders by date and hour pay when a run goes on and on.
    fn layout(&self) -> Layout {
        const LONG: Duration = Duration::from_secs(3600);
        let ends_soon = self.duration.is_some_and(|d| d <= LONG) || !self.command.is_empty();
        self.layout.unwrap_or(if ends_soon { Layout::Flat } else { Layout::Hive })
    }

    /// The kernel wants a power of two of at least a page.
    pub(super) fn ring_bytes(&self) -> Option<u32> {
        const MOST: u64 = 1 << 30;
        self.ring_size.map(|size| size.clamp(4096, MOST).next_power_of_two() as u32)
    }
}

const AFTER_HELP: &str = "\
Examples:
  sudo crosstalk record --out rec --duration 10s
  sudo crosstalk record --out rec --format parquet -- stress-ng --cpu 2 --timeout 5
  sudo crosstalk record --out rec --duration 1m --pid 1234,5678
  sudo crosstalk record --out rec --duration 10s --resctrl-root /tmp/resctrl
  sudo crosstalk record --out /var/lib/crosstalk --format parquet   until Ctrl-C, by date and hour
  sudo crosstalk record --out s3://bucket/rec --append --format parquet --duration 1h

Writes data sets, each a folder of files that join on slot_start_ns, in folders by node and run:
  tasks   one row per process, core and slot: time, waits, switches, faults, counters
  slots   one row per core and slot: idle time, and what was lost
  cache   one row per process, L3 cache and slot: occupancy and memory traffic, with resctrl
  probe   some 20 rows a second: how fast memory answers, and whether it is contended
  pressure  one row a second per cgroup and resource: how long its tasks stood still for want of it
  steal   up to 50 rows a second per core: time that the hypervisor gave to other machines
  throttling  up to 10 rows a second per cgroup that was stopped for its quota
  coldmem  one row a minute per cgroup, kind and age: how much memory has been idle for so long
  memory   one row a minute per cgroup: what it uses with, without and with hot page cache
A value that was not measured is empty, never 0. A name ending in .part is not finished;
crosstalk recover DIR finishes what a crash left. To an object store (keys and endpoint from AWS_ACCESS_KEY_ID,
AWS_ENDPOINT_URL and so on) files go when they are whole; what cannot be sent waits in the spool for the next time. Ctrl-C, SIGTERM and a dropped connection end it.";
