//! Brings a printed key into one spelling: `throughput per GPU (TFLOP/s/GPU)` becomes the name
//! `throughput_per_gpu` and the hint that its numbers are TFLOP/s of a device.

use crate::unit::{self, Unit};

/// Longer names are not names; a line that has one keeps its other fields.
pub(crate) const MAX_NAME: usize = 96;

/// What a key's brackets or last words say about its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hint {
    None,
    Unit(Unit),
    Gflops,
    Tflops,
    Pflops,
    Tokens,
    TokensPerDevice,
    /// `Iter(val)`: numbers of an evaluation.
    Evaluation,
}

/// A key in its one spelling, on the stack.
pub(crate) struct Key {
    buffer: [u8; MAX_NAME],
    length: usize,
    pub(crate) hint: Hint,
}

impl Key {
    /// None where nothing is left or the name is too long.
    pub(crate) fn read(text: &str) -> Option<Key> {
        let mut key = Key { buffer: [0; MAX_NAME], length: 0, hint: Hint::None };
        let bytes = text.as_bytes();
        let mut at = 0;
        let mut previous_lower = false;
        while at < bytes.len() {
            let byte = bytes[at];
            if byte == b'(' {
                let close = memchr::memchr(b')', &bytes[at..]).map_or(bytes.len(), |n| at + n);
                key.hint = hint(&bytes[at + 1..close]);
                key.divide();
                at = close + 1;
                previous_lower = false;
                continue;
            }
            if byte.is_ascii_uppercase() {
                if previous_lower {
                    key.divide();
                }
                key.push(byte.to_ascii_lowercase())?;
            } else if byte.is_ascii_alphanumeric() || byte >= 0x80 {
                key.push(byte)?;
            } else {
                if byte == b'%' {
                    key.hint = Hint::Unit(Unit::Percent);
                }
                key.divide();
            }
            previous_lower = byte.is_ascii_lowercase();
            at += 1;
        }
        if key.length > 0 && key.buffer[key.length - 1] == b'_' {
            key.length -= 1;
        }
        (key.length > 0).then_some(key)
    }

    /// The name.
    pub(crate) fn name(&self) -> &str {
        // Cut only at ASCII bytes, so always text; empty could only mean a mistake here.
        std::str::from_utf8(&self.buffer[..self.length]).unwrap_or_default()
    }

    fn push(&mut self, byte: u8) -> Option<()> {
        *self.buffer.get_mut(self.length)? = byte;
        self.length += 1;
        Some(())
    }

    fn divide(&mut self) {
        if self.length > 0 && self.length < MAX_NAME && self.buffer[self.length - 1] != b'_' {
            self.buffer[self.length] = b'_';
            self.length += 1;
        }
    }
}

/// Reads what stands in a key's brackets.
pub(crate) fn hint(text: &[u8]) -> Hint {
    let unit = unit::parse(text.trim_ascii());
    if let Some(unit) = unit.filter(|unit| !unit.is_throughput()) {
        return Hint::Unit(unit);
    }
    let has = |word: &str| {
        text.windows(word.len()).any(|window| window.eq_ignore_ascii_case(word.as_bytes()))
    };
    let per_device = has("gpu") || has("device") || has("chip") || has("npu") || has("rank");
    if has("tflop") {
        Hint::Tflops
    } else if has("pflop") {
        Hint::Pflops
    } else if has("gflop") {
        Hint::Gflops
    } else if has("tok") {
        if per_device { Hint::TokensPerDevice } else { Hint::Tokens }
    } else if text.split(|byte| !byte.is_ascii_alphabetic()).any(is_evaluation_word) {
        Hint::Evaluation
    } else {
        Hint::None
    }
}

/// Words that say that a line reports an evaluation.
pub(crate) fn is_evaluation_word(word: &[u8]) -> bool {
    ["val", "eval", "valid", "validation", "validating", "evaluation", "evaluating", "test"]
        .iter()
        .any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::Scale;

    #[test]
    fn keys_have_one_spelling_and_keep_what_their_brackets_say() {
        for (text, name, hint) in [
            (
                "elapsed time per iteration (ms)",
                "elapsed_time_per_iteration",
                Hint::Unit(Unit::Time(Scale::Milli)),
            ),
            ("throughput per GPU (TFLOP/s/GPU)", "throughput_per_gpu", Hint::Tflops),
            ("tgs (tokens/gpu/second)", "tgs", Hint::TokensPerDevice),
            ("TFLOP/s/device", "tflop_s_device", Hint::None),
            ("RunningAvgSamplesPerSec", "running_avg_samples_per_sec", Hint::None),
            ("grad_norm", "grad_norm", Hint::None),
            ("Iter(val)", "iter", Hint::Evaluation),
            ("損失", "損失", Hint::None),
            ("mem %", "mem", Hint::Unit(Unit::Percent)),
        ] {
            let key = Key::read(text).unwrap();
            assert_eq!((key.name(), key.hint), (name, hint), "{text}");
        }
        assert!(Key::read("--").is_none());
        assert!(Key::read(&"k".repeat(MAX_NAME + 1)).is_none());
        assert!(Key::read(&"é".repeat(MAX_NAME)).is_none());
    }
}
