//! What an answer of a log store means.

use std::time::Duration;

use serde::Deserialize;

use crate::config::LogStore;
use crate::post::Answer;

/// What to do with a body after a try.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Taken.
    Taken,
    /// These lines are never to be sent again; the others were taken.
    Refused { lines: Lines, status: u16, reason: String },
    /// Send it again.
    Again { reason: String, after: Option<Duration> },
}

/// Lines of a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Lines {
    All,
    /// By their places, from 0.
    These(Vec<usize>),
}

/// Elasticsearch's answer to a bulk request.
#[derive(Deserialize)]
struct Bulk {
    errors: bool,
    #[serde(default)]
    items: Vec<std::collections::BTreeMap<String, Item>>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    status: u16,
    #[serde(default)]
    error: serde_json::Value,
}

/// Only what names the body as bad is final: everything else may be better later, a token or a route that is wrong now too.
fn is_final(status: u16) -> bool {
    matches!(status, 400 | 413 | 422)
}

/// Whether a body was taken, by the answer to all of it.
pub(super) fn judge(store: LogStore, answer: &Answer) -> Verdict {
    let status = answer.status;
    match status {
        200..=299 if store == LogStore::Elasticsearch => judge_items(answer),
        200..=299 => Verdict::Taken,
        _ if is_final(status) => {
            Verdict::Refused { lines: Lines::All, status, reason: answer.text() }
        }
        _ => {
            let reason = format!("{status} {}", answer.text());
            Verdict::Again { reason, after: answer.retry_after }
        }
    }
}

/// A bulk request is answered 200 whatever became of its documents. One that is there already was sent before.
fn judge_items(answer: &Answer) -> Verdict {
    if answer.body.trim_ascii().is_empty() {
        // Of a store that says no more nothing more can be known.
        return Verdict::Taken;
    }
    // Not the store spoke, but a proxy with a page to log in, or half of the answer was lost.
    let Ok(bulk) = serde_json::from_slice::<Bulk>(&answer.body) else {
        let reason =
            format!("{} but no answer to a bulk request: {}", answer.status, answer.text());
        return Verdict::Again { reason, after: None };
    };
    let items = || bulk.items.iter().map(|item| item.values().next());
    let taken = |item: &Item| !bulk.errors || matches!(item.status, 200..=299 | 409);
    let refused = |item: &&Item| !taken(item) && is_final(item.status);
    let may_pass = |item: &&Item| !taken(item) && !is_final(item.status);
    if let Some(busy) = items().flatten().find(may_pass) {
        return Verdict::Again { reason: format!("{} {}", busy.status, busy.error), after: None };
    }
    let Some(first) = items().flatten().find(refused) else { return Verdict::Taken };
    let all = items().enumerate();
    let places = all.filter(|(_, item)| item.as_ref().is_some_and(refused)).map(|(place, _)| place);
    Verdict::Refused {
        lines: Lines::These(places.collect()),
        status: first.status,
        reason: first.error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(store: LogStore, status: u16, body: &str) -> Verdict {
        judge(store, &Answer { status, retry_after: None, body: body.into() })
    }

    #[test]
    fn only_a_bad_body_is_refused_and_everything_else_comes_again() {
        use LogStore::{Elasticsearch, Loki};
        let refused = |verdict| match verdict {
            Verdict::Refused { lines, status, .. } => Some((lines, status)),
            _ => None,
        };
        for status in [301, 401, 403, 404, 408, 429, 500, 503] {
            for store in [Loki, Elasticsearch] {
                assert!(matches!(judged(store, status, ""), Verdict::Again { .. }), "{status}");
            }
        }
        assert_eq!(judged(Loki, 204, ""), Verdict::Taken);
        assert_eq!(refused(judged(Loki, 400, "entry too far behind")), Some((Lines::All, 400)));
        assert_eq!(refused(judged(Elasticsearch, 413, "")), Some((Lines::All, 413)));
        let items = |statuses: &[u16]| {
            let items: Vec<String> = statuses
                .iter()
                .map(|status| {
                    format!(r#"{{"create": {{"status": {status}, "error": {{"reason": "r"}}}}}}"#)
                })
                .collect();
            format!(r#"{{"took": 1, "errors": true, "items": [{}]}}"#, items.join(","))
        };
        let some = refused(judged(Elasticsearch, 200, &items(&[201, 400, 409, 422])));
        assert_eq!(some, Some((Lines::These(vec![1, 3]), 400)));
        for status in [301, 401, 403, 404, 408, 500] {
            let judged = judged(Elasticsearch, 200, &items(&[201, 400, status]));
            assert!(matches!(judged, Verdict::Again { .. }), "{status}: {judged:?}");
        }
        assert!(matches!(judged(Elasticsearch, 200, &items(&[400, 429])), Verdict::Again { .. }));
        let taken = judged(Elasticsearch, 200, r#"{"took":1,"errors":false}"#);
        assert_eq!(taken, Verdict::Taken);
        assert_eq!(judged(Elasticsearch, 200, ""), Verdict::Taken);
    }

    #[test]
    fn a_200_that_no_store_wrote_takes_nothing() {
        for said in [
            "<html>log in</html>",
            r#"{"message":"log in"}"#,
            r#"{"took":1,"errors":true,"items":["#,
        ] {
            let judged = judged(LogStore::Elasticsearch, 200, said);
            assert!(matches!(judged, Verdict::Again { .. }), "{said}: {judged:?}");
        }
    }
}
