use crosstalk_host::{HostError, WithFix};
use std::io;

/// Why the probe cannot run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// The cores of this machine are not known.
    #[error("the probe needs the list of cores: {0}")]
    Topology(#[from] HostError),
    /// The probe's thread could not be made.
    #[error("probe thread: {0}")]
    Thread(#[source] io::Error),
}

impl WithFix for ProbeError {
    fn fix(&self) -> Option<&str> {
        match self {
            Self::Topology(_) => Some("check --host-root"),
            Self::Thread(_) => None,
        }
    }
}
