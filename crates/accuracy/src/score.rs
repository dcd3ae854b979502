use std::cmp::Ordering;
use std::ops::AddAssign;

/// Sums over recordings whose truth is known.
#[derive(Clone, Debug, Default)]
pub struct Score {
    /// Recordings.
    pub recordings: u32,
    /// Of these, the ones in which anybody innocent was named.
    pub slandered: u32,
    /// Pairs that must be found.
    pub true_pairs: u32,
    /// Of these, the ones that were.
    pub found: u32,
    /// Pairs with such a loss besides whose neighbour never rested for longer than a bin: there is little to compare with.
    pub never_rested: u32,
    /// Of these, the ones that were found all the same.
    pub found_never_rested: u32,
    /// Pairs besides that have such a loss only with what a core's own cache cost that had gone cold in the other's turn.
    pub cold: u32,
    /// Of these, the ones that were named through a cache or memory. Waits that were told do not count.
    pub found_cold: u32,
    /// Verdicts.
    pub named: u32,
    /// Of these, the right ones.
    pub rightly: u32,
    /// Neighbours that verdicts name, each member of a group by itself.
    pub members: u32,
    /// Of these, the guilty ones.
    pub guilty_members: u32,
    /// Right verdicts whose interval was looked at.
    pub intervals: u32,
    /// Of these, the ones whose interval holds the truth.
    pub holding: u32,
    /// Right verdicts that name one resource.
    pub resources: u32,
    /// Of these, the ones that name what cost most.
    pub resources_right: u32,
    /// Verdicts on waiting for a core.
    pub waits: u32,
    /// Of these, within 5 % of the truth.
    pub waits_right: u32,
    /// Of these verdicts, the ones whose interval holds the truth.
    pub waits_holding: u32,
    /// Distance of each right verdict's loss from the truth, as a share of the victim's time.
    pub errors: Vec<f64>,
    /// CPI2's rule and PRM's fences.
    pub rivals: [Rival; 2],
    /// What was wrong, for whoever wants to know why.
    pub wrong: Vec<String>,
}

/// What a rival's rule came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rival {
    /// Pairs it named.
    pub named: u32,
    /// Of these, the right ones.
    pub rightly: u32,
    /// Pairs it had to find and did.
    pub found: u32,
}

impl AddAssign for Score {
    fn add_assign(&mut self, other: Self) {
        self.recordings += other.recordings;
        self.slandered += other.slandered;
        self.true_pairs += other.true_pairs;
        self.found += other.found;
        self.never_rested += other.never_rested;
        self.found_never_rested += other.found_never_rested;
        self.cold += other.cold;
        self.found_cold += other.found_cold;
        self.named += other.named;
        self.rightly += other.rightly;
        self.members += other.members;
        self.guilty_members += other.guilty_members;
        self.intervals += other.intervals;
        self.holding += other.holding;
        self.resources += other.resources;
        self.resources_right += other.resources_right;
        self.waits += other.waits;
        self.waits_right += other.waits_right;
        self.waits_holding += other.waits_holding;
        self.errors.extend(other.errors);
        self.wrong.extend(other.wrong);
        for (mine, theirs) in self.rivals.iter_mut().zip(other.rivals) {
            mine.named += theirs.named;
            mine.rightly += theirs.rightly;
            mine.found += theirs.found;
        }
    }
}

/// A part of a whole; all of nothing is all.
#[must_use]
pub fn share(part: u32, whole: u32) -> f64 {
    if whole == 0 { 1.0 } else { f64::from(part) / f64::from(whole) }
}

impl Score {
    /// Share of verdicts that are right: of a group, one guilty member makes it so.
    #[must_use]
    pub fn precision(&self) -> f64 {
        share(self.rightly, self.named)
    }

    /// Share of all who are named that are guilty, every member of a group by itself.
    #[must_use]
    pub fn precision_by_member(&self) -> f64 {
        share(self.guilty_members, self.members)
    }

    /// Share of what must be found that was.
    #[must_use]
    pub fn recall(&self) -> f64 {
        share(self.found, self.true_pairs)
    }

    /// All pairs with such a loss, whether or not the neighbour ever rested or it was through a cold cache; and the found
    /// ones.
    #[must_use]
    pub const fn of_all(&self) -> (u32, u32) {
        let all = self.true_pairs + self.never_rested + self.cold;
        (self.found + self.found_never_rested + self.found_cold, all)
    }

    /// Share of all of them that was found.
    #[must_use]
    pub fn recall_of_all(&self) -> f64 {
        let (found, all) = self.of_all();
        share(found, all)
    }

    /// Share of recordings in which nobody innocent was named.
    #[must_use]
    pub fn unslandered(&self) -> f64 {
        share(self.recordings - self.slandered, self.recordings)
    }

    /// Share of intervals that hold the truth.
    #[must_use]
    pub fn coverage(&self) -> f64 {
        share(self.holding, self.intervals)
    }

    /// The middle of the errors.
    #[must_use]
    pub fn median_error(&self) -> Option<f64> {
        let mut errors = self.errors.clone();
        errors.sort_by(f64::total_cmp);
        errors.get(errors.len() / 2).copied()
    }

    /// Harmonic mean of precision, every member of a group by itself, and recall.
    #[must_use]
    pub fn f1(&self) -> f64 {
        both(self.precision_by_member(), self.recall())
    }

    /// The same, of a rival's; it names one neighbour at a time.
    #[must_use]
    pub fn f1_of(&self, rival: &Rival) -> f64 {
        both(share(rival.rightly, rival.named), share(rival.found, self.true_pairs))
    }
}

impl Score {
    /// How it did beside a rival on the same recordings: by F1 where somebody was to be found, else by how many innocent
    /// ones were named.
    #[must_use]
    pub fn beside(&self, rival: &Rival) -> Ordering {
        if self.true_pairs > 0 {
            return self.f1().total_cmp(&self.f1_of(rival));
        }
        (rival.named - rival.rightly).cmp(&(self.members - self.guilty_members))
    }
}

fn both(precision: f64, recall: f64) -> f64 {
    2.0 * precision * recall / (precision + recall).max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beside_a_rival_counts_what_was_found_or_where_there_is_nothing_to_find_who_was_named_for_nothing()
     {
        let rival = |named, rightly, found| Rival { named, rightly, found };
        let ours =
            Score { true_pairs: 4, found: 3, members: 3, guilty_members: 3, ..Score::default() };
        assert_eq!(ours.beside(&rival(4, 2, 2)), Ordering::Greater);
        assert_eq!(ours.beside(&rival(3, 3, 3)), Ordering::Equal);
        assert_eq!(ours.beside(&rival(4, 4, 4)), Ordering::Less);
        let nothing = Score { members: 2, guilty_members: 1, ..Score::default() };
        assert_eq!(nothing.beside(&rival(2, 0, 0)), Ordering::Greater);
        assert_eq!(nothing.beside(&rival(0, 0, 0)), Ordering::Less);
    }

    #[test]
    fn an_innocent_one_in_a_group_counts_against_us_beside_rivals() {
        let alone =
            Score { true_pairs: 2, found: 2, members: 2, guilty_members: 2, ..Score::default() };
        let group = Score { members: 4, named: 2, rightly: 2, ..alone.clone() };
        assert_eq!((group.precision(), group.precision_by_member()), (1.0, 0.5));
        assert!(group.f1() < alone.f1());
    }

    #[test]
    fn what_no_method_here_looks_for_counts_in_the_recall_of_all() {
        let score = Score { true_pairs: 6, found: 6, never_rested: 1, cold: 3, ..Score::default() };
        assert_eq!((score.recall(), score.recall_of_all()), (1.0, 0.6));
    }
}
