//! The cache model: who fills the cache and how much memory traffic that makes. Pure arithmetic, no I/O.
//!
//! A running thread misses in proportion to how much of its working set is not cached. What it misses is memory traffic
//! and fills the cache; when the cache, or the share the group's mask reaches, is full, the fill pushes out lines in
//! proportion to who holds them. So the sum over all RMIDs never exceeds the cache, a process with a small working
//! set stays small, and one that streams pushes the others out.

use crate::profile::Profile;

/// Even a process whose working set is cached reaches memory now and then.
const LEAST_MISS: f64 = 0.01;
/// The part of the traffic that stays on the own socket, where there are several.
const LOCAL_SHARE: f64 = 0.9;

/// A step is cut so finely that a share fills at most this part of the cache, unless that would take too many.
const SHARES_PER_CACHE: f64 = 8.0;
const MOST_SHARES: f64 = 32.0;

/// What one thread did since the last step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Activity {
    pub(crate) rmid: usize,
    /// Index into the profile's domains.
    pub(crate) domain: usize,
    pub(crate) cpu_ns: f64,
    pub(crate) working_set: f64,
    /// Ways the thread may fill.
    pub(crate) mask: u64,
    /// The factor the bandwidth limit leaves of its traffic, 0 to 1.
    pub(crate) throttle: f64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Cell {
    pub(crate) occupancy: f64,
    pub(crate) total: f64,
    pub(crate) local: f64,
    /// The mask of the last fill: where this RMID's lines can be pushed out.
    mask: u64,
    ran: bool,
}

#[derive(Debug)]
pub(crate) struct CacheModel {
    cells: Vec<Vec<Cell>>,
    size: f64,
    ways: u32,
    full: u64,
    local_share: f64,
    bytes_per_ns: f64,
    half_life_ns: f64,
}

impl CacheModel {
    pub(crate) fn new(profile: &Profile) -> Self {
        let domains = profile.l3_domains.len();
        Self {
            cells: vec![vec![Cell::default(); profile.num_rmids]; domains],
            size: profile.l3_bytes as f64,
            ways: profile.ways,
            full: profile.full_mask(),
            local_share: if domains > 1 { LOCAL_SHARE } else { 1.0 },
            bytes_per_ns: profile.bytes_per_ns,
            half_life_ns: profile.drain_half_life.as_nanos() as f64,
        }
    }

    pub(crate) fn cell(&self, domain: usize, rmid: usize) -> Cell {
        self.cells[domain][rmid]
    }

    /// A new owner: traffic is counted from here on, lines of the old owner stay.
    pub(crate) fn reset_traffic(&mut self, rmid: usize) {
        for domain in &mut self.cells {
            domain[rmid].total = 0.0;
            domain[rmid].local = 0.0;
        }
    }

    /// Whether the RMID holds more than `threshold` bytes anywhere.
    pub(crate) fn is_dirty(&self, rmid: usize, threshold: u64) -> bool {
        self.cells.iter().any(|domain| domain[rmid].occupancy > threshold as f64)
    }

    pub(crate) fn step(&mut self, elapsed_ns: f64, activities: &[Activity]) {
        for cell in self.cells.iter_mut().flatten() {
            cell.ran = false;
        }
        // What ran in the same step ran side by side: in small shares by turns, or the last would push out the others.
        let most: f64 = activities.iter().map(|activity| activity.cpu_ns * self.bytes_per_ns).sum();
        let shares = (most / self.size * SHARES_PER_CACHE).ceil().clamp(1.0, MOST_SHARES);
        // After many times the size of the cache only who fills faster matters, not how long.
        let fill = (self.size / SHARES_PER_CACHE * shares / most.max(1.0)).min(1.0);
        for _ in 0..shares as u32 {
            for activity in activities {
                self.run(&Activity { cpu_ns: activity.cpu_ns / shares, ..*activity }, fill);
            }
        }
        let left = 0.5f64.powf(elapsed_ns / self.half_life_ns);
        for cell in self.cells.iter_mut().flatten().filter(|cell| !cell.ran) {
            cell.occupancy *= left;
        }
    }

    /// `fill` is the part of the traffic that is let into the cache.
    fn run(&mut self, activity: &Activity, fill: f64) {
        let mask =
            if activity.mask & self.full == 0 { self.full } else { activity.mask & self.full };
        let reach = self.size * f64::from(mask.count_ones()) / f64::from(self.ways);
        let working_set = activity.working_set.max(1.0);
        let cell = &mut self.cells[activity.domain][activity.rmid];
        cell.ran = true;
        cell.mask = mask;
        let miss = (1.0 - cell.occupancy / working_set).clamp(LEAST_MISS, 1.0);
        let bytes = activity.cpu_ns * self.bytes_per_ns * miss * activity.throttle.clamp(0.0, 1.0);
        cell.total += bytes;
        cell.local += bytes * self.local_share;
        // Past the working set a miss replaces a line of one's own.
        let room = (working_set.min(reach) - cell.occupancy).max(0.0);
        self.fill(activity.domain, activity.rmid, mask, (bytes * fill).min(room));
    }

    /// Adds `bytes` to an RMID, pushing out others where the cache is full.
    fn fill(&mut self, domain: usize, rmid: usize, mask: u64, bytes: f64) {
        let cells = &mut self.cells[domain];
        let used: f64 = cells.iter().map(|cell| cell.occupancy).sum();
        let within: f64 =
            cells.iter().filter(|cell| cell.mask & !mask == 0).map(|cell| cell.occupancy).sum();
        let reach = self.size * f64::from(mask.count_ones()) / f64::from(self.ways);
        let excess = (used + bytes - self.size).max(within + bytes - reach).max(0.0);
        let weight = |cell: &Cell| {
            // Lines of an RMID nobody has filled through yet may be anywhere.
            let held = if cell.mask == 0 { u64::MAX } else { cell.mask };
            let shared = (held & mask).count_ones() as f64 / f64::from(held.count_ones());
            cell.occupancy * shared
        };
        let weights: f64 = cells.iter().map(&weight).sum();
        let evicted = excess.min(weights);
        if weights > 0.0 {
            let factor = evicted / weights;
            for cell in cells.iter_mut() {
                cell.occupancy -= weight(cell) * factor;
            }
        }
        let left: f64 = cells.iter().map(|cell| cell.occupancy).sum();
        cells[rmid].occupancy += bytes.min((self.size - left).max(0.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: f64 = 1_048_576.0;

    fn activity(rmid: usize, working_set: f64, mask: u64) -> Activity {
        Activity { rmid, domain: 0, cpu_ns: 1e6, working_set, mask, throttle: 1.0 }
    }

    fn occupancy(model: &CacheModel, rmid: usize) -> f64 {
        model.cell(0, rmid).occupancy
    }

    #[test]
    fn a_stream_pushes_out_a_sleeper_and_a_small_process_stays_small() {
        let mut model = CacheModel::new(&Profile::small());
        for _ in 0..100 {
            model.step(1e6, &[activity(1, 8.0 * MIB, 0xff)]);
        }
        let before = occupancy(&model, 1);
        for _ in 0..500 {
            model.step(1e6, &[activity(2, 1e9, 0xff), activity(3, MIB, 0xff)]);
        }
        assert!(before > 7.0 * MIB);
        assert!(occupancy(&model, 1) < before / 4.0);
        assert!(occupancy(&model, 3) <= MIB + 1.0);
        assert!(model.cell(0, 2).total > 10.0 * model.cell(0, 3).total);
    }

    #[test]
    fn two_streams_that_ran_side_by_side_share_the_cache_however_long_the_step_was() {
        let mut model = CacheModel::new(&Profile::small());
        let long = |rmid| Activity { cpu_ns: 1e8, ..activity(rmid, 1e9, 0xff) };
        model.step(1e8, &[long(1), long(2)]);
        let (first, second) = (occupancy(&model, 1), occupancy(&model, 2));
        assert!(first > 0.3 * second && second > 0.3 * first, "{first} {second}");
    }

    #[test]
    fn a_mask_bounds_what_a_group_can_hold_and_protects_the_others() {
        let mut model = CacheModel::new(&Profile::small());
        for _ in 0..500 {
            model.step(1e6, &[activity(1, 8.0 * MIB, 0xf0), activity(2, 1e9, 0x0f)]);
        }
        assert!(occupancy(&model, 2) <= 8.0 * MIB + 1.0);
        assert!(occupancy(&model, 1) > 7.0 * MIB);
    }

    #[test]
    fn a_bandwidth_limit_slows_the_traffic() {
        let mut model = CacheModel::new(&Profile::small());
        let half = Activity { throttle: 0.5, ..activity(2, 1e9, 0xff) };
        model.step(1e6, &[activity(1, 1e9, 0xff), half]);
        assert!(model.cell(0, 2).total < 0.55 * model.cell(0, 1).total);
    }

    proptest! {
        #[test]
        fn the_sum_of_all_rmids_never_exceeds_the_cache(
            steps in proptest::collection::vec((0usize..8, 0.0..1e9f64, 0u64..=0xff, 0.0..1e8f64), 1..60)
        ) {
            let mut model = CacheModel::new(&Profile::small());
            for (rmid, working_set, mask, cpu_ns) in steps {
                model.step(1e6, &[Activity { rmid, domain: 0, cpu_ns, working_set, mask, throttle: 1.0 }]);
                let sum: f64 = (0..32).map(|rmid| occupancy(&model, rmid)).sum();
                prop_assert!(sum <= model.size * (1.0 + 1e-9));
                prop_assert!((0..32).all(|rmid| occupancy(&model, rmid) >= 0.0));
            }
        }
    }
}
