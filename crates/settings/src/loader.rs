//! File, environment and flags, one over the other.

use crate::environment::{Meaning, meaning, variable};
use crate::error::SettingsError;
use crate::tree::{Entry, Node, Place, Value};
use crate::{keys, read};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What a service can be told.
pub trait Configuration: DeserializeOwned + Serialize + Default {
    /// Lets defaults of keys that were not set go along with those that were: nobody is told off about a key they did
    /// not write.
    fn follow(&mut self, _is_set: &dyn Fn(&str) -> bool) {}

    /// The first thing that cannot be although every value alone could.
    fn fault(&self) -> Option<Fault> {
        None
    }
}

/// A value that makes no sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its path, such as `endpoint[1].url`.
    pub key: String,
    /// What is wrong, and what would be right.
    pub what: String,
}

impl Fault {
    /// A fault of `key`.
    pub fn new(key: impl Into<String>, what: impl Into<String>) -> Self {
        Self { key: key.into(), what: what.into() }
    }
}

/// A configuration that was loaded.
#[derive(Clone, Debug)]
pub struct Loaded<T> {
    /// The configuration.
    pub config: T,
    /// What is strange, though it stops nothing.
    pub warnings: Vec<String>,
}

/// Puts a configuration together.
#[derive(Debug)]
pub struct Loader {
    prefix: String,
    source: Source,
    environment: Vec<(OsString, OsString)>,
    flags: Vec<Flag>,
}

#[derive(Debug)]
enum Source {
    None,
    File(PathBuf),
    Text(String, String),
}

#[derive(Debug)]
enum Flag {
    Set { place: Place, key: String, value: String },
    Push { place: Place, key: String, entries: Vec<(String, String)> },
}

impl Loader {
    /// For the service of this name: its variables begin with `CROSSTALK_NAME_`.
    #[must_use]
    pub fn new(service: &str) -> Self {
        let prefix = format!("CROSSTALK_{}_", service.to_uppercase());
        Self { prefix, source: Source::None, environment: Vec::new(), flags: Vec::new() }
    }

    /// Reads this file first, if there is one.
    #[must_use]
    pub fn file(mut self, path: Option<&Path>) -> Self {
        self.source = path.map_or(Source::None, |path| Source::File(path.to_owned()));
        self
    }

    /// Reads this text in place of a file; `name` stands in errors and says the format.
    #[must_use]
    pub fn text(mut self, name: &str, text: &str) -> Self {
        self.source = Source::Text(name.to_owned(), text.to_owned());
        self
    }

    /// Takes the variables that are ours, such as those of [`std::env::vars_os`].
    #[must_use]
    pub fn environment(mut self, all: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        let ours = |name: &OsString| name.as_encoded_bytes().starts_with(self.prefix.as_bytes());
        self.environment = all.into_iter().filter(|(name, _)| ours(name)).collect();
        self.environment.sort();
        self
    }

    /// Lets a flag set a key, if it was given.
    #[must_use]
    pub fn flag(mut self, flag: &str, key: &str, value: Option<impl ToString>) -> Self {
        let (place, key) = (Place::Named(flag.into()), key.to_owned());
        self.flags.extend(value.map(|value| Flag::Set { place, key, value: value.to_string() }));
        self
    }

    /// Lets a flag add a table to a list.
    #[must_use]
    pub fn push(mut self, flag: &str, key: &str, entries: &[(&str, &str)]) -> Self {
        let entries = entries.iter().map(|(key, text)| ((*key).to_owned(), (*text).to_owned()));
        let (place, key) = (Place::Named(flag.into()), key.to_owned());
        self.flags.push(Flag::Push { place, key, entries: entries.collect() });
        self
    }

    /// Reads everything and checks the result.
    ///
    /// A variable with our prefix that is close to a key is an error, because a start without what it was to set (a
    /// token, say) would be worse; one that is close to nothing is a warning. What Kubernetes makes for a Service of our
    /// name is passed over, as is a variable that is not UTF-8, unless it is one of our keys.
    ///
    /// # Errors
    /// If the file cannot be read, or anything anywhere cannot be; it says where.
    pub fn load<T: Configuration>(self) -> Result<Loaded<T>, SettingsError> {
        let (name, text) = match &self.source {
            Source::None => ("configuration".to_owned(), String::new()),
            Source::File(path) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|cause| SettingsError::Read { path: path.clone(), cause })?;
                (path.display().to_string(), text)
            }
            Source::Text(name, text) => (name.clone(), text.clone()),
        };
        let mut tree = Tree { root: read::read(&name, &text)?, name };
        let mut config: T = tree.parse()?;
        let keys = keys::all(&T::default());
        let mut warnings = Vec::new();
        for (variable, value) in &self.environment {
            let Some(variable) = variable.to_str() else { continue };
            if let Some((key, value)) = self.variable(variable, value, &keys, &mut warnings)? {
                config = tree.set(&Place::Named(variable.into()), key, value)?;
            }
        }
        for flag in &self.flags {
            config = match flag {
                Flag::Set { place, key, value } => tree.set_text(place, key, value)?,
                Flag::Push { place, key, entries } => tree.push(place, key, entries)?,
            };
        }
        config.follow(&|key| tree.root.place_of(key).1);
        match config.fault() {
            None => Ok(Loaded { config, warnings }),
            Some(Fault { key, what }) => {
                let place = tree.place(&tree.root.place_of(&key).0);
                Err(SettingsError::invalid(place, format!("{key}: {what}")))
            }
        }
    }

    /// The key and text a variable sets, if it is one of ours.
    fn variable<'a>(
        &self,
        name: &str,
        value: &'a OsString,
        keys: &'a [String],
        warnings: &mut Vec<String>,
    ) -> Result<Option<(&'a str, &'a str)>, SettingsError> {
        match meaning(&name[self.prefix.len()..], keys) {
            Meaning::Key(key) => match value.to_str() {
                Some(text) => Ok(Some((key, text))),
                None => Err(SettingsError::invalid(name, format!("{key}: the value is not UTF-8"))),
            },
            Meaning::Misspelt(key) => {
                let meant = variable(&self.prefix, key);
                Err(SettingsError::invalid(name, format!("no such key; did you mean {meant}?")))
            }
            Meaning::Foreign => Ok(None),
            Meaning::Unknown => {
                warnings.push(format!("environment variable {name} sets no key and is ignored"));
                Ok(None)
            }
        }
    }
}

/// The values so far, and what the file is called.
struct Tree {
    root: Node,
    name: String,
}

impl Tree {
    fn place(&self, place: &Place) -> String {
        match place {
            Place::Line(line) if self.name != "configuration" => format!("{}:{line}", self.name),
            Place::Line(_) => self.name.clone(),
            Place::Named(name) => name.to_string(),
        }
    }

    fn parse<T: Configuration>(&self) -> Result<T, SettingsError> {
        T::deserialize(&self.root).map_err(|wrong| {
            let place = self.place(wrong.place.as_ref().unwrap_or(&self.root.place));
            SettingsError::invalid(place, wrong.to_string())
        })
    }

    /// As TOML writes a value where that gives what is asked for, else as text: a token may be all digits.
    fn set<T: Configuration>(
        &mut self,
        place: &Place,
        key: &str,
        text: &str,
    ) -> Result<T, SettingsError> {
        let Some(value) = read::toml_value(text, place) else {
            return self.set_text(place, key, text);
        };
        self.root.set(key, value);
        self.parse().or_else(|error| self.set_text(place, key, text).map_err(|_| error))
    }

    /// A flag is text already: a folder's name may have quotes in it.
    fn set_text<T: Configuration>(
        &mut self,
        place: &Place,
        key: &str,
        text: &str,
    ) -> Result<T, SettingsError> {
        self.root.set(key, Node::new(place, Value::Text(text.to_owned())));
        self.parse()
    }

    fn push<T: Configuration>(
        &mut self,
        place: &Place,
        key: &str,
        entries: &[(String, String)],
    ) -> Result<T, SettingsError> {
        let entry = |(key, text): &(String, String)| Entry {
            key: key.clone(),
            place: place.clone(),
            node: Node::new(place, Value::Text(text.clone())),
        };
        let table = Value::Table(entries.iter().map(entry).collect());
        self.root.push(key, Node::new(place, table));
        self.parse()
    }
}

/// The whole configuration as TOML, secrets hidden.
///
/// # Errors
/// If it cannot be written as TOML.
pub fn effective(config: &impl Serialize) -> Result<String, SettingsError> {
    toml::to_string_pretty(config)
        .map_err(|error| SettingsError::invalid("configuration", error.to_string()))
}
