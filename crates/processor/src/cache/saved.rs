//! What the sources said, kept on disk, so that a restart knows at once what was known before.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crosstalk_inventory::{Inventory, Saved};
use tokio::sync::watch;

/// How often what changed is written, where that takes little.
const EVERY: Duration = Duration::from_secs(2);

/// Where it takes long, all of it is written: of so many parts of the time one.
const SHARE: u32 = 20;

/// How often it is written though nothing changed: the file also says when the sources were last heard.
const ANYWAY: Duration = Duration::from_secs(300);

/// Knowledge older than this is not used: names of pods come back, under other owners.
const MAX_AGE: Duration = Duration::from_secs(3600);

/// Where it is kept.
pub(crate) fn path(data_dir: &Path) -> PathBuf {
    data_dir.join("inventory.json")
}

/// Puts what an earlier process knew in place of what the announced sources will say, and `unannounced` ones that were
/// heard then. A file that cannot be read costs only the waiting.
pub(crate) fn restore(inventory: &Inventory, path: &Path, unannounced: &[&'static str]) {
    let saved = match Saved::read(path) {
        Ok(saved) => saved.not_older_than(MAX_AGE),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "what was known before cannot be read");
            return;
        }
    };
    for source in unannounced.iter().filter(|source| saved.knows(source)) {
        inventory.announce(source);
    }
    let pods = saved.pods();
    inventory.restore(saved);
    let remembered = inventory.standing().remembered.join(", ");
    if !remembered.is_empty() {
        tracing::info!(
            pods,
            remembered,
            "using what was known before, until the sources are heard"
        );
    }
}

/// Writes what changed, until told to stop, and then once more.
pub(crate) async fn keep(inventory: Inventory, path: PathBuf, mut stopping: watch::Receiver<bool>) {
    let mut written = inventory.version();
    let mut written_at = Instant::now();
    let (mut failing, mut pause) = (false, EVERY);
    loop {
        let stop = tokio::select! {
            biased;
            _ = stopping.wait_for(|stop| *stop) => true,
            () = tokio::time::sleep(pause) => false,
        };
        let version = inventory.version();
        if stop || version != written || written_at.elapsed() >= ANYWAY {
            let (inventory, path) = (inventory.clone(), path.clone());
            let write = move || inventory.save().write(&path).map_err(|error| (path, error));
            let begun = Instant::now();
            let done = tokio::task::spawn_blocking(write).await;
            pause = EVERY.max(begun.elapsed() * SHARE).min(ANYWAY);
            match done {
                Ok(Ok(())) => {
                    (written, failing) = (version, false);
                    written_at = Instant::now();
                }
                Ok(Err((path, error))) => {
                    if !std::mem::replace(&mut failing, true) {
                        tracing::warn!(path = %path.display(), %error, "cannot keep what is known");
                    }
                }
                Err(_) => {}
            }
        }
        if stop {
            return;
        }
    }
}
