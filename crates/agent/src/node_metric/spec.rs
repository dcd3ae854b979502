//! What the object's spec asks for: pure.

use crate::memory::KEPT;
use crosstalk_coldmem::Policy;
use crosstalk_settings::Period;
use serde_json::Value;
use std::time::Duration;

/// The least that Koordinator lets the object ask for.
const LEAST_AGGREGATE: Duration = Duration::from_secs(60);
const LEAST_INTERVAL: Duration = Duration::from_secs(30);
/// As many durations as are aggregated over.
const MOST_DURATIONS: usize = 16;

/// How usage is collected and told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CollectPolicy {
    /// Usage is averaged over this.
    pub(crate) aggregate: Duration,
    /// It is told so often.
    pub(crate) every: Duration,
    /// The node's usage is aggregated over each of these.
    pub(crate) durations: Vec<Duration>,
    /// What of the page cache counts.
    pub(crate) memory: Policy,
}

impl CollectPolicy {
    /// What a spec asks for, and what of it cannot be done. What it leaves out is as here.
    pub(crate) fn obeying(&self, spec: &Value) -> (Self, Vec<String>) {
        let asked = &spec["metricCollectPolicy"];
        let mut policy = self.clone();
        let mut remarks = Vec::new();
        let mut seconds = |key: &str, least: Duration, now: &mut Duration| {
            let Some(value) = asked.get(key).filter(|value| !value.is_null()) else { return };
            let Some(number) = value.as_u64() else {
                remarks.push(format!("{key}: {value} is not a number of seconds"));
                return;
            };
            *now = Duration::from_secs(number).clamp(least, KEPT);
            if now.as_secs() != number {
                remarks.push(format!("{key}: {number} is taken as {}", now.as_secs()));
            }
        };
        seconds("aggregateDurationSeconds", LEAST_AGGREGATE, &mut policy.aggregate);
        seconds("reportIntervalSeconds", LEAST_INTERVAL, &mut policy.every);
        if let Some(durations) = asked["nodeAggregatePolicy"]["durations"].as_array() {
            policy.durations.clear();
            for value in durations.iter().take(MOST_DURATIONS) {
                let length = value.as_str().and_then(|text| text.parse::<Period>().ok());
                match length.map(Period::get).filter(|length| *length <= KEPT) {
                    Some(length) => policy.durations.push(length),
                    None => remarks.push(format!(
                        "nodeAggregatePolicy: {value} is left out: give up to {KEPT:?}"
                    )),
                }
            }
        }
        // The proposal's spelling, and the one that Koordinator shipped.
        let spellings = ["nodeMemoryCollectPolicy", "memoryCollectPolicy"];
        // An empty one is as good as none, and hides no other.
        let named = |key: &str| asked.get(key)?.as_str().filter(|name| !name.is_empty());
        match spellings.into_iter().find_map(named).map(str::parse::<Policy>) {
            Some(Ok(memory)) => policy.memory = memory,
            Some(Err(unknown)) => remarks.push(unknown.to_string()),
            None => {}
        }
        (policy, remarks)
    }
}

/// As Go prints a duration, which is how Kubernetes writes them: `5m0s`.
pub(crate) fn go_duration(length: Duration) -> String {
    let (hours, minutes) = (length.as_secs() / 3_600, length.as_secs() / 60 % 60);
    let seconds = length.as_secs_f64() % 60.0;
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn shipped() -> CollectPolicy {
        CollectPolicy {
            aggregate: Duration::from_secs(300),
            every: Duration::from_secs(60),
            durations: vec![Duration::from_secs(300)],
            memory: Policy::UsageWithoutPageCache,
        }
    }

    #[test]
    fn every_field_is_obeyed_in_both_spellings_and_what_is_left_out_stays() {
        let spec = json!({"metricCollectPolicy": {
            "aggregateDurationSeconds": 120, "reportIntervalSeconds": 30,
            "nodeAggregatePolicy": {"durations": ["5m", "10m0s", "1h"]},
            "nodeMemoryCollectPolicy": "usageWithHotPageCache",
        }});
        let (policy, remarks) = shipped().obeying(&spec);
        assert!(remarks.is_empty(), "{remarks:?}");
        assert_eq!((policy.aggregate.as_secs(), policy.every.as_secs()), (120, 30));
        assert_eq!(policy.durations, [300, 600, 3_600].map(Duration::from_secs));
        assert_eq!(policy.memory, Policy::UsageWithHotPageCache);
        let proposal =
            json!({"metricCollectPolicy": {"memoryCollectPolicy": "usageWithPageCache"}});
        assert_eq!(shipped().obeying(&proposal).0.memory, Policy::UsageWithPageCache);
        let both = json!({"metricCollectPolicy":
            {"nodeMemoryCollectPolicy": "", "memoryCollectPolicy": "usageWithPageCache"}});
        assert_eq!(shipped().obeying(&both).0.memory, Policy::UsageWithPageCache);
        assert_eq!(shipped().obeying(&json!({})), (shipped(), Vec::new()));
        assert_eq!(shipped().obeying(&Value::Null).0, shipped());
    }

    #[test]
    fn what_cannot_be_is_said_and_the_least_is_taken() {
        let spec = json!({"metricCollectPolicy": {
            "aggregateDurationSeconds": 1, "reportIntervalSeconds": "often",
            "nodeAggregatePolicy": {"durations": ["5m", "2h", 7, "soon"]},
            "memoryCollectPolicy": "usage",
        }});
        let (policy, remarks) = shipped().obeying(&spec);
        assert_eq!((policy.aggregate.as_secs(), policy.every.as_secs()), (60, 60));
        assert_eq!(policy.durations, [Duration::from_secs(300)]);
        assert_eq!(policy.memory, Policy::UsageWithoutPageCache);
        assert_eq!(remarks.len(), 6, "{remarks:?}");
    }

    #[test]
    fn durations_are_written_as_go_does() {
        let of = |seconds| go_duration(Duration::from_secs(seconds));
        assert_eq!([of(30), of(300), of(3_600), of(5_430)], ["30s", "5m0s", "1h0m0s", "1h30m30s"]);
    }
}
