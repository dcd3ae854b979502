//! What holds for every line.

use crosstalk_training_log::{MAX_LINE, Metric, Outcome, Parser, Pattern, Stream, Style, explain};
use proptest::prelude::*;

/// Fields of a line as printed, and what they are: metric and value.
fn fields() -> impl Strategy<Value = Vec<(String, Metric, f64)>> {
    let number = prop_oneof![
        (0u32..1_000_000).prop_map(f64::from),
        (1u32..1_000_000, 1u32..1000).prop_map(|(a, b)| f64::from(a) / f64::from(b)),
    ];
    let optional = [
        ("grad norm", Metric::GradNorm),
        ("learning rate", Metric::LearningRate),
        ("consumed samples", Metric::ConsumedSamples),
        ("elapsed time per iteration (ms)", Metric::ElapsedTimePerIterationMs),
        ("throughput per GPU (TFLOP/s/GPU)", Metric::Tflops),
        ("tokens per GPU (tokens/s/GPU)", Metric::TokensPerGpu),
        ("global batch size", Metric::GlobalBatchSize),
        ("loss scale", Metric::LossScale),
        ("num zeros", Metric::NumZeros),
        ("number of skipped iterations", Metric::SkippedIterationsNumber),
        ("number of nan iterations", Metric::NanIterationsNumber),
    ];
    let some = proptest::sample::subsequence(optional.to_vec(), 0..=optional.len());
    (some, 0u32..1_000_000, proptest::collection::vec(number, 12)).prop_map(
        |(chosen, iteration, numbers)| {
            let mut fields = vec![
                ("iteration".to_owned(), Metric::CurrentIteration, f64::from(iteration)),
                ("lm loss".to_owned(), Metric::LmLoss, 2.5),
            ];
            for ((key, metric), number) in chosen.into_iter().zip(numbers) {
                fields.push((key.to_owned(), metric, number));
            }
            fields
        },
    )
}

fn check(line: &str, fields: &[(String, Metric, f64)]) -> Result<(), TestCaseError> {
    let Outcome::Performance { performance, .. } = Parser::default().parse(line) else {
        return Err(TestCaseError::fail(format!("no match: {line}")));
    };
    for (key, metric, value) in fields {
        prop_assert_eq!(performance.get(*metric), Some(*value), "{} in {}", key, line);
    }
    prop_assert_eq!(performance.fields().count(), fields.len(), "{}", line);
    Ok(())
}

proptest! {
    #[test]
    fn fields_survive_any_order_and_any_way_of_dividing_them(
        (ordered, shuffled) in fields().prop_flat_map(|f| (Just(f.clone()), Just(f).prop_shuffle())),
        divider in prop_oneof![Just(" | "), Just("|"), Just(", "), Just("  "), Just(" "), Just("; ")],
        anchor in prop_oneof![Just(": "), Just("="), Just(":      "), Just(" = ")],
        prefix in prop_oneof![Just(""), Just("[2025-12-25 08:40:22] "), Just("\x1b[32m[rank-3/8][INFO ] [--main.py:7] : \x1b[0m"), Just("[7B] [rank0]: ")],
    ) {
        for fields in [ordered, shuffled] {
            let printed: Vec<_> = fields.iter().map(|(key, _, value)| format!("{key}{anchor}{value}")).collect();
            check(&format!("{prefix}{}", printed.join(divider)), &fields)?;
        }
    }

    #[test]
    fn extra_segments_cost_no_field(fields in fields(), at in 0usize..12, extra in "[a-z]{3,9} [a-z]{3,9}") {
        let mut printed: Vec<_> = fields.iter().map(|(key, _, value)| format!("{key}: {value}")).collect();
        printed.insert(at % (printed.len() + 1), extra);
        let line = printed.join(" | ");
        let Outcome::Performance { performance, .. } = Parser::default().parse(&line) else {
            // Words such as "eval" may be drawn; nothing else excuses a line.
            prop_assert!(line.contains("val") || line.contains("test"), "{}", line);
            return Ok(());
        };
        for (_, metric, value) in &fields {
            prop_assert_eq!(performance.get(*metric), Some(*value), "{}", line);
        }
    }

    #[test]
    fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let pattern = Pattern::new("p", r"(?P<step>\d+)(?P<loss>.*)").unwrap();
        let parser = Parser::with_patterns(vec![pattern]);
        let _ = explain(&parser, &bytes[..], std::io::sink(), Style::Json).unwrap();
    }

    #[test]
    fn no_mixture_of_what_lines_are_made_of_makes_the_parser_panic(
        parts in proptest::collection::vec(prop_oneof![
            Just("step"), Just("loss"), Just(":"), Just("="), Just("|"), Just(","), Just(" "), Just("  "), Just("["), Just("]"),
            Just("("), Just(")"), Just("{"), Just("\""), Just("'"), Just("/"), Just("nan"), Just("inf"), Just("-"), Just("+"),
            Just("."), Just("1"), Just("1e"), Just("1e5"), Just("%"), Just("GB"), Just("GiB"), Just("ms"), Just("s/it"), Just("é"),
            Just("\r"), Just("\n"), Just("[batch=1/3]:"), Just("Train "), Just("  2%|▏| 10/500 ["), Just("\x1b["), Just("\x1b"), Just("m"), Just("mem usage/free"), Just("hip mem usage/free/total: "), Just("1,234"), Just("\t"), Just("rank"), Just("INFO"), Just("://"), Just(".py:"),
        ], 0..60)
    ) {
        let line = parts.concat();
        let mut stream = Stream::default();
        let mut told = 0;
        for text in [&line, &line] {
            stream.read(&Parser::default(), text, |_, _| told += 1);
        }
        prop_assert!(told >= 2 && told <= 2 * (1 + line.matches(['\r', '\n']).count()), "{}", line);
        let thorough = Parser::default().parse_thoroughly(&line);
        let quick = Parser::default().parse(&line);
        let matched = |outcome: &Outcome| !matches!(outcome, Outcome::Nothing(_));
        prop_assert_eq!(matched(&quick), matched(&thorough), "the short cut costs no line: {}", line);
        if let Outcome::Performance { performance, .. } = Parser::default().parse(&line) {
            let json = serde_json::to_string(&performance).unwrap();
            prop_assert_eq!(serde_json::from_str::<crosstalk_training_log::Performance>(&json).unwrap(), performance);
        }
    }
}

#[test]
fn a_line_at_the_limit_is_read_and_one_beyond_is_not() {
    let mut line = "step: 1 loss: 2 ".to_owned();
    line.push_str(&"x".repeat(MAX_LINE - line.len()));
    assert!(matches!(Parser::default().parse(&line), Outcome::Performance { .. }));
    line.push('x');
    assert!(matches!(Parser::default().parse(&line), Outcome::Nothing(_)));
}
