//! Recordings whose truth is known: who really hurt whom, when, by how much and through what.
//!
//! A [`Node`] is a machine, slot by slot: tasks that take turns on cores, a shared cache of random replacement with a
//! miss curve for each task, memory as a queue, a clock that falls as cores wake, time stolen by the host, and noise.
//! Beside the machine as it is, it keeps one as it would be without each of the tasks that may hurt others: the
//! difference is the truth. What it measures has the row types of real recordings, and every slot of every core adds up
//! as in one. [`record()`] writes any number of nodes in fixed memory, the labels beside them.
//!
//! It shares no assumption with the estimator in `crosstalk-interference`, and knows nothing of it.
//!
//! ```
//! use crosstalk_simulate::{Machine, Node, Scenario, Workload};
//!
//! let scenario = Scenario {
//!     machine: Machine { cores: 2, cores_per_cache: 2, cores_per_memory: 2, ..Machine::default() },
//!     workload: vec![
//!         Workload { cores: vec![0], ..Workload::serve("victim", 8 << 20) },
//!         Workload { cores: vec![1], ..Workload::stream("stream") },
//!     ],
//!     ..Scenario::default()
//! };
//! let mut node = Node::new(&scenario, 7, 1_767_225_600_000_000_000);
//! for _ in 0..5_000 {
//!     node.step();
//! }
//! assert!(node.take_truth().dearer_s(0, 1) > 0.01);
//! ```

mod contention;
mod error;
mod labels;
mod node;
mod random;
mod record;
mod scenario;
mod task;
mod truth;

pub use error::Error;
pub use node::{Measured, Node, SLOT_NS};
pub use random::Random;
pub use record::{Options, Progress, Written, record};
pub use scenario::{Host, Machine, Pattern, Scenario, Workload};
pub use truth::{Cause, Label, Truth};
