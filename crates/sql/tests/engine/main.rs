//! What the query engine promises, in one program: each file by itself would link the engine once more.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

#[cfg(feature = "ballista-node")]
mod ballista;
mod bucket;
mod keeping;
mod program;
mod shell;
mod spark;
mod sums_in_a_bucket;
mod support;
mod tables;
mod verdicts;
mod views;
