//! Sending them once more.

use std::path::Path;

use super::{DeadLetters, Letter};
use crate::config::Endpoint;
use crate::error::Error;
use crate::forward::{Client, Verdict};
use crate::ingest::block_protocol;

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
    mut told: impl FnMut(&Letter, &Replayed),
) -> Result<(), Error> {
    let letters = DeadLetters::of(data_dir, &endpoint.name);
    let failed = |cause| Error::Queue { endpoint: endpoint.name.clone(), cause };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(crate::error::file_error(data_dir))?;
    let client = Client::new(endpoint)?;
    for segment in letters.segments().map_err(failed)? {
        for letter in letters.letters(segment).map_err(failed)?.iter().filter(|l| chosen(l)) {
            let replayed = match block_protocol(letter.kind) {
                None => Replayed::Refused(0, format!("block of unknown kind {}", letter.kind)),
                Some(protocol) => {
                    match runtime.block_on(client.send(protocol, letter.block.clone())) {
                        Verdict::Delivered => Replayed::Delivered,
                        Verdict::Refused { status, reason } => Replayed::Refused(status, reason),
                        Verdict::Again { detail, .. } => Replayed::Away(detail),
                    }
                }
            };
            if replayed == Replayed::Delivered {
                letters.forget(letter).map_err(failed)?;
            }
            told(letter, &replayed);
            if matches!(replayed, Replayed::Away(_)) {
                return Ok(());
            }
        }
    }
    Ok(())
}
