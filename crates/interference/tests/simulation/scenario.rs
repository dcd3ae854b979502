use super::Random;

/// What happens in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    NoInterference,
    OneAggressor,
    TwoAggressors,
    CoincidingPhases,
    OwnPhasesAndAggressor,
    Twins,
    CpuContention,
    StolenTime,
    SlowPhases,
    LooseTwins,
}

pub(crate) const KINDS: [Kind; 10] = [
    Kind::NoInterference,
    Kind::OneAggressor,
    Kind::TwoAggressors,
    Kind::CoincidingPhases,
    Kind::OwnPhasesAndAggressor,
    Kind::Twins,
    Kind::CpuContention,
    Kind::StolenTime,
    Kind::SlowPhases,
    Kind::LooseTwins,
];

/// How a player spends its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Equal pieces of work with sleeps of 2 to 6 ms between.
    Requests,
    /// On and off for 0.2 to 2 s each.
    Phases,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Player {
    pub(crate) core: u32,
    pub(crate) work: Work,
    pub(crate) piece_ns: f64,
    /// Pressure it puts on memory while it runs.
    pub(crate) pressure: f64,
    /// The pressure is on the cache's space, not on memory's bandwidth.
    pub(crate) on_cache: bool,
    /// How much pressure slows it.
    pub(crate) sensitivity: f64,
    /// Its own work changes its cost.
    pub(crate) own_phases: bool,
    /// It is on whenever this one is.
    pub(crate) follows: Option<usize>,
    /// It follows only so often.
    pub(crate) loyalty: f64,
    /// Its phases last this many times as long.
    pub(crate) slow: f64,
}

impl Player {
    pub(crate) fn bandwidth(&self) -> f64 {
        if self.on_cache { 0.0 } else { self.pressure }
    }

    pub(crate) fn evicts(&self) -> f64 {
        if self.on_cache { self.pressure } else { 0.0 }
    }
}

/// Player 0 suffers, 1 works in its own small set, 2 to 4 are the neighbours.
pub(crate) fn cast(kind: Kind, random: &mut Random) -> Vec<Player> {
    let quiet = |core: u32, work: Work| Player {
        core,
        work,
        piece_ns: 3e6,
        pressure: 0.0,
        on_cache: false,
        sensitivity: 0.0,
        own_phases: false,
        follows: None,
        loyalty: 1.0,
        slow: 1.0,
    };
    let mut players = vec![
        Player { sensitivity: random.between(0.1, 1.0), ..quiet(0, Work::Requests) },
        Player { piece_ns: 2e6, ..quiet(1, Work::Requests) },
        quiet(2, Work::Phases),
        quiet(3, Work::Phases),
        quiet(4, Work::Phases),
    ];
    let guilty = match kind {
        Kind::NoInterference | Kind::CoincidingPhases | Kind::CpuContention => 0,
        Kind::TwoAggressors => 2,
        Kind::StolenTime | Kind::SlowPhases => usize::from(random.uniform() < 0.5),
        Kind::OneAggressor | Kind::OwnPhasesAndAggressor | Kind::Twins | Kind::LooseTwins => 1,
    };
    for player in &mut players[2..2 + guilty] {
        player.pressure = random.between(0.5, 1.0);
        player.on_cache = random.uniform() < 0.5;
        player.sensitivity = 0.3;
    }
    match kind {
        Kind::CoincidingPhases | Kind::OwnPhasesAndAggressor => players[0].own_phases = true,
        Kind::Twins => players[3].follows = Some(2),
        Kind::LooseTwins => {
            players[3].follows = Some(2);
            players[3].loyalty = 0.85;
        }
        Kind::SlowPhases => {
            players[0].own_phases = true;
            players.iter_mut().for_each(|player| player.slow = 10.0);
        }
        Kind::CpuContention => players[2].core = 0,
        _ => {}
    }
    players
}
