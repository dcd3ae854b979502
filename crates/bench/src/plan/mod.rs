//! What runs when: rounds, and the timeline of one.

mod rounds;
mod timeline;

pub use rounds::{Planned, Round, RoundKind, rounds};
pub use timeline::{Action, Timeline};
