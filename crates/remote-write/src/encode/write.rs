//! The protobuf wire format, written.

pub(super) const VARINT: u8 = 0;
pub(super) const FIXED64: u8 = 1;
pub(super) const BYTES: u8 = 2;

#[inline]
pub(super) fn varint_len(value: u64) -> usize {
    // Seven bits a byte, and at least one byte.
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

#[inline]
pub(super) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Every field number of these messages is below 16, so a tag is one byte.
#[inline]
pub(super) fn tag(out: &mut Vec<u8>, field: u8, wire_type: u8) {
    debug_assert!(field < 16);
    out.push(field << 3 | wire_type);
}

#[inline]
pub(super) fn bytes_field(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    tag(out, field, BYTES);
    varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Bytes of a length-delimited field with its tag.
#[inline]
pub(super) fn bytes_field_len(length: usize) -> usize {
    1 + varint_len(length as u64) + length
}

/// A varint field; 0 is the default and is not written.
#[inline]
pub(super) fn varint_field(out: &mut Vec<u8>, field: u8, value: u64) {
    if value != 0 {
        tag(out, field, VARINT);
        varint(out, value);
    }
}

#[inline]
pub(super) fn varint_field_len(value: u64) -> usize {
    if value == 0 { 0 } else { 1 + varint_len(value) }
}

/// A double; only +0.0 is the default, -0.0 is a value.
#[inline]
pub(super) fn double_field(out: &mut Vec<u8>, field: u8, value: f64) {
    let bits = value.to_bits();
    if bits != 0 {
        tag(out, field, FIXED64);
        out.extend_from_slice(&bits.to_le_bytes());
    }
}

#[inline]
pub(super) fn double_field_len(value: f64) -> usize {
    if value.to_bits() == 0 { 0 } else { 9 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varint_lengths_are_what_is_written() {
        for shift in 0..64 {
            for value in [(1u64 << shift) - 1, 1 << shift, u64::MAX >> shift] {
                let mut out = Vec::new();
                varint(&mut out, value);
                assert_eq!(out.len(), varint_len(value), "{value}");
            }
        }
    }
}
