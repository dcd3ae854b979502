//! Priority and quality of service of a pod as Koordinator names them: by the pod's labels where it has them, else from
//! what Kubernetes itself says. Pure.

use std::collections::BTreeMap;

const PRIORITY: &str = "koordinator.sh/priority-class";
const QOS: &str = "koordinator.sh/qosClass";

/// By name, with the values of `spec.priority` that mean it.
const PRIORITIES: [(&str, std::ops::RangeInclusive<i64>); 4] = [
    ("koord-prod", 9_000..=9_999),
    ("koord-mid", 7_000..=7_999),
    ("koord-batch", 5_000..=5_999),
    ("koord-free", 3_000..=3_999),
];
const CLASSES: [&str; 5] = ["LSE", "LSR", "LS", "BE", "SYSTEM"];

type Labels = BTreeMap<String, String>;

/// Quality of service; `class` is `status.qosClass`. Empty where nothing says.
pub(super) fn qos(labels: &Labels, class: Option<&str>) -> &'static str {
    let labelled = labels.get(QOS).and_then(|text| CLASSES.into_iter().find(|known| known == text));
    labelled.unwrap_or(match class {
        Some("Guaranteed") => "LSR",
        Some("Burstable") => "LS",
        Some("BestEffort") => "BE",
        _ => "",
    })
}

/// Priority; `value` is `spec.priority`, `qos` what [`qos`] says. Empty where nothing says.
pub(super) fn priority(labels: &Labels, value: Option<i64>, qos: &str) -> &'static str {
    let named =
        |(name, _): &(&'static str, _)| labels.get(PRIORITY).is_some_and(|text| text == name);
    let valued =
        PRIORITIES.into_iter().find(|(_, values)| value.is_some_and(|v| values.contains(&v)));
    let found = PRIORITIES.into_iter().find(named).or(valued);
    found.map_or(
        match qos {
            "SYSTEM" | "LSE" | "LSR" | "LS" => "koord-prod",
            "BE" => "koord-batch",
            _ => "",
        },
        |(name, _)| name,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn labels_come_first_then_what_kubernetes_says_and_nothing_is_made_up() {
        let labelled = labels(&[(QOS, "LSE"), (PRIORITY, "koord-mid")]);
        assert_eq!(qos(&labelled, Some("BestEffort")), "LSE");
        assert_eq!(priority(&labelled, Some(9_500), "LSE"), "koord-mid");
        let none = Labels::new();
        assert_eq!(qos(&none, Some("Guaranteed")), "LSR");
        assert_eq!(qos(&none, Some("BestEffort")), "BE");
        assert_eq!(priority(&none, Some(5_999), "LS"), "koord-batch");
        assert_eq!(priority(&none, Some(2_000_000_000), "LS"), "koord-prod", "by its quality");
        assert_eq!(priority(&none, None, "BE"), "koord-batch");
        assert_eq!((qos(&none, None), priority(&none, None, "")), ("", ""));
        assert_eq!(qos(&labels(&[(QOS, "GOLD")]), Some("Burstable")), "LS", "no such class");
    }
}
