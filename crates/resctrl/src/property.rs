//! The property that fuzzing and the property tests share.

use crosstalk_host::CpuSet;

use crate::{CacheMask, Mode, MonValue, Refusal, Schemata};

/// Puts any bytes through every parser and checks that what was understood survives being written and read again.
///
/// # Panics
/// Where a parser panics or a round trip loses something: a defect in this library.
#[doc(hidden)]
pub fn check_parsers(bytes: &[u8]) {
    let _ = MonValue::parse(bytes);
    let text = String::from_utf8_lossy(bytes);
    if let Ok(schemata) = Schemata::parse(&text) {
        assert_eq!(Schemata::parse(&schemata.to_string()), Ok(schemata));
    }
    if let Ok(mask) = text.parse::<CacheMask>() {
        assert_eq!(mask.to_string().parse(), Ok(mask));
    }
    for cpus in [CpuSet::parse_list(&text), CpuSet::parse_mask(&text)].into_iter().flatten() {
        assert_eq!(CpuSet::parse_list(&cpus.to_string()), Some(cpus));
    }
    let mode = Mode::from(text.as_ref());
    assert_eq!(Mode::from(mode.to_string().as_str()), mode);
    for errno in [1, 3, 16, 19, 22, 28] {
        let _ = Refusal::classify(errno, &text);
    }
}
