use crate::Subject;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Share of its score that a subject keeps from bin to bin: half is forgotten in some ten seconds.
const MEMORY: f64 = 0.9972;
/// Subjects without a seat whose activity is remembered.
const MOST_WAITING: usize = 256;
/// Subjects up to this number find their seat in a table, those beyond by their hash.
const NEAR: usize = 1 << 16;
/// In the table: no seat.
const NONE: u16 = u16::MAX;
/// A seat is only given away to somebody this many times as active, so that equals do not swap.
const CLEARLY_MORE: f64 = 2.0;

/// A bounded number of subjects, the busiest. Neither a fork storm nor the idle hold seats.
#[derive(Debug)]
pub(crate) struct Seats {
    taken: Vec<Taken>,
    /// Seats by subject: every row is looked up, and subjects are numbered densely.
    near: Vec<u16>,
    index: HashMap<Subject, usize, BuildHasherDefault<Spread>>,
    waiting: HashMap<Subject, f64, BuildHasherDefault<Spread>>,
    most: usize,
}

#[derive(Debug)]
struct Taken {
    subject: Subject,
    score: f64,
}

/// Spreads dense indices (Fibonacci hashing): whoever numbers subjects is no enemy, and the standard hasher is slow.
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.0 = (self.0.rotate_left(5) ^ u64::from(value)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

impl Seats {
    pub(crate) fn new(most: usize) -> Self {
        let most = most.clamp(1, 1024);
        Self {
            taken: Vec::new(),
            near: Vec::new(),
            index: HashMap::default(),
            waiting: HashMap::default(),
            most,
        }
    }

    pub(crate) fn most(&self) -> usize {
        self.most
    }

    pub(crate) fn subject(&self, seat: usize) -> Option<Subject> {
        self.taken.get(seat).map(|taken| taken.subject)
    }

    /// The subject's seat, one being given while there are free ones; its activity counts for later.
    pub(crate) fn of(&mut self, subject: Subject, on_cpu_ns: u64) -> Option<usize> {
        let active = on_cpu_ns as f64;
        if let Some(seat) = self.find(subject) {
            self.taken[seat].score += active;
            return Some(seat);
        }
        if self.taken.len() < self.most {
            let seat = self.taken.len();
            self.taken.push(Taken { subject, score: active });
            self.give(subject, seat);
            return Some(seat);
        }
        if self.waiting.len() < MOST_WAITING || self.waiting.contains_key(&subject) {
            *self.waiting.entry(subject).or_default() += active;
        }
        None
    }

    #[inline]
    fn find(&self, subject: Subject) -> Option<usize> {
        let number = subject.0 as usize;
        if number < NEAR {
            self.near.get(number).filter(|seat| **seat != NONE).map(|seat| usize::from(*seat))
        } else {
            self.index.get(&subject).copied()
        }
    }

    fn give(&mut self, subject: Subject, seat: usize) {
        let number = subject.0 as usize;
        if number < NEAR {
            self.near.resize(self.near.len().max(number + 1), NONE);
            self.near[number] = seat as u16;
        } else {
            self.index.insert(subject, seat);
        }
    }

    fn take_away(&mut self, subject: Subject) {
        match self.near.get_mut(subject.0 as usize) {
            Some(seat) => *seat = NONE,
            None => drop(self.index.remove(&subject)),
        }
    }

    /// Between bins: activity fades, and seats go to whoever is clearly busier than their holder.
    pub(crate) fn rearrange(&mut self) {
        for taken in &mut self.taken {
            taken.score *= MEMORY;
        }
        self.waiting.retain(|_, score| {
            *score *= MEMORY;
            *score > 1e4
        });
        while let Some((subject, score)) = self.busiest_waiting() {
            let Some(seat) = self.idlest_seat() else { return };
            if score <= CLEARLY_MORE * self.taken[seat].score {
                return;
            }
            self.waiting.remove(&subject);
            self.take_away(self.taken[seat].subject);
            self.taken[seat] = Taken { subject, score };
            self.give(subject, seat);
        }
    }

    fn busiest_waiting(&self) -> Option<(Subject, f64)> {
        // The subject breaks ties, so that equal input gives equal output whatever the map's order.
        let rank =
            |a: &(&Subject, &f64), b: &(&Subject, &f64)| a.1.total_cmp(b.1).then(b.0.cmp(a.0));
        self.waiting.iter().max_by(rank).map(|(&subject, &score)| (subject, score))
    }

    fn idlest_seat(&self) -> Option<usize> {
        let idler = |a: &usize, b: &usize| self.taken[*a].score.total_cmp(&self.taken[*b].score);
        (0..self.taken.len()).min_by(idler)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_newcomer_takes_the_idlest_seat_and_a_storm_of_small_ones_takes_none() {
        let mut seats = Seats::new(2);
        seats.of(Subject(0), 50_000_000);
        seats.of(Subject(1), 10_000_000);
        for storm in 10..5_000 {
            seats.of(Subject(storm), 20_000);
        }
        seats.rearrange();
        assert_eq!((seats.subject(0), seats.subject(1)), (Some(Subject(0)), Some(Subject(1))));
        seats.waiting.clear();
        seats.of(Subject(7), 30_000_000);
        seats.rearrange();
        assert_eq!((seats.subject(0), seats.subject(1)), (Some(Subject(0)), Some(Subject(7))));
    }
}
