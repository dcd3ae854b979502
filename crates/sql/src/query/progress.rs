//! A line on a terminal that says how far a query is.

use datafusion::physical_plan::ExecutionPlan;
use std::io::{IsTerminal, Write, stderr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_millis(500);

/// Shown while it lives and rows are not being written, on a terminal only.
pub(super) struct Progress {
    task: Option<tokio::task::JoinHandle<()>>,
    paused: Arc<AtomicBool>,
}

impl Progress {
    pub(super) fn of(plan: &Arc<dyn ExecutionPlan>, on_cluster: bool) -> Self {
        let paused = Arc::new(AtomicBool::new(false));
        let task = stderr().is_terminal().then(|| {
            let (plan, paused, began) = (plan.clone(), paused.clone(), Instant::now());
            tokio::spawn(async move {
                loop {
                    tokio::time::sleep(EVERY).await;
                    if !paused.load(Ordering::Relaxed) {
                        // What executors have read, they do not say until they are done.
                        let rows = (!on_cluster).then(|| rows_read(&plan));
                        let line = line(rows, began.elapsed());
                        let _ = write!(stderr(), "\r\x1b[K{line}");
                    }
                }
            })
        });
        Self { task, paused }
    }

    /// Takes the line away, for rows to be written.
    pub(super) fn pause(&self) {
        self.paused.store(true, Ordering::Relaxed);
        self.clear();
    }

    pub(super) fn go_on(&self) {
        self.paused.store(false, Ordering::Relaxed);
    }

    fn clear(&self) {
        if self.task.is_some() {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
            self.clear();
        }
    }
}

/// Rows that came out of the files so far.
fn rows_read(plan: &Arc<dyn ExecutionPlan>) -> u64 {
    let below = plan.children();
    if below.is_empty() {
        let rows = plan.metrics().and_then(|metrics| metrics.output_rows());
        return rows.unwrap_or(0) as u64;
    }
    below.into_iter().map(rows_read).sum()
}

fn line(rows: Option<u64>, elapsed: Duration) -> String {
    let seconds = elapsed.as_secs_f64();
    let Some(rows) = rows else {
        return format!("{seconds:.0} s, the cluster is at work");
    };
    let rate = rows as f64 / seconds.max(1e-3) / 1e6;
    format!(
        "{seconds:.0} s, {:.1} million rows read, {rate:.1} million a second",
        rows as f64 / 1e6
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_rows_and_their_rate() {
        let shown = line(Some(30_000_000), Duration::from_secs(10));
        assert_eq!(shown, "10 s, 30.0 million rows read, 3.0 million a second");
        let unknown = line(None, Duration::from_secs(10));
        assert_eq!(unknown, "10 s, the cluster is at work", "not that it read nothing");
    }
}
