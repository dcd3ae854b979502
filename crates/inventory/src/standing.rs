use std::time::Instant;

/// Whom the inventory still waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Standing {
    /// Sources that were never heard and of which nothing is remembered either.
    pub waiting: Vec<&'static str>,
    /// Sources that were not heard since the start, of which an earlier process's knowledge is used.
    pub remembered: Vec<&'static str>,
    /// Sources that were heard and have failed since: what is new may not be known.
    pub failing: Vec<&'static str>,
    /// Sources that know the pods of one namespace alone.
    pub confined: Vec<&'static str>,
    /// When sources were last heard that are to be heard of all the time, and until when that will do.
    pub(crate) pulses: Vec<(&'static str, Instant)>,
}

impl Standing {
    /// Sources that may know of somebody of whom nothing is known here: those that are only remembered, that fail, or that
    /// were silent for longer than they ever should be.
    pub fn doubtful(&self) -> Vec<&'static str> {
        self.doubtful_at(Instant::now())
    }

    pub(crate) fn doubtful_at(&self, now: Instant) -> Vec<&'static str> {
        let silent = self.pulses.iter().filter(|(_, until)| *until < now).map(|(name, _)| *name);
        let silent = silent.filter(|name| !self.failing.contains(name));
        self.remembered.iter().chain(&self.failing).copied().chain(silent).collect()
    }

    /// Whether every source was heard or is at least remembered.
    pub fn is_ready(&self) -> bool {
        self.waiting.is_empty()
    }
}
