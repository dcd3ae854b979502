//! What an answer of a log store means.

use std::time::Duration;

use serde::Deserialize;

use crate::config::LogStore;
use crate::post::Answer;

/// What to do with a body after a try.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Taken, but for so many lines, for a reason.
    Taken { refused: u32, reason: String },
    /// Send it again.
    Again { reason: String, after: Option<Duration> },
}

/// Elasticsearch's answer to a bulk request.
#[derive(Deserialize)]
struct Bulk {
    #[serde(default)]
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
pub(super) fn judge(store: LogStore, answer: &Answer, lines: u32) -> Verdict {
    let told = || format!("{} {}", answer.status, answer.text());
    match answer.status {
        200..=299 if store == LogStore::Elasticsearch => judge_items(answer),
        200..=299 => Verdict::Taken { refused: 0, reason: String::new() },
        400 | 413 | 422 => Verdict::Taken { refused: lines, reason: told() },
        _ => Verdict::Again { reason: told(), after: answer.retry_after },
    }
}

/// A bulk request is answered 200 whatever became of its documents. One that is there already was sent before.
fn judge_items(answer: &Answer) -> Verdict {
    let taken = |refused, reason| Verdict::Taken { refused, reason };
    // Of a store that answers something else nothing more can be known.
    let Ok(bulk) = serde_json::from_slice::<Bulk>(&answer.body) else {
        return taken(0, String::new());
    };
    let items = || bulk.items.iter().flat_map(|item| item.values());
    if let Some(busy) = items().find(|item| item.status == 429 || item.status >= 500) {
        return Verdict::Again { reason: format!("{} {}", busy.status, busy.error), after: None };
    }
    let refused: Vec<&Item> =
        items().filter(|item| bulk.errors && item.status >= 300 && item.status != 409).collect();
    let reason = refused.first().map(|item| format!("{} {}", item.status, item.error));
    taken(refused.len() as u32, reason.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(store: LogStore, status: u16, body: &str) -> Verdict {
        judge(store, &Answer { status, retry_after: None, body: body.into() }, 5)
    }

    #[test]
    fn only_a_bad_body_is_refused_and_everything_else_comes_again() {
        use LogStore::{Elasticsearch, Loki};
        let refused = |verdict| match verdict {
            Verdict::Taken { refused, .. } => Some(refused),
            Verdict::Again { .. } => None,
        };
        for status in [301, 401, 403, 404, 408, 429, 500, 503] {
            assert_eq!(refused(judged(Loki, status, "")), None, "{status}");
            assert_eq!(refused(judged(Elasticsearch, status, "")), None, "{status}");
        }
        assert_eq!(refused(judged(Loki, 204, "")), Some(0));
        assert_eq!(refused(judged(Loki, 400, "entry too far behind")), Some(5));
        assert_eq!(refused(judged(Elasticsearch, 413, "")), Some(5));
        let items = |statuses: &[u16]| {
            let items: Vec<String> = statuses
                .iter()
                .map(|status| {
                    format!(r#"{{"create": {{"status": {status}, "error": {{"reason": "r"}}}}}}"#)
                })
                .collect();
            format!(r#"{{"took": 1, "errors": true, "items": [{}]}}"#, items.join(","))
        };
        assert_eq!(refused(judged(Elasticsearch, 200, &items(&[201, 409, 400]))), Some(1));
        assert_eq!(refused(judged(Elasticsearch, 200, &items(&[201, 429]))), None);
        assert_eq!(refused(judged(Elasticsearch, 200, r#"{"took":1,"errors":false}"#)), Some(0));
    }
}
