//! What the configuration means for the sources and the recorder.

use super::Config;
use crosstalk_host::{HostRoot, Kernel};
use crosstalk_inventory::{Inventory, Kubernetes};
use crosstalk_model::SlotLength;
use crosstalk_recording::{Destination, Layout, RecordingOptions};
use crosstalk_sources as sources;
use std::path::{Path, PathBuf};

/// A file is closed at this size.
const ROTATE_BYTES: u64 = 256 << 20;

impl Config {
    /// What the sources are told.
    pub(crate) fn settings(&self) -> sources::Settings {
        let named = |path: &PathBuf| Some(path.clone()).filter(|path| path != Path::new(""));
        let (sampling, from) = (&self.sampling, &self.sources);
        // The configuration was refused if this is no slot.
        let slot = SlotLength::from_nanos(self.slot().nanos()).unwrap_or(SlotLength::MILLISECOND);
        let host = HostRoot::new(&self.host_root);
        sources::Settings {
            inventory: Inventory::start(self.names(&host)),
            host,
            slot,
            sampling: sources::Sampling {
                period: sampling.period.get(),
                adaptive: sampling.adaptive,
                fastest: sampling.fastest.get(),
                slowest: sampling.slowest.get(),
                budget: sampling.budget,
            },
            subjects: self.subjects.enabled.then(|| self.subjects.period.get()),
            filter: sources::Filter::default(),
            modes: from.modes(),
            counters: sources::Counters {
                mode: from.counters.mode,
                ..sources::Counters::default()
            },
            cache: sources::Cache {
                mode: from.cache.mode,
                root: named(&from.cache.root),
                cpu_share: from.cache.cpu_share,
                every: None,
            },
            probe: sources::Probe {
                mode: from.probe.mode,
                cpu_share: Some(from.probe.cpu_share),
                state: Some(sources::state_folder(named(&from.probe.state))),
            },
            pressure: sources::Pressure {
                mode: from.pressure.mode,
                period: from.pressure.period.get(),
            },
            coldmem: sources::ColdMemory {
                mode: from.coldmem.mode,
                period: from.coldmem.period.get(),
                // What cannot be was refused when the configuration was checked.
                choice: from.coldmem.choice().unwrap_or_default(),
            },
            cache_totals: sources::CacheTotals {
                mode: from.resctrl.mode,
                root: named(&from.resctrl.root),
            },
            pcm: sources::Pcm {
                mode: from.pcm.mode,
                command: from.pcm.command.clone(),
                args: from.pcm.args.clone(),
                memory_command: from.pcm.memory_command.clone(),
                sensor_server: from.pcm.sensor_server.clone(),
                interval: from.pcm.interval.get(),
            },
        }
    }

    /// This node's name.
    pub(crate) fn node_name(&self) -> String {
        let host_name = || Kernel::read(&HostRoot::new(&self.host_root)).hostname;
        Some(self.node.clone())
            .filter(|name| !name.is_empty())
            .or_else(host_name)
            .unwrap_or_default()
    }

    /// The Kubernetes API, and what this node is called there.
    pub(crate) fn kubernetes(&self) -> Kubernetes {
        let names = &self.inventory;
        let node = match names.node_name.as_str() {
            "" => self.node_name(),
            name => name.to_owned(),
        };
        let kubeconfig = Some(names.kubeconfig.clone()).filter(|path| path != Path::new(""));
        Kubernetes { kubeconfig, node, ..Kubernetes::default() }
    }

    fn names(&self, host: &HostRoot) -> crosstalk_inventory::Config {
        let names = &self.inventory;
        let named = |path: &PathBuf| Some(path.clone()).filter(|path| path != Path::new(""));
        let engines = match names.engines {
            true => crosstalk_inventory::Config::detect(host),
            // Who reports devices asks the kubelet for them, whatever engines are asked: its socket lets nobody run anything.
            false if !names.report_to.is_empty() => crosstalk_inventory::Config {
                kubelet: Some(crosstalk_inventory::Config::kubelet_of(host)),
                host: host.clone(),
                ..crosstalk_inventory::Config::default()
            },
            false => crosstalk_inventory::Config::default(),
        };
        crosstalk_inventory::Config {
            static_file: named(&names.static_file),
            kubernetes: names.kubernetes.then(|| self.kubernetes()),
            ..engines
        }
    }

    /// Where and how to record.
    /// Where recordings go.
    pub(crate) fn destination(&self) -> Result<Destination, crosstalk_recording::Error> {
        let given = Some(&self.recording.spool).filter(|spool| !spool.as_os_str().is_empty());
        let usual = || sources::state_folder(None).join("spool");
        let spool = given.cloned().unwrap_or_else(usual);
        Destination::new(&self.recording.out.to_string_lossy(), &spool)
    }

    pub(crate) fn recording(&self, to: &Destination) -> RecordingOptions {
        RecordingOptions {
            out: to.folder().to_owned(),
            append: true,
            format: self.recording.format.parse().unwrap_or_default(),
            layout: Layout::Hive,
            rotate_bytes: ROTATE_BYTES,
            rotate_after: self.recording.rotate_after.get(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mode;

    #[test]
    fn groups_that_take_rmids_from_others_are_made_only_when_asked_for() {
        let cache = sources::all(&Config::default().settings());
        let cache = cache.iter().find(|source| source.key() == "cache").unwrap();
        assert_eq!(cache.mode, Mode::Off);
    }

    #[test]
    fn who_reports_devices_asks_the_kubelet_though_no_engine_is_asked() {
        let (mut config, host) = (Config::default(), HostRoot::new("/host"));
        config.inventory.engines = false;
        assert_eq!(config.names(&host).kubelet, None);
        config.inventory.report_to = "http://processor:8989".to_owned();
        let names = config.names(&host);
        let socket = Path::new("/host/var/lib/kubelet/pod-resources/kubelet.sock");
        assert_eq!((names.kubelet.as_deref(), names.docker), (Some(socket), None));
    }
}
