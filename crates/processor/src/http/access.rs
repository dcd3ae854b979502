//! The bearer token.

use axum::http::header::{AUTHORIZATION, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};

use crate::config::{Listener, Secret};
use crate::error::{Error, file_error};

/// The token that requests must bear.
#[derive(Debug)]
pub(crate) struct Token(Secret);

impl Token {
    /// The configured token, if any.
    pub(crate) fn of(listener: &Listener) -> Result<Option<Token>, Error> {
        let token = match (&listener.bearer_token, &listener.bearer_token_file) {
            (Some(token), _) => token.clone(),
            (None, Some(file)) => {
                let text = std::fs::read_to_string(file).map_err(file_error(file))?;
                Secret::new(text.trim())
            }
            (None, None) => return Ok(None),
        };
        Ok(Some(Token(token)))
    }
}

pub(super) fn allowed(token: &Option<Token>, headers: &HeaderMap) -> bool {
    let Some(Token(token)) = token else {
        return true;
    };
    let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.split_once(' '));
    given.is_some_and(|(scheme, given)| {
        scheme.eq_ignore_ascii_case("bearer")
            && same(given.trim().as_bytes(), token.reveal().as_bytes())
    })
}

/// Takes the same time wherever the first difference is.
fn same(given: &[u8], expected: &[u8]) -> bool {
    let difference = expected
        .iter()
        .enumerate()
        .fold(0, |sum, (at, byte)| sum | (byte ^ given.get(at).copied().unwrap_or(!byte)));
    difference == 0 && given.len() == expected.len() && !expected.is_empty()
}

pub(super) fn refusal() -> Response {
    let headers = [(WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, headers, "a bearer token is required\n").into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(token: &str, header: &str) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, header.parse().unwrap());
        allowed(&Some(Token(Secret::new(token))), &headers)
    }

    #[test]
    fn only_the_very_token_is_allowed() {
        assert!(allows("abc", "Bearer abc"));
        assert!(allows("abc", "bearer  abc"));
        for header in ["Bearer abcd", "Bearer ab", "Bearer abd", "Basic abc", "abc", "Bearer"] {
            assert!(!allows("abc", header), "{header}");
        }
        assert!(!allows("", "Bearer "));
        assert!(!allowed(&Some(Token(Secret::new("abc"))), &HeaderMap::new()));
        assert!(allowed(&None, &HeaderMap::new()));
    }
}
