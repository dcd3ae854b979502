//! What a service is told: a file, then the environment, then flags, each over the one before, as one typed value.
//!
//! A configuration is a plain structure with `Deserialize`, `Serialize` and `Default`; [`Loader`] fills it. Whatever is
//! wrong is said with its place: file and line, the variable, or the flag. A key that does not exist is refused with the
//! nearest one that does, in all three formats (TOML, YAML, JSON).
//!
//! ```
//! use crosstalk_settings::{Configuration, Loader, Period};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Debug, Default, Deserialize, Serialize)]
//! #[serde(default)]
//! struct Config { pause: Period, retries: u32 }
//! impl Configuration for Config {}
//!
//! let loaded = Loader::new("example").text("e.toml", "pause = \"1m30s\"").load::<Config>()?;
//! assert_eq!(loaded.config.pause.get().as_secs(), 90);
//! let error = Loader::new("example").text("e.yaml", "retries: 1\npuase: 1s").load::<Config>().unwrap_err();
//! assert_eq!(error.to_string(), "e.yaml:2: puase: no such key; did you mean pause?");
//! # Ok::<(), crosstalk_settings::SettingsError>(())
//! ```
//!
//! figment would merge the sources too, but remembers of a value only the file it is from, not the line, and knows
//! nothing of keys close by. So the tree, which remembers, and its way into serde are our own; the parsers are not.
//!
//! # What it never does
//! It never prints a secret, never lets a misspelt key pass in silence, and never stops over a variable that is not ours.

mod environment;
mod error;
mod keys;
mod loader;
mod quantity;
mod read;
mod redact;
mod renewed;
mod secret;
mod tree;

/// The tree itself, for a file whose keys are not those of one structure and whose mistakes are all told at once.
pub mod document {
    pub use crate::keys::hint;
    pub use crate::read::read;
    pub use crate::tree::{Entry, Node, Place, Value};
}

pub use error::SettingsError;
pub use loader::{Configuration, Fault, Loaded, Loader, effective};
pub use quantity::{Bytes, Period, bytes, parse_bytes, parse_duration};
pub use redact::{Redacted, is_password};
pub use renewed::{Renewed, RenewedSecret};
pub use secret::Secret;
