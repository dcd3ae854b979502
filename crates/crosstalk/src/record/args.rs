use clap::builder::PossibleValuesParser;
use crosstalk_counters::{EventOverride, Tick};
use crosstalk_host::{HostRoot, Kernel};
use crosstalk_inventory::{Config, Kubernetes, read_static_file};
use crosstalk_model::SlotLength;
use crosstalk_recording::{Destination, Error, Format, Layout, RecordingOptions};
use crosstalk_settings::{parse_bytes, parse_duration};
use crosstalk_sources::{Settings, Wired, all, state_folder};
use std::path::PathBuf;
use std::time::Duration;

#[derive(clap::Args)]
#[command(after_help = after_help())]
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
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = slot_length)]
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
    /// Leave sources out, by name
    #[arg(long, value_name = "SOURCE", value_delimiter = ',', value_parser = PossibleValuesParser::new(optional()))]
    pub(super) without: Vec<String>,
    // Older spellings of --without.
    #[arg(long, hide = true, conflicts_with = "resctrl_root")]
    pub(super) no_cache: bool,
    #[arg(long, hide = true)]
    pub(super) no_probe: bool,
    #[arg(long, hide = true)]
    pub(super) no_pressure: bool,
    #[arg(long, hide = true)]
    pub(super) no_steal: bool,
    #[arg(long, hide = true)]
    pub(super) no_throttling: bool,
    #[arg(long, hide = true)]
    pub(super) no_coldmem: bool,
    /// Share of one core that reading the cache may take, in percent; beyond it processes take turns
    #[arg(long, value_name = "PERCENT", default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..=100))]
    pub(super) cache_budget: u8,
    /// Where the probe keeps what memory is like at rest [default: $STATE_DIRECTORY or /var/lib/crosstalk]
    #[arg(long, value_name = "DIR")]
    pub(super) state: Option<PathBuf>,
    /// YAML, JSON or TOML file with pods, their containers and the workloads they belong to
    #[arg(long, value_name = "FILE")]
    pub(super) pods: Option<PathBuf>,
    /// Ask the Kubernetes API of this kubeconfig for the pods of this node, called as --node says
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
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
    /// What this machine is called.
    pub(super) fn node_name(&self, host: &HostRoot) -> String {
        let host_name = || Kernel::read(host).hostname.unwrap_or_default();
        self.node.clone().unwrap_or_else(host_name)
    }

    /// Who knows the names of containers, pods and workloads: engines and the kubelet that are found, and who was named.
    ///
    /// # Errors
    /// What was named cannot be used.
    pub(super) fn names(&self, host: &HostRoot) -> Result<Config, String> {
        if let Some(file) = &self.pods {
            read_static_file(file).map_err(|error| format!("--pods {error}"))?;
        }
        let kubernetes = self.kubeconfig.as_ref().map(|file| Kubernetes {
            kubeconfig: Some(file.clone()),
            node: self.node_name(host),
            ..Kubernetes::default()
        });
        if let Some(kubernetes) = &kubernetes {
            kubernetes.check().map_err(|failure| format!("--kubeconfig: {failure}"))?;
        }
        let static_file = self.pods.clone();
        Ok(Config { static_file, kubernetes, ..Config::detect(host) })
    }

    pub(super) fn destination(&self) -> Result<Destination, Error> {
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

    /// The sources that were left out.
    pub(super) fn left_out(&self) -> impl Iterator<Item = &str> {
        let older = [
            ("cache", self.no_cache),
            ("probe", self.no_probe),
            ("pressure", self.no_pressure),
            ("steal", self.no_steal),
            ("throttling", self.no_throttling),
            ("coldmem", self.no_coldmem),
        ];
        let older = older.into_iter().filter_map(|(name, is_out)| is_out.then_some(name));
        self.without.iter().map(String::as_str).chain(older)
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

/// The sources that write data sets.
fn writing() -> Vec<Wired> {
    let mut sources = all(&Settings::default());
    sources.retain(|source| !source.about.datasets.is_empty());
    sources
}

/// Those that can be left out: without the counters there is nothing to record.
fn optional() -> Vec<&'static str> {
    writing().iter().map(Wired::key).filter(|name| *name != "counters").collect()
}

fn after_help() -> String {
    let sources = writing();
    let datasets = sources.iter().flat_map(|source| source.about.datasets);
    let listed: String = datasets.map(|set| format!("  {:<10}  {}\n", set.name, set.doc)).collect();
    format!("{EXAMPLES}\n\n{DATASETS}\n{listed}{FILES}")
}

fn slot_length(text: &str) -> Result<SlotLength, String> {
    // Zero is a length in any unit, and no slot's.
    let is_zero = text.trim().trim_end_matches(char::is_alphabetic) == "0";
    let length = if is_zero { Ok(Duration::ZERO) } else { parse_duration(text) };
    let length = length.map_err(|error| format!("{error}; a slot has 100us to 1s, usually 1ms"))?;
    let ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
    SlotLength::from_nanos(ns).map_err(|error| error.to_string())
}

const DATASETS: &str = "Writes data sets, each a folder of files that join on slot_start_ns, in folders by node and run:";

const EXAMPLES: &str = "\
Examples:
  sudo crosstalk record --out rec --duration 10s
  sudo crosstalk record --out rec --format parquet -- stress-ng --cpu 2 --timeout 5
  sudo crosstalk record --out rec --duration 1m --pid 1234,5678
  sudo crosstalk record --out rec --duration 10s --resctrl-root /tmp/resctrl
  sudo crosstalk record --out rec --duration 10s --pods pods.yaml   with pods and workloads by name
  sudo crosstalk record --out rec --duration 10s --kubeconfig ~/.kube/config --node worker-3
  sudo crosstalk record --out /var/lib/crosstalk --format parquet   until Ctrl-C, by date and hour
  sudo crosstalk record --out s3://bucket/rec --append --format parquet --duration 1h";

const FILES: &str = "\
A value that was not measured is empty, never 0. A name ending in .part is not finished;
crosstalk recover DIR finishes what a crash left. To an object store (keys and endpoint from AWS_ACCESS_KEY_ID,
AWS_ENDPOINT_URL and so on) files go when they are whole; what cannot be sent waits in the spool for the next time. Ctrl-C, SIGTERM and a dropped connection end it.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_and_the_guide_name_every_data_set() {
        let guide = include_str!("../../../../docs/record.md");
        let help = after_help();
        for set in writing().iter().flat_map(|source| source.about.datasets) {
            assert!(help.contains(&format!("\n  {:<10}  {}\n", set.name, set.doc)), "{help}");
            let row = format!("\n| `{}` | ", set.name);
            assert!(
                guide.contains(&row),
                "docs/record.md: its table of data sets lacks {}",
                set.name
            );
        }
    }
}
