//! Formats added in the configuration: a regular expression whose named groups are fields.

use regex::{Regex, RegexBuilder};

use crate::Error;
use crate::alias::{self, Target};
use crate::assemble::Assembly;
use crate::key::{Hint, Key};
use crate::metric::Metric;
use crate::number;
use crate::performance::Performance;
use crate::scan::RawField;

/// A compiled expression may take this many bytes, so that a configuration cannot take all memory.
const MAX_COMPILED: usize = 1 << 20;

/// A format of the configuration. The groups are named after the metrics or any of their other
/// names; a unit may be part of the name (`step_time_s`) or of the text. Groups of other names
/// become further fields.
///
/// ```
/// use crosstalk_training_log::{Metric, Outcome, Parser, Pattern};
/// let pattern = Pattern::new("ours", r"^<(?P<current_iteration>\d+)> L=(?P<lm_loss>\S+) T=(?P<step_time_s>\S+)$").unwrap();
/// let parser = Parser::with_patterns(vec![pattern]);
/// let Outcome::Performance { performance, format } = parser.parse("<12> L=3.5 T=0.25") else { panic!() };
/// assert_eq!(format.name(), "ours");
/// assert_eq!(performance.get(Metric::ElapsedTimePerIterationMs), Some(250.0));
/// ```
#[derive(Clone, Debug)]
pub struct Pattern {
    name: String,
    expression: Regex,
}

impl Pattern {
    /// Compiles an expression.
    ///
    /// # Errors
    /// Where the expression cannot be read, is too large, or lacks a group for the iteration or
    /// for anything besides it.
    pub fn new(name: &str, expression: &str) -> Result<Pattern, Error> {
        let expression =
            RegexBuilder::new(expression).size_limit(MAX_COMPILED).build().map_err(|source| {
                Error::Expression { name: name.to_owned(), source: Box::new(source) }
            })?;
        let groups = expression.capture_names().flatten();
        let (iterations, others): (Vec<_>, Vec<_>) =
            groups.partition(|group| gives_iteration(group));
        if iterations.is_empty() {
            return Err(Error::NoIterationGroup { name: name.to_owned() });
        }
        if others.is_empty() {
            return Err(Error::NoMetricGroup { name: name.to_owned() });
        }
        Ok(Pattern { name: name.to_owned(), expression })
    }

    /// The name given in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The fields of a line that the expression matches; none where it does not, or where the
    /// iteration's group holds no number.
    pub(crate) fn read(&self, line: &str) -> Option<Performance> {
        let captures = self.expression.captures(line)?;
        let mut assembly = Assembly::new();
        for group in self.expression.capture_names().flatten() {
            let text = captures.name(group).map(|capture| capture.as_str().trim());
            let Some((value, _)) = text.and_then(|text| number::read(text.as_bytes())) else {
                continue;
            };
            let values = [value];
            assembly.take(&RawField {
                key: group,
                spelling: None,
                values: &values,
                percent: None,
                anchored: true,
                closed: true,
                bracketed: false,
            });
        }
        assembly.into_matched()
    }
}

fn gives_iteration(group: &str) -> bool {
    let Some(key) = Key::read(group) else { return false };
    let found = alias::find(key.name(), Hint::None);
    found.is_some_and(|(alias, _)| alias.target == Target::Metric(Metric::CurrentIteration))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_that_cannot_work_says_what_it_lacks() {
        let error = |expression| Pattern::new("mine", expression).unwrap_err().to_string();
        assert!(error("(").starts_with("log pattern \"mine\": regex parse error"));
        assert!(error("(?P<lm_loss>x)").contains("(?P<current_iteration>...)"));
        assert!(error("(?P<step>x)").contains("besides the iteration"));
        assert!(error(r"(?P<step>\w{500}{500})(?P<loss>.)").contains("size limit"));
    }

    #[test]
    fn a_group_that_holds_no_number_is_absent_and_a_line_without_iteration_does_not_match() {
        let pattern =
            Pattern::new("p", r"i(?P<step>\S+) l(?P<loss>\S+)( g(?P<gnorm>\S+))?").unwrap();
        let found = pattern.read("i5 lnan").unwrap();
        assert!(found.get(Metric::LmLoss).unwrap().is_nan());
        assert_eq!(found.get(Metric::GradNorm), None);
        assert_eq!(pattern.read("i5 lx g2").unwrap().get(Metric::GradNorm), Some(2.0));
        assert!(pattern.read("ix l2").is_none());
        assert!(pattern.read("other").is_none());
    }
}
