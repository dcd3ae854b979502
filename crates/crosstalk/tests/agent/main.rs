//! The agent as a process, asked over HTTP.
#![allow(clippy::unwrap_used)] // what goes wrong in a test's support is the test's failure

mod client;
mod process;
#[path = "../support/mod.rs"]
mod support;

mod answers;
mod configuration;
mod containers;
mod hostile_clients;
mod pcm;
mod prometheus;
mod recording;
mod resctrl;
mod rights;
mod secured;
mod verdicts;
