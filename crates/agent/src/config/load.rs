use super::place::{line_at, line_of};
use super::{Config, Mode, Period, SAMPLE};
use crate::error::AgentError;
use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// What flags say; they win over everything.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--listen`.
    pub listen: Option<SocketAddr>,
    /// `--host-root`.
    pub host_root: Option<PathBuf>,
}

const PREFIX: &str = "CROSSTALK_AGENT_";

/// Reads the file if one is named, then the environment given as pairs, then the flags.
///
/// Variables that begin like ours but name no key are left alone: Kubernetes makes such names
/// for a service called crosstalk-agent.
///
/// # Errors
/// If the file cannot be read, or anything in file or environment cannot be; it says where.
pub fn load(
    file: Option<&Path>,
    environment: impl IntoIterator<Item = (String, String)>,
    flags: &Overrides,
) -> Result<Config, AgentError> {
    let origin = Origin::read(file)?;
    let mut table = origin.parse()?;
    let keys = known_keys();
    let mut set_by = BTreeMap::new();
    for (name, value) in environment {
        let known = keys.iter().find(|(key, _)| variable(key) == name);
        let Some((key, is_text)) = known else { continue };
        let value = value_of(&value, *is_text);
        check_alone(&name, key, &value)?;
        insert(&mut table, key, value);
        set_by.insert(key.clone(), name);
    }
    let mut config: Config = table
        .clone()
        .try_into()
        .map_err(|error: toml::de::Error| AgentError::config(origin.name(), error.message()))?;
    config.follow(|key| is_set(&table, key));
    if let Some(listen) = flags.listen {
        config.listen = listen;
    }
    if let Some(host_root) = &flags.host_root {
        config.host_root.clone_from(host_root);
    }
    match config.fault() {
        None => Ok(config),
        Some((key, what)) => {
            let place = set_by.get(key).cloned().unwrap_or_else(|| origin.place(key));
            Err(AgentError::config(place, format!("{key}: {what}")))
        }
    }
}

/// The text of the file, and what to call it.
struct Origin {
    path: Option<PathBuf>,
    text: String,
}

impl Origin {
    fn read(file: Option<&Path>) -> Result<Self, AgentError> {
        let Some(path) = file else { return Ok(Self { path: None, text: String::new() }) };
        let text = fs::read_to_string(path)
            .map_err(|source| AgentError::Read { path: path.to_owned(), source })?;
        Ok(Self { path: Some(path.to_owned()), text })
    }

    fn name(&self) -> String {
        self.path.as_ref().map_or_else(|| "defaults".to_owned(), |path| path.display().to_string())
    }

    fn place(&self, key: &str) -> String {
        match line_of(&self.text, key) {
            Some(line) => format!("{}:{line}", self.name()),
            None => self.name(),
        }
    }

    /// Parsed twice: as the configuration, because only then do errors know their place, and as
    /// a table that the environment can change.
    fn parse(&self) -> Result<Table, AgentError> {
        toml::from_str::<Config>(&self.text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_at(&self.text, span.start));
            AgentError::config(format!("{}:{line}", self.name()), error.message())
        })?;
        toml::from_str(&self.text).map_err(|error| AgentError::config(self.name(), error.message()))
    }
}

/// Every key there is, and whether its value is text: those of the sample, which a test holds to the
/// defaults.
fn known_keys() -> Vec<(String, bool)> {
    let sample: Table = toml::from_str(SAMPLE).unwrap_or_default();
    let mut keys = Vec::new();
    collect(&sample, "", &mut keys);
    keys
}

fn collect(table: &Table, prefix: &str, keys: &mut Vec<(String, bool)>) {
    for (name, value) in table {
        let key = format!("{prefix}{name}");
        match value {
            Value::Table(inner) => collect(inner, &format!("{key}."), keys),
            _ => keys.push((key, value.is_str())),
        }
    }
}

fn variable(key: &str) -> String {
    format!("{PREFIX}{}", key.replace('.', "_").to_uppercase())
}

/// Numbers, booleans and lists as TOML writes them; anything else is text, as is all that is to be
/// text: a folder may be called 2026.
fn value_of(text: &str, is_text: bool) -> Value {
    let parsed = toml::from_str::<Table>(&format!("value = {text}"));
    let value = parsed.ok().and_then(|mut table| table.remove("value"));
    let fits = |value: &Value| value.is_str() || !is_text;
    value.filter(fits).unwrap_or_else(|| Value::String(text.to_owned()))
}

fn is_set(table: &Table, key: &str) -> bool {
    match key.split_once('.') {
        None => table.contains_key(key),
        Some((first, rest)) => {
            table.get(first).and_then(Value::as_table).is_some_and(|inner| is_set(inner, rest))
        }
    }
}

fn insert(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
        }
        Some((first, rest)) => {
            let inner = table.entry(first.to_owned()).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

fn check_alone(name: &str, key: &str, value: &Value) -> Result<(), AgentError> {
    let mut alone = Table::new();
    insert(&mut alone, key, value.clone());
    let parsed: Result<Config, toml::de::Error> = alone.try_into();
    parsed.map(drop).map_err(|error| AgentError::config(name.to_owned(), error.message()))
}

impl Config {
    /// Lets the defaults of keys that were not set go along with those that were: nobody is told
    /// off about a key they did not write.
    fn follow(&mut self, is_set: impl Fn(&str) -> bool) {
        if !is_set("subjects.prometheus_limit") {
            let subjects = &mut self.subjects;
            subjects.prometheus_limit = subjects.prometheus_limit.min(subjects.limit);
        }
        let sampling = &mut self.sampling;
        if !is_set("sampling.fastest") {
            sampling.fastest = sampling.fastest.min(sampling.slowest);
        }
        if !is_set("sampling.retention") {
            sampling.retention = sampling.retention.max(sampling.two_samples());
        }
    }

    /// The first thing that cannot be, as its key and what is wrong with it.
    fn fault(&self) -> Option<(&'static str, String)> {
        let ms = Period::millis;
        let hour = ms(3_600_000);
        let sampling = &self.sampling;
        let ranges = [
            ("sampling.period", sampling.period, ms(1), ms(60_000)),
            ("sampling.fastest", sampling.fastest, ms(1), sampling.slowest),
            ("sampling.slowest", sampling.slowest, ms(1), ms(60_000)),
            ("subjects.period", self.subjects.period, ms(100), ms(60_000)),
            ("http.read_timeout", self.http.read_timeout, ms(100), hour),
            ("http.write_timeout", self.http.write_timeout, ms(100), hour),
            ("sources.pcm.interval", self.sources.pcm.interval, ms(100), ms(60_000)),
            ("recording.rotate_after", self.recording.rotate_after, ms(1_000), ms(86_400_000)),
        ];
        for (key, value, least, most) in ranges {
            if value < least || value > most {
                return Some((key, format!("{value} is not within {least} and {most}")));
            }
        }
        let least = sampling.two_samples();
        if sampling.retention < least || sampling.retention > hour {
            let what = format!(
                "{} is not within {least} (two samples) and {hour}; a window holds at least two",
                sampling.retention
            );
            return Some(("sampling.retention", what));
        }
        self.fault_of_shares()
            .or_else(|| self.fault_of_counts())
            .or_else(|| self.fault_of_slots())
            .or_else(|| self.fault_of_recording())
    }

    fn fault_of_recording(&self) -> Option<(&'static str, String)> {
        let recording = !self.recording.out.as_os_str().is_empty();
        (recording && self.sources.counters.mode == Mode::Off).then(|| {
            let what = "nothing is recorded without the counters; leave it empty, or set \
                        sources.counters.mode to \"auto\" or \"on\"";
            ("recording.out", what.to_owned())
        })
    }

    fn fault_of_shares(&self) -> Option<(&'static str, String)> {
        let shares = [
            ("sampling.budget", self.sampling.budget),
            ("sources.probe.cpu_share", self.sources.probe.cpu_share),
        ];
        shares.into_iter().find(|(_, share)| !(0.0001..=1.0).contains(share)).map(|(key, share)| {
            (key, format!("{share} is not a share of one core within 0.0001 and 1"))
        })
    }

    fn fault_of_counts(&self) -> Option<(&'static str, String)> {
        let counts = [
            ("subjects.limit", self.subjects.limit, 1..=100_000),
            ("subjects.prometheus_limit", self.subjects.prometheus_limit, 0..=self.subjects.limit),
            ("http.connections", self.http.connections, 1..=65_536),
        ];
        for (key, count, range) in counts {
            if !range.contains(&count) {
                let what = format!("{count} is not within {} and {}", range.start(), range.end());
                return Some((key, what));
            }
        }
        let format = &self.recording.format;
        let known = format.parse::<crosstalk_recording::Format>();
        known.err().map(|what| ("recording.format", what))
    }

    fn fault_of_slots(&self) -> Option<(&'static str, String)> {
        const KEY: &str = "sources.counters.slot";
        let slot = self.slot();
        if let Err(error) = crosstalk_model::SlotLength::from_nanos(slot.nanos()) {
            return Some((KEY, error.to_string()));
        }
        let sampling = &self.sampling;
        let pace = if sampling.adaptive { sampling.fastest } else { sampling.period };
        if slot > pace || !self.subjects.period.is_multiple_of(slot) {
            let periods = format!("{pace} and {}", self.subjects.period);
            return Some((KEY, format!("{slot} does not go into the periods {periods}")));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_text(text: &str) -> Result<Config, AgentError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.toml");
        fs::write(&path, text).unwrap();
        load(Some(&path), [], &Overrides::default())
    }

    fn env(pairs: &[(&str, &str)]) -> Result<Config, AgentError> {
        let pairs = pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        load(None, pairs, &Overrides::default())
    }

    #[test]
    fn the_sample_says_exactly_the_defaults() {
        assert_eq!(toml::from_str::<Config>(SAMPLE).unwrap(), Config::default());
        assert_eq!(with_text(SAMPLE).unwrap(), Config::default());
        assert_eq!(env(&[]).unwrap(), Config::default());
    }

    #[test]
    fn every_table_and_key_of_the_configuration_is_in_the_sample() {
        // The debug form names every field, so a field that was forgotten in the sample shows.
        let text = format!("{:?}", Config::default());
        let fields: Vec<&str> = text
            .split([' ', '{', ','])
            .filter_map(|word| word.strip_suffix(':'))
            .filter(|word| word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'))
            .collect();
        assert!(fields.len() > 20, "{text}");
        for field in fields {
            assert!(SAMPLE.contains(&format!("\n{field} =")) || SAMPLE.contains(field), "{field}");
        }
    }

    #[test]
    fn an_error_names_file_and_line_whatever_its_kind() {
        for (text, line, word) in [
            ("\n[sampling]\nperiod = \"soon\"\n", 3, "length of time"),
            ("listen = \"127.0.0.1\"\n", 1, "socket address"),
            ("[sampling]\n\nperiods = \"1s\"\n", 3, "unknown field"),
            ("[http]\nconnections = 0\n", 2, "within 1 and 65536"),
            ("[sampling]\nperiod = \"20s\"\nretention = \"30s\"\n", 3, "two samples"),
            ("[sources.pcm]\nmode = \"maybe\"\n", 2, "unknown variant"),
            ("a = = 1", 1, ""),
            ("[recording]\nformat = \"xls\"\n", 2, "csv"),
            (
                "[sources.counters]\nmode = \"off\"\n[recording]\nout = \"x\"\n",
                4,
                "sources.counters.mode",
            ),
        ] {
            let error = with_text(text).unwrap_err().to_string();
            assert!(error.contains(&format!("agent.toml:{line}: ")), "{text}: {error}");
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn the_environment_wins_over_the_file_and_is_named_when_wrong() {
        let config = env(&[
            ("CROSSTALK_AGENT_SAMPLING_PERIOD", "500ms"),
            ("CROSSTALK_AGENT_HTTP_CONNECTIONS", "7"),
            ("CROSSTALK_AGENT_SOURCES_PCM_ARGS", "[\"1\", \"-csv\"]"),
            ("CROSSTALK_AGENT_SERVICE_HOST", "10.0.0.1"),
        ])
        .unwrap();
        assert_eq!(config.sampling.period, Period::millis(500));
        assert_eq!(config.http.connections, 7);
        assert_eq!(config.sources.pcm.args, ["1", "-csv"]);
        for (name, value) in
            [("CROSSTALK_AGENT_SAMPLING_PERIOD", "x"), ("CROSSTALK_AGENT_SUBJECTS_LIMIT", "0")]
        {
            let error = env(&[(name, value)]).unwrap_err().to_string();
            assert!(error.starts_with(name), "{error}");
        }
    }

    #[test]
    fn text_from_the_environment_is_text_whatever_it_looks_like() {
        let config = env(&[
            ("CROSSTALK_AGENT_RECORDING_OUT", "2026"),
            ("CROSSTALK_AGENT_SOURCES_PCM_COMMAND", "true"),
            ("CROSSTALK_AGENT_RECORDING_FORMAT", "\"csv\""),
        ])
        .unwrap();
        assert_eq!(config.recording.out, Path::new("2026"));
        assert_eq!(config.sources.pcm.command, "true");
        assert_eq!(config.recording.format, "csv");
    }

    #[test]
    fn defaults_go_along_with_what_was_set_and_what_was_set_does_not() {
        assert_eq!(with_text("[subjects]\nlimit = 10\n").unwrap().subjects.prometheus_limit, 10);
        let slow = with_text("[sampling]\nperiod = \"20s\"\n").unwrap();
        assert_eq!(slow.sampling.retention, Period::millis(40_000));
        let hasty = with_text("[sampling]\nslowest = \"50ms\"\n").unwrap();
        assert_eq!(hasty.sampling.fastest, Period::millis(50));
        let odd = with_text("[subjects]\nperiod = \"150ms\"\n").unwrap();
        assert_eq!(odd.slot(), Period::millis(1));
        let both = with_text("[subjects]\nlimit = 10\nprometheus_limit = 20\n");
        assert!(both.unwrap_err().to_string().contains("agent.toml:3: subjects.prometheus_limit"));
    }

    #[test]
    fn slots_follow_the_pace_and_the_recording() {
        assert_eq!(Config::default().slot(), Period::millis(20));
        let recording = with_text("[recording]\nout = \"x\"\n").unwrap();
        assert_eq!(recording.slot(), Period::millis(1));
        let fast = with_text("[sampling]\nperiod = \"1ms\"\n").unwrap();
        assert_eq!(fast.slot(), Period::millis(1));
        let odd = with_text("[sources.counters]\nslot = \"300ms\"\n").unwrap_err().to_string();
        assert!(odd.contains("agent.toml:2: sources.counters.slot"), "{odd}");
    }
}
