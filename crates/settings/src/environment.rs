//! Which variables are ours.

use crate::keys;

/// Whether Kubernetes (or Docker's links) makes such a variable for a Service whose name begins as ours does. `rest` is
/// the name without our prefix: a Service `crosstalk-processor` gives `SERVICE_HOST`, `SERVICE_PORT`,
/// `SERVICE_PORT_HTTP`, `PORT` and `PORT_8989_TCP` with `_ADDR`, `_PORT` and `_PROTO`; one named
/// `crosstalk-processor-http` has `HTTP_` before each.
pub(crate) fn is_of_a_service(rest: &str) -> bool {
    let words: Vec<&str> = rest.split('_').collect();
    let service = words.windows(2).any(|pair| matches!(pair, ["SERVICE", "HOST" | "PORT"]));
    let protocol = |word: &&str| matches!(*word, "TCP" | "UDP" | "SCTP");
    let port = words.iter().rposition(|word| *word == "PORT").is_some_and(|last| {
        let first = words.iter().position(|word| *word == "PORT").unwrap_or(last);
        let number = words.get(first + 1);
        last + 1 == words.len() && number.is_none()
            || number.is_some_and(|number| number.bytes().all(|digit| digit.is_ascii_digit()))
                && words.get(first + 2).is_some_and(protocol)
    });
    service || port
}

/// The variable of a key.
pub(crate) fn variable(prefix: &str, key: &str) -> String {
    format!("{prefix}{}", key.replace('.', "_").to_uppercase())
}

/// What a variable with our prefix is about.
#[derive(Debug, PartialEq)]
pub(crate) enum Meaning<'a> {
    /// It sets this key.
    Key(&'a str),
    /// It was meant to set this key.
    Misspelt(&'a str),
    /// None of our business.
    Foreign,
    /// Nobody's that we know of.
    Unknown,
}

/// Points are written as one underscore, or as two.
pub(crate) fn meaning<'a>(rest: &str, keys: &'a [String]) -> Meaning<'a> {
    let single = rest.replace("__", "_");
    let name = |key: &str| variable("", key);
    if let Some(key) = keys.iter().find(|key| name(key) == single) {
        return Meaning::Key(key);
    }
    if is_of_a_service(rest) {
        return Meaning::Foreign;
    }
    let names: Vec<String> = keys.iter().map(|key| name(key)).collect();
    match keys::nearest(&single, names.iter().map(String::as_str)) {
        Some(near) => {
            let at = names.iter().position(|name| name == near).unwrap_or_default();
            Meaning::Misspelt(&keys[at])
        }
        None => Meaning::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_made_for_a_service_are_known() {
        for name in [
            "SERVICE_HOST",
            "SERVICE_PORT",
            "SERVICE_PORT_HTTP",
            "PORT",
            "PORT_8989_TCP",
            "PORT_8989_TCP_ADDR",
            "PORT_8989_TCP_PROTO",
            "PORT_8989_TCP_PORT",
            "HEADLESS_SERVICE_HOST",
            "HEADLESS_PORT_53_UDP_ADDR",
            "HEADLESS_PORT",
        ] {
            assert!(is_of_a_service(name), "{name}");
        }
        for name in
            ["LISTEN", "PORTS", "SERVICE", "LISTENER_BEARER_TOKEN", "PORT_NUMBER", "PORT_8989"]
        {
            assert!(!is_of_a_service(name), "{name}");
        }
    }

    #[test]
    fn a_variable_is_a_key_a_misspelling_or_not_ours() {
        let keys = ["listen", "http", "http.read_timeout"].map(str::to_owned);
        assert_eq!(meaning("HTTP_READ_TIMEOUT", &keys), Meaning::Key("http.read_timeout"));
        assert_eq!(meaning("HTTP__READ_TIMEOUT", &keys), Meaning::Key("http.read_timeout"));
        assert_eq!(meaning("HTTP_READ_TIMOUT", &keys), Meaning::Misspelt("http.read_timeout"));
        assert_eq!(meaning("IMAGE_TAG", &keys), Meaning::Unknown);
    }
}
