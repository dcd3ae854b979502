use std::io;

/// Why the agent does not start. A source that fails is no reason: the others go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// It cannot listen as configured.
    #[error(transparent)]
    Serve(#[from] crosstalk_serve::ServeError),
    /// The buffers cannot be made.
    #[error("cannot make a buffer: {0}")]
    Window(#[from] crosstalk_window::WindowError),
    /// Nothing can be recorded as configured.
    #[error("recording: {0}")]
    Recording(#[from] crosstalk_recording::Error),
    /// A thread or the runtime cannot be made.
    #[error("cannot start {what}: {source}")]
    Start {
        /// Which.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}
