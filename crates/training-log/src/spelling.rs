//! Keys that trainers print on every line, looked up as printed.
//!
//! Only a short cut: each entry is what the rules of [`crate::key`] and [`crate::alias`] give for
//! the same text, worked out once. A key that is not here goes through the rules.

use std::sync::LazyLock;

use crate::alias::{self, Alias};
use crate::key::{Hint, Key};

#[rustfmt::skip]
const PRINTED: &[&str] = &[
    "iteration", "consumed samples", "skipped samples", "elapsed time per iteration (ms)", "elapsed time per iteration (s)",
    "throughput per GPU (TFLOP/s/GPU)", "compute per GPU (TFLOP/s/GPU)", "tokens per GPU (tokens/s/GPU)",
    "tokens/s/GPU inst/harmonic mean", "learning rate", "global batch size", "lm loss", "loss scale", "grad norm", "num zeros",
    "number of skipped iterations", "number of nan iterations", "mem usages",
    "hip mem usage", "hip mem free", "hip mem total", "hip mem usage_ratio",
    "rocm mem usage", "rocm mem free", "rocm mem total", "rocm mem usage_ratio",
    "step", "loss", "grad_norm", "memory", "tps", "tflops", "completed step", "seconds", "TFLOP/s/device", "Tokens/s/device",
    "lr", "global_batch_size", "global_step", "reduced_train_loss", "train_step_timing in s", "consumed_samples", "MemAllocated",
];

/// Bytes of the longest of these keys.
pub(crate) const LONGEST: usize = 32;

/// What a key means, worked out beforehand.
#[derive(Debug)]
pub(crate) struct Spelling {
    printed: &'static str,
    pub(crate) name: String,
    pub(crate) alias: Alias,
    pub(crate) hint: Hint,
}

const SLOTS: usize = 256;

static INDEX: LazyLock<[Option<Spelling>; SLOTS]> = LazyLock::new(|| {
    let mut index = [const { None }; SLOTS];
    for printed in PRINTED {
        let Some(key) = Key::read(printed) else { continue };
        let Some((alias, hint)) = alias::find(key.name(), key.hint) else { continue };
        let mut slot = hash(printed.as_bytes()) % SLOTS;
        while index[slot].is_some() {
            slot = (slot + 1) % SLOTS;
        }
        index[slot] = Some(Spelling { printed, name: key.name().to_owned(), alias, hint });
    }
    index
});

/// What a key means, if it is printed just so.
pub(crate) fn find(printed: &str) -> Option<&'static Spelling> {
    let index = &*INDEX;
    let mut slot = hash(printed.as_bytes()) % SLOTS;
    loop {
        let spelling = index[slot].as_ref()?;
        if spelling.printed == printed {
            return Some(spelling);
        }
        slot = (slot + 1) % SLOTS;
    }
}

/// Length, first four and last four bytes tell the entries apart well enough; a collision costs a
/// comparison.
fn hash(text: &[u8]) -> usize {
    let four = |bytes: Option<&[u8]>| {
        bytes.and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
    };
    let (first, last) = match text {
        [a, .., b] if text.len() < 4 => (u32::from(*a), u32::from(*b)),
        _ => (
            four(text.first_chunk::<4>().map(|c| &c[..])),
            four(text.last_chunk::<4>().map(|c| &c[..])),
        ),
    };
    let mixed = (u64::from(first) << 32 | u64::from(last)) ^ (text.len() as u64) << 24;
    (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_cut_gives_what_the_rules_give() {
        for printed in PRINTED {
            let key = Key::read(printed).unwrap();
            let expected = alias::find(key.name(), key.hint);
            let found = find(printed).map(|spelling| (spelling.alias, spelling.hint));
            assert_eq!(found, expected, "{printed}");
        }
        assert!(find("no such key").is_none());
        assert!(find("").is_none());
        assert!(PRINTED.len() * 2 < SLOTS);
        assert_eq!(PRINTED.iter().map(|printed| printed.len()).max(), Some(LONGEST));
    }
}
