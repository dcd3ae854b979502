//! What runs when: rounds, and the timeline of one.

mod length;
mod rounds;
mod timeline;

pub use length::Length;
pub use rounds::{Planned, Round, RoundKind, rounds};
pub use timeline::{Action, Timeline};
