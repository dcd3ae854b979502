//! Bytes to a number that tells them from others.

/// Hashes bytes with a key, by multiplying 64 bits by 64 and folding the product, as wyhash does. Whoever does not know the
/// key cannot make two inputs meet; by chance two of a million do so once in some thirty million times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fingerprint {
    key: [u64; 4],
}

/// Odd numbers with as many ones as zeros.
const FIXED: [u64; 4] =
    [0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db, 0x8ebc_6af0_9c88_c6e3, 0x5899_65cc_7537_4cc3];

impl Fingerprint {
    /// With a key of its own.
    pub(super) fn random() -> Self {
        Fingerprint { key: [(); 4].map(|()| fastrand::u64(..) | 1) }
    }

    /// The same in every process, for what outlives one.
    pub(crate) const fn fixed() -> Self {
        Fingerprint { key: FIXED }
    }

    #[inline]
    pub(super) fn of(self, bytes: &[u8]) -> u64 {
        self.fold(self.key[0], bytes)
    }

    /// Goes on from `state` with more bytes; their length counts too.
    #[inline]
    pub(crate) fn fold(self, mut state: u64, bytes: &[u8]) -> u64 {
        let [_, k1, k2, k3] = self.key;
        let mut other = state ^ k3;
        let mut chunks = bytes.chunks_exact(32);
        for chunk in &mut chunks {
            state = mix(word(chunk, 0) ^ k1, word(chunk, 8) ^ state);
            other = mix(word(chunk, 16) ^ k2, word(chunk, 24) ^ other);
        }
        let mut rest = chunks.remainder();
        while rest.len() >= 8 {
            state = mix(word(rest, 0) ^ k1, state ^ k2);
            rest = &rest[8..];
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        state = mix(u64::from_le_bytes(last) ^ k2, state ^ k3);
        mix(state ^ other.rotate_left(29), bytes.len() as u64 ^ k1)
    }
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[inline(always)]
fn mix(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn neither_a_changed_bit_nor_a_zero_more_goes_unnoticed() {
        let prints = Fingerprint::random();
        let mut seen = HashSet::new();
        let bytes: Vec<u8> = (1..=200u8).collect();
        for length in 0..=bytes.len() {
            assert!(seen.insert(prints.of(&bytes[..length])), "{length} bytes");
            let mut longer = bytes[..length].to_vec();
            longer.push(0);
            assert!(seen.insert(prints.of(&longer)), "{length} bytes and a zero");
        }
        for place in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[place / 8] ^= 1 << (place % 8);
            assert!(seen.insert(prints.of(&changed)), "bit {place}");
        }
        assert_eq!(Fingerprint::fixed().of(b"up"), Fingerprint::fixed().of(b"up"));
        assert_ne!(prints.of(b"up"), Fingerprint::random().of(b"up"));
    }
}
