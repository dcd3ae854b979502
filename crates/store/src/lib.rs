//! The processor's tables: training performance, events, and the inventory of pods, devices and
//! workloads, on SQLite, PostgreSQL or MySQL behind one interface.
//!
//! [`Store::open`] brings the tables up to date by itself. A batch is written in one transaction
//! or not at all, and is durable when the call returns. Training runs are numbered by [`run`], a
//! pure decision taken inside that transaction, so that two processors never disagree.
//!
//! This crate never parses a log line, never speaks HTTP, and never shows a password: a database
//! is named by [`Store::location`], which has none.

mod dialect;
mod error;
mod event;
mod history;
mod inventory;
mod iteration;
mod location;
mod owner;
mod record;
mod retention;
pub mod run;
mod schema;
mod sql;
mod store;
mod training;
mod workload;

pub use error::Error;
pub use event::{Event, EventFilter};
pub use inventory::{Container, Device, Inventory, Pod, PodWorkload, Workload};
pub use owner::Group;
pub use record::{Observation, Recorded, Rejected, Sighting, check};
pub use retention::{Pruned, Table};
pub use store::{Listing, MAX_PAGE, Page, Store};
pub use training::{
    MAX_POINTS, Reporter, RunSummary, TrainingPoint, TrainingQuery, TrainingSeries,
};
pub use workload::WorkloadSummary;
