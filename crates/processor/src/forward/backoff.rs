//! Pauses between tries: doubling, bounded, and random so that many processors do not come back at once.

use crosstalk_host::BackOff;
use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(crate) struct Backoff(BackOff);

impl Backoff {
    pub(crate) fn new(longest: Duration) -> Self {
        Self(BackOff::new(FIRST, longest))
    }

    pub(crate) fn reset(&mut self) {
        self.0.reset();
    }

    /// The pause before the next try: never shorter than what the store asked for.
    pub(crate) fn next(&mut self, asked: Option<Duration>) -> Duration {
        let jittered = self.0.next().mul_f64(0.5 + fastrand::f64() / 2.0);
        jittered.max(asked.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_bound_and_keep_to_what_was_asked() {
        let mut backoff = Backoff::new(Duration::from_secs(2));
        let mut base = FIRST;
        for _ in 0..10 {
            let pause = backoff.next(None);
            assert!(pause >= base / 2 && pause <= base, "{pause:?} of {base:?}");
            base = (base * 2).min(Duration::from_secs(2));
        }
        assert_eq!(backoff.next(Some(Duration::from_secs(9))), Duration::from_secs(9));
        backoff.reset();
        assert!(backoff.next(None) <= FIRST);
    }
}
