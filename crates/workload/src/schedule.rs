use std::time::Duration;

/// When a load is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    seed: u64,
    shortest: Duration,
    longest: Duration,
    /// Always on.
    steady: bool,
}

/// One stretch of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Whether the load is on.
    pub on: bool,
    /// How long it stays so.
    pub left: Duration,
}

impl Schedule {
    /// On throughout.
    pub const fn steady() -> Self {
        Self { seed: 0, shortest: Duration::MAX, longest: Duration::MAX, steady: true }
    }

    /// On and off in turns of random length within these bounds, the same for the same seed.
    pub fn random(seed: u64, shortest: Duration, longest: Duration) -> Self {
        let shortest = shortest.max(Duration::from_millis(1));
        Self { seed, shortest, longest: longest.max(shortest), steady: false }
    }

    /// What fixes it.
    pub(crate) const fn seed(&self) -> u64 {
        self.seed
    }

    /// The phase at this time after the start.
    ///
    /// ```
    /// use crosstalk_workload::Schedule;
    /// use std::time::Duration;
    ///
    /// let turns = Schedule::random(3, Duration::from_millis(200), Duration::from_secs(2));
    /// assert_eq!(turns.at(Duration::from_secs(9)), turns.clone().at(Duration::from_secs(9)));
    /// assert!(Schedule::steady().at(Duration::from_secs(9)).on);
    /// ```
    pub fn at(&self, elapsed: Duration) -> Phase {
        if self.steady {
            return Phase { on: true, left: Duration::MAX };
        }
        let mut random = fastrand::Rng::with_seed(self.seed);
        let (mut on, mut end) = (false, Duration::ZERO);
        while end <= elapsed {
            on = !on;
            let length =
                random.u64(self.shortest.as_micros() as u64..=self.longest.as_micros() as u64);
            end += Duration::from_micros(length);
        }
        Phase { on, left: end - elapsed }
    }
}
