//! SQL over recordings: the data sets of one node or a thousand as tables, with ready views.
//!
//! [`Session`] opens recordings in folders or object stores on DataFusion, in this process or on a Ballista cluster. [`verdicts`]
//! has the engine gather the statistics that verdicts are made from, with the SQL files that Spark
//! runs as well, and hands them to the same numeric core as the streaming pass. [`compact`] and [`rollup`] keep a year of
//! recordings small. It is a program of its own beside `crosstalk`, because a node has no use for a query engine and
//! building one takes as long as all the rest.
//!
//! It draws no conclusion and knows no file format but through `crosstalk-recording` and DataFusion.

#![cfg(feature = "engine")]

#[cfg(feature = "ballista")]
mod cluster;
pub mod compact;
mod error;
mod lock;
mod memory;
mod notes;
pub mod query;
pub mod rollup;
mod session;
pub mod shell;
mod sketch;
pub mod spark;
mod tables;
pub mod verdicts;
pub mod views;

pub use error::Error;
pub use notes::Notes;
pub use session::{Engine, MEMORY, Options, Session};
