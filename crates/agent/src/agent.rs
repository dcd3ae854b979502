use crate::config::Config;
use crate::detector;
use crate::devices;
use crate::error::AgentError;
use crate::http::Server;
use crate::log::{say, tell};
use crate::node::Node;
use crate::node_metric;
use crate::window::{self, Series, SourceWindow, SubjectTable};
use crosstalk_collect::{Collect, SourceStatus};
use crosstalk_host::{Clock, Cpu, raise_descriptor_limit};
use crosstalk_recording::{Destination, Metadata, Recorder, RecorderOptions, Tap, Uploader};
use crosstalk_sources::{Settings, all, start};
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Descriptors beside connections and counters: files and the like.
const OWN_DESCRIPTORS: u64 = 256;
/// Counters on every core: cycles, instructions and misses.
const COUNTERS: u64 = 3;

/// The running agent: sources and server. Dropping it ends both and finishes a recording.
///
/// ```no_run
/// use crosstalk_agent::{Agent, config::Config};
///
/// let agent = Agent::start(&Config::default())?;
/// println!("http://{}/metrics?window_seconds=20", agent.address());
/// # Ok::<(), crosstalk_agent::AgentError>(())
/// ```
pub struct Agent {
    server: Server,
    collect: Collect,
    window: Option<JoinHandle<()>>,
    detector: Option<JoinHandle<()>>,
    recorder: Option<Recorder>,
    uploader: Option<Uploader>,
    reporter: Option<node_metric::Reporter>,
    /// Ends with the agent.
    _devices: Option<devices::DeviceReports>,
}

impl Agent {
    /// Starts every source the machine has, and listens.
    ///
    /// # Errors
    /// If the address cannot be listened on, or a thread cannot be made. A source that fails is
    /// not an error.
    pub fn start(config: &Config) -> Result<Self, AgentError> {
        // What the system does not grant shows as accept errors.
        let settings = config.settings();
        raise_descriptor_limit(descriptors(config, Cpu::online(&settings.host).len()));
        let mut collect = Collect::new(Clock::measure()).on_news(tell);
        let queue = collect.subscribe("window", window::WAITING, window::WANTS);
        let tap = (!config.recording.out.as_os_str().is_empty()).then(|| Tap::new(&mut collect));
        let rows = config
            .verdicts
            .enabled
            .then(|| collect.subscribe("detector", detector::WAITING, detector::WANTS));
        let wired = all(&settings);
        let fastest: Vec<Duration> = wired.iter().map(|wired| wired.fastest).collect();
        let statuses = start(wired, &mut collect, None)
            .map_err(|source| AgentError::Start { what: "a source", source })?;
        let sources: Result<Vec<Arc<SourceWindow>>, AgentError> = statuses
            .into_iter()
            .zip(fastest)
            .map(|(status, fastest)| source_window(config, status, fastest).map(Arc::new))
            .collect();
        let sources = sources?;
        let memory = Arc::new(config.memory());
        let window =
            window::start(queue, &sources, &settings, collect.overview(), Arc::clone(&memory))
                .map_err(|source| AgentError::Start { what: "the window", source })?;
        let explains = rows.map(|rows| {
            let kind = config.verdicts.subject;
            detector::start(rows, &settings.host, settings.slot, kind, collect.overview())
        });
        let (verdicts, detector) = explains
            .transpose()
            .map_err(|source| AgentError::Start { what: "the detector", source })?
            .unzip();
        let to = config.destination()?;
        let recorder = tap
            .map(|tap| Recorder::start(tap, recorder_options(config, &to, &settings)))
            .transpose()?;
        let uploader = match &recorder {
            Some(_) => to.uploader(|error| say(format_args!("recording: {error}; tried again")))?,
            None => None,
        };
        let mut node = node(config, sources, &collect);
        node.inventory = Some(settings.inventory.clone());
        node.memory = memory;
        node.verdicts = verdicts;
        node.recording = recorder.as_ref().map(Recorder::status);
        let node = Arc::new(node);
        let server = Server::start(Arc::clone(&node), config.listen, &config.http)?;
        let reporter = node_metric::start(config, node)?;
        let devices = devices::start(config, settings.inventory.clone())?;
        let window = Some(window);
        Ok(Self {
            server,
            collect,
            window,
            detector,
            recorder,
            uploader,
            reporter,
            _devices: devices,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.server.address()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        drop(self.reporter.take());
        self.collect.stop_at_once();
        if let Some(Err(error)) = self.recorder.take().map(Recorder::finish) {
            say(format_args!("recording: {error}"));
        }
        if let Some(uploaded) = self.uploader.take().map(Uploader::finish)
            && uploaded.left > 0
        {
            say(format_args!("recording: {} files wait for the next start", uploaded.left));
        }
        // Last: one that rests after a panic takes its time, and what is recorded must not wait for it.
        for consumer in [self.window.take(), self.detector.take()].into_iter().flatten() {
            let _ = consumer.join();
        }
    }
}

/// How many descriptors it may come to hold on a machine of so many cores.
fn descriptors(config: &Config, cores: usize) -> u64 {
    config.http.connections as u64 + COUNTERS * cores as u64 + OWN_DESCRIPTORS
}

fn node(config: &Config, sources: Vec<Arc<SourceWindow>>, collect: &Collect) -> Node {
    let mut node = Node::new(sources, config.sampling.retention.get());
    node.overview = Some(collect.overview().clone());
    node.follows_subjects = config.subjects.enabled;
    node.prometheus_limit = config.subjects.prometheus_limit;
    let slowest = config.sampling.slowest.max(config.sampling.period).get();
    node.fresh = (slowest * 2).max(Duration::from_secs(5));
    node
}

/// Buffers for what a source can have. Also for one that is off: an answer then knows what it would
/// have had.
fn source_window(
    config: &Config,
    status: Arc<SourceStatus>,
    fastest: Duration,
) -> Result<SourceWindow, AgentError> {
    let about = status.about();
    let retention = config.sampling.retention.get();
    let series = match about.metrics {
        [] => None,
        metrics => Some(Series::new(metrics, retention, fastest)?),
    };
    let subjects = if config.subjects.enabled && !about.subjects.is_empty() {
        let period = config.subjects.period.get();
        // A sample a little late must not make a subject forget its window.
        let kept = retention.max(period * 2);
        SubjectTable::new(about.subjects, kept, period, config.subjects.limit)
    } else {
        SubjectTable::none()
    };
    Ok(SourceWindow::new(status, series, subjects))
}

/// After a failure (a full disk) the agent goes on and tries again this much later.
const AGAIN: Duration = Duration::from_secs(30);

fn recorder_options(config: &Config, to: &Destination, settings: &Settings) -> RecorderOptions {
    RecorderOptions {
        recording: config.recording(to),
        node: config.node_name(),
        metadata: Metadata::of_machine(&settings.host, settings.slot),
        always: Vec::new(),
        retry: Some(AGAIN),
        on_error: |error| say(format_args!("recording: {error}; tried again in {AGAIN:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_enough_for_the_counters_of_every_core_beside_all_connections() {
        let config = Config::default();
        let connections = config.http.connections as u64;
        assert_eq!(descriptors(&config, 128), connections + 3 * 128 + 256);
    }
}
