//! The tables below `[sources]`: one for every source there is, by its name.

use super::{Cache, ColdMemory, Counters, Mode, Pcm, Pressure, Probe, Resctrl, Switch};
use crosstalk_sources as sources;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

/// The sources. Those that can be told more than whether they are used have a table of their own kind.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sources {
    /// eBPF and perf events.
    pub counters: Counters,
    /// Intel PCM.
    pub pcm: Pcm,
    /// Cache and memory traffic from resctrl.
    pub resctrl: Resctrl,
    /// Cache and memory traffic by process, from monitor groups of our own.
    pub cache: Cache,
    /// The probe.
    pub probe: Probe,
    /// Pressure stall information.
    pub pressure: Pressure,
    /// Cold memory.
    pub coldmem: ColdMemory,
    /// Every other source by its name: there is no list of them here.
    #[serde(flatten)]
    pub switches: BTreeMap<&'static str, Switch>,
}

const OF_THEIR_OWN_KIND: [&str; 7] =
    ["counters", "pcm", "resctrl", "cache", "probe", "pressure", "coldmem"];

/// The names of all tables.
static NAMES: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| sources::all(&sources::Settings::default()).iter().map(|s| s.key()).collect());

impl Default for Sources {
    fn default() -> Self {
        let others = NAMES.iter().filter(|name| !OF_THEIR_OWN_KIND.contains(name));
        Self {
            counters: Counters::default(),
            pcm: Pcm::default(),
            resctrl: Resctrl::default(),
            cache: Cache::default(),
            probe: Probe::default(),
            pressure: Pressure::default(),
            coldmem: ColdMemory::default(),
            switches: others.map(|name| (*name, Switch::default())).collect(),
        }
    }
}

impl Sources {
    /// Whether each source is used, by its name.
    pub(crate) fn modes(&self) -> BTreeMap<String, Mode> {
        let own = [
            self.counters.mode,
            self.pcm.mode,
            self.resctrl.mode,
            self.cache.mode,
            self.probe.mode,
            self.pressure.mode,
            self.coldmem.mode,
        ];
        let others = self.switches.iter().map(|(name, switch)| (*name, switch.mode));
        let all = OF_THEIR_OWN_KIND.into_iter().zip(own).chain(others);
        all.map(|(name, mode)| (name.to_owned(), mode)).collect()
    }
}

impl<'de> Deserialize<'de> for Sources {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let names: &'static [&'static str] = NAMES.as_slice();
        deserializer.deserialize_struct("Sources", names, Tables)
    }
}

struct Tables;

impl<'de> Visitor<'de> for Tables {
    type Value = Sources;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table for each source")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Sources, A::Error> {
        let mut sources = Sources::default();
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "counters" => sources.counters = map.next_value()?,
                "pcm" => sources.pcm = map.next_value()?,
                "resctrl" => sources.resctrl = map.next_value()?,
                "cache" => sources.cache = map.next_value()?,
                "probe" => sources.probe = map.next_value()?,
                "pressure" => sources.pressure = map.next_value()?,
                "coldmem" => sources.coldmem = map.next_value()?,
                name => match sources.switches.get_mut(name) {
                    Some(switch) => *switch = map.next_value()?,
                    None => return Err(A::Error::unknown_field(name, NAMES.as_slice())),
                },
            }
        }
        Ok(sources)
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crosstalk_settings::Loader;
    use crosstalk_sources::{Mode, all};

    fn load(text: &str) -> Result<Config, String> {
        let loaded = Loader::new("agent").text("agent.toml", text).load::<Config>();
        loaded.map(|loaded| loaded.config).map_err(|error| error.to_string())
    }

    #[test]
    fn whatever_source_is_listed_for_all_jobs_can_be_switched_off_by_its_name_here() {
        let before: Vec<Mode> = all(&Config::default().settings()).iter().map(|s| s.mode).collect();
        assert!(before.len() > 8, "{before:?}");
        for (at, source) in all(&Config::default().settings()).iter().enumerate() {
            let config = load(&format!("[sources.{}]\nmode = \"off\"\n", source.key())).unwrap();
            for (other, (now, then)) in all(&config.settings()).iter().zip(&before).enumerate() {
                let wanted = if other == at { Mode::Off } else { *then };
                assert_eq!(now.mode, wanted, "{} without {}", now.key(), source.key());
            }
        }
    }

    #[test]
    fn a_source_that_does_not_exist_is_refused_with_the_one_that_was_meant() {
        let error = load("\n[sources.throtling]\nmode = \"off\"\n").unwrap_err();
        assert!(error.contains("agent.toml:2: ") && error.contains("throttling"), "{error}");
        let error = load("[sources.steal]\nmodes = \"off\"\n").unwrap_err();
        assert!(error.contains("agent.toml:2: ") && error.contains("mode"), "{error}");
        let error = load("[sources.steal]\nmode = \"maybe\"\n").unwrap_err();
        assert!(error.contains("agent.toml:2: ") && error.contains("auto, on, off"), "{error}");
    }
}
