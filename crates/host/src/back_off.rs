use std::time::Duration;

/// Pauses between tries of what fails: each failure in a row doubles the next, up to a longest.
///
/// ```
/// use crosstalk_host::BackOff;
/// use std::time::Duration;
///
/// let ms = Duration::from_millis;
/// let mut back_off = BackOff::new(ms(100), ms(300));
/// assert_eq!([back_off.next(), back_off.next(), back_off.next()], [ms(100), ms(200), ms(300)]);
/// back_off.reset();
/// assert_eq!(back_off.next(), ms(100));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackOff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl BackOff {
    /// From `first` to `longest`, which is no shorter.
    #[must_use]
    pub fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest: longest.max(first), next: first }
    }

    /// What failed works again.
    pub fn reset(&mut self) {
        self.next = self.first;
    }

    /// The pause after a failure.
    #[allow(clippy::should_implement_trait)] // it never ends
    pub fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_mul(2).min(self.longest);
        pause
    }
}
