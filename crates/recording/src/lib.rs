//! Data sets on disk: written as CSV and Parquet, with rotation and recovery after a crash, and read
//! back from folders and object stores.
//!
//! A file being written ends in `.part` and is renamed only when it is whole, so a name without
//! `.part` always means a finished file. CSV parts are plain CSV; Parquet cannot be read without
//! its footer, so a Parquet file grows as an Arrow IPC stream and is converted when it is closed.
//! Either way a kill -9 costs what was not yet handed to [`Recording::write`], and the next
//! [`Recording::create`] or [`recover`] finishes what it finds. Rows belong to a node and a run, by the
//! folder their file is in.
//!
//! This crate knows tables, not where their values come from.

mod additions;
mod arrow_part;
mod csv;
mod csv_part;
mod destination;
mod encoding;
mod error;
mod exchange;
mod listing;
mod metadata;
mod multipart;
mod name;
mod parquet;
mod part;
mod place;
mod reader;
mod recorder;
mod recording;
mod recovery;
mod schema;
mod sent;
mod store;
mod table;
mod upload;

pub use additions::Additions;
pub use destination::Destination;
pub use error::Error;
pub use exchange::{Exchange, Patience, Unsettled, settle};
pub use metadata::Metadata;
pub use name::{Layout, Run};
pub use parquet::{FinishedRows, ParquetFile};
pub use part::Format;
pub use place::Place;
pub use reader::{Piece, Reader, RecordedFile, Scan, State};
pub use recorder::{Recorded, Recorder, RecorderOptions, RecorderStatus, Tap};
pub use recording::{FinishedFile, Recording, RecordingOptions};
pub use recovery::{Recovered, recover};
pub use schema::arrow_schema;
pub use table::record_batch;
pub use upload::{UploadOptions, Uploaded, Uploader, upload};

/// In what a merged file says of itself: the names of the files whose rows it holds.
pub const COMPACTED_FROM: &str = "compacted_from";
