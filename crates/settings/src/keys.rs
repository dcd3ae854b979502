//! The keys a configuration has, and which of them was meant.

use serde::Serialize;
use serde_json::Value;

/// Every key of a configuration as its path, tables included.
pub(crate) fn all(default: &impl Serialize) -> Vec<String> {
    let mut keys = Vec::new();
    let value = serde_json::to_value(default).unwrap_or_default();
    collect(&value, "", &mut keys);
    keys
}

fn collect(value: &Value, prefix: &str, keys: &mut Vec<String>) {
    let Value::Object(table) = value else { return };
    for (name, inner) in table {
        let key = format!("{prefix}{name}");
        collect(inner, &format!("{key}."), keys);
        keys.push(key);
    }
}

/// The closest of `known`, if it is close enough to have been meant.
pub(crate) fn nearest<'a>(given: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |name: &str| {
        // An ending too many or too few: refresh_seconds for refresh.
        let longer = given.len().max(name.len());
        let extends = (given.starts_with(name) || name.starts_with(given)) && name.len() > 3;
        let edits = strsim::osa_distance(given, name);
        if extends { edits.min(2) } else { edits + usize::from(edits * 3 > longer) * longer }
    };
    known
        .map(|name| (distance(name), name))
        .min()
        .filter(|(d, _)| *d * 3 <= given.len().max(4))
        .map(|(_, name)| name)
}

/// What to say of a key that does not exist.
pub fn hint<'a>(given: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    match nearest(given, known.clone()) {
        Some(name) => format!("did you mean {name}?"),
        None => format!("there are {}", known.collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_that_was_meant_is_found_and_no_other() {
        let keys = ["period", "refresh", "retention", "head_timeout", "ca"];
        let nearest = |given| nearest(given, keys.into_iter());
        assert_eq!(nearest("peroid"), Some("period"));
        assert_eq!(nearest("periods"), Some("period"));
        assert_eq!(nearest("refresh_seconds"), Some("refresh"));
        assert_eq!(nearest("colour"), None);
        assert_eq!(nearest("cache"), None);
    }
}
