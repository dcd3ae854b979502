use crosstalk_model::Dataset;
use serde::Serialize;
use serde_json::{Map, Value};

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
    /// Adds or replaces an entry. A value that has no JSON form becomes null.
    pub fn with(mut self, key: &str, value: impl Serialize) -> Self {
        self.0.insert(key.to_owned(), serde_json::to_value(value).unwrap_or(Value::Null));
        self
    }

    /// With what every recording says of its tables: the version of their schema, and each column's meaning.
    pub(crate) fn with_tables(self, datasets: &[Dataset]) -> Self {
        /// Raised when a column changes its name, its place or its meaning.
        const SCHEMA_VERSION: u32 = 1;
        let columns = |dataset: &Dataset| -> Value {
            dataset.columns().iter().map(|column| (column.name, column.doc)).collect()
        };
        let tables: Map<String, Value> =
            datasets.iter().map(|dataset| (dataset.name().to_owned(), columns(dataset))).collect();
        self.with("schema_version", SCHEMA_VERSION).with("columns", tables)
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

    /// One indented JSON object.
    pub(crate) fn to_json(&self) -> String {
        format!("{:#}\n", Value::Object(self.0.clone()))
    }
}
