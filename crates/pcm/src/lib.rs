//! Intel PCM (Performance Counter Monitor) as a source of node metrics.
//!
//! PCM reads what the kernel's counters cannot, memory controllers above all, but only on Intel,
//! with MSR access, and seldom in a virtual machine. Where it runs, this crate turns three of its
//! outputs into the same [`NodeMetrics`]: `pcm -csv` and `pcm-memory -csv` ([`CsvParser`], which
//! tells the two apart by their headers) and the JSON of `pcm-sensor-server`
//! ([`parse_sensor_server`]). [`Runner`] runs one of the commands and survives what such a child
//! may do: hang, die, flood, print garbage.
//!
//! ```
//! use crosstalk_pcm::CsvParser;
//! use std::time::Duration;
//!
//! let mut parser = CsvParser::new(Duration::from_secs(1));
//! assert!(parser.line(",,SKT0,System,System,System,")?.is_none());
//! assert!(parser.line("Date,Time,Ch0Read,Read,Write,Memory,")?.is_none());
//! let row = parser.line("2026-11-02,09:30:00.120,900.1,1000.5,500.25,1500.75,")?.expect("a row");
//! assert_eq!(row.metrics.mem_bw_read, Some(1000.5e6));
//! assert_eq!(row.metrics.ipc, None);
//! # Ok::<(), crosstalk_pcm::PcmError>(())
//! ```
//!
//! PCM dates its rows in local time without saying which; they are only used to measure the
//! interval between two rows, and only where they make sense. Date readings by their arrival.
//!
//! # What it never does
//! It runs no shell, loads no kernel module, writes no MSR, and turns no missing value into 0. It does not
//! fetch from `pcm-sensor-server`: whoever has an HTTP client passes the body in.
//! PCM itself switches off the NMI watchdog while it runs.

mod child;
mod csv;
mod error;
mod lines;
mod metrics;
mod runner;
mod sensor_server;
mod session;
mod time;

pub use csv::{CsvParser, Row};
pub use error::PcmError;
pub use metrics::NodeMetrics;
pub use runner::{Faults, Reading, Runner, RunnerConfig};
pub use sensor_server::parse_sensor_server;
pub use time::LocalTime;
