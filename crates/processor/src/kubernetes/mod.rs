//! Pods and their top controllers from the Kubernetes API.
//!
//! Pods are listed and watched; the owners of a pod are followed up to the top (a ReplicaSet to its Deployment, a Job
//! to its CronJob or to whatever custom controller made it), each owner asked for once. Kinds are not built in: the API
//! itself says under which path a kind is found, so a PyTorchJob, a RayJob or anything to come is followed alike. An
//! owner that may not be read (no permission, or gone) ends the chain there: its name and UID stand in the reference. So
//! does one whose API fails, but that one is asked for again.
//!
//! This is a small client of our own on the HTTP stack the forwarder uses. The processor needs list, watch and get
//! with a token or a certificate; the usual client crate would bring generated types for the whole API and several
//! times this crate's own build time for that. What it leaves out: exec plugins in a kubeconfig, which are refused with
//! the way out.

mod access;
mod client;
mod objects;
mod owners;
mod state;
mod watcher;

pub use client::Api;
pub use watcher::Watcher;
