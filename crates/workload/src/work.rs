use std::hint::black_box;
use std::str::FromStr;

/// What a piece of work is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads and writes memory in sequence: takes bandwidth from others.
    Stream,
    /// Follows pointers through memory: suffers from whoever takes cache or bandwidth.
    Chase,
    /// Computes in registers: takes a core and nothing else.
    Compute,
    /// Writes one byte of every line at random: drives others out of the cache.
    Thrash,
    /// Answers requests that arrive by chance, each a chase through memory: suffers, and shows it as latency.
    Serve,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Stream, Self::Chase, Self::Compute, Self::Thrash, Self::Serve];

    /// Its word on the command line, which is also what the process is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stream => "stream",
            Self::Chase => "chase",
            Self::Compute => "compute",
            Self::Thrash => "thrash",
            Self::Serve => "serve",
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == text);
        let all = Self::ALL.map(Self::name).join(", ");
        found.ok_or_else(|| format!("\"{text}\" is not one of {all}"))
    }
}

/// Steps of a piece: some hundred microseconds each way.
const STEPS: usize = 20_000;
const LINE: usize = 64;

/// Work on a set of memory, piece by piece, all of equal size.
pub struct Work {
    kind: Kind,
    /// For a chase, the next line of each line; else plain memory.
    words: Vec<u64>,
    at: usize,
}

impl Work {
    /// Work on so many bytes.
    pub fn new(kind: Kind, bytes: usize) -> Self {
        let lines = (bytes / LINE).max(16);
        let per_line = LINE / 8;
        let mut words = vec![1; lines * per_line];
        if matches!(kind, Kind::Chase | Kind::Serve) {
            // One circle through all lines in random order, which no prefetcher guesses.
            let mut order: Vec<usize> = (0..lines).collect();
            fastrand::Rng::with_seed(1).shuffle(&mut order);
            for (from, to) in order.iter().zip(order.iter().cycle().skip(1)) {
                words[from * per_line] = (to * per_line) as u64;
            }
        }
        Self { kind, words, at: 0 }
    }

    /// Does one piece.
    pub fn piece(&mut self) {
        match self.kind {
            Kind::Stream => {
                for _ in 0..STEPS {
                    let end = (self.at + 8).min(self.words.len());
                    for word in &mut self.words[self.at..end] {
                        *word = word.wrapping_add(1);
                    }
                    self.at = if end == self.words.len() { 0 } else { end };
                }
            }
            Kind::Chase | Kind::Serve => {
                for _ in 0..STEPS {
                    self.at = self.words[self.at] as usize;
                }
            }
            Kind::Compute => {
                let mut sum = self.at as u64 | 1;
                for _ in 0..STEPS * 10 {
                    sum = sum.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                }
                self.at = black_box(sum) as usize;
            }
            Kind::Thrash => {
                let mut random = self.at as u64 | 1;
                for _ in 0..STEPS {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let word = (random as usize % (self.words.len() / 8)) * 8;
                    self.words[word] = random;
                }
                self.at = random as usize;
            }
        }
        black_box(&mut self.words);
    }
}
