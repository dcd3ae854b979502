/// Time that somebody stood still for its own quota and that no wait of it was put down to yet.
///
/// Quotas are read ten times a second, mostly before the wait that they caused ends. What is left of the latest reading
/// is kept for it, but no more: what no wait ever explains must not excuse all that follow.
///
/// ```
/// use crosstalk_interference::Quota;
///
/// let mut quota = Quota::default();
/// quota.stopped(90_000_000);
/// quota.end_bin(40_000_000);
/// assert_eq!(quota.explain(95_000_000), 90_000_000, "the rest of the wait was for others");
/// assert_eq!(quota.explain(95_000_000), 0);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Quota {
    left_ns: u64,
    /// Read in the bin at hand.
    pending_ns: u64,
    /// Read in the latest bin in which something was.
    latest_ns: u64,
}

impl Quota {
    /// It was stopped for so long.
    pub const fn stopped(&mut self, ns: u64) {
        self.left_ns = self.left_ns.saturating_add(ns);
        self.pending_ns = self.pending_ns.saturating_add(ns);
    }

    /// The part of a wait that its own quota was: it explains waits first.
    pub fn explain(&mut self, wait_ns: u64) -> u64 {
        let own_ns = self.left_ns.min(wait_ns);
        self.left_ns -= own_ns;
        own_ns
    }

    /// A bin of this length is over.
    pub fn end_bin(&mut self, length_ns: u64) {
        if self.pending_ns > 0 {
            self.latest_ns = std::mem::take(&mut self.pending_ns);
        }
        self.left_ns = self.left_ns.min(self.latest_ns.max(length_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn what_no_wait_explains_does_not_grow_from_reading_to_reading() {
        let mut quota = Quota::default();
        for _ in 0..10 {
            quota.stopped(30 * MS);
            quota.end_bin(40 * MS);
            quota.end_bin(40 * MS);
        }
        assert_eq!(quota.explain(u64::MAX), 40 * MS);
    }

    #[test]
    fn two_readings_of_one_bin_count_together_in_whatever_order_they_come() {
        let left = |readings: [u64; 2]| {
            let mut quota = Quota::default();
            readings.into_iter().for_each(|ns| quota.stopped(ns * MS));
            quota.end_bin(40 * MS);
            quota.explain(u64::MAX)
        };
        assert_eq!([left([10, 90]), left([90, 10])], [100 * MS; 2]);
    }
}
