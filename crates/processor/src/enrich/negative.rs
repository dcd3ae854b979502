//! Samples below zero: sensors that report errors as -1 would otherwise pull averages down.

use crate::config::Negative;

/// Which metrics lose their negative samples: all, but for those a pattern keeps.
///
/// ```
/// use crosstalk_processor::config::Negative;
/// use crosstalk_processor::enrich::NegativeRule;
/// let rule = NegativeRule::new(&Negative {
///     keep: vec!["*_celsius".into()],
///     drop: vec!["gpu_*".into()],
/// });
/// assert!(rule.drops("power_watts"));
/// assert!(!rule.drops("room_celsius"));
/// assert!(rule.drops("gpu_celsius"));
/// ```
#[derive(Debug, Clone, Default)]
pub struct NegativeRule {
    keep: Vec<String>,
    drop: Vec<String>,
}

impl NegativeRule {
    /// The rule of a configuration.
    pub fn new(negative: &Negative) -> Self {
        NegativeRule { keep: negative.keep.clone(), drop: negative.drop.clone() }
    }

    /// Whether negative samples of `metric` are left out.
    pub fn drops(&self, metric: &str) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|pattern| matches(pattern, metric));
        !any(&self.keep) || any(&self.drop)
    }
}

/// Whether `text` is what `pattern` describes; `*` stands for any run of characters.
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else {
        return false;
    };
    let mut last = None;
    for part in parts {
        if let Some(middle) = last.replace(part) {
            match rest.find(middle) {
                Some(at) => rest = &rest[at + middle.len()..],
                None => return false,
            }
        }
    }
    match last {
        Some(end) => rest.ends_with(end),
        None => rest.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_run() {
        for (pattern, text, expected) in [
            ("up", "up", true),
            ("up", "upper", false),
            ("*", "", true),
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("*b*", "abc", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
