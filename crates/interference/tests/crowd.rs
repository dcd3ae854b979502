//! Many neighbours: the culprit among thirty, and none of the others.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

use crosstalk_interference::{Activity, Observer, Settings, Slot, Subject, Topology};

const SLOT_NS: u64 = 4_000_000;
const NEIGHBOURS: usize = 30;

struct Random(u64);

impl Random {
    fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % below
    }
}

/// A minute of a victim beside thirty neighbours in phases of their own, one of which costs it 15 % while on.
fn verdicts(seed: u64, culprit: usize) -> Vec<Vec<Subject>> {
    let mut random = Random(seed * 7_919 + 88_172_645_463_325_252);
    let mut observer = Observer::new(Topology::one_cache(32), Settings::recording());
    let mut until = [0; NEIGHBOURS];
    let mut on = [false; NEIGHBOURS];
    for slot in 0..15_000 {
        for at in 0..NEIGHBOURS {
            if slot >= until[at] {
                (on[at], until[at]) = (!on[at], slot + 50 + random.below(450));
            }
        }
        let cost = 900 + random.below(200) + if on[culprit] { 150 } else { 0 };
        let mut entries = vec![Activity {
            cycles: Some(cost * 1_000),
            instructions: Some(1_000_000),
            ..Activity::new(Subject(0), 0, SLOT_NS)
        }];
        let running = (0..NEIGHBOURS as u32).filter(|&at| on[at as usize]);
        entries.extend(running.map(|at| Activity::new(Subject(at + 1), at + 1, SLOT_NS)));
        let start_ns = slot * SLOT_NS;
        observer.push(&Slot { start_ns, length_ns: SLOT_NS, entries: &entries, ..Slot::default() });
    }
    observer.findings().verdicts.into_iter().map(|verdict| verdict.aggressors).collect()
}

#[test]
fn the_culprit_is_found_among_thirty_and_nobody_else_is_named() {
    let (mut found, mut clean) = (0, 0);
    for seed in 0..10 {
        let culprit = seed as usize * 3;
        let named = verdicts(seed, culprit);
        let guilty = Subject(culprit as u32 + 1);
        found += u32::from(named.contains(&vec![guilty]));
        clean += u32::from(named.iter().all(|group| group.contains(&guilty)));
    }
    assert!(found >= 9 && clean >= 9, "found in {found}, nobody innocent in {clean} of 10");
}
