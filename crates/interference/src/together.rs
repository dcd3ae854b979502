use crate::Topology;
use crate::topology::NOTHING;

/// Places, that is subjects on a core each, that are told apart within a bin; rows beyond go the slow way.
const MOST_PLACES: usize = 128;
/// More islands than this are one: each has its own sums.
const MOST_ISLANDS: usize = 16;
/// Slots that are summed at once.
const SLOTS: usize = 4;
/// No place yet.
const NONE: u16 = u16::MAX;

/// Everybody who runs is beside everybody, in every slot: most of the cost of a slot is here. Sums are kept for pairs of
/// places, a subject on a core, so that a slot is a few rows of plain multiplications side by side; what two cores share
/// is looked up once a bin. Cores that share nothing are on islands of their own, and a few slots are summed at once,
/// one after the other, so that every sum is fetched once for all of them.
#[derive(Debug)]
pub(crate) struct Together {
    cores: usize,
    /// By core.
    island_of: Vec<usize>,
    /// By seat and core.
    place_of: Vec<u16>,
    islands: Vec<Island>,
    /// Slots that wait to be summed.
    waiting: usize,
}

#[derive(Debug, Default)]
struct Island {
    places: Vec<Place>,
    /// For each slot that waits and the one at hand, by place: the subject's time, and the share of the slot that it was.
    time: Vec<f64>,
    share: Vec<f64>,
    /// Time of the one beside shares of the other, summed: by place, then place.
    sums: Vec<f64>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    seat: usize,
    core: u32,
}

impl Together {
    pub(crate) fn new(seats: usize, topology: &Topology) -> Self {
        let cores = topology.cores();
        let (mut island_of, mut islands) = topology.islands();
        if islands > MOST_ISLANDS {
            (island_of, islands) = (vec![0; cores], 1);
        }
        Self {
            cores,
            island_of,
            place_of: vec![NONE; seats * cores],
            islands: std::iter::repeat_with(Island::default).take(islands).collect(),
            waiting: 0,
        }
    }

    /// Somebody ran on a core in the slot at hand. False if there is no place for it: then none of the slot may be
    /// summed here.
    #[inline]
    pub(crate) fn ran(&mut self, seat: usize, core: u32, time: f64, share: f64) -> bool {
        if core as usize >= self.cores {
            return false;
        }
        let island = &mut self.islands[self.island_of[core as usize]];
        let known = &mut self.place_of[seat * self.cores + core as usize];
        if *known == NONE {
            if island.places.len() == MOST_PLACES {
                return false;
            }
            *known = island.places.len() as u16;
            island.settle(Place { seat, core });
        }
        let at = self.waiting * MOST_PLACES + usize::from(*known);
        island.time[at] += time;
        island.share[at] += share;
        true
    }

    /// Ends the slot: everybody was beside everybody.
    pub(crate) fn sum(&mut self) {
        self.waiting += 1;
        if self.waiting == SLOTS {
            self.sum_up();
        }
    }

    fn sum_up(&mut self) {
        self.islands.iter_mut().for_each(Island::sum_up);
        self.waiting = 0;
    }

    /// Ends the slot without a sum.
    pub(crate) fn forget_slot(&mut self) {
        for island in &mut self.islands {
            island.forget(self.waiting);
        }
    }

    /// Hands out what was summed, by victim, neighbour and the number of the way between them, and begins anew.
    pub(crate) fn take(&mut self, topology: &Topology, mut add: impl FnMut(usize, usize, u8, f64)) {
        self.sum_up();
        for island in &mut self.islands {
            let many = island.places.len();
            for (victim, sums) in
                island.places.iter().zip(island.sums.chunks_exact_mut(MOST_PLACES))
            {
                for (neighbour, sum) in island.places.iter().zip(&mut sums[..many]) {
                    let way = topology.number(victim.core, neighbour.core);
                    if *sum > 0.0 && way != NOTHING {
                        add(victim.seat, neighbour.seat, way, *sum);
                    }
                    *sum = 0.0;
                }
            }
            for place in island.places.drain(..) {
                self.place_of[place.seat * self.cores + place.core as usize] = NONE;
            }
        }
    }
}

impl Island {
    fn settle(&mut self, place: Place) {
        if self.sums.is_empty() {
            self.time = vec![0.0; SLOTS * MOST_PLACES];
            self.share = vec![0.0; SLOTS * MOST_PLACES];
            self.sums = vec![0.0; MOST_PLACES * MOST_PLACES];
        }
        self.places.push(place);
    }

    fn sum_up(&mut self) {
        let many = self.places.len();
        let (time, share) =
            (self.time.as_chunks::<MOST_PLACES>().0, self.share.as_chunks::<MOST_PLACES>().0);
        // Nobody ever ran here otherwise.
        let (Ok(time), Ok(share)) =
            (<&[_; SLOTS]>::try_from(time), <&[[f64; MOST_PLACES]; SLOTS]>::try_from(share))
        else {
            return;
        };
        let [a, b, c, d] = share.each_ref().map(|share| &share[..many]);
        for (victim, sums) in self.sums.chunks_exact_mut(MOST_PLACES).take(many).enumerate() {
            let time: [f64; SLOTS] = time.each_ref().map(|time: &[f64; MOST_PLACES]| time[victim]);
            if time == [0.0; SLOTS] {
                continue;
            }
            for ((((sum, a), b), c), d) in sums[..many].iter_mut().zip(a).zip(b).zip(c).zip(d) {
                *sum = *sum + time[0] * a + time[1] * b + time[2] * c + time[3] * d;
            }
        }
        (0..SLOTS).for_each(|slot| self.forget(slot));
    }

    fn forget(&mut self, slot: usize) {
        let many = self.places.len();
        for of in [&mut self.time, &mut self.share] {
            if let Some(slot) = of.get_mut(slot * MOST_PLACES..) {
                slot[..many].fill(0.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CorePlace;
    use std::collections::BTreeMap;

    /// Two memories of three cores each, the first two of which are one core's threads.
    fn topology() -> Topology {
        let place =
            |core: u32| CorePlace { physical: core.max(1), cache: core / 3, memory: core / 3 };
        Topology::new((0..6).map(place).collect())
    }

    #[test]
    fn sums_are_those_of_every_pair_in_every_slot_however_many_slots_there_are() {
        let topology = topology();
        let mut together = Together::new(4, &topology);
        assert_eq!(together.islands.len(), 2);
        for slots in [1, 4, 7] {
            let mut expected = BTreeMap::new();
            for slot in 0..slots {
                let ran: Vec<(usize, u32, f64)> = (0..6_u32)
                    .filter(|core| (core + slot) % 3 > 0)
                    .map(|core| ((core + slot) as usize % 4, core, f64::from(core * 7 + slot + 1)))
                    .collect();
                for &(seat, core, time) in &ran {
                    assert!(together.ran(seat, core, time, time / 2.0));
                }
                if slot == 2 {
                    together.forget_slot();
                    continue;
                }
                together.sum();
                for &(victim, core, time) in &ran {
                    for &(neighbour, other, share) in &ran {
                        let way = topology.number(core, other);
                        if way != NOTHING {
                            let sum = expected.entry((victim, neighbour, way)).or_insert(0.0);
                            *sum += time * share / 2.0;
                        }
                    }
                }
            }
            let mut found = BTreeMap::new();
            together.take(&topology, |victim, neighbour, way, sum| {
                *found.entry((victim, neighbour, way)).or_insert(0.0) += sum;
            });
            assert_eq!(found, expected, "{slots} slots");
        }
    }
}
