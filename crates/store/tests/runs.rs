//! What holds for the numbering of runs, whatever is seen.

use crosstalk_store::run::{History, Seen};
use proptest::prelude::*;

const MS: i64 = 1_000_000;
const SECOND: i64 = 1000 * MS;

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
        let again = assign_all(&mut history, "a", &seen[from..until]);
        prop_assert_eq!(&again, &serials[from..until]);
        prop_assert_eq!(history.runs(), runs);
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
        let reporters = before.reporters().filter(|r| r.0 == current).map(|(serial, name, progress)| (serial, name.to_owned(), progress));
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
    fn clocks_that_differ_do_not_divide_a_run(
        ranks in 2usize..6,
        iterations in 5i64..60,
        pace_ms in 1i64..3000,
        skews in proptest::collection::vec(0i64..900, 6),
        delivered in proptest::collection::vec(1usize..20, 1..40),
    ) {
        // By their own clocks, up to 0.9 s apart; each start after the others' first iterations.
        let mut lines = Vec::new();
        for (rank, skew) in skews.iter().enumerate().take(ranks) {
            lines.push((skew * MS, rank, Seen::Start));
            for iteration in 0..iterations {
                lines.push(((skew + 1 + iteration * pace_ms) * MS, rank, Seen::Iteration(iteration)));
            }
        }
        lines.sort_by_key(|line| line.0);
        // As they come, and as shippers gather them: each pod's lines of a while at once.
        let mut by_shipper = Vec::new();
        let mut rest = &lines[..];
        for count in delivered.iter().cycle() {
            let (now, later) = rest.split_at((*count).min(rest.len()));
            let mut now = now.to_vec();
            now.sort_by_key(|line| line.1);
            by_shipper.extend(now);
            rest = later;
            if rest.is_empty() { break }
        }
        for lines in [lines, by_shipper] {
            let mut history = History::default();
            for (at, rank, seen) in lines {
                prop_assert_eq!(history.assign(&format!("rank{rank}"), at, seen).serial, 1, "{:?}", seen);
            }
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

fn serials(lines: &[(&str, i64, Seen)]) -> Vec<i64> {
    let mut history = History::default();
    lines.iter().map(|(reporter, at, seen)| history.assign(reporter, *at, *seen).serial).collect()
}

fn lines(reporter: &str, first: i64, numbers: std::ops::Range<i64>) -> Vec<(&str, i64, Seen)> {
    let line = |number| (reporter, (first + number) * SECOND, Seen::Iteration(number));
    numbers.map(line).collect()
}

#[test]
fn a_rank_that_starts_after_the_first_iteration_of_another_starts_the_same_run() {
    let at = |tenths: i64| tenths * SECOND / 10;
    let told = [
        ("a", at(0), Seen::Start),
        ("a", at(10), Seen::Iteration(1)),
        ("b", at(12), Seen::Start),
        ("a", at(20), Seen::Iteration(2)),
        ("b", at(22), Seen::Iteration(2)),
    ];
    assert_eq!(serials(&told), [1, 1, 1, 1, 1]);
    // The same rank's second start is a restart.
    let again = [&told[..], &[("b", at(30), Seen::Start), ("a", at(40), Seen::Iteration(3))]];
    assert_eq!(serials(&again.concat())[5..], [2, 2]);
}

#[test]
fn a_pod_that_lags_joins_the_run_and_a_pod_that_takes_over_opens_one() {
    let before = lines("a", 0, 1..11);
    let lagging = ("b", 10 * SECOND + SECOND / 2, Seen::Iteration(9));
    let goes_on = ("a", 11 * SECOND, Seen::Iteration(11));
    let told = [&before[..], &[lagging, goes_on]].concat();
    assert_eq!(serials(&told)[10..], [1, 1]);
    let takes_over = lines("b", 30, 5..8);
    let told = [&before[..], &takes_over].concat();
    assert_eq!(serials(&told)[10..], [2, 2, 2]);
}

#[test]
fn the_rank_that_prints_the_start_need_not_print_iterations() {
    let mut told = vec![("first", 0, Seen::Start)];
    told.extend(lines("last", 0, 1..6));
    told.push(("first", 60 * SECOND, Seen::Start));
    told.extend(lines("last", 60, 6..9));
    // The start told again, and a line of the first run that comes late.
    told.push(("first", 60 * SECOND, Seen::Start));
    told.push(("last", 6 * SECOND, Seen::Iteration(6)));
    assert_eq!(serials(&told), [1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 1]);
}

#[test]
fn a_restart_seen_first_by_the_clock_ahead_is_one_restart() {
    let mut told = lines("ahead", 0, 1..10);
    told.extend(lines("behind", 0, 1..10));
    told.extend(lines("ahead", 100, 1..5));
    told.extend(lines("behind", 99, 1..5));
    let serials = serials(&told);
    assert!(serials[..18].iter().all(|serial| *serial == 1), "{serials:?}");
    assert!(serials[18..].iter().all(|serial| *serial == 2), "{serials:?}");
}
