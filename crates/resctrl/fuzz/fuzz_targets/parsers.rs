//! Any bytes through every parser: none may panic, and what was understood must survive being written and read.
//!
//! `cargo fuzz run parsers --sanitizer none` runs it on a stable toolchain. The same property is a proptest in
//! `tests/any_bytes.rs`, so that every test run covers it.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| crosstalk_resctrl::check_parsers(bytes));
