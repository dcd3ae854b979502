use serde::{Deserialize, Serialize};

/// One of the processes of a trial: `crosstalk workload` with these arguments.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedLoad {
    /// Whether it is looked at as a victim; else it is a neighbour.
    pub victim: bool,
    /// stream, chase, compute, thrash or serve.
    pub kind: String,
    /// Its working set.
    pub kib: u64,
    /// Where it runs.
    pub core: u32,
    /// Pause between pieces, of a victim that chases.
    pub rest_us: u64,
    /// Requests a second, of a victim that serves.
    pub rate: u32,
    /// Seed of when they arrive.
    pub arrivals: u64,
    /// Seed of its turns; 0 is on throughout.
    pub phases: u64,
}

impl PlannedLoad {
    /// The command line after `crosstalk`.
    #[must_use]
    pub fn arguments(&self, seconds: u64) -> Vec<String> {
        let mut line = format!(
            "workload {} --bytes {}KiB --core {} --duration {seconds}s",
            self.kind, self.kib, self.core
        );
        if self.victim {
            line += " --every 50ms";
        }
        if self.rest_us > 0 {
            line += &format!(" --rest {}us", self.rest_us);
        }
        if self.kind == "serve" {
            line += &format!(" --rate {} --arrivals {}", self.rate, self.arrivals);
        }
        if self.phases > 0 {
            line += &format!(" --phases {}", self.phases);
        }
        line.split(' ').map(str::to_owned).collect()
    }
}

/// Who runs in a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Which trial it is.
    pub number: u64,
    /// What fixed it.
    pub seed: u64,
    /// The victims first.
    pub loads: Vec<PlannedLoad>,
}

/// Neighbours on the other core, in turn; the last is on the victims' own.
const CASTS: [&[&str]; 8] = [
    &["stream"],
    &["thrash"],
    &["compute"],
    &["stream", "compute"],
    &["stream"],
    &["thrash", "compute"],
    &["stream", "thrash"],
    &["compute here"],
];

impl Plan {
    /// The trial of this number: a victim with a large set and one with a small one on core 0, neighbours on core 1.
    #[must_use]
    pub fn draw(first_seed: u64, number: u64) -> Self {
        let seed = first_seed.wrapping_mul(0x9e37_79b9).wrapping_add(number);
        let mut random = fastrand::Rng::with_seed(seed);
        let serves = number % 4 == 3;
        let victim = PlannedLoad {
            victim: true,
            kind: if serves { "serve" } else { "chase" }.to_owned(),
            kib: [2, 4, 8, 16, 32][random.usize(..5)] << 10,
            core: 0,
            rest_us: if serves { 0 } else { random.u64(2_000..5_000) },
            rate: random.u32(60..140),
            arrivals: seed,
            phases: 0,
        };
        let small = PlannedLoad {
            kind: "chase".to_owned(),
            kib: 64,
            rest_us: random.u64(3_000..6_000),
            ..victim.clone()
        };
        let mut loads = vec![victim, small];
        for kind in CASTS[(number % CASTS.len() as u64) as usize] {
            let here = kind.ends_with("here");
            loads.push(PlannedLoad {
                victim: false,
                kind: kind.split(' ').next().unwrap_or_default().to_owned(),
                kib: if *kind == "thrash" { 32 << 10 } else { 256 << 10 },
                core: u32::from(!here),
                rest_us: 0,
                rate: 0,
                arrivals: 0,
                phases: random.u64(1..1_000_000),
            });
        }
        Self { number, seed, loads }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_differ_and_can_be_drawn_again() {
        let plans: Vec<Plan> = (0..40).map(|number| Plan::draw(7, number)).collect();
        assert_eq!(plans[5], Plan::draw(7, 5));
        assert!(plans.windows(2).all(|pair| pair[0].loads != pair[1].loads));
        assert_ne!(Plan::draw(8, 5).loads, plans[5].loads);
    }
}
