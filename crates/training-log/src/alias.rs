//! Which metric a key means: the names that trainers have for the same thing.
//!
//! A new spelling is a new line of [`TABLE`]. Prefixes, suffixes and units that any name may carry
//! are dealt with once, in [`find`].

use std::sync::LazyLock;

use crate::format::Mark;
use crate::key::Hint;
use crate::metric::Metric::{self, *};
use crate::unit::{Scale, Unit};

/// What a key means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Alias {
    pub(crate) target: Target,
    /// Of two keys for one metric the lower rank wins, wherever they stand in the line.
    pub(crate) rank: u8,
    /// The unit where neither the number nor the key says one.
    pub(crate) unit: Unit,
    /// What the spelling says about who printed the line.
    pub(crate) mark: Mark,
    /// Too common a word to make a line a training line by itself.
    pub(crate) weak: bool,
}

/// Where the value goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Target {
    Metric(Metric),
    /// TFLOP/s or tokens, as the key's hint says.
    Throughput {
        per_device: bool,
    },
    /// Known not to be a number of training: ranks, process ids, remaining time.
    Ignored,
}

const fn strong(metric: Metric, rank: u8) -> Alias {
    Alias { target: Target::Metric(metric), rank, unit: Unit::None, mark: Mark::None, weak: false }
}
const fn weak(metric: Metric, rank: u8) -> Alias {
    Alias { weak: true, ..strong(metric, rank) }
}
const fn marked(metric: Metric, rank: u8, mark: Mark) -> Alias {
    Alias { mark, ..strong(metric, rank) }
}
const fn time(rank: u8, scale: Scale) -> Alias {
    Alias { unit: Unit::Time(scale), ..strong(ElapsedTimePerIterationMs, rank) }
}
const fn weak_time(rank: u8, scale: Scale) -> Alias {
    Alias { weak: true, ..time(rank, scale) }
}
const fn throughput(per_device: bool, mark: Mark) -> Alias {
    Alias { target: Target::Throughput { per_device }, mark, ..strong(Tflops, 0) }
}
const IGNORED: Alias = Alias { target: Target::Ignored, ..weak(CurrentIteration, 0) };

/// FLOP/s of one device, printed without any prefix.
const FLOPS: Alias = Alias { unit: Unit::Flops(Scale::One), ..strong(Tflops, 1) };

/// The rank of a count that is the iteration in one trainer's lines and the target in others'.
pub(crate) const PLURAL: u8 = 100;

/// A rate of iterations: the same time, told the other way round.
const RATE: Alias = Alias { unit: Unit::IterationsPerSecond, ..time(2, Scale::One) };

#[rustfmt::skip]
const TABLE: &[(&str, Alias)] = &[
    ("current_iteration", weak(CurrentIteration, 0)),
    ("iteration", weak(CurrentIteration, 0)),
    ("iter", weak(CurrentIteration, 0)),
    ("train_iter", weak(CurrentIteration, 0)),
    ("training_iteration", weak(CurrentIteration, 0)),
    ("iter_num", weak(CurrentIteration, 0)),
    ("iteration_number", weak(CurrentIteration, 0)),
    ("step", weak(CurrentIteration, 1)),
    ("current_step", weak(CurrentIteration, 1)),
    ("train_step", weak(CurrentIteration, 1)),
    ("training_step", weak(CurrentIteration, 1)),
    ("step_num", weak(CurrentIteration, 1)),
    ("completed_step", Alias { mark: Mark::MaxText, ..weak(CurrentIteration, 1) }),
    ("global_step", weak(CurrentIteration, 2)),
    ("global_steps", weak(CurrentIteration, 2)),
    ("global_iter", weak(CurrentIteration, 2)),
    ("num_updates", weak(CurrentIteration, 2)),
    ("optimizer_step", weak(CurrentIteration, 2)),
    ("optim_step", weak(CurrentIteration, 2)),
    ("batch", weak(CurrentIteration, 3)),
    ("steps", weak(CurrentIteration, PLURAL)),

    ("target_iteration", weak(TargetIteration, 0)),
    ("total_iterations", weak(TargetIteration, 0)),
    ("total_iters", weak(TargetIteration, 0)),
    ("train_iters", weak(TargetIteration, 0)),
    ("max_iters", weak(TargetIteration, 0)),
    ("max_iterations", weak(TargetIteration, 0)),
    ("num_iterations", weak(TargetIteration, 0)),
    ("total_steps", weak(TargetIteration, 1)),
    ("max_steps", weak(TargetIteration, 1)),
    ("num_steps", weak(TargetIteration, 1)),
    ("num_training_steps", weak(TargetIteration, 1)),
    ("total_train_steps", weak(TargetIteration, 1)),

    ("consumed_samples", strong(ConsumedSamples, 0)),
    ("consumed_train_samples", strong(ConsumedSamples, 0)),
    ("samples_consumed", strong(ConsumedSamples, 0)),
    ("num_consumed_samples", strong(ConsumedSamples, 0)),
    ("samples_processed", strong(ConsumedSamples, 1)),
    ("samples_seen", strong(ConsumedSamples, 1)),
    ("num_samples_seen", strong(ConsumedSamples, 1)),

    ("elapsed_time_per_iteration_ms", Alias { mark: Mark::Megatron, ..time(0, Scale::Milli) }),
    ("elapsed_time_per_iteration", Alias { mark: Mark::Megatron, ..time(0, Scale::Milli) }),
    ("time_per_iteration", time(0, Scale::Milli)),
    ("iteration_time", time(1, Scale::One)),
    ("iter_time", time(1, Scale::One)),
    ("time_per_iter", time(1, Scale::One)),
    ("step_time", time(1, Scale::One)),
    ("time_per_step", time(1, Scale::One)),
    ("seconds_per_step", time(1, Scale::One)),
    ("seconds_per_iteration", time(1, Scale::One)),
    ("sec_per_step", time(1, Scale::One)),
    ("sec_per_iter", time(1, Scale::One)),
    ("s_it", time(1, Scale::One)),
    ("s_step", time(1, Scale::One)),
    ("s_iter", time(1, Scale::One)),
    ("ms_per_step", time(1, Scale::Milli)),
    ("ms_per_iter", time(1, Scale::Milli)),
    ("ms_step", time(1, Scale::Milli)),
    ("ms_iter", time(1, Scale::Milli)),
    ("step_duration", time(1, Scale::One)),
    ("iteration_duration", time(1, Scale::One)),
    ("batch_time", time(1, Scale::One)),
    ("train_step_timing", Alias { mark: Mark::Nemo, ..time(1, Scale::One) }),
    ("train_step_time", time(1, Scale::One)),
    ("per_step_time", time(1, Scale::Milli)),
    ("time_iter", time(1, Scale::One)),
    ("time_iteration", time(1, Scale::One)),
    ("time_step", weak_time(1, Scale::One)),
    ("step_ms", time(1, Scale::Milli)),
    ("iter_ms", time(1, Scale::Milli)),
    ("dt", weak_time(2, Scale::One)),
    ("time", weak_time(2, Scale::One)),
    ("seconds", weak_time(2, Scale::One)),
    ("elapsed", weak_time(2, Scale::One)),
    ("elapsed_time", weak_time(2, Scale::One)),
    ("step_avg", weak_time(3, Scale::One)),
    ("iterations_per_second", RATE),
    ("iterations_per_sec", RATE),
    ("steps_per_second", RATE),
    ("steps_per_sec", RATE),
    ("train_steps_per_second", RATE),
    ("iter_s", RATE),
    ("it_s", RATE),
    ("steps_s", RATE),
    ("step_s", RATE),
    ("steps_sec", RATE),
    ("steps_second", RATE),
    ("iters_s", RATE),
    ("iters_sec", RATE),
    ("iterations_s", RATE),
    ("iterations_sec", RATE),
    ("it_sec", RATE),
    ("ups", RATE),
    ("throughput_batches_per_sec", Alias { mark: Mark::Composer, ..RATE }),
    // The rate of all, divided by how many devices there are.
    ("throughput_device_batches_per_sec", IGNORED),

    ("mem_usage", weak(MemUsage, 0)),
    ("mem_used", weak(MemUsage, 0)),
    ("memory_usage", weak(MemUsage, 0)),
    ("memory_used", weak(MemUsage, 0)),
    ("used_memory", weak(MemUsage, 0)),
    ("mem", weak(MemUsage, 1)),
    ("memory", weak(MemUsage, 1)),
    ("gpu_mem", weak(MemUsage, 1)),
    ("gpu_memory", weak(MemUsage, 1)),
    ("vram", weak(MemUsage, 1)),
    ("hbm", weak(MemUsage, 1)),
    ("mem_allocated", marked(MemUsage, 1, Mark::DeepSpeed)),
    ("memory_allocated", weak(MemUsage, 1)),
    ("current_memory_allocated", weak(MemUsage, 1)),
    ("allocated_memory", weak(MemUsage, 1)),
    ("memory_reserved", weak(MemUsage, 2)),
    ("mem_reserved", weak(MemUsage, 2)),
    ("max_mem", weak(MemUsage, 3)),
    ("max_memory", weak(MemUsage, 3)),
    ("peak_mem", weak(MemUsage, 3)),
    ("peak_memory", weak(MemUsage, 3)),
    ("peak_mem_usage", weak(MemUsage, 3)),
    ("peak_memory_usage", weak(MemUsage, 3)),
    ("memory_current_allocated_mem", weak(MemUsage, 1)),
    ("memory_allocated_mem", weak(MemUsage, 1)),
    ("memory_max_allocated", weak(MemUsage, 3)),
    ("memory_max_mem_allocated", weak(MemUsage, 3)),
    ("memory_max_active", weak(MemUsage, 4)),
    ("memory_max_mem_active", weak(MemUsage, 4)),
    ("memory_device_reserved", weak(MemUsage, 5)),
    ("memory_device_mem_reserved", weak(MemUsage, 5)),
    ("mem_free", weak(MemFree, 0)),
    ("memory_free", weak(MemFree, 0)),
    ("free_memory", weak(MemFree, 0)),
    ("mem_total", weak(MemTotal, 0)),
    ("memory_total", weak(MemTotal, 0)),
    ("total_memory", weak(MemTotal, 0)),
    ("mem_usage_ratio", weak(MemUsageRatio, 0)),
    ("memory_usage_ratio", weak(MemUsageRatio, 0)),
    ("mem_ratio", weak(MemUsageRatio, 0)),
    ("memory_ratio", weak(MemUsageRatio, 0)),
    ("mem_util", weak(MemUsageRatio, 0)),
    ("memory_utilization", weak(MemUsageRatio, 0)),
    ("mem_usages", Alias { mark: Mark::Legacy, ..weak(MemUsageRatio, 0) }),

    ("tflops", strong(Tflops, 0)),
    ("tflop_s_gpu", strong(Tflops, 0)),
    ("tflops_gpu", strong(Tflops, 0)),
    ("tflops_s_gpu", strong(Tflops, 0)),
    ("tflops_per_gpu", strong(Tflops, 0)),
    ("tflops_per_device", strong(Tflops, 0)),
    ("tflop_s_device", marked(Tflops, 0, Mark::MaxText)),
    ("tflops_device", strong(Tflops, 0)),
    ("tflop_per_sec_per_device", strong(Tflops, 0)),
    ("model_tflops", strong(Tflops, 1)),
    ("model_tflops_per_gpu", strong(Tflops, 1)),
    ("model_tflop_s_gpu", strong(Tflops, 1)),
    ("tflop_s", strong(Tflops, 1)),
    ("tflops_s", strong(Tflops, 1)),
    ("achieved_tflops", strong(Tflops, 1)),
    ("interval_hardware_tflops_per_device", strong(Tflops, 2)),
    ("hardware_tflops_per_gpu", strong(Tflops, 2)),
    ("hardware_tflops", strong(Tflops, 2)),
    ("throughput_device_flops_per_sec", Alias { mark: Mark::Composer, ..FLOPS }),
    ("flops_per_sec_per_gpu", FLOPS),
    ("throughput_per_gpu", throughput(true, Mark::None)),
    ("throughput_per_device", throughput(true, Mark::None)),
    ("throughput_per_npu", throughput(true, Mark::None)),
    ("throughput_per_xpu", throughput(true, Mark::None)),
    ("throughput_per_tpu", throughput(true, Mark::None)),
    ("throughput_per_chip", throughput(true, Mark::None)),
    ("throughput_per_card", throughput(true, Mark::None)),
    ("compute_per_gpu", throughput(true, Mark::Primus)),
    ("compute_per_device", throughput(true, Mark::None)),
    ("throughput", throughput(false, Mark::None)),
    ("compute", throughput(false, Mark::None)),

    ("tokens_per_gpu", strong(TokensPerGpu, 0)),
    ("tokens_per_device", strong(TokensPerGpu, 0)),
    ("tokens_s_gpu", strong(TokensPerGpu, 0)),
    ("token_s_gpu", strong(TokensPerGpu, 0)),
    ("tok_s_gpu", strong(TokensPerGpu, 0)),
    ("tokens_gpu_s", strong(TokensPerGpu, 0)),
    ("tokens_gpu_sec", strong(TokensPerGpu, 0)),
    ("tokens_sec_gpu", strong(TokensPerGpu, 0)),
    ("tok_sec_gpu", strong(TokensPerGpu, 0)),
    ("tokens_s_device", marked(TokensPerGpu, 0, Mark::MaxText)),
    ("tokens_per_sec_per_gpu", strong(TokensPerGpu, 0)),
    ("tokens_per_second_per_gpu", strong(TokensPerGpu, 0)),
    ("tokens_per_gpu_per_sec", strong(TokensPerGpu, 0)),
    ("tokens_per_gpu_per_second", strong(TokensPerGpu, 0)),
    ("tokens_per_sec_per_device", strong(TokensPerGpu, 0)),
    ("tokens_per_second_per_device", strong(TokensPerGpu, 0)),
    ("interval_tokens_per_second_per_device", strong(TokensPerGpu, 0)),
    ("tgs", strong(TokensPerGpu, 0)),
    ("tokens_train_per_sec_per_gpu", strong(TokensPerGpu, 0)),
    ("throughput_device_tokens_per_sec", marked(TokensPerGpu, 0, Mark::Composer)),
    ("tps", marked(TokensPerGpu, 1, Mark::TorchTitan)),
    ("wps", strong(TokensPerGpu, 2)),

    ("learning_rate", strong(LearningRate, 0)),
    ("lr", strong(LearningRate, 0)),
    ("current_lr", strong(LearningRate, 1)),
    ("last_lr", strong(LearningRate, 1)),

    ("global_batch_size", weak(GlobalBatchSize, 0)),
    ("gbs", weak(GlobalBatchSize, 0)),
    ("global_bsz", weak(GlobalBatchSize, 0)),
    ("batch_size", weak(GlobalBatchSize, 1)),
    ("train_batch_size", weak(GlobalBatchSize, 1)),

    ("lm_loss", strong(LmLoss, 0)),
    ("loss", strong(LmLoss, 1)),
    ("train_loss", strong(LmLoss, 1)),
    ("training_loss", strong(LmLoss, 1)),
    ("loss_train", strong(LmLoss, 1)),
    ("reduced_train_loss", marked(LmLoss, 1, Mark::Nemo)),
    ("train_lm_loss", strong(LmLoss, 1)),
    ("language_model_loss", strong(LmLoss, 1)),
    ("cross_entropy_loss", strong(LmLoss, 2)),
    ("train_cross_entropy_loss", strong(LmLoss, 2)),
    ("ce_loss", strong(LmLoss, 2)),
    ("loss_train_total", marked(LmLoss, 2, Mark::Composer)),
    ("total_loss", strong(LmLoss, 3)),
    ("global_avg_loss", strong(LmLoss, 3)),
    ("avg_loss", strong(LmLoss, 3)),
    ("mean_loss", strong(LmLoss, 3)),

    ("loss_scale", strong(LossScale, 0)),
    ("loss_scaler", strong(LossScale, 0)),
    ("grad_scale", strong(LossScale, 1)),
    ("grad_scaler", strong(LossScale, 1)),

    ("grad_norm", strong(GradNorm, 0)),
    ("gradient_norm", strong(GradNorm, 0)),
    ("gnorm", strong(GradNorm, 0)),
    ("grad_l2_norm", strong(GradNorm, 0)),
    ("global_grad_norm", strong(GradNorm, 0)),
    ("total_grad_norm", strong(GradNorm, 0)),
    ("grad_norm_total", strong(GradNorm, 0)),
    ("l2_norm_grad_global", marked(GradNorm, 0, Mark::Composer)),
    ("norm", weak(GradNorm, 1)),
    ("total_norm", weak(GradNorm, 1)),
    ("global_norm", weak(GradNorm, 1)),

    ("num_zeros", strong(NumZeros, 0)),
    ("num_zeros_in_grad", strong(NumZeros, 0)),
    ("zeros_in_grad", strong(NumZeros, 0)),

    ("number_of_skipped_iterations", strong(SkippedIterationsNumber, 0)),
    ("skipped_iterations_number", strong(SkippedIterationsNumber, 0)),
    ("num_skipped_iterations", strong(SkippedIterationsNumber, 0)),
    ("skipped_iterations", strong(SkippedIterationsNumber, 0)),
    ("skipped_iters", strong(SkippedIterationsNumber, 0)),
    ("skipped_steps", strong(SkippedIterationsNumber, 1)),
    ("num_skipped", strong(SkippedIterationsNumber, 1)),
    ("skipped", weak(SkippedIterationsNumber, 2)),

    ("number_of_nan_iterations", strong(NanIterationsNumber, 0)),
    ("nan_iterations_number", strong(NanIterationsNumber, 0)),
    ("num_nan_iterations", strong(NanIterationsNumber, 0)),
    ("nan_iterations", strong(NanIterationsNumber, 0)),
    ("nan_iters", strong(NanIterationsNumber, 0)),
    ("nan_steps", strong(NanIterationsNumber, 1)),

    ("rank", IGNORED),
    ("local_rank", IGNORED),
    ("global_rank", IGNORED),
    ("world_size", IGNORED),
    ("node_rank", IGNORED),
    ("dp", IGNORED),
    ("tp", IGNORED),
    ("pp", IGNORED),
    ("pid", IGNORED),
    ("ip", IGNORED),
    ("eta", IGNORED),
    ("v_num", IGNORED),
    ("line", IGNORED),
];

/// Words that may stand before a name without changing what it means.
const PREFIXES: &[&str] = &[
    "train_",
    "training_",
    "trainer_",
    "perf_",
    "performance_",
    "metrics_",
    "throughput_",
    "optim_",
    "optimizer_",
    "hip_",
    "rocm_",
    "cuda_",
    "gpu_",
    "npu_",
    "xpu_",
    "hbm_",
    "device_",
    "current_",
    "inst_",
    "instant_",
];

/// Words after a name that say that the number is this iteration's, maybe before an average.
const SUFFIXES: &[&str] = &[
    "_inst_harmonic_mean",
    "_inst_avg",
    "_now_avg",
    "_cur_avg",
    "_inst",
    "_now",
    "_current",
    "_cur",
];

/// Words after a name that give the unit.
const UNIT_SUFFIXES: &[(&str, Unit)] = &[
    ("_in_ms", Unit::Time(Scale::Milli)),
    ("_in_s", Unit::Time(Scale::One)),
    ("_in_seconds", Unit::Time(Scale::One)),
    ("_ms", Unit::Time(Scale::Milli)),
    ("_seconds", Unit::Time(Scale::One)),
    ("_secs", Unit::Time(Scale::One)),
    ("_sec", Unit::Time(Scale::One)),
    ("_s", Unit::Time(Scale::One)),
    ("_us", Unit::Time(Scale::Micro)),
    ("_gib", Unit::Bytes(Scale::Gibi)),
    ("_gb", Unit::Bytes(Scale::Giga)),
    ("_mib", Unit::Bytes(Scale::Mebi)),
    ("_mb", Unit::Bytes(Scale::Mega)),
    ("_bytes", Unit::Bytes(Scale::One)),
    ("_percent", Unit::Percent),
    ("_pct", Unit::Percent),
];

/// The alias of a name, and the hint with what the name's own words added to it.
pub(crate) fn find(name: &str, hint: Hint) -> Option<(Alias, Hint)> {
    if let Some(alias) = exact(name) {
        return Some((alias, hint));
    }
    // Before a last word is taken for a unit: `train_steps_per_sec` is no `train_steps_per`.
    let plain = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)).and_then(exact);
    if let Some(alias) = plain.filter(|alias| !alias.weak) {
        return Some((alias, hint));
    }
    // `lr-DecoupledAdamW/group0`: the rate of the optimizer's first group of parameters.
    if name.ends_with("group0") && (name.starts_with("lr_") || name.starts_with("train_lr_")) {
        return Some((marked(LearningRate, 1, Mark::Composer), hint));
    }
    let mut name = name;
    let mut hint = hint;
    let mut prefixed = false;
    let mut measured = false;
    // Each turn takes one layer off; three layers are more than any trainer prints.
    for _ in 0..3 {
        if let Some(rest) = SUFFIXES.iter().find_map(|suffix| name.strip_suffix(suffix)) {
            name = rest;
        } else if let Some((rest, unit)) = UNIT_SUFFIXES
            .iter()
            .find_map(|(suffix, unit)| Some((name.strip_suffix(suffix)?, *unit)))
        {
            name = rest;
            hint = Hint::Unit(unit);
            measured = true;
        } else if let Some(rest) = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix)) {
            name = rest;
            prefixed = true;
        } else {
            return None;
        }
        if let Some(alias) = exact(name) {
            // `train_time` is the time since training began, not an iteration's.
            let other_time =
                prefixed && alias.weak && alias.target == Target::Metric(ElapsedTimePerIterationMs);
            // `train_steps` is how many there will be, and nothing counts steps in a unit.
            let no_count = alias.target == Target::Metric(CurrentIteration)
                && (measured || (prefixed && alias.rank == PLURAL));
            return (!other_time && !no_count).then_some((alias, hint));
        }
    }
    None
}

const SLOTS: usize = 1024;

/// The table by hash of its names, so that a field costs one look-up rather than a search.
static INDEX: LazyLock<[u16; SLOTS]> = LazyLock::new(|| {
    let mut index = [u16::MAX; SLOTS];
    for (entry, (name, _)) in TABLE.iter().enumerate() {
        let mut slot = hash(name) % SLOTS;
        while index[slot] != u16::MAX {
            slot = (slot + 1) % SLOTS;
        }
        index[slot] = entry as u16;
    }
    index
});

/// FNV-1a: short keys, no adversary (the table is fixed; a key that collides costs a comparison).
fn hash(name: &str) -> usize {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    (hash ^ (hash >> 32)) as usize
}

fn exact(name: &str) -> Option<Alias> {
    let index = &*INDEX;
    let mut slot = hash(name) % SLOTS;
    loop {
        let (known, alias) = TABLE.get(usize::from(index[slot]))?;
        if *known == name {
            return Some(*alias);
        }
        slot = (slot + 1) % SLOTS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_found_by_its_own_name() {
        for metric in Metric::ALL {
            let (alias, _) = find(metric.name(), Hint::None).unwrap();
            assert_eq!(
                (alias.target, alias.rank),
                (Target::Metric(metric), 0),
                "{}",
                metric.name()
            );
        }
    }

    #[test]
    fn no_name_stands_twice_in_the_table() {
        let mut names: Vec<_> = TABLE.iter().map(|(name, _)| name).collect();
        names.sort();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(TABLE.len() * 2 < SLOTS, "the index needs room");
    }

    #[test]
    fn prefixes_suffixes_and_units_are_taken_off() {
        for (name, metric) in [
            ("train_grad_norm", GradNorm),
            ("hip_mem_usage", MemUsage),
            ("tokens_s_gpu_inst_harmonic_mean", TokensPerGpu),
            ("train_step_timing_in_s", ElapsedTimePerIterationMs),
            ("perf_step_time_ms", ElapsedTimePerIterationMs),
        ] {
            assert_eq!(find(name, Hint::None).unwrap().0.target, Target::Metric(metric), "{name}");
        }
        for name in [
            "mtp_1_loss",
            "val_loss",
            "load_balancing_loss",
            "params_norm",
            "epoch",
            "train_steps",
            "global_step_ms",
        ] {
            assert!(find(name, Hint::None).is_none(), "{name}");
        }
    }
}
