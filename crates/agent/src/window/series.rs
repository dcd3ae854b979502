use crosstalk_model::Metric;
use crosstalk_window::{Config, Reader, View, Window, WindowError, Writer, buffer};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What one source measured of one subject: a rolling window and the names of its columns.
///
/// Its writer sits behind a lock that only the window's own thread takes; readers never do.
///
/// ```
/// use crosstalk_agent::Series;
/// use crosstalk_model::metric;
/// use std::time::Duration;
///
/// let second = Duration::from_secs(1);
/// let series = Series::new(&[metric::CPU_UTIL], Duration::from_secs(30), second)?;
/// series.push(5_000_000_000, 1_000_000_000, &[Some(0.5)])?;
/// assert_eq!(series.view().samples(), 1);
/// # Ok::<(), crosstalk_window::WindowError>(())
/// ```
#[derive(Debug)]
pub struct Series {
    metrics: Box<[Metric]>,
    writer: Mutex<Writer>,
    reader: Reader,
}

impl Series {
    /// Keeps `retention` of samples that come about every `period`.
    ///
    /// # Errors
    /// If there are no metrics or no time to keep.
    pub fn new(
        metrics: &[Metric],
        retention: Duration,
        period: Duration,
    ) -> Result<Self, WindowError> {
        let mut config = Config::new(metrics.iter().map(|metric| metric.name));
        config.retention = retention;
        // A quarter more than arithmetic says, since no clock ticks evenly.
        let samples = retention.as_secs_f64() / period.as_secs_f64().max(1e-6);
        config.capacity = (samples * 1.25) as usize + 8;
        let (writer, reader) = buffer(config)?;
        Ok(Self { metrics: metrics.into(), writer: Mutex::new(writer), reader })
    }

    /// Appends the sample that covers the `covers_ns` before `end_ns` (monotonic).
    ///
    /// # Errors
    /// As [`Writer::push`] does.
    pub fn push(
        &self,
        end_ns: u64,
        covers_ns: u64,
        values: &[Option<f64>],
    ) -> Result<(), WindowError> {
        // A writer whose thread died mid-push has published nothing half.
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        writer.push(end_ns, covers_ns, values)
    }

    /// What is held at this moment.
    #[must_use]
    pub fn view(&self) -> View {
        self.reader.view()
    }

    /// The columns.
    #[must_use]
    pub fn metrics(&self) -> &[Metric] {
        &self.metrics
    }

    pub(crate) fn reader(&self) -> &Reader {
        &self.reader
    }

    /// How many samples fit.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.reader.config().capacity
    }

    /// The newest value of every column.
    pub(crate) fn newest(&self, now_ns: u64, within: Duration) -> Vec<Option<f64>> {
        let view = self.view();
        let none = || vec![None; self.metrics.len()];
        let last = |window: Window<'_>| {
            window.all_stats().iter().map(|stats| stats.map(|stats| stats.last)).collect()
        };
        view.window(now_ns, within).map_or_else(|_| none(), last)
    }
}
