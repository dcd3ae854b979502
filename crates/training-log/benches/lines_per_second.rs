//! Lines a second on one core, beside the approach of matching whole lines with one regular
//! expression a dialect, over the same lines. Prints both and their ratio.
//!
//! `cargo bench -p crosstalk-training-log`

use std::hint::black_box;
use std::time::{Duration, Instant};

use crosstalk_figure::{Figure, Section, is_asked_for};
use crosstalk_training_log::{Outcome, Parser};
use regex::Regex;

/// Rounds of each; the fastest counts, as noise only ever adds time.
const ROUNDS: usize = 60;
const LINES: usize = 1_000;

fn main() -> std::io::Result<()> {
    if !is_asked_for() {
        return Ok(());
    }
    let training = training_lines();
    let mixed = mixed_lines(&training);
    let parser = Parser::default();
    let expressions = whole_line_expressions();

    for line in &training {
        assert!(matches!(parser.parse(line), Outcome::Performance { .. }), "{line}");
        assert!(match_whole_line(&expressions, line).is_some_and(|n| n >= 15), "{line}");
    }
    let mut section = Section::new("Reading training logs");
    let (figures, ratio) = compare("training lines", &training, &parser, &expressions);
    section.extend(figures);
    section.add(
        Figure::new("training lines: ratio", format!("{ratio:.1} x"))
            .against("at least 10 x", ratio >= 10.0),
    );
    let (figures, ratio) = compare("one training line in twenty", &mixed, &parser, &expressions);
    section.extend(figures);
    section.add(Figure::new("one training line in twenty: ratio", format!("{ratio:.1} x")));
    section.finish()
}

/// Both rates on one core, and how many times the second the first is.
fn compare(
    what: &str,
    lines: &[String],
    parser: &Parser,
    expressions: &[Regex],
) -> ([Figure; 2], f64) {
    let mut fields = Duration::MAX;
    let mut whole = Duration::MAX;
    for _ in 0..ROUNDS {
        fields = fields.min(time(lines, |line| {
            black_box(parser.parse(line));
        }));
        whole = whole.min(time(lines, |line| {
            black_box(match_whole_line(expressions, line));
        }));
    }
    let bytes: usize = lines.iter().map(String::len).sum();
    let figure = |name: &str, time: Duration| {
        let seconds = time.as_secs_f64();
        let (lines_per_s, mb_per_s) = (lines.len() as f64 / seconds, bytes as f64 / seconds / 1e6);
        let value = format!("{lines_per_s:.0} lines/s, {mb_per_s:.0} MB/s");
        Figure::new(format!("{what}: {name}"), value)
    };
    let ratio = whole.as_secs_f64() / fields.as_secs_f64();
    ([figure("split into fields", fields), figure("whole-line regexes", whole)], ratio)
}

fn time(lines: &[String], mut read: impl FnMut(&str)) -> Duration {
    let start = Instant::now();
    for line in lines {
        read(line);
    }
    start.elapsed()
}

/// The three dialects that whole-line expressions are written for, in turn.
fn training_lines() -> Vec<String> {
    (0..LINES)
        .map(|n| {
            let (average, memory) = match n % 3 {
                0 => (true, "hip mem usage/free/total/usage_ratio: 253.38GB/2.60GB/255.98GB/98.98%"),
                1 => (true, "rocm mem usage/free/total/usage_ratio: 253.38GB/2.60GB/255.98GB/98.98%"),
                _ => (false, "mem usages: 0.8312"),
            };
            let pair = |now: f64| if average { format!("{now:.1}/{:.1}", now * 1.01) } else { format!("{now:.1}") };
            format!(
                "\x1b[32m[20251023 12:39:12]\x1b[0m[rank-63/64][INFO ] [--------trainer.py:2382] :  iteration {n:>8}/   40000 | consumed samples: {:>12} | elapsed time per iteration (ms): {} | {memory} | throughput per GPU (TFLOP/s/GPU): {} | tokens per GPU (tokens/s/GPU): {} | learning rate: 9.997254E-06 | global batch size:    64 | lm loss: {:E} | loss scale: 1.0 | grad norm: 6.142 | num zeros: 960902016.0 | number of skipped iterations:   0 | number of nan iterations:   0 |\x1b[0m",
                n * 64,
                pair(16601.3 + n as f64),
                pair(11.9),
                pair(246.7),
                4.447942 + 1.0 / (n + 1) as f64,
            )
        })
        .collect()
}

/// What a training pod prints for the most part is not training lines.
fn mixed_lines(training: &[String]) -> Vec<String> {
    let others = [
        "[2025-10-23 12:39:12,001] [INFO] [checkpoint.py:120:save] saving checkpoint at iteration 500 to /data/checkpoints/iter_0000500",
        "INFO:     10.42.0.17:51234 - \"GET /healthz HTTP/1.1\" 200 OK",
        "W1023 12:39:12.123456 140212 ProcessGroupNCCL.cpp:1234] [rank 3] using GPU 3 to perform barrier as devices used by this process are currently unknown",
        "Traceback (most recent call last):",
        "  File \"/opt/app/train.py\", line 412, in main",
    ];
    (0..training.len())
        .map(
            |n| if n % 20 == 0 { training[n].clone() } else { others[n % others.len()].to_owned() },
        )
        .collect()
}

/// One expression a dialect, each for the whole line, as the telemetry processor before this one
/// had them; compiled once.
fn whole_line_expressions() -> Vec<Regex> {
    let number = r"[+-]?\d+(?:\.\d+)?(?:[Ee][+-]?\d+)?";
    let value = |name: &str| format!(r"(?P<{name}>{number})");
    let dialect = |pairs: bool, memory: String| {
        let paired = |name: &str| {
            if pairs { format!(r"{}/{number}", value(name)) } else { value(name) }
        };
        let expression = format!(
            r"iteration\s+(?P<current_iteration>\d+)\s*/\s*(?P<target_iteration>\d+)\s*\|\s*consumed samples:\s+(?P<consumed_samples>\d+)\s*\|\s*elapsed time per iteration \(ms\):\s+{}\s*\|\s*{memory}\s*\|\s*throughput per GPU \(TFLOP/s/GPU\):\s+{}\s*\|\s*tokens per GPU \(tokens/s/GPU\):\s+{}\s*\|\s*learning rate:\s+{}\s*\|\s*global batch size:\s+(?P<global_batch_size>\d+)\s*\|\s*lm loss:\s+{}\s*\|\s*loss scale:\s+{}\s*\|\s*grad norm:\s+{}\s*\|\s*num zeros:\s+{}\s*\|\s*number of skipped iterations:\s+(?P<skipped>\d+)\s*\|\s*number of nan iterations:\s+(?P<nan>\d+)\s*\|",
            paired("elapsed"),
            paired("tflops"),
            paired("tokens"),
            value("learning_rate"),
            value("lm_loss"),
            value("loss_scale"),
            value("grad_norm"),
            value("num_zeros"),
        );
        Regex::new(&expression).expect("the expression is fixed")
    };
    let sizes = |vendor: &str| {
        format!(
            r"{vendor} mem usage/free/total/usage_ratio:\s+{}GB/{}GB/{}GB/{}%",
            value("mem_usage"),
            value("mem_free"),
            value("mem_total"),
            value("mem_ratio"),
        )
    };
    vec![
        dialect(false, format!(r"mem usages:\s+{}", value("mem_ratio"))),
        dialect(true, sizes("rocm")),
        dialect(true, sizes("hip")),
    ]
}

/// Tries the expressions in turn and reads every group of the first that matches.
fn match_whole_line(expressions: &[Regex], line: &str) -> Option<usize> {
    let (expression, captures) =
        expressions.iter().find_map(|expression| Some((expression, expression.captures(line)?)))?;
    let mut numbers = 0;
    for name in expression.capture_names().flatten() {
        let value: f64 = captures.name(name)?.as_str().parse().ok()?;
        black_box(value);
        numbers += 1;
    }
    Some(numbers)
}
