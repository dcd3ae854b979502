//! What a workload says it got done is a signal: without it nothing can be said of who never sleeps.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

mod support;

use crosstalk_analysis::{Progress, SubjectKind};
use crosstalk_recording::Format;
use std::fmt::Write;
use std::path::Path;
use support::*;

/// A minute of a victim that never sleeps and has no counters, beside a stream that makes its pieces a quarter longer.
/// Says its progress as (time, pieces in all) every 250 ms.
fn minute(out: &Path) -> Vec<(u64, u64)> {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let (mut streams, mut ran, mut said, mut done) = (false, Vec::new(), Vec::new(), 0.0);
    for slot in 0..60_000_u64 {
        let number = random.next();
        if number.is_multiple_of(700) {
            streams = !streams;
        }
        let at_ns = START + slot * MS;
        let noise = 1.0 + (number % 100) as f64 / 2_000.0;
        done += noise / if streams { 1.25 } else { 1.0 };
        ran.push(Ran::new(at_ns, 7, "victim", 0));
        if streams {
            ran.push(Ran::new(at_ns, 9, "stream", 1));
        }
        if slot % 250 == 249 {
            said.push((at_ns + MS, (done * 100.0) as u64));
        }
    }
    write(out, "n", START, about(), Format::Parquet, &ran);
    said
}

fn truth(ran: &Path) -> String {
    ran.to_str().unwrap().to_owned()
}

#[test]
fn who_never_sleeps_is_judged_by_its_own_progress_in_every_form() {
    let out = tempfile::tempdir().unwrap();
    let said = minute(&out.path().join("rec"));
    let rec = out.path().join("rec");
    let without = ask_process(&rec);
    assert!(without.verdicts().is_empty());
    let unsaid = without.cannot_tell();
    assert!(
        unsaid.iter().any(|one| one.victim == "victim (7)" && one.because.contains("no signal"))
    );

    let (mut lines, mut csv) = (String::new(), "time,units\n".to_owned());
    let mut before = 0;
    for (at_ns, pieces) in &said {
        writeln!(lines, r#"{{"event":"phase","unix_ns":{at_ns},"on":true}}"#).unwrap();
        writeln!(lines, r#"{{"event":"progress","unix_ns":{at_ns},"pid":7,"pieces":{pieces},"busy_seconds":1.0}}"#).unwrap();
        writeln!(csv, "{at_ns},{}", pieces - before).unwrap();
        before = *pieces;
    }
    for (name, text, argument) in [
        ("p.jsonl", &lines, "p.jsonl"),
        ("p.csv", &csv, "victim=p.csv"),
        ("p.csv", &csv, "7=p.csv"),
    ] {
        std::fs::write(out.path().join(name), text).unwrap();
        let argument = match argument.split_once('=') {
            Some((who, file)) => format!("{who}={}", truth(&out.path().join(file))),
            None => truth(&out.path().join(argument)),
        };
        let report = ask(&rec, &with_progress(SubjectKind::Process, &argument));
        assert!(report.unread.is_empty(), "{:?}", report.unread);
        let verdicts = report.verdicts();
        let [verdict] = &verdicts[..] else { panic!("{argument}: {verdicts:#?}") };
        assert_eq!((verdict.aggressor.as_str(), verdict.signal), ("stream (9)", "progress"));
        // It streams about half of the time, and costs a fifth of the victim's time then.
        assert!(verdict.low > 0.05 && verdict.high < 0.18, "{verdict:?}");
    }
}

#[test]
fn a_name_that_is_not_there_is_answered_with_those_that_are() {
    let out = tempfile::tempdir().unwrap();
    record(&out.path().join("rec"), 0);
    let file = out.path().join("p.csv");
    std::fs::write(&file, format!("time,units\n{START},1\n{},1\n", START + 1_000 * MS)).unwrap();
    let ask = |who: &str| {
        let argument = format!("{who}={}", file.display());
        let report = ask(&out.path().join("rec"), &with_progress(SubjectKind::Process, &argument));
        report.unread.join("; ")
    };
    let wrong = ask("trainer");
    assert!(wrong.contains("p.csv: nobody is called \"trainer\""), "{wrong}");
    assert!(wrong.contains("victim (7), stream (9)"), "{wrong}");
    assert!(ask("4711").contains("no process 4711 ran"));
    std::fs::write(&file, "time,units\n2020-01-01T00:00:00Z,1\n2020-01-01T00:00:01Z,1\n").unwrap();
    assert!(ask("victim").contains("outside the recording's"));
}

#[test]
fn a_file_without_progress_or_without_an_owner_is_refused_with_what_to_do() {
    let out = tempfile::tempdir().unwrap();
    let file = out.path().join("f");
    let refuse = |text: &str, argument: &str| {
        std::fs::write(&file, text).unwrap();
        let argument = argument.replace("FILE", file.to_str().unwrap());
        Progress::open(&argument, 0).unwrap_err().to_string()
    };
    for (text, argument, word) in [
        ("", "a=FILE", "it is empty"),
        ("hello\nworld\n", "a=FILE", "no progress"),
        ("time,units\n1794779000,1\n1794779001,1\n", "FILE", "--progress NAME="),
        ("time,units\nyesterday,1\n", "a=FILE", "line 2"),
        ("time,units\n1794779000,many\n", "a=FILE", "\"many\" is not a number"),
        ("iteration 1/ 9 | lm loss: 2.5 |\n", "a=FILE", "no line has a date"),
        ("{\"points\": 3}", "a=FILE", "GET /workloads/UID/training"),
        ("{\n", "a=FILE", "GET /workloads/UID/training"),
    ] {
        let error = refuse(text, argument);
        assert!(error.contains(word), "{text:?}: {error}");
    }
    let absent = Progress::open("a=/no/such/file", 0).unwrap_err().to_string();
    assert!(absent.contains("/no/such/file"), "{absent}");
}
