//! The middle of every job: sources deliver, consumers subscribe, and what falls between is counted.
//!
//! A [`Source`] says what it can do here and delivers batches of rows, or samples of metrics, through
//! its [`Outlet`]. [`Collect`] runs each on a thread of its own, starts it anew when it fails, and gives
//! all of them one clock. A consumer (the recorder, the rolling window) has a [`Subscription`]: a bounded
//! queue. A queue that is full costs that consumer the batch and nobody else anything; how much was lost
//! where is known per consumer and data set ([`Losses`]). A [`Consumer`] that panics is made anew.
//!
//! # What it never does
//! It never blocks a source because a consumer is slow, never ends because a source fails, and knows
//! neither a kernel interface nor a file format.
//!
//! ```
//! use crosstalk_collect::{About, Collect, Delivery, Outlet, Source, Wants};
//! use crosstalk_host::{Capability, Clock, Verdict};
//! use crosstalk_model::{Row, SlotCoverage};
//!
//! struct OneSlot;
//!
//! static ABOUT: About = About { name: "one-slot", datasets: &[SlotCoverage::DATASET], metrics: &[], subjects: &[] };
//!
//! impl Source for OneSlot {
//!     fn about(&self) -> &'static About {
//!         &ABOUT
//!     }
//!     fn run(&mut self, out: &Outlet) -> Result<(), Capability> {
//!         out.report(Verdict::Ok, "delivers one slot");
//!         out.deliver(vec![SlotCoverage::lost(0, 0, 1)]);
//!         Ok(())
//!     }
//! }
//!
//! let mut collect = Collect::new(Clock::measure());
//! let slots = collect.subscribe("reader", 16, Wants::Rows);
//! collect.start(Box::new(OneSlot))?;
//! let message = slots.next(std::time::Duration::from_secs(5)).unwrap();
//! assert!(matches!(message.delivery, Delivery::Rows(batch) if batch.len() == 1));
//! # Ok::<(), std::io::Error>(())
//! ```

mod collect;
mod consume;
mod losses;
mod outlet;
mod source;
mod status;
mod subscription;
mod supervise;

pub use collect::{Collect, Overview};
pub use consume::Consumer;
pub use losses::{Loss, Losses};
pub use outlet::Outlet;
pub use source::{About, Delivery, Message, NodeSample, Source, SubjectPeriod, SubjectSample};
pub use status::{Gap, SourceStatus, Standing};
pub use subscription::{Subscription, Wants};
pub use supervise::words as panic_words;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Plain values are whole even if a thread died while it held them.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
