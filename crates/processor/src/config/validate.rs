//! What a type cannot say about a configuration.

use super::Config;

/// One step from the top of the configuration to a value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Key(&'static str),
    Index(usize),
}

/// A value that makes no sense.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) path: Vec<Step>,
    pub(super) reason: String,
}

impl Fault {
    /// The path as a reader would write it: `endpoint[1].url`.
    pub(super) fn path_text(&self) -> String {
        let mut text = String::new();
        for step in &self.path {
            match step {
                Step::Key(key) if text.is_empty() => text.push_str(key),
                Step::Key(key) => {
                    text.push('.');
                    text.push_str(key);
                }
                Step::Index(index) => text.push_str(&format!("[{index}]")),
            }
        }
        text
    }
}

fn fault(path: &[Step], reason: impl Into<String>) -> Option<Fault> {
    Some(Fault { path: path.to_vec(), reason: reason.into() })
}

pub(super) fn first_fault(config: &Config) -> Option<Fault> {
    listener(config)
        .or_else(|| numbers(config))
        .or_else(|| endpoints(config))
        .or_else(|| log_patterns(config))
}

fn listener(config: &Config) -> Option<Fault> {
    let listener = &config.listener;
    match (&listener.tls_cert, &listener.tls_key) {
        (Some(_), None) => {
            return fault(
                &[Step::Key("listener"), Step::Key("tls_cert")],
                "tls_cert needs tls_key beside it",
            );
        }
        (None, Some(_)) => {
            return fault(
                &[Step::Key("listener"), Step::Key("tls_key")],
                "tls_key needs tls_cert beside it",
            );
        }
        _ => {}
    }
    if listener.bearer_token.is_some() && listener.bearer_token_file.is_some() {
        let path = [Step::Key("listener"), Step::Key("bearer_token_file")];
        return fault(&path, "give bearer_token or bearer_token_file, not both");
    }
    None
}

fn numbers(config: &Config) -> Option<Fault> {
    let (listener, limits, cache) = (&config.listener, &config.limits, &config.cache);
    let at_least_one = [
        ("listener", "max_connections", listener.max_connections),
        ("listener", "max_requests", listener.max_requests),
        ("listener", "head_timeout_seconds", listener.head_timeout_seconds as usize),
        ("listener", "body_timeout_seconds", listener.body_timeout_seconds as usize),
        ("limits", "max_body_bytes", limits.max_body_bytes),
        ("limits", "max_decoded_bytes", limits.max_decoded_bytes),
        ("limits", "max_series", limits.max_series),
        ("limits", "max_samples", limits.max_samples),
        ("limits", "max_labels", limits.max_labels),
        ("cache", "refresh_seconds", cache.refresh_seconds as usize),
    ];
    let (section, key, _) = at_least_one.into_iter().find(|(_, _, value)| *value == 0)?;
    fault(&[Step::Key(section), Step::Key(key)], "must be at least 1")
}

fn endpoints(config: &Config) -> Option<Fault> {
    for (index, endpoint) in config.endpoints.iter().enumerate() {
        let path = |key| [Step::Key("endpoint"), Step::Index(index), Step::Key(key)];
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let name = &endpoint.name;
        // The name is a folder's too.
        if name.is_empty() || name.len() > 64 || name.starts_with('.') || !name.chars().all(plain) {
            let reason = "use 1 to 64 letters, digits, '-', '_' or '.', not beginning with '.'";
            return fault(&path("name"), reason);
        }
        if config.endpoints[..index].iter().any(|other| other.name == *name) {
            return fault(&path("name"), format!("{name:?} is used by another endpoint"));
        }
        let url = endpoint.url.reveal();
        if !(url.starts_with("http://") || url.starts_with("https://")) {
            return fault(&path("url"), "must begin with http:// or https://");
        }
        if let Err(error) = url.parse::<hyper::Uri>() {
            return fault(&path("url"), error.to_string());
        }
        if endpoint.bearer_token.is_some() && endpoint.bearer_token_file.is_some() {
            let reason = "give bearer_token or bearer_token_file, not both";
            return fault(&path("bearer_token_file"), reason);
        }
        // One request at its largest must fit, or it could never be taken.
        if endpoint.max_queue_bytes < config.limits.max_body_bytes as u64 {
            let reason = format!(
                "must hold at least one body of limits.max_body_bytes ({})",
                config.limits.max_body_bytes
            );
            return fault(&path("max_queue_bytes"), reason);
        }
    }
    None
}

fn log_patterns(config: &Config) -> Option<Fault> {
    config.logs.patterns.iter().enumerate().find_map(|(index, pattern)| {
        let error = crosstalk_training_log::Pattern::new(&pattern.name, &pattern.regex).err()?;
        let path =
            [Step::Key("logs"), Step::Key("pattern"), Step::Index(index), Step::Key("regex")];
        fault(&path, error.to_string())
    })
}
