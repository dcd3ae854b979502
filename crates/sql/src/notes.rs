use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// What could not be read while the rest was: told once each, after the answer.
#[derive(Clone, Debug, Default)]
pub struct Notes(Arc<Mutex<BTreeSet<String>>>);

impl Notes {
    /// Remembers something, once.
    pub fn add(&self, what: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(what);
    }

    /// Takes out what was noted.
    pub fn take(&self) -> Vec<String> {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *noted).into_iter().collect()
    }
}
