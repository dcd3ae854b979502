//! What an answer of a store means: the rules of the remote write specification.

use std::time::{Duration, SystemTime};

/// What to do with a block after a try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Stored.
    Delivered,
    /// Send it again, not before `after`.
    Again { reason: &'static str, detail: String, after: Option<Duration> },
    /// Never send it again.
    Refused { status: u16, reason: String },
}

/// Longest pause a store may ask for; beyond it we would rather ask again.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(600);

/// 2xx is stored. 400, 413 and 422 say that the block is bad, which sending it again will not mend. Everything else (a token
/// that ran out, a route that is not there yet, a redirect, a server that fails) says something about the way or the store,
/// and may be different next time.
pub(super) fn judge(
    status: u16,
    retry_after: Option<&str>,
    body: String,
    now: SystemTime,
) -> Verdict {
    let again = |reason| Verdict::Again {
        reason,
        detail: format!("{status} {body}"),
        after: retry_after.and_then(|text| parse_retry_after(text, now)),
    };
    match status {
        200..=299 => Verdict::Delivered,
        400 | 413 | 422 => Verdict::Refused { status, reason: body },
        429 => again("throttled"),
        401 | 403 => again("unauthorized"),
        300..=399 => again("redirect"),
        400..=499 => again("client_error"),
        _ => again("server_error"),
    }
}

/// Seconds, or a date.
fn parse_retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    let pause = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default(),
    };
    Some(pause.min(MAX_RETRY_AFTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_judged_as_the_specification_says() {
        let judge = |status| judge(status, None, String::new(), SystemTime::UNIX_EPOCH);
        assert_eq!(judge(200), Verdict::Delivered);
        assert_eq!(judge(204), Verdict::Delivered);
        for status in [301, 307, 401, 403, 404, 405, 408, 409, 415, 429, 500, 502, 503, 599] {
            assert!(matches!(judge(status), Verdict::Again { .. }), "{status}");
        }
        for status in [400, 413, 422] {
            assert!(matches!(judge(status), Verdict::Refused { .. }), "{status}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        let now = httpdate::parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").unwrap();
        let parse = |text| parse_retry_after(text, now).map(|pause| pause.as_secs());
        assert_eq!(parse("7"), Some(7));
        assert_eq!(parse("Sun, 06 Nov 1994 08:50:37 GMT"), Some(60));
        assert_eq!(parse("Sun, 06 Nov 1994 08:40:37 GMT"), Some(0));
        assert_eq!(parse("999999"), Some(600));
        assert_eq!(parse("soon"), None);
    }
}
