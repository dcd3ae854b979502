//! The eighteen metrics a training line is read for.

/// One metric of a training line, in the unit its name or documentation says.
///
/// ```
/// use crosstalk_training_log::Metric;
/// assert_eq!(Metric::ElapsedTimePerIterationMs.name(), "elapsed_time_per_iteration_ms");
/// assert_eq!(Metric::from_name("lm_loss"), Some(Metric::LmLoss));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Metric {
    /// Iteration the line reports.
    CurrentIteration,
    /// Iteration at which training ends.
    TargetIteration,
    /// Samples processed since training began.
    ConsumedSamples,
    /// Milliseconds the iteration took.
    ElapsedTimePerIterationMs,
    /// Device memory in use, GB (10^9 bytes).
    MemUsage,
    /// Device memory free, GB.
    MemFree,
    /// Device memory in all, GB.
    MemTotal,
    /// Share of device memory in use, 0 to 1.
    MemUsageRatio,
    /// TFLOP/s of one device.
    Tflops,
    /// Tokens a second of one device.
    TokensPerGpu,
    /// Learning rate.
    LearningRate,
    /// Samples in one global batch.
    GlobalBatchSize,
    /// Training loss.
    LmLoss,
    /// Loss scale of mixed precision.
    LossScale,
    /// Norm of the gradient.
    GradNorm,
    /// Zeros in the gradient.
    NumZeros,
    /// Iterations skipped since the last line.
    SkippedIterationsNumber,
    /// Iterations with NaN since the last line.
    NanIterationsNumber,
}

use Metric::*;

impl Metric {
    /// How many there are.
    pub const COUNT: usize = 18;

    /// All, in the order in which they are written.
    pub const ALL: [Metric; Metric::COUNT] = [
        CurrentIteration,
        TargetIteration,
        ConsumedSamples,
        ElapsedTimePerIterationMs,
        MemUsage,
        MemFree,
        MemTotal,
        MemUsageRatio,
        Tflops,
        TokensPerGpu,
        LearningRate,
        GlobalBatchSize,
        LmLoss,
        LossScale,
        GradNorm,
        NumZeros,
        SkippedIterationsNumber,
        NanIterationsNumber,
    ];

    /// The name under which the metric is stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            CurrentIteration => "current_iteration",
            TargetIteration => "target_iteration",
            ConsumedSamples => "consumed_samples",
            ElapsedTimePerIterationMs => "elapsed_time_per_iteration_ms",
            MemUsage => "mem_usage",
            MemFree => "mem_free",
            MemTotal => "mem_total",
            MemUsageRatio => "mem_usage_ratio",
            Tflops => "tflops",
            TokensPerGpu => "tokens_per_gpu",
            LearningRate => "learning_rate",
            GlobalBatchSize => "global_batch_size",
            LmLoss => "lm_loss",
            LossScale => "loss_scale",
            GradNorm => "grad_norm",
            NumZeros => "num_zeros",
            SkippedIterationsNumber => "skipped_iterations_number",
            NanIterationsNumber => "nan_iterations_number",
        }
    }

    /// The metric of that exact name.
    pub fn from_name(name: &str) -> Option<Metric> {
        Metric::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// Whether the metric counts things, so that a whole number is written without a fraction.
    pub const fn is_count(self) -> bool {
        matches!(
            self,
            CurrentIteration
                | TargetIteration
                | ConsumedSamples
                | GlobalBatchSize
                | NumZeros
                | SkippedIterationsNumber
                | NanIterationsNumber
        )
    }
}
