use super::Point;
use crosstalk_interference::Subject;

/// Units in a usual step. Only ratios of units count; a step whose beginning is unknown is given one unit, which weighs
/// next to nothing beside this.
const USUAL: f64 = 1_000.0;

/// Progress in the order of slots.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    points: Vec<(u64, Subject, f64)>,
    at: usize,
    begun: Vec<Subject>,
    now: Vec<(Subject, f64)>,
}

impl Feed {
    pub(crate) fn new<'a>(all: impl IntoIterator<Item = (Subject, &'a [Point])>) -> Self {
        let mut points = Vec::new();
        for (subject, steps) in all {
            let mut sizes: Vec<f64> = steps.iter().map(|p| p.units).filter(|u| *u > 0.0).collect();
            sizes.sort_by(f64::total_cmp);
            let usual = sizes.get(sizes.len() / 2).copied().unwrap_or(1.0);
            points.extend(steps.iter().map(|p| (p.at_ns, subject, p.units / usual * USUAL)));
        }
        points.sort_by_key(|(at_ns, subject, _)| (*at_ns, *subject));
        Self { points, ..Self::default() }
    }

    /// What was said to be done in the slot. What was said before the first slot is left out.
    pub(crate) fn slot(&mut self, start_ns: u64, length_ns: u64) -> &[(Subject, f64)] {
        self.now.clear();
        while let Some(&(at_ns, subject, units)) = self.points.get(self.at) {
            if at_ns >= start_ns.saturating_add(length_ns) {
                break;
            }
            self.at += 1;
            let is_before = self.begun.is_empty() && at_ns < start_ns;
            if is_before {
                continue;
            }
            // The work of its first step began who knows when.
            if self.begun.contains(&subject) {
                self.now.push((subject, units));
            } else {
                self.begun.push(subject);
                self.now.push((subject, 1.0));
            }
        }
        &self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_come_in_their_slot_and_the_first_step_weighs_next_to_nothing() {
        let point = |at_ns, units| Point { at_ns, units };
        let steps = [point(5, 7.0), point(12, 7.0), point(25, 7.0), point(40, 14.0)];
        let mut feed = Feed::new([(Subject(3), &steps[..])]);
        assert_eq!(feed.slot(10, 10), [(Subject(3), 1.0)]);
        assert_eq!(feed.slot(20, 10), [(Subject(3), 1_000.0)]);
        assert!(feed.slot(30, 10).is_empty());
        // Slots in which nobody ran have no rows: what was done in them is told with the next.
        assert_eq!(feed.slot(60, 10), [(Subject(3), 2_000.0)]);
    }
}
