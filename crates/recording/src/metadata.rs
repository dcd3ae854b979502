use crosstalk_host::{Cpu, HostRoot, Kernel};
use crosstalk_model::{Dataset, SlotLength};
use serde::Serialize;
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// Raised when a column changes its name, its type or its meaning.
pub(crate) const SCHEMA_VERSION: u64 = 2;

/// What a file says about itself: Parquet key-values, or the JSON file beside a CSV.
///
/// ```
/// use crosstalk_recording::Metadata;
///
/// let about = Metadata::default().with("slot_ns", 1_000_000);
/// assert_eq!(about.get("slot_ns").and_then(|v| v.as_u64()), Some(1_000_000));
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata(Map<String, Value>);

impl Metadata {
    /// What every recording says about the machine it was made on.
    pub fn of_machine(host: &HostRoot, slot: SlotLength) -> Self {
        let (kernel, cpu) = (Kernel::read(host), Cpu::read(host));
        Self::default()
            .with("crosstalk_version", env!("CARGO_PKG_VERSION"))
            .with("host", &kernel.hostname)
            .with("kernel", &kernel)
            .with("cpu_model", &cpu.model)
            .with("topology", &cpu)
            .with("slot_ns", slot.nanos())
    }

    /// Adds or replaces an entry. A value that has no JSON form becomes null.
    pub fn with(mut self, key: &str, value: impl Serialize) -> Self {
        self.set(key, value);
        self
    }

    /// Adds or replaces an entry; answers whether that changed anything.
    pub fn set(&mut self, key: &str, value: impl Serialize) -> bool {
        let value = serde_json::to_value(value).unwrap_or(Value::Null);
        let changed = self.0.get(key) != Some(&value);
        if changed {
            self.0.insert(key.to_owned(), value);
        }
        changed
    }

    /// With what every file says of its table: the version of its schema, and what each column means.
    pub(crate) fn with_table(self, dataset: &Dataset) -> Self {
        let columns: Map<String, Value> = dataset
            .columns
            .iter()
            .map(|c| {
                let said = json!({ "kind": c.kind.name(), "unit": c.unit, "doc": c.doc });
                (c.name.to_owned(), said)
            })
            .collect();
        self.with("schema_version", SCHEMA_VERSION)
            .with("dataset", dataset.name)
            .with("columns", columns)
    }

    /// The entry called `key`.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// The entries as text: strings as they are, everything else as JSON.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.0.iter().map(|(key, value)| {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (key.clone(), text)
        })
    }

    /// From entries as text: what is JSON is read as such.
    pub(crate) fn from_entries(entries: &HashMap<String, String>) -> Self {
        let value = |text: &String| match text.as_bytes().first() {
            Some(b'{' | b'[' | b'0'..=b'9' | b'-' | b't' | b'f' | b'n') => {
                serde_json::from_str(text).unwrap_or_else(|_| text.clone().into())
            }
            _ => text.clone().into(),
        };
        // What Arrow keeps for itself is no entry of ours.
        let ours = entries.iter().filter(|(key, _)| !key.starts_with("ARROW:"));
        Self(ours.map(|(key, text)| (key.clone(), value(text))).collect())
    }

    /// From the JSON file beside a CSV; `None` when it is none.
    pub(crate) fn from_json(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().map(Self)
    }

    /// One indented JSON object.
    pub(crate) fn to_json(&self) -> String {
        format!("{:#}\n", Value::Object(self.0.clone()))
    }
}
