//! The object in a file, or on standard output, for machines without Kubernetes.

use super::{Reported, Reports};
use crate::log::say;
use serde_json::Value;
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// How soon it is looked again while there is nothing to tell.
const SOON: Duration = Duration::from_millis(500);

/// Writes the object again and again. Never returns.
pub(super) async fn keep(reported: &Reported, file: &Path) {
    let mut failed = false;
    loop {
        if !reported.is_known() {
            tokio::time::sleep(SOON).await;
            continue;
        }
        let reports = &reported.node.reports;
        match write(&reported.object(), file) {
            Ok(()) => {
                failed = false;
                Reports::count(&reports.done);
            }
            Err(error) => {
                Reports::count(&reports.failed);
                if !failed {
                    say(format_args!("NodeMetric: {}: {error}; tried again", file.display()));
                }
                failed = true;
            }
        }
        tokio::time::sleep(reported.policy.every).await;
    }
}

/// Whole or not at all: whoever reads the file never finds half an object.
fn write(object: &Value, file: &Path) -> io::Result<()> {
    let mut text = format!("{object:#}").into_bytes();
    text.push(b'\n');
    if file == Path::new("-") {
        return io::stdout().write_all(&text);
    }
    let mut beside = file.as_os_str().to_owned();
    beside.push(".part");
    std::fs::write(&beside, text)?;
    std::fs::rename(&beside, file)
}
