//! The report, opened in a real browser.
#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

mod support;

use crosstalk_analysis::{Question, SubjectKind, html};
use crosstalk_recording::Format;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use support::*;

/// What a container may be called by whoever wishes us ill.
const EVIL: &str =
    "</script><script>document.title='owned'</script><img src=x onerror=document.title='owned'>";

fn chromium() -> Option<&'static str> {
    ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success()))
}

/// The page as it stands after its script ran, and what the browser complained of.
fn opened(browser: &str, page: &Path) -> (String, String) {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new("timeout")
        .args(["--kill-after=5", "120", browser, "--headless", "--no-sandbox", "--disable-gpu"])
        .args(["--disable-dev-shm-usage", "--no-first-run", "--enable-logging=stderr", "--v=0"])
        .args(["--virtual-time-budget=4000", "--window-size=1200,900", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}: {said}", Duration::from_secs(120).as_secs());
    let console = said.lines().filter(|line| line.contains("CONSOLE")).collect::<Vec<_>>();
    (String::from_utf8_lossy(&output.stdout).into_owned(), console.join("\n"))
}

#[test]
fn a_browser_draws_it_without_error_and_runs_nothing_that_a_name_says() {
    let out = tempfile::tempdir().unwrap();
    let mut ran = scene(START, 60, 250_000);
    for one in ran.iter_mut().filter(|one| one.pid == 9) {
        one.container = Some(EVIL);
    }
    let rec = out.path().join("rec");
    write(&rec, "n", START, about(), Format::Parquet, &ran);
    let log: String = (1..=55_u64)
        .map(|at| {
            let ended = START + at * 1_000 * MS;
            let ended = jiff::Timestamp::from_nanosecond(i128::from(ended)).unwrap();
            let ms = if at % 9 == 0 { 1_400 } else { 1_000 };
            format!("[{}] iteration {at}/ 60 | elapsed time per iteration (ms): {ms}.0 | lm loss: 2.5 |\n", ended.strftime("%F %T.%3f"))
        })
        .collect();
    std::fs::write(out.path().join("train.log"), log).unwrap();
    let argument = format!("web={}", out.path().join("train.log").display());
    let question = Question { pictures: true, ..with_progress(SubjectKind::Container, &argument) };
    let report = ask(&rec, &question);
    assert_eq!(report.verdicts().len(), 1, "{:?}", report.verdicts());
    assert_eq!(report.training.len(), 1);
    let picture = &report.runs[0].pictures[0];
    assert!(picture.close_up.is_some() && picture.distributions.len() == 1);

    let text = html::page(&report);
    assert!(text.len() < 2 << 20, "{} bytes", text.len());
    let page = out.path().join("report.html");
    std::fs::write(&page, text).unwrap();
    if let Ok(keep) = std::env::var("CROSSTALK_KEEP_REPORT") {
        std::fs::copy(&page, keep).unwrap();
    }
    let Some(browser) = chromium() else {
        assert!(
            std::env::var_os("CROSSTALK_NO_SKIP").is_none(),
            "no Chromium here; apt-get install chromium"
        );
        eprintln!("skipped: no Chromium here; apt-get install chromium");
        return;
    };
    let (dom, console) = opened(browser, &page);
    assert_eq!(console, "", "the browser complained");
    // The course, its distribution, the close-up and the iterations.
    assert!(dom.contains("data-charts=\"4\""), "{}", &dom[..dom.len().min(600)]);
    assert!(dom.contains("data-errors=\"\""), "{}", &dom[..dom.len().min(600)]);
    assert!(dom.contains("<b class=\"v\">web</b> lost") && dom.contains("through"));
    assert!(dom.contains("&lt;/script&gt;&lt;script&gt;"), "the name is shown as it is");
    assert!(!dom.contains("<title>owned") && !dom.contains("<img"), "a name was obeyed");
}
