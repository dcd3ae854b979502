//! Any bytes: no panic, and never more than the limit.
#![no_main]

use crosstalk_remote_write::{Compression, Decompressor, Limits};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| {
    let limits = Limits { max_decoded_bytes: 1 << 16, ..Limits::default() };
    let mut decompressor = Decompressor::default();
    for compression in [Compression::Snappy, Compression::Zstd] {
        if let Ok(plain) = decompressor.decompress(compression, body, &limits) {
            assert!(plain.len() <= limits.max_decoded_bytes);
        }
    }
});
