//! Any text is a time or an error, and a time is not before 1970.
#![no_main]

use crosstalk_training_log::timestamp;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    if let Ok(nanoseconds) = timestamp::parse(&text) {
        assert!(nanoseconds >= 0);
    }
});
