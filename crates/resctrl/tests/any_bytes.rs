//! The property of the fuzz target, in every test run.

use crosstalk_resctrl::check_parsers;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_bytes_make_a_parser_panic_or_lose_what_it_understood(
        bytes in proptest::collection::vec(any::<u8>(), 0..200)
    ) {
        check_parsers(&bytes);
    }

    #[test]
    fn nor_does_text_that_is_nearly_right(text in "([ LMBS23:=;,0-9a-fx\n-]|CODE|DATA|0=|;1=){0,40}") {
        check_parsers(text.as_bytes());
    }
}
