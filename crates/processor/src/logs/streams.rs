//! What containers said last, where the next line may need it.
//!
//! It is kept in a file, too: a line that was taken before a restart belongs to the one that comes after it.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crosstalk_training_log::{Outcome, Parser, Stream};
use tokio::sync::watch;

use super::record::Kubernetes;

/// Streams that wait for a line at once; beyond them one is forgotten, which costs it an iteration.
const MAX_WAITING: usize = 16 << 10;

/// How often what changed is written.
const EVERY: Duration = Duration::from_secs(1);

/// The streams of all containers by who speaks; only those that wait for something are kept.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    waiting: Mutex<HashMap<String, Stream>>,
    changed: AtomicBool,
}

impl Streams {
    /// Reads the lines of one record, after those of the same container before it.
    pub(super) fn read<'t>(
        &self,
        parser: &Parser,
        speaker: &Kubernetes<'_>,
        text: &'t str,
        tell: impl FnMut(&'t str, Outcome),
    ) {
        let key = [
            &*speaker.namespace_name,
            &*speaker.pod_name,
            &*speaker.pod_id,
            &*speaker.container_name,
        ];
        let key = key.join("\0");
        let before = self.waiting().remove(&key);
        let waited = before.is_some();
        let mut stream = before.unwrap_or_default();
        stream.read(parser, text, tell);
        if stream.is_waiting() {
            let mut waiting = self.waiting();
            if waiting.len() >= MAX_WAITING
                && let Some(forgotten) = waiting.keys().next().cloned()
            {
                waiting.remove(&forgotten);
            }
            waiting.insert(key, stream);
        } else if !waited {
            return;
        }
        self.changed.store(true, Ordering::Relaxed);
    }

    /// Takes up what an earlier process kept. A file that cannot be read costs an iteration a container.
    pub(crate) fn restore(&self, path: &Path) {
        let read = std::fs::read(path).and_then(|bytes| Ok(serde_json::from_slice(&bytes)?));
        match read {
            Ok(waiting) => *self.waiting() = waiting,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "lines that wait for others cannot be read");
            }
        }
    }

    /// Writes what changed, if something did.
    pub(crate) fn save(&self, path: &Path) -> io::Result<()> {
        if !self.changed.swap(false, Ordering::Relaxed) {
            return Ok(());
        }
        let bytes = serde_json::to_vec(&*self.waiting())?;
        let fresh = path.with_extension("new");
        let written = std::fs::write(&fresh, bytes).and_then(|()| std::fs::rename(&fresh, path));
        written.inspect_err(|_| self.changed.store(true, Ordering::Relaxed))
    }

    fn waiting(&self) -> std::sync::MutexGuard<'_, HashMap<String, Stream>> {
        self.waiting.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Where they are kept.
pub(crate) fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("log-streams.json")
}

/// Writes what changed now and then, until told to stop. Requests may go on for a while then: whoever waits for them writes
/// once more.
pub(crate) async fn keep(
    streams: Arc<Streams>,
    path: PathBuf,
    mut stopping: watch::Receiver<bool>,
) {
    let mut failing = false;
    loop {
        tokio::select! {
            biased;
            _ = stopping.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(EVERY) => {}
        }
        let (of_task, to) = (Arc::clone(&streams), path.clone());
        let saved = tokio::task::spawn_blocking(move || of_task.save(&to)).await;
        let failed = match saved {
            Ok(Err(error)) => {
                if !failing {
                    tracing::warn!(path = %path.display(), %error, "cannot keep lines that wait for others");
                }
                true
            }
            _ => false,
        };
        failing = failed;
    }
}
