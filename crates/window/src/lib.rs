//! The rolling buffer of a node's samples, and exact statistics over any window of it.
//!
//! One [`Writer`] appends samples: the time a sample ends, the length of time it covers, and one
//! value per metric, absent where nothing was measured. Any number of [`Reader`]s ask for a
//! window such as "the last 20 s" and get mean, standard deviation, minimum, maximum, p50, p95,
//! p99 and the last value of every metric, weighted by the time each sample covers *inside* the
//! window. Time no sample covers is visible as coverage below 1.
//!
//! ```
//! use crosstalk_window::{Config, buffer};
//! use std::time::Duration;
//!
//! let second = 1_000_000_000;
//! let (mut writer, reader) = buffer(Config::new(["cpu_util", "ipc"]))?;
//! writer.push(1 * second, second, &[Some(0.5), Some(1.0)])?;
//! writer.push(2 * second, second, &[Some(0.7), None])?;
//!
//! let view = reader.view();
//! // From 0.5 s to 2.5 s: half of the first sample, all of the second, then half a second of nothing.
//! let window = view.window(2 * second + second / 2, Duration::from_secs(2))?;
//! assert_eq!(window.samples(), 2);
//! assert_eq!(window.coverage(), 0.75);
//! let cpu = window.stats(0).expect("measured");
//! assert!((cpu.mean - (0.5 * 0.5 + 0.7 * 1.0) / 1.5).abs() < 1e-12);
//! assert_eq!(window.stats(1).expect("measured once").coverage, 0.25);
//! # Ok::<(), crosstalk_window::WindowError>(())
//! ```
//!
//! # Time
//! Times are nanoseconds of one monotonic clock, so a step of the wall clock moves no sample and
//! bends no window.
//! A sample that ends no later than its predecessor is refused and counted; one that begins
//! before its predecessor ended is trimmed, so no instant is weighted twice and coverage never
//! exceeds 1. If the monotonic clock leaps ahead (a paused virtual machine), the leap is a gap.
//!
//! # Why this layout
//! *Readers never block the sampler, and the sampler never blocks readers.* Samples go into a
//! chunk of 64 whose cells are atomics written once and made visible by its length; a full chunk
//! is never touched again, and the list of chunks is an immutable snapshot swapped whole. No
//! locks, no retries (a seqlock makes readers start over under a fast writer), no `unsafe`.
//!
//! *An answer does not touch every value.* 20 s at 1 kHz of 50 metrics is 10^6 values: 8 MB. Only
//! to read them once takes 0.5-0.8 ms at the 10-15 GB/s one core gets from memory, and 0.16 ms where they are all
//! in the last-level cache (`benches/answer.rs`); sorting them takes 20 ms. So the writer keeps, beside the raw
//! columns, sorted runs with cumulative weights and moments over 1, 8 and 64 chunks, built a
//! few columns per push so that no push stalls. A window is then at most a few dozen runs plus two
//! ragged edges; moments are merged, and a quantile is selected across the sorted runs by shrinking
//! brackets. It touches a few kilobytes a metric, yet the result is that of sorting everything.
//! Whoever asks often within a chunk's time finds the inner part of the window already reduced to the values
//! that can still be a percentile, and only adds the edges. `cargo bench -p crosstalk-window` prints the cost: on two shared
//! EPYC cores 0.5 ms for all eight statistics of all 50 metrics when asked for the first time, 0.05 ms when asked often, a
//! third of what only reading the values from the cache would take; a push costs 4 us on average and 0.1 ms at worst.
//! The price is 32 bytes a value where samples are of equal length and complete, 56 where not.
//!
//! # What it never does
//! No I/O, no clock reads, no threads, no interpolation, no guessing: an absent value has no weight, and a metric
//! nobody measured in the window has no statistics.

mod chunk;
mod error;
mod middle;
mod moments;
mod run;
mod select;
mod snapshot;
mod stats;
mod view;
mod writer;

pub use error::WindowError;
pub use stats::{Stats, Window};
pub use view::{Reader, View};
pub use writer::{Config, Counters, Writer, buffer};
