/// How a core shares hardware with another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Way {
    /// Two hardware threads of one core.
    Sibling,
    /// The last-level cache, and with it the memory behind.
    Cache,
    /// Memory alone.
    Memory,
}

/// Where a logical CPU sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CorePlace {
    /// The physical core, unique in the machine.
    pub physical: u32,
    /// The last-level cache.
    pub cache: u32,
    /// The memory node.
    pub memory: u32,
}

/// What a kernel, or a recording, calls the places of a logical CPU; what it does not say is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CoreIds {
    /// The logical CPU.
    pub id: u32,
    /// Its package.
    pub package: Option<u32>,
    /// Its physical core, unique in the package.
    pub core: Option<u32>,
    /// Its last-level cache; without one, the package's.
    pub cache: Option<u32>,
    /// Its memory node; without one, the first.
    pub memory: Option<u32>,
}

/// Which cores share what, by logical CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    cores: usize,
    /// For each pair of cores, row by row: the way as a number, or [`NOTHING`].
    ways: Vec<u8>,
}

/// Cores beyond this are taken to share a cache with all: a table for more would be larger than what is measured.
const MOST_CORES: usize = 1_024;

impl Topology {
    /// From the place of every logical CPU, in their order.
    ///
    /// ```
    /// use crosstalk_interference::{CorePlace, Topology, Way};
    ///
    /// let topology = Topology::new(vec![
    ///     CorePlace { physical: 0, cache: 0, memory: 0 },
    ///     CorePlace { physical: 0, cache: 0, memory: 0 },
    ///     CorePlace { physical: 1, cache: 0, memory: 0 },
    /// ]);
    /// assert_eq!(topology.way(0, 1), Some(Way::Sibling));
    /// assert_eq!(topology.way(0, 2), Some(Way::Cache));
    /// assert_eq!(topology.way(0, 0), None);
    /// ```
    pub fn new(mut cores: Vec<CorePlace>) -> Self {
        cores.truncate(MOST_CORES);
        let mut ways = Vec::with_capacity(cores.len() * cores.len());
        for (at, a) in cores.iter().enumerate() {
            let others = cores.iter().enumerate();
            ways.extend(others.map(|(b_at, b)| number(a.way(b).filter(|_| at != b_at))));
        }
        Self { cores: cores.len(), ways }
    }

    /// From what a kernel or a recording calls the places of its cores. Cores that are not named are offline, and nobody
    /// runs there; where none is named, all share a cache.
    ///
    /// ```
    /// use crosstalk_interference::{CoreIds, Topology, Way};
    ///
    /// let core = |id, core| CoreIds { id, core: Some(core), cache: Some(id / 4), ..CoreIds::default() };
    /// let topology = Topology::of_cores([core(0, 0), core(1, 0), core(3, 1), core(4, 2)]);
    /// assert_eq!(topology.way(0, 1), Some(Way::Sibling));
    /// assert_eq!(topology.way(0, 3), Some(Way::Cache));
    /// assert_eq!(topology.way(0, 4), Some(Way::Memory));
    /// assert_eq!(topology.way(0, 2), None, "it is offline");
    /// ```
    pub fn of_cores(cores: impl IntoIterator<Item = CoreIds>) -> Self {
        let places = CorePlace::of_cores(cores);
        if places.is_empty() { Self::one_cache(MOST_CORES as u32) } else { Self::new(places) }
    }

    /// Cores without siblings that share one cache.
    pub fn one_cache(cores: u32) -> Self {
        Self::new((0..cores).map(|physical| CorePlace { physical, cache: 0, memory: 0 }).collect())
    }

    /// What two cores share. A core shares nothing with itself: who runs there runs instead, not beside.
    /// Of a core that is not listed it is assumed that it shares a cache, since blaming needs exposure.
    #[inline]
    pub fn way(&self, a: u32, b: u32) -> Option<Way> {
        let (row, column) = (a as usize, b as usize);
        if row < self.cores && column < self.cores {
            WAYS.get(usize::from(self.ways[row * self.cores + column])).copied()
        } else {
            (a != b).then_some(Way::Cache)
        }
    }

    /// Cores that are listed.
    pub(crate) fn cores(&self) -> usize {
        self.cores
    }

    /// For each core the number of its island: cores of two islands share nothing. And how many islands there are.
    pub(crate) fn islands(&self) -> (Vec<usize>, usize) {
        let mut island_of = vec![usize::MAX; self.cores];
        let mut islands = 0;
        for first in 0..self.cores {
            if island_of[first] != usize::MAX {
                continue;
            }
            let mut shore = vec![first];
            island_of[first] = islands;
            while let Some(core) = shore.pop() {
                let row = &self.ways[core * self.cores..][..self.cores];
                for (other, _) in row.iter().enumerate().filter(|(_, way)| **way != NOTHING) {
                    if island_of[other] == usize::MAX {
                        island_of[other] = islands;
                        shore.push(other);
                    }
                }
            }
            islands += 1;
        }
        (island_of, islands)
    }

    /// What two cores share, as a number.
    #[inline]
    pub(crate) fn number(&self, a: u32, b: u32) -> u8 {
        number(self.way(a, b))
    }
}

/// Ways by their number.
pub(crate) const WAYS: [Way; 3] = [Way::Sibling, Way::Cache, Way::Memory];
/// The number of sharing nothing.
pub(crate) const NOTHING: u8 = WAYS.len() as u8;

const fn number(way: Option<Way>) -> u8 {
    match way {
        Some(way) => way as u8,
        None => NOTHING,
    }
}

impl CorePlace {
    /// The place of every logical CPU, by its number, from what a kernel or a recording calls it. One that is not named is
    /// offline, and shares nothing.
    pub fn of_cores(cores: impl IntoIterator<Item = CoreIds>) -> Vec<Self> {
        let alone = Self { physical: u32::MAX / 2, cache: u32::MAX, memory: u32::MAX };
        let mut places = Vec::new();
        for core in cores {
            let (at, package) = (core.id as usize, core.package.unwrap_or(0));
            if at >= MOST_CORES {
                continue;
            }
            places.resize(places.len().max(at + 1), alone);
            places[at] = Self {
                physical: core.core.map_or(u32::MAX - core.id, |id| package << 16 | id),
                cache: core.cache.unwrap_or(package),
                memory: core.memory.unwrap_or(0),
            };
        }
        places
    }

    fn way(&self, other: &Self) -> Option<Way> {
        if self.physical == other.physical {
            Some(Way::Sibling)
        } else if self.cache == other.cache {
            Some(Way::Cache)
        } else if self.memory == other.memory {
            Some(Way::Memory)
        } else {
            None
        }
    }
}
