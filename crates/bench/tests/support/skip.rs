//! What becomes of a test on a machine that lacks something.
#![allow(unreachable_pub)]

/// Says what is missing. With `CROSSTALK_NO_SKIP`, which `make test` sets as it installs everything, that is a failure.
pub fn skip(what: impl std::fmt::Display) {
    assert!(std::env::var_os("CROSSTALK_NO_SKIP").is_none(), "{what}");
    eprintln!("skipped: {what}");
}
