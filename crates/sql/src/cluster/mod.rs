//! A Ballista cluster: a client of one, and a scheduler and executors to make one of.
//!
//! Executors read the files themselves, so recordings lie in an object store or on a file system that all of them see.
//! Any cluster of the same version of Ballista will do; ours takes the keys of object stores from the environment.

pub(crate) mod client;
mod server;
mod stores;

pub use server::{executor, scheduler};
