//! A token in a file that is renewed.

use crate::source::Failure;
use hyper::header::HeaderValue;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long a token is used before its file is looked at again.
const LOOK: Duration = Duration::from_secs(1);

/// The token of a file, read again when it is renewed. A file that is empty, as it is for a moment while somebody writes it
/// anew, changes nothing: a request without a token would be anonymous, and refused for good.
#[derive(Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
    known: Mutex<(HeaderValue, Instant)>,
}

impl TokenFile {
    /// Whether there is such a file, whatever is in it.
    pub(super) fn check(path: &Path) -> Result<(), Failure> {
        std::fs::File::open(path).map(drop).map_err(|error| unreadable(path, &error))
    }

    pub(super) fn open(path: &Path) -> Result<TokenFile, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
        let value = bearer(&text).ok_or_else(|| {
            let found = format!("{}: has no token in it", path.display());
            Failure::away(found, "wait until it is written, or correct the kubeconfig")
        })?;
        Ok(TokenFile { path: path.to_owned(), known: Mutex::new((value, Instant::now())) })
    }

    /// What goes into `Authorization`.
    pub(super) fn header(&self) -> Option<HeaderValue> {
        let mut known = self.known.lock().ok()?;
        if known.1.elapsed() >= LOOK {
            known.1 = Instant::now();
            let renewed = std::fs::read_to_string(&self.path).ok();
            if let Some(value) = renewed.and_then(|text| bearer(&text)) {
                known.0 = value;
            }
        }
        Some(known.0.clone())
    }
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::away(format!("{}: {error}", path.display()), "let this user read it")
}

/// People end files with a line end, which is no part of a token.
fn bearer(text: &str) -> Option<HeaderValue> {
    let token = Some(text.trim()).filter(|token| !token.is_empty())?;
    let mut value = HeaderValue::from_str(&format!("Bearer {token}")).ok()?;
    value.set_sensitive(true);
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_file_is_no_token_and_costs_none_that_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        std::fs::write(&path, "\n").unwrap();
        assert!(TokenFile::open(&path).unwrap_err().found.contains("has no token"));
        std::fs::write(&path, "t1\n").unwrap();
        let file = TokenFile::open(&path).unwrap();
        let renew = |text: &str| {
            std::fs::write(&path, text).unwrap();
            file.known.lock().unwrap().1 = Instant::now() - 2 * LOOK;
            file.header().unwrap()
        };
        assert_eq!(renew(""), "Bearer t1");
        assert_eq!(renew("t2"), "Bearer t2");
    }
}
