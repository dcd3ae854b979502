//! Sending them once more.

use std::path::Path;

use super::{DeadLetters, Letter};
use crate::config::{Endpoint, LogForward};
use crate::error::Error;
use crate::forward::{Client, Verdict};
use crate::ingest::block_protocol;
use crate::logs::forward::{KIND, LogVerdict, LogWay};
use crate::queue::QueueError;

/// What became of a letter that was sent again.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Replayed {
    /// The store took it; it is forgotten.
    Delivered,
    /// The store refused it again, with this status and reason; it stays.
    Refused(u16, String),
    /// The store could not be asked: this letter and those after it stay.
    Away(String),
}

/// Sends the letters that `chosen` wants to the store once more and tells `told` what became of each. A processor that runs
/// meanwhile is not disturbed.
///
/// # Errors
/// If the endpoint's files cannot be used, or the folder not be read.
pub fn replay(
    data_dir: &Path,
    endpoint: &Endpoint,
    chosen: impl Fn(&Letter) -> bool,
    report: impl FnMut(&Letter, &Replayed),
) -> Result<(), Error> {
    let client = Client::new(endpoint)?;
    let runtime = runtime(data_dir)?;
    let send = |letter: &Letter| {
        let Some(protocol) = block_protocol(letter.kind) else { return unknown(letter) };
        match runtime.block_on(client.send(protocol, letter.block.clone())) {
            Verdict::Delivered => Replayed::Delivered,
            Verdict::Refused { status, reason } => Replayed::Refused(status, reason),
            Verdict::Again { detail, .. } => Replayed::Away(detail),
        }
    };
    let letters = DeadLetters::of(data_dir, &endpoint.name);
    each(&letters, chosen, send, report)
        .map_err(|cause| Error::Queue { endpoint: endpoint.name.clone(), cause })
}

/// As [`replay`], for a log store.
///
/// # Errors
/// If the log store's files cannot be used, or the folder not be read.
pub fn replay_logs(
    data_dir: &Path,
    store: &LogForward,
    chosen: impl Fn(&Letter) -> bool,
    report: impl FnMut(&Letter, &Replayed),
) -> Result<(), Error> {
    let way = LogWay::new(store)?;
    let runtime = runtime(data_dir)?;
    let send = |letter: &Letter| match letter.kind {
        KIND => match runtime.block_on(way.send(&letter.block)) {
            LogVerdict::Taken => Replayed::Delivered,
            LogVerdict::Refused { status, reason, .. } => Replayed::Refused(status, reason),
            LogVerdict::Again { reason, .. } => Replayed::Away(reason),
        },
        _ => unknown(letter),
    };
    let letters = DeadLetters::of_log_store(data_dir, &store.name);
    each(&letters, chosen, send, report)
        .map_err(|cause| Error::Queue { endpoint: store.name.clone(), cause })
}

fn runtime(data_dir: &Path) -> Result<tokio::runtime::Runtime, Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(crate::error::file_error(data_dir))
}

fn unknown(letter: &Letter) -> Replayed {
    Replayed::Refused(0, format!("block of unknown kind {}", letter.kind))
}

/// Sends one after another until the store is away, and forgets what it took.
fn each(
    letters: &DeadLetters,
    chosen: impl Fn(&Letter) -> bool,
    send: impl Fn(&Letter) -> Replayed,
    mut report: impl FnMut(&Letter, &Replayed),
) -> Result<(), QueueError> {
    for segment in letters.segments()? {
        let mut done = letters.forgetting(segment);
        let mut away = false;
        for letter in letters.letters(segment)?.iter().filter(|letter| chosen(letter)) {
            let replayed = send(letter);
            if replayed == Replayed::Delivered {
                done.note(letter)?;
            }
            report(letter, &replayed);
            away = matches!(replayed, Replayed::Away(_));
            if away {
                break;
            }
        }
        done.finish()?;
        if away {
            break;
        }
    }
    Ok(())
}
