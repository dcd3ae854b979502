//! Which files of a run are to be summed up beside the sums there are.

use super::standing::Standing;
use std::collections::BTreeSet;

/// What is to be done with the files of a run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Summed up whole.
    pub(super) done: Vec<usize>,
    /// Not summed up at all.
    pub(super) new: Vec<usize>,
    /// Merged from files of both kinds, with those that share sums with them.
    pub(super) again: Vec<Again>,
    /// Merged from files of both kinds, whose sums are of more than is left.
    pub(super) torn: Vec<usize>,
}

/// Files that are summed up again,
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Again {
    pub(super) files: Vec<usize>,
    /// in place of these sums.
    pub(super) replaced: Vec<usize>,
}

/// What to do with files that hold the rows of `sources` each, where `sums` stand.
pub(super) fn plan(sources: &[Vec<String>], sums: &[Standing]) -> Plan {
    let mut plan = Plan::default();
    let mut mixed = Vec::new();
    for (at, names) in sources.iter().enumerate() {
        let is_done = |name: &&String| sums.iter().any(|one| one.has(name));
        match names.iter().filter(is_done).count() {
            0 => plan.new.push(at),
            all if all == names.len() => plan.done.push(at),
            _ => mixed.push(at),
        }
    }
    for at in mixed {
        if plan.again.iter().any(|again| again.files.contains(&at)) {
            continue;
        }
        let (files, stale) = connected(at, sources, sums);
        let held: BTreeSet<&String> = files.iter().flat_map(|file| &sources[*file]).collect();
        if stale.iter().all(|sum| sums[*sum].sources.iter().all(|name| held.contains(name))) {
            plan.done.retain(|file| !files.contains(file));
            let (files, replaced) = (files.into_iter().collect(), stale.into_iter().collect());
            plan.again.push(Again { files, replaced });
        } else {
            plan.torn.push(at);
        }
    }
    plan
}

/// Files and sums that share rows with a file, or with one that does.
pub(super) fn connected(
    file: usize,
    sources: &[Vec<String>],
    sums: &[Standing],
) -> (BTreeSet<usize>, BTreeSet<usize>) {
    let (mut files, mut stale) = (BTreeSet::from([file]), BTreeSet::new());
    loop {
        let shared = |file: usize, sum: usize| sources[file].iter().any(|name| sums[sum].has(name));
        let more: BTreeSet<usize> =
            (0..sums.len()).filter(|sum| files.iter().any(|file| shared(*file, *sum))).collect();
        files.extend((0..sources.len()).filter(|file| more.iter().any(|sum| shared(*file, *sum))));
        if more == stale {
            return (files, stale);
        }
        stale = more;
    }
}

/// Files by the day they are of, so that the sums of one day are not held up by those of another. Files that hold rows
/// of the same source stay together: nobody can tell which of them has which.
pub(super) fn by_day<K: PartialEq>(
    files: &[usize],
    sources: &[Vec<String>],
    day: impl Fn(usize) -> K,
) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for file in files.iter().copied() {
        let alike = |other: &usize| {
            day(*other) == day(file)
                || sources[*other].iter().any(|one| sources[file].contains(one))
        };
        let (with, others): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|group| group.iter().any(alike));
        groups = others;
        let mut group: Vec<usize> = with.into_iter().flatten().collect();
        group.push(file);
        group.sort_unstable();
        groups.push(group);
    }
    groups.sort();
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn planned(files: &[&str], sums: &[&str]) -> Plan {
        let sources: Vec<Vec<String>> = files.iter().map(|text| names(text)).collect();
        let sums: Vec<Standing> = sums.iter().map(|text| Standing::of(&names(text))).collect();
        plan(&sources, &sums)
    }

    fn again(files: &[usize], replaced: &[usize]) -> Again {
        Again { files: files.to_vec(), replaced: replaced.to_vec() }
    }

    #[test]
    fn files_merged_from_summed_and_other_ones_are_summed_again_in_place_of_their_sums() {
        let plan = planned(&["a b c", "d", "e"], &["a", "b", "e"]);
        assert_eq!(plan.again, [again(&[0], &[0, 1])]);
        assert_eq!((plan.new, plan.done), (vec![1], vec![2]));
    }

    #[test]
    fn whoever_shares_sums_with_them_is_summed_again_too() {
        let plan = planned(&["a b", "c", "d"], &["b c"]);
        assert_eq!(plan.again, [again(&[0, 1], &[0])]);
        assert_eq!((plan.new, plan.done), (vec![2], vec![]));
    }

    #[test]
    fn those_that_share_nothing_are_summed_again_each_by_itself() {
        let plan = planned(&["a b", "c d"], &["a", "c"]);
        assert_eq!(plan.again, [again(&[0], &[0]), again(&[1], &[1])]);
    }

    #[test]
    fn sums_of_what_is_gone_are_not_replaced() {
        let plan = planned(&["b c"], &["a b"]);
        assert_eq!((plan.torn, plan.again), (vec![0], vec![]));
    }

    #[test]
    fn files_of_a_day_are_together_and_with_those_that_hold_the_same_rows() {
        let sources = ["a", "b", "c", "d e", "e d"].map(names);
        let days = [1, 2, 1, 3, 4];
        let groups = by_day(&[0, 1, 2, 3, 4], &sources, |file| days[file]);
        assert_eq!(groups, [vec![0, 2], vec![1], vec![3, 4]]);
    }
}
