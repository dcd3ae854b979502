//! What holds for the numbering of runs, whatever is seen.

use crosstalk_store::run::{History, Seen};
use proptest::prelude::*;

/// Sightings of one reporter at strictly rising times.
fn sightings() -> impl Strategy<Value = Vec<(i64, Seen)>> {
    let seen = prop_oneof![1 => Just(Seen::Start), 9 => (0i64..30).prop_map(Seen::Iteration)];
    proptest::collection::vec((1i64..5, seen), 1..60).prop_map(|steps| {
        let mut at = 0;
        steps
            .into_iter()
            .map(|(step, seen)| {
                at += step;
                (at, seen)
            })
            .collect()
    })
}

fn assign_all(history: &mut History, reporter: &str, seen: &[(i64, Seen)]) -> Vec<i64> {
    seen.iter().map(|(at, seen)| history.assign(reporter, *at, *seen).serial).collect()
}

/// Told again, as plainly as can be: a run more for each step back and each start after iterations.
fn expected(seen: &[(i64, Seen)]) -> Vec<i64> {
    let (mut serial, mut last) = (1, None);
    let mut serials = Vec::new();
    for (_, seen) in seen {
        let anew = match (seen, last) {
            (Seen::Start, Some(_)) => true,
            (Seen::Iteration(iteration), Some(last)) => *iteration < last,
            (_, None) => false,
        };
        if anew {
            serial += 1;
            last = None;
        }
        if let Seen::Iteration(iteration) = seen {
            last = Some(*iteration);
        }
        serials.push(serial);
    }
    serials
}

proptest! {
    #[test]
    fn one_reporter_in_order_has_a_run_for_each_step_back(seen in sightings()) {
        prop_assert_eq!(assign_all(&mut History::default(), "a", &seen), expected(&seen));
    }

    #[test]
    fn delivering_any_part_again_opens_no_run_and_changes_no_number(
        (seen, from, length) in sightings().prop_flat_map(|s| { let n = s.len(); (Just(s), 0..n, 1..=n) })
    ) {
        let mut history = History::default();
        let serials = assign_all(&mut history, "a", &seen);
        let runs = history.runs().to_vec();
        let until = (from + length).min(seen.len());
        // The newest sighting told again is not late: a start there is another start.
        let newest_is_start = until == seen.len() && seen[until - 1].1 == Seen::Start;
        let again = assign_all(&mut history, "a", &seen[from..until]);
        prop_assert_eq!(&again, &serials[from..until]);
        prop_assert!(newest_is_start || history.runs() == runs);
    }

    #[test]
    fn a_history_stored_and_loaded_at_any_point_goes_on_the_same(
        (seen, cut) in sightings().prop_flat_map(|s| { let n = s.len(); (Just(s), 0..=n) })
    ) {
        let mut whole = History::default();
        let expected = assign_all(&mut whole, "a", &seen);
        let mut before = History::default();
        let mut serials = assign_all(&mut before, "a", &seen[..cut]);
        // Only the current run's reporters are kept for later.
        let current = before.runs().last().map_or(0, |run| run.serial);
        let reporters = before.reporters().filter(|r| r.0 == current).map(|(serial, name, last)| (serial, name.to_owned(), last));
        let mut after = History::new(before.runs().to_vec(), reporters.collect::<Vec<_>>());
        serials.extend(assign_all(&mut after, "a", &seen[cut..]));
        prop_assert_eq!(serials, expected);
    }

    #[test]
    fn reporters_in_step_share_one_run(ranks in 1usize..6, iterations in 1i64..40, jitter in proptest::collection::vec(0i64..9, 240)) {
        // Each rank prints each iteration at its own moment within the iteration's time.
        let mut lines = Vec::new();
        for iteration in 0..iterations {
            for rank in 0..ranks {
                let at = iteration * 10 + jitter[(iteration as usize * ranks + rank) % jitter.len()];
                lines.push((at, rank, iteration));
            }
        }
        lines.sort();
        let mut history = History::default();
        for (at, rank, iteration) in lines {
            let assigned = history.assign(&format!("rank{rank}"), at, Seen::Iteration(iteration));
            prop_assert_eq!(assigned.serial, 1);
        }
    }

    #[test]
    fn numbers_rise_by_one_whatever_is_seen(
        seen in proptest::collection::vec((0usize..3, 0i64..50, prop_oneof![Just(Seen::Start), (0i64..20).prop_map(Seen::Iteration)]), 0..80)
    ) {
        let mut history = History::default();
        for (reporter, at, seen) in seen {
            history.assign(&reporter.to_string(), at, seen);
        }
        let serials: Vec<_> = history.runs().iter().map(|run| run.serial).collect();
        prop_assert_eq!(&serials, &(1..=serials.len() as i64).collect::<Vec<_>>());
        prop_assert!(history.runs().iter().all(|run| run.started_at <= run.last_at));
    }
}
