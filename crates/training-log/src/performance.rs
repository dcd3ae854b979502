//! What a training line gave.

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};

use crate::metric::Metric;

/// Further fields of one line beyond this many are counted, not kept.
pub const MAX_EXTRA_FIELDS: usize = 64;

/// The numbers of one training line: the known metrics, and further fields under the names the
/// trainer gave them. A metric the line did not have is absent, never zero.
///
/// As JSON it is one flat object. JSON has no NaN and no infinity, so these are the strings
/// `"NaN"`, `"Infinity"` and `"-Infinity"`, and read back as what they were.
///
/// ```
/// use crosstalk_training_log::{Metric, Outcome, Parser};
/// let Outcome::Performance { performance, .. } = Parser::default().parse("step: 3  loss: nan  mfu: 25%") else { panic!() };
/// assert_eq!(performance.iteration(), Some(3));
/// assert!(performance.get(Metric::LmLoss).unwrap().is_nan());
/// assert_eq!(performance.get(Metric::GradNorm), None);
/// assert_eq!(
///     serde_json::to_string(&performance).unwrap(),
///     r#"{"current_iteration":3,"lm_loss":"NaN","mfu":0.25}"#,
/// );
/// ```
#[derive(Clone, Debug, Default)]
pub struct Performance {
    values: [f64; Metric::COUNT],
    present: u32,
    extra: Vec<(String, f64)>,
    dropped: u32,
}

/// Something in a training line that deserves an event of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Anomaly {
    /// The loss is NaN or infinite, or the trainer counts iterations with NaN.
    NanLoss,
    /// The trainer skipped iterations.
    SkippedIterations,
}

impl Anomaly {
    /// The event's type as it is stored.
    pub fn name(self) -> &'static str {
        match self {
            Anomaly::NanLoss => "nan_loss",
            Anomaly::SkippedIterations => "skipped_iterations",
        }
    }
}

impl Performance {
    /// A metric's value; none where the line did not have it.
    pub fn get(&self, metric: Metric) -> Option<f64> {
        (self.present & bit(metric) != 0).then(|| self.values[metric as usize])
    }

    /// Sets a metric.
    pub fn set(&mut self, metric: Metric, value: f64) {
        self.present |= bit(metric);
        self.values[metric as usize] = value;
    }

    /// Takes a metric out.
    pub(crate) fn unset(&mut self, metric: Metric) {
        self.present &= !bit(metric);
    }

    /// Adds a further field unless its name is taken; beyond [`MAX_EXTRA_FIELDS`] it is counted.
    pub fn add_extra(&mut self, name: &str, value: f64) {
        if Metric::from_name(name).is_some() || self.extra.iter().any(|(known, _)| known == name) {
            return;
        }
        if self.extra.len() == MAX_EXTRA_FIELDS {
            self.dropped = self.dropped.saturating_add(1);
            return;
        }
        self.extra.push((name.to_owned(), value));
    }

    /// Takes from another line about the same iteration what this one does not say.
    ///
    /// ```
    /// use crosstalk_training_log::{Metric, Performance};
    /// let mut newer = Performance::default();
    /// newer.set(Metric::LmLoss, 2.5);
    /// let mut older = Performance::default();
    /// older.set(Metric::LmLoss, 9.0);
    /// older.set(Metric::LearningRate, 1e-4);
    /// newer.fill_from(&older);
    /// assert_eq!(newer.get(Metric::LmLoss), Some(2.5));
    /// assert_eq!(newer.get(Metric::LearningRate), Some(1e-4));
    /// ```
    pub fn fill_from(&mut self, older: &Performance) {
        for metric in Metric::ALL {
            if let (None, Some(value)) = (self.get(metric), older.get(metric)) {
                self.set(metric, value);
            }
        }
        for (name, value) in older.extra() {
            self.add_extra(name, value);
        }
    }

    /// The iteration, where it is a whole number.
    pub fn iteration(&self) -> Option<u64> {
        self.get(Metric::CurrentIteration).filter(|value| *value >= 0.0).map(|value| value as u64)
    }

    /// All fields: metrics first, in their order, then the others as they stood in the line.
    pub fn fields(&self) -> impl Iterator<Item = (&str, f64)> {
        let metrics = Metric::ALL.into_iter().filter_map(|m| Some((m.name(), self.get(m)?)));
        metrics.chain(self.extra())
    }

    /// The further fields.
    pub fn extra(&self) -> impl Iterator<Item = (&str, f64)> {
        self.extra.iter().map(|(name, value)| (name.as_str(), *value))
    }

    /// How many further fields there was no room for.
    pub fn dropped_fields(&self) -> u32 {
        self.dropped
    }

    /// What in this line deserves an event.
    pub fn anomalies(&self) -> impl Iterator<Item = Anomaly> {
        let bad_loss = self.get(Metric::LmLoss).is_some_and(|loss| !loss.is_finite());
        let counted = |metric| self.get(metric).is_some_and(|count| count > 0.0);
        let nan = bad_loss || counted(Metric::NanIterationsNumber);
        let skipped = counted(Metric::SkippedIterationsNumber);
        [nan.then_some(Anomaly::NanLoss), skipped.then_some(Anomaly::SkippedIterations)]
            .into_iter()
            .flatten()
    }
}

/// Equal where every field is, NaN being equal to NaN.
impl PartialEq for Performance {
    fn eq(&self, other: &Performance) -> bool {
        let same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
        self.fields().count() == other.fields().count()
            && self.fields().zip(other.fields()).all(|(a, b)| a.0 == b.0 && same(a.1, b.1))
    }
}

fn bit(metric: Metric) -> u32 {
    1 << metric as u32
}

/// Whole numbers up to here are exact as floats, so that they may be written as integers.
const EXACT: f64 = 9_007_199_254_740_992.0;

impl Serialize for Performance {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for metric in Metric::ALL {
            match self.get(metric) {
                Some(value) if metric.is_count() && value.fract() == 0.0 && value.abs() < EXACT => {
                    map.serialize_entry(metric.name(), &(value as i64))?;
                }
                Some(value) => map.serialize_entry(metric.name(), &Number(value))?,
                None => {}
            }
        }
        for (name, value) in self.extra() {
            map.serialize_entry(name, &Number(value))?;
        }
        map.end()
    }
}

struct Number(f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            value if value.is_nan() => serializer.serialize_str("NaN"),
            f64::INFINITY => serializer.serialize_str("Infinity"),
            f64::NEG_INFINITY => serializer.serialize_str("-Infinity"),
            value => serializer.serialize_f64(value),
        }
    }
}

impl<'de> Deserialize<'de> for Performance {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Performance, D::Error> {
        deserializer.deserialize_map(PerformanceVisitor)
    }
}

struct PerformanceVisitor;

impl<'de> Visitor<'de> for PerformanceVisitor {
    type Value = Performance;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an object of numbers")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Performance, A::Error> {
        let mut performance = Performance::default();
        while let Some((name, Number(value))) = map.next_entry::<String, Number>()? {
            match Metric::from_name(&name) {
                Some(metric) => performance.set(metric, value),
                None => performance.add_extra(&name, value),
            }
        }
        Ok(performance)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Number, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(untagged)]
        enum Written {
            Finite(f64),
            Named(String),
        }
        match Written::deserialize(deserializer)? {
            Written::Finite(value) => Ok(Number(value)),
            Written::Named(name) => match name.as_str() {
                "NaN" => Ok(Number(f64::NAN)),
                "Infinity" => Ok(Number(f64::INFINITY)),
                "-Infinity" => Ok(Number(f64::NEG_INFINITY)),
                _ => Err(de::Error::custom(format!("{name:?} is not a number"))),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_keeps_every_field_and_every_kind_of_number() {
        let mut performance = Performance::default();
        performance.set(Metric::CurrentIteration, 7.0);
        performance.set(Metric::LmLoss, f64::NAN);
        performance.set(Metric::GradNorm, f64::INFINITY);
        performance.set(Metric::LearningRate, 1.5e-7);
        performance.add_extra("z_loss", f64::NEG_INFINITY);
        performance.add_extra("epoch", 2.0);
        let text = serde_json::to_string(&performance).unwrap();
        assert_eq!(
            text,
            r#"{"current_iteration":7,"learning_rate":1.5e-7,"lm_loss":"NaN","grad_norm":"Infinity","z_loss":"-Infinity","epoch":2.0}"#
        );
        assert_eq!(serde_json::from_str::<Performance>(&text).unwrap(), performance);
    }

    proptest::proptest! {
        #[test]
        fn every_number_survives_json_to_the_last_bit(value in proptest::num::f64::ANY) {
            let mut performance = Performance::default();
            performance.set(Metric::LmLoss, value);
            performance.add_extra("other", 4.5e100);
            let text = serde_json::to_string(&performance).unwrap();
            proptest::prop_assert_eq!(serde_json::from_str::<Performance>(&text).unwrap(), performance);
        }
    }

    #[test]
    fn further_fields_are_bounded_and_the_rest_counted() {
        let mut performance = Performance::default();
        for index in 0..MAX_EXTRA_FIELDS + 5 {
            performance.add_extra(&format!("field_{index}"), 1.0);
        }
        assert_eq!(performance.extra().count(), MAX_EXTRA_FIELDS);
        assert_eq!(performance.dropped_fields(), 5);
    }
}
