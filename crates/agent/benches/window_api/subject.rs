//! The agent's server over a series of 50 metrics at 1 kHz.

use crosstalk_agent::config::Listener;
use crosstalk_agent::{Node, Series, Server, SourceWindow, SubjectTable};
use crosstalk_collect::{About, SourceStatus};
use crosstalk_host::{monotonic_ns, thread};
use crosstalk_model::Metric;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

const METRICS: u64 = 50;
const SLOT_NS: u64 = 1_000_000;
/// How long it samples before anybody asks.
pub(crate) const RESTING_SECONDS: u32 = 20;
const RETENTION: Duration = Duration::from_secs(30);
static ABOUT: About = About { name: "bench", datasets: &[], metrics: &[], subjects: &[] };

pub(crate) struct Subject {
    server: Server,
    late: Arc<AtomicU64>,
    late_at_rest: u64,
    stop: Option<Sender<()>>,
    sampler: Option<JoinHandle<()>>,
}

impl Subject {
    pub(crate) fn start() -> Result<Self, Box<dyn Error>> {
        let metrics: Vec<Metric> = (0..METRICS).map(metric).collect();
        let series = Series::new(&metrics, RETENTION, Duration::from_nanos(SLOT_NS))?;
        let status = Arc::new(SourceStatus::new(&ABOUT));
        let source = Arc::new(SourceWindow::new(status, Some(series), SubjectTable::none()));
        let node = Arc::new(Node::new(vec![Arc::clone(&source)], RETENTION));
        let server = Server::start(node, ([127, 0, 0, 1], 0).into(), &Listener::default())?;
        let late = Arc::new(AtomicU64::new(0));
        let (stop, stopped) = channel::<()>();
        let (filled, is_filled) = channel();
        let counted = Arc::clone(&late);
        let sampler = std::thread::spawn(move || {
            // As the thread of the counters is.
            thread::prefer();
            let start_ns = monotonic_ns() - RETENTION.as_nanos() as u64;
            let mut full = Some(filled);
            for i in 0.. {
                let due_ns = start_ns + i * SLOT_NS;
                let now_ns = monotonic_ns();
                if due_ns > now_ns {
                    drop(full.take());
                    let pause = Duration::from_nanos(due_ns - now_ns);
                    if stopped.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
                        return;
                    }
                }
                let values: Vec<Option<f64>> = (0..METRICS).map(|k| Some(value(i, k))).collect();
                if let Some(series) = &source.series {
                    series.push(due_ns, SLOT_NS, &values).expect("samples are in order");
                }
                if full.is_none() && monotonic_ns() > due_ns + SLOT_NS {
                    counted.fetch_add(1, Ordering::Relaxed);
                }
            }
        });
        // The sender is dropped once the past is filled in.
        let _ = is_filled.recv() as Result<(), _>;
        late.store(0, Ordering::Relaxed);
        #[allow(clippy::disallowed_methods)] // lateness at rest, over a known time
        std::thread::sleep(Duration::from_secs(RESTING_SECONDS.into()));
        let late_at_rest = late.swap(0, Ordering::Relaxed);
        Ok(Self { server, late, late_at_rest, stop: Some(stop), sampler: Some(sampler) })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/metrics?window_seconds=20", self.server.address())
    }

    /// Samples late by more than a slot before anybody asked.
    pub(crate) fn lateness_at_rest(&self) -> u64 {
        self.late_at_rest
    }

    /// Ends the sampler; says how many samples were late since.
    pub(crate) fn finish(mut self) -> u64 {
        self.stop = None;
        if let Some(sampler) = self.sampler.take() {
            let _ = sampler.join();
        }
        self.late.load(Ordering::Relaxed)
    }
}

/// A metric lives as long as the program; fifty of them may be leaked.
fn metric(k: u64) -> Metric {
    let name: &'static str = format!("m{k:02}").leak();
    let keys = crosstalk_model::metric::STATISTICS.map(|s| &*format!("{s}_{name}").leak());
    Metric { name, keys, family: name, scale: 1.0, help: "A made-up metric." }
}

/// The same series as in app.py.
fn value(i: u64, k: u64) -> f64 {
    let mixed = (i * 7_919 + k * 104_729).wrapping_mul(2_654_435_761) & 0xffff_ffff;
    0.5 + mixed as f64 / 8_589_934_592.0
}
