//! The agent as a process, asked over HTTP.

mod client;
mod process;

mod answers;
mod configuration;
mod hostile_clients;
mod pcm;
mod prometheus;
mod recording;
