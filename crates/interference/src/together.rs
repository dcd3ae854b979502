use crate::Topology;
use crate::topology::NOTHING;

/// Places, that is subjects on a core each, that are told apart within a bin; rows beyond go the slow way.
const MOST_PLACES: usize = 128;
/// No place yet.
const NONE: u16 = u16::MAX;

/// Everybody who runs is beside everybody, in every slot: most of the cost of a slot is here. Sums are kept for pairs of
/// places, a subject on a core, so that a slot is a few rows of plain multiplications side by side; what two cores share
/// is looked up once a bin.
#[derive(Debug)]
pub(crate) struct Together {
    cores: usize,
    /// By seat and core.
    place_of: Vec<u16>,
    places: Vec<Place>,
    /// In the slot at hand, by place: the subject's time, and the share of the slot that it was.
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
    pub(crate) fn new(seats: usize, cores: usize) -> Self {
        Self {
            cores,
            place_of: vec![NONE; seats * cores],
            places: Vec::new(),
            time: vec![0.0; MOST_PLACES],
            share: vec![0.0; MOST_PLACES],
            sums: vec![0.0; MOST_PLACES * MOST_PLACES],
        }
    }

    /// Somebody ran on a core in the slot at hand. False if there is no place for it: then none of the slot may be
    /// summed here.
    #[inline]
    pub(crate) fn ran(&mut self, seat: usize, core: u32, time: f64, share: f64) -> bool {
        if core as usize >= self.cores {
            return false;
        }
        let known = &mut self.place_of[seat * self.cores + core as usize];
        if *known == NONE {
            if self.places.len() == MOST_PLACES {
                return false;
            }
            *known = self.places.len() as u16;
            self.places.push(Place { seat, core });
        }
        self.time[usize::from(*known)] += time;
        self.share[usize::from(*known)] += share;
        true
    }

    /// Ends the slot: everybody was beside everybody.
    pub(crate) fn sum(&mut self) {
        let many = self.places.len();
        let share = &self.share[..many];
        for (time, sums) in self.time[..many].iter().zip(self.sums.chunks_exact_mut(MOST_PLACES)) {
            if *time > 0.0 {
                for (sum, share) in sums[..many].iter_mut().zip(share) {
                    *sum += time * share;
                }
            }
        }
        self.forget_slot();
    }

    /// Ends the slot without a sum.
    pub(crate) fn forget_slot(&mut self) {
        let many = self.places.len();
        self.time[..many].fill(0.0);
        self.share[..many].fill(0.0);
    }

    /// Hands out what was summed, by victim, neighbour and the number of the way between them, and begins anew.
    pub(crate) fn take(&mut self, topology: &Topology, mut add: impl FnMut(usize, usize, u8, f64)) {
        let many = self.places.len();
        for (victim, sums) in self.places.iter().zip(self.sums.chunks_exact_mut(MOST_PLACES)) {
            for (neighbour, sum) in self.places.iter().zip(&mut sums[..many]) {
                let way = topology.number(victim.core, neighbour.core);
                if *sum > 0.0 && way != NOTHING {
                    add(victim.seat, neighbour.seat, way, *sum);
                }
                *sum = 0.0;
            }
        }
        for place in self.places.drain(..) {
            self.place_of[place.seat * self.cores + place.core as usize] = NONE;
        }
    }
}
