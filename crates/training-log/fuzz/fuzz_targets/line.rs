//! Any bytes are read without a panic, both ways of reading agree on what is a training line, and
//! what is found survives its JSON.
#![no_main]

use crosstalk_training_log::{Outcome, Parser, Performance};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let line = String::from_utf8_lossy(bytes);
    let parser = Parser::default();
    let outcome = parser.parse(&line);
    let matched = |outcome: &Outcome| !matches!(outcome, Outcome::Nothing(_));
    assert_eq!(matched(&outcome), matched(&parser.parse_thoroughly(&line)));
    if let Outcome::Performance { performance, .. } = outcome {
        let json = serde_json::to_string(&performance).unwrap();
        assert_eq!(serde_json::from_str::<Performance>(&json).unwrap(), performance);
    }
});
