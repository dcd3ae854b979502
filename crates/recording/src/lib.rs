//! Data sets on disk: CSV and Parquet, rotation, and recovery after a crash.
//!
//! A file being written ends in `.part` and is renamed only when it is whole, so a name without
//! `.part` always means a finished file. CSV parts are plain CSV; Parquet cannot be read without
//! its footer, so a Parquet file grows as an Arrow IPC stream and is converted when it is closed.
//! Either way a kill -9 costs what was not yet handed to [`Recording::write`], and the next
//! [`Recording::create`] finishes what it finds.
//!
//! This crate knows tables, not where their values come from.

mod arrow_part;
mod csv;
mod csv_part;
mod error;
mod lock;
mod metadata;
mod name;
mod parquet;
mod part;
mod recording;
mod recovery;
mod schema;
mod table;

pub use error::Error;
pub use metadata::Metadata;
pub use name::Layout;
pub use part::Format;
pub use recording::{FinishedFile, Recording, RecordingOptions};
pub use recovery::Recovered;
pub use schema::arrow_schema;
pub use table::{cache_batch, probe_batch, slots_batch, tasks_batch};
