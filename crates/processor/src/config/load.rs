//! Reading the file and the environment; errors say where.

use std::path::Path;

use serde::Deserialize;
use toml::de::{DeTable, DeValue};

use super::Config;
use super::validate::{self, Step};

/// A configuration that cannot be used, with the file and line where that is known.
#[derive(Debug, thiserror::Error)]
#[error("{place}: {reason}")]
pub struct ConfigError {
    place: String,
    reason: String,
}

impl ConfigError {
    fn new(place: impl Into<String>, reason: impl ToString) -> Self {
        ConfigError { place: place.into(), reason: reason.to_string() }
    }
}

/// Variables of the environment that change the configuration begin so; `__` goes one level down.
const ENVIRONMENT_PREFIX: &str = "CROSSTALK_PROCESSOR_";

impl Config {
    /// Reads `file` (or nothing), lets the variables of `environment` override it, and checks the result.
    ///
    /// `CROSSTALK_PROCESSOR_ENRICHMENT__MISSING=pass` sets `missing` in `[enrichment]`. A value is read as TOML where
    /// that gives what is asked for, else as text: a token of digits is text.
    pub fn load(
        file: Option<&Path>,
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Config, ConfigError> {
        let (name, source) = match file {
            Some(path) => {
                let name = path.display().to_string();
                let source = std::fs::read_to_string(path);
                (name.clone(), source.map_err(|error| ConfigError::new(name, error))?)
            }
            None => ("configuration".to_owned(), String::new()),
        };
        // Alone first: only so do errors of the file carry its lines.
        let config = parse(&name, &source)?;
        let mut variables: Vec<_> = environment
            .into_iter()
            .filter(|(key, _)| key.starts_with(ENVIRONMENT_PREFIX))
            .collect();
        if variables.is_empty() {
            return check(&name, &source, config);
        }
        variables.sort();
        let mut table: toml::Table =
            toml::from_str(&source).map_err(|error| ConfigError::new(&name, reason(&error)))?;
        let mut config = config;
        for (key, text) in variables {
            config = set(&mut table, &key, &text)?;
        }
        check(&name, &source, config)
    }

    /// Reads and checks TOML text; `name` stands in errors.
    pub fn from_toml(name: &str, source: &str) -> Result<Config, ConfigError> {
        check(name, source, parse(name, source)?)
    }

    /// Checks a configuration that was changed after it was loaded, by flags for example.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match validate::first_fault(self) {
            Some(fault) => Err(ConfigError::new(fault.path_text(), fault.reason)),
            None => Ok(()),
        }
    }
}

fn parse(name: &str, source: &str) -> Result<Config, ConfigError> {
    toml::from_str(source).map_err(|error| {
        let place = match error.span() {
            Some(span) => format!("{name}:{}", line(source, span.start)),
            None => name.to_owned(),
        };
        ConfigError::new(place, reason(&error))
    })
}

/// What is wrong, without the value: it may be a secret in the wrong place.
fn reason(error: &toml::de::Error) -> String {
    let message = error.message();
    let mismatch =
        ["invalid type: ", "invalid value: "].iter().any(|kind| message.starts_with(kind));
    // Such a message is `invalid type: KIND VALUE, expected WHAT`, the value in quotes of either sort.
    match (message.find(['`', '"']), message.rfind(", expected ")) {
        (Some(value), Some(expected)) if mismatch && value < expected => {
            format!("{}{}", message[..value].trim_end(), &message[expected..])
        }
        _ => message.to_owned(),
    }
}

fn check(name: &str, source: &str, config: Config) -> Result<Config, ConfigError> {
    let Some(fault) = validate::first_fault(&config) else {
        return Ok(config);
    };
    let place = match find(source, &fault.path) {
        Some(offset) => format!("{name}:{}: {}", line(source, offset), fault.path_text()),
        None => format!("{name}: {}", fault.path_text()),
    };
    Err(ConfigError::new(place, fault.reason))
}

fn line(source: &str, offset: usize) -> usize {
    1 + source.as_bytes()[..offset.min(source.len())].iter().filter(|&&b| b == b'\n').count()
}

/// Where in the text the value at `path` stands; a missing key is found by its table.
fn find(source: &str, path: &[Step]) -> Option<usize> {
    let document = DeTable::parse(source).ok()?;
    let mut place = document.span().start;
    let mut value = DeValue::Table(document.into_inner());
    for step in path {
        let next = match (step, &value) {
            (Step::Key(key), DeValue::Table(table)) => table.get(*key).cloned(),
            (Step::Index(index), DeValue::Array(array)) => array.get(*index).cloned(),
            _ => None,
        };
        let Some(next) = next else { break };
        place = next.span().start;
        value = next.into_inner();
    }
    Some(place)
}

/// Sets what `variable` names, and gives the configuration that makes.
fn set(table: &mut toml::Table, variable: &str, text: &str) -> Result<Config, ConfigError> {
    let place = || format!("environment variable {variable}");
    let path = variable[ENVIRONMENT_PREFIX.len()..].to_lowercase();
    let mut attempt = |value: toml::Value| {
        insert(table, &path, value).map_err(|reason| ConfigError::new(place(), reason))?;
        Config::deserialize(toml::Value::Table(table.clone()))
            .map_err(|error| ConfigError::new(place(), reason(&error)))
    };
    let as_text = || toml::Value::String(text.to_owned());
    let parsed = toml::from_str::<toml::Table>(&format!("value = {text}"));
    match parsed.ok().and_then(|mut parsed| parsed.remove("value")) {
        Some(value) => attempt(value).or_else(|error| attempt(as_text()).map_err(|_| error)),
        None => attempt(as_text()),
    }
}

/// Puts a value where `path` says, making tables on the way.
fn insert(table: &mut toml::Table, path: &str, value: toml::Value) -> Result<(), String> {
    let mut keys: Vec<&str> = path.split("__").collect();
    let last = keys.pop().unwrap_or_default();
    let mut table = table;
    for key in keys {
        let inner = table.entry(key).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        table = inner.as_table_mut().ok_or_else(|| format!("{key} is not a table"))?;
    }
    table.insert(last.to_owned(), value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(source: &str) -> String {
        Config::from_toml("p.toml", source).unwrap_err().to_string()
    }

    #[test]
    fn nothing_configured_is_a_working_configuration() {
        let config = Config::load(None, []).unwrap();
        assert!(config.listen.ip().is_loopback());
        assert!(config.endpoints.is_empty());
    }

    #[test]
    fn a_wrong_value_is_named_with_its_line() {
        let text = error("listen = \"127.0.0.1:1\"\n\n[enrichment]\nmissing = \"lose\"\n");
        assert!(text.starts_with("p.toml:4: "), "{text}");
        let text = error("[limits]\nmax_serie = 1\n");
        assert!(text.starts_with("p.toml:2: ") && text.contains("max_serie"), "{text}");
    }

    #[test]
    fn a_value_that_makes_no_sense_is_named_with_its_line() {
        let text = error("[[endpoint]]\nname = \"a\"\nurl = \"ftp://x\"\n");
        assert!(text.starts_with("p.toml:3: endpoint[0].url: "), "{text}");
        let text = error("[listener]\ntls_cert = \"a.pem\"\n");
        assert!(text.starts_with("p.toml:") && text.contains("tls_key"), "{text}");
        let endpoint = "[[endpoint]]\nname = \"a\"\nurl = \"http://x/\"\n";
        let text = error(&endpoint.repeat(2));
        assert!(text.starts_with("p.toml:5: endpoint[1].name: "), "{text}");
    }

    #[test]
    fn the_environment_goes_over_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.toml");
        std::fs::write(&path, "listen = \"127.0.0.1:1\"\n[limits]\nmax_series = 5\n").unwrap();
        let variables = [
            ("CROSSTALK_PROCESSOR_LISTEN", "127.0.0.1:2"),
            ("CROSSTALK_PROCESSOR_LIMITS__MAX_LABELS", "7"),
            ("CROSSTALK_PROCESSOR_ENRICHMENT__MISSING", "tag"),
            ("HOME", "/"),
        ];
        let variables = variables.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let config = Config::load(Some(&path), variables).unwrap();
        assert_eq!(config.listen.port(), 2);
        assert_eq!((config.limits.max_series, config.limits.max_labels), (5, 7));
        assert_eq!(config.enrichment.missing, super::super::Missing::Tag);
    }

    fn load_with(variable: &str, value: &str) -> Result<Config, ConfigError> {
        Config::load(None, [(format!("CROSSTALK_PROCESSOR_{variable}"), value.to_owned())])
    }

    #[test]
    fn a_token_of_any_shape_is_taken_from_the_environment_as_it_is() {
        for token in ["98765432101", "0x1f", "1_000", "1e5", "true", "2026-11-16", "[1]", "s3cret"]
        {
            let config = load_with("LISTENER__BEARER_TOKEN", token).unwrap();
            assert_eq!(config.listener.bearer_token.unwrap().reveal(), token);
        }
    }

    #[test]
    fn no_error_repeats_a_secret() {
        for source in [
            "[listener]\nbearer_token = 98765432101\n",
            "[listener]\nbearer_token = [98765432101]\n",
            "[listener]\nbearer_token = 98765432101.5\n",
            "listener = \"98765432101\"\n",
            "listener = 98765432101\n",
            "[[endpoint]]\nname = \"a\"\nurl = 98765432101\n",
            "endpoint = \"http://me:98765432101@host/\"\n",
        ] {
            let text = error(source);
            assert!(!text.contains("98765432101"), "{text}");
            assert!(text.starts_with("p.toml:"), "{text}");
        }
        let text = error("\n[listener]\nbearer_token = 98765432101\n");
        assert!(text.starts_with("p.toml:3: ") && text.contains("quotes"), "{text}");
        for (variable, value) in [
            ("LISTENER", "bearer_token = 98765432101"),
            ("ENDPOINT", "[{name = \"a\", url = \"http://me:98765432101@host/\" oops}]"),
            ("ENDPOINT", "[{name = \"a\", url = \"http://h/\", bearer_token = 98765432101}]"),
        ] {
            let text = load_with(variable, value).unwrap_err().to_string();
            assert!(text.contains(variable) && !text.contains("98765432101"), "{text}");
        }
    }

    #[test]
    fn a_wrong_variable_is_named() {
        let variables = [("CROSSTALK_PROCESSOR_LISTEN".to_owned(), "here".to_owned())];
        let text = Config::load(None, variables).unwrap_err().to_string();
        assert!(text.contains("CROSSTALK_PROCESSOR_LISTEN"), "{text}");
    }
}
