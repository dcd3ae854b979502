//! Strings, each kept once and numbered in the order they were first seen.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

#[derive(Debug, Default)]
pub(super) struct Symbols {
    /// All strings, one after another.
    text: Vec<u8>,
    /// Where each string ends.
    ends: Vec<u32>,
    numbers: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Symbols {
    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
        self.numbers.clear();
    }

    pub(super) fn capacity(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * 4 + self.numbers.capacity() * 5
    }

    /// The number of `prefix` followed by `text`, and whether it is new.
    pub(super) fn intern(&mut self, prefix: &str, text: &str) -> (u32, bool) {
        // Appended first, so that the two parts can be hashed and compared as one; taken back when already known.
        let start = self.text.len();
        self.text.extend_from_slice(prefix.as_bytes());
        self.text.extend_from_slice(text.as_bytes());
        let Symbols { text, ends, numbers, hasher } = self;
        let string = |number: u32| {
            let number = number as usize;
            let from = if number == 0 { 0 } else { ends[number - 1] as usize };
            &text[from..ends[number] as usize]
        };
        let wanted = &text[start..];
        let hash = hasher.hash_one(wanted);
        if let Some(&number) = numbers.find(hash, |&number| string(number) == wanted) {
            text.truncate(start);
            return (number, false);
        }
        let number = ends.len() as u32;
        numbers.insert_unique(hash, number, |&number| hasher.hash_one(string(number)));
        ends.push(text.len() as u32);
        (number, true)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |&end| {
            let string = &self.text[start..end as usize];
            start = end as usize;
            string
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_string_keeps_its_number() {
        let mut symbols = Symbols::default();
        assert_eq!(symbols.intern("", ""), (0, true));
        assert_eq!(symbols.intern("workload_", "up"), (1, true));
        assert_eq!(symbols.intern("", "workload_up"), (1, false));
        for number in 0..1000u32 {
            assert_eq!(symbols.intern("n", &number.to_string()), (number + 2, true));
        }
        assert_eq!(symbols.intern("n7", "77"), (779, false));
        assert_eq!(symbols.iter().nth(1), Some(&b"workload_up"[..]));
    }
}
