//! Logs of whole frameworks as they print them, line by line: each iteration is found with its values. The table in
//! `docs/training-logs.md` says the same.

#![allow(clippy::unwrap_used)] // a helper of a test may fail the test

use crosstalk_training_log::{Metric, Outcome, Parser, Stream};

/// Number, format and known metrics of an iteration.
type Found = (u64, String, Vec<(String, f64)>);

/// The iterations of a log, merged as the store merges them, with the format of the first line of each.
fn read(log: &str) -> Vec<Found> {
    let (parser, mut stream) = (Parser::default(), Stream::default());
    let mut found: Vec<(u64, String, crosstalk_training_log::Performance)> = Vec::new();
    for line in log.split('\n') {
        stream.read(&parser, line, |_, outcome| {
            let Outcome::Performance { performance, format } = outcome else { return };
            let iteration = performance.iteration().unwrap();
            match found.last_mut().filter(|(last, ..)| *last == iteration) {
                Some((_, _, known)) => {
                    let mut merged = performance;
                    merged.fill_from(known);
                    *known = merged;
                }
                None => found.push((iteration, format.name().to_owned(), performance)),
            }
        });
    }
    let fields =
        |(iteration, format, performance): (u64, String, crosstalk_training_log::Performance)| {
            let known =
                Metric::ALL.into_iter().filter(|metric| *metric != Metric::CurrentIteration);
            let known = known.filter_map(|m| Some((m.name().to_owned(), performance.get(m)?)));
            (iteration, format, known.collect())
        };
    found.into_iter().map(fields).collect()
}

#[track_caller]
fn check(log: &str, format: &str, expected: &[(u64, &[(&str, f64)])]) {
    let found = read(log);
    let numbers: Vec<u64> = found.iter().map(|(iteration, ..)| *iteration).collect();
    let wanted: Vec<u64> = expected.iter().map(|(iteration, _)| *iteration).collect();
    assert_eq!(numbers, wanted, "{found:?}");
    for ((iteration, found_format, fields), (_, expected)) in found.iter().zip(expected) {
        assert_eq!(found_format, format, "iteration {iteration}");
        let same = fields.len() == expected.len()
            && expected.iter().all(|(name, value)| {
                let near = |found: f64| (found - value).abs() <= 1e-9 * value.abs();
                fields.iter().any(|(known, found)| known == name && near(*found))
            });
        assert!(same, "iteration {iteration}\n   found {fields:?}\nexpected {expected:?}");
    }
}

#[test]
fn gpt_neox() {
    check(
        " samples/sec: 31.418 | iteration       20/  320000 | elapsed time per iteration (ms): 8148.2 | learning rate: 1.200E-06 | approx flops per GPU: 112.9TFLOPS | lm_loss: 1.081526E+01 | loss scale: 4096.0 | number of skipped iterations:   1 | number of nan iterations:   0 |
time (ms) | train/batch: 8147.90 | train/forward: 2010.4 | train/backward: 5120.3
 validation results at iteration 20 | lm_loss value: 1.07E+01 | lm_loss_ppl value: 4.4E+04 |
 samples/sec: 30.001 | iteration       30/  320000 | elapsed time per iteration (ms): 8533.0 | learning rate: 1.800E-06 | approx flops per GPU: 0.1PFLOPS | batch size (tokens): 2.1M (4.2M @ 2048 GPUs) | lm_loss: 1.001000E+01 | number of skipped iterations:   0 | number of nan iterations:   0 |",
        "gpt-neox",
        &[
            (
                20,
                &[
                    ("target_iteration", 320000.0),
                    ("elapsed_time_per_iteration_ms", 8148.2),
                    ("learning_rate", 1.2e-6),
                    ("tflops", 112.9),
                    ("lm_loss", 10.81526),
                    ("loss_scale", 4096.0),
                    ("skipped_iterations_number", 1.0),
                    ("nan_iterations_number", 0.0),
                ],
            ),
            (
                30,
                &[
                    ("target_iteration", 320000.0),
                    ("elapsed_time_per_iteration_ms", 8533.0),
                    ("learning_rate", 1.8e-6),
                    ("tflops", 100.0),
                    ("lm_loss", 10.01),
                    ("skipped_iterations_number", 0.0),
                    ("nan_iterations_number", 0.0),
                ],
            ),
        ],
    );
}

#[test]
fn megatron_deepspeed() {
    check(
        "511:  iteration    13910/  953674 | consumed samples:     14243840 | consumed tokens:  29171384320 | elapsed time per iteration (s): 11.18 | learning rate: 1.000E-04 | global batch size:  1024 | lm loss: 2.152785E+00 | loss scale: 1.0 | grad norm: 0.114 | num zeros: 0.0 | actual seqlen:  2048 | number of skipped iterations:   0 | number of nan iterations:   0 | samples per second: 91.621 | tokens per gpu per second (tgs): 1146.733 | TFLOPs: 40.83 |
[2024-03-07 15:27:17,188] [INFO] [timer.py:260:stop] epoch=0/micro_step=13910/global_step=13910, RunningAvgSamplesPerSec=58.73, CurrSamplesPerSec=58.75, MemAllocated=6.01GB, MaxMemAllocated=19.52GB",
        "megatron",
        &[(
            13910,
            &[
                ("target_iteration", 953674.0),
                ("consumed_samples", 14243840.0),
                ("elapsed_time_per_iteration_ms", 11180.0),
                ("mem_usage", 6.01),
                ("learning_rate", 1e-4),
                ("global_batch_size", 1024.0),
                ("lm_loss", 2.152785),
                ("loss_scale", 1.0),
                ("grad_norm", 0.114),
                ("num_zeros", 0.0),
                ("skipped_iterations_number", 0.0),
                ("nan_iterations_number", 0.0),
                ("tokens_per_gpu", 1146.733),
                ("tflops", 40.83),
            ],
        )],
    );
}

#[test]
fn nemo_as_a_log_and_as_a_progress_bar() {
    check(
        "Training epoch 0, iteration 120/149 | lr: 3e-05 | consumed_samples: 121 | global_batch_size: 1 | global_step: 120 | reduced_train_loss: 1.233 | train_step_timing in s: 0.03146 | TFLOPS_per_GPU: 410.2 | val_loss: 4.106",
        "nemo",
        &[(
            120,
            &[
                ("target_iteration", 149.0),
                ("consumed_samples", 121.0),
                ("elapsed_time_per_iteration_ms", 31.46),
                ("tflops", 410.2),
                ("learning_rate", 3e-5),
                ("global_batch_size", 1.0),
                ("lm_loss", 1.233),
            ],
        )],
    );
    let bar = |step: u32, loss: &str| {
        format!(
            "Epoch 0: :   1%|▏         | {}/1000 [01:10<1:55:33, v_num=0, reduced_train_loss={loss}, global_step={step}.000, consumed_samples={}.0, train_step_timing in s=7.010]",
            step + 1,
            step * 256
        )
    };
    let fields = |loss, samples| {
        [
            ("target_iteration", 1000.0),
            ("consumed_samples", samples),
            ("elapsed_time_per_iteration_ms", 7010.0),
            ("lm_loss", loss),
        ]
    };
    check(
        &format!("{}\r{}\r\r{}", bar(9, "10.90"), bar(10, "10.80"), bar(11, "10.70")),
        "nemo",
        &[(9, &fields(10.9, 2304.0)), (10, &fields(10.8, 2560.0)), (11, &fields(10.7, 2816.0))],
    );
}

#[test]
fn maxtext() {
    check(
        "completed step: 1, seconds: 0.319, TFLOP/s/device: 2400.734, Tokens/s/device: 154316.608, total_weights: 196608, loss: 12.038
completed step: 2, seconds: 0.320, TFLOP/s/device: 2390.001, Tokens/s/device: 153600.000, total_weights: 196608, loss: 11.907, lm_loss: 11.900, perplexity: 147266.6",
        "maxtext",
        &[
            (
                1,
                &[
                    ("elapsed_time_per_iteration_ms", 319.0),
                    ("tflops", 2400.734),
                    ("tokens_per_gpu", 154316.608),
                    ("lm_loss", 12.038),
                ],
            ),
            (
                2,
                &[
                    ("elapsed_time_per_iteration_ms", 320.0),
                    ("tflops", 2390.001),
                    ("tokens_per_gpu", 153600.0),
                    ("lm_loss", 11.9),
                ],
            ),
        ],
    );
}

#[test]
fn torchtitan_now_and_before() {
    let memory = [("mem_usage", 33.72 * 1.073741824), ("mem_usage_ratio", 0.3549)];
    let with = |fields: &[(&'static str, f64)]| [&memory[..], fields].concat();
    check(
        "[rank0]:[titan] 2025-06-01 00:00:00,000 - root - INFO - step: 10  loss:  7.4069  grad_norm:  1.1000  memory: 33.72GiB(35.49%)  tps: 4,259  tflops: 253.41  mfu: 25.62%",
        "torchtitan",
        &[(
            10,
            &with(&[
                ("tflops", 253.41),
                ("tokens_per_gpu", 4259.0),
                ("lm_loss", 7.4069),
                ("grad_norm", 1.1),
            ]),
        )],
    );
    check(
        "2024-04-01 00:00:00,000 - root - INFO - step: 20  loss:  5.1000  memory: 33.72GiB(35.49%)  wps: 4,300  mfu: 21.50%",
        "generic",
        &[(20, &with(&[("tokens_per_gpu", 4300.0), ("lm_loss", 5.1)]))],
    );
}

/// A bar as tqdm draws it, wiped before something else is written, and drawn again after.
fn bar(step: u32, steps: u32) -> String {
    format!(
        "\r {:>2}%|▏         | {step}/{steps} [00:0{}<04:30,  2.00it/s]",
        step * 100 / steps,
        step % 10
    )
}

#[test]
fn hugging_face_trainer_has_the_step_on_the_bar_and_the_loss_after_it() {
    let mut log = String::from("  0%|          | 0/60 [00:00<?, ?it/s]");
    for step in 1..=60 {
        log += &bar(step, 60);
        if step % 10 == 0 {
            log += &format!(
                "\r{:60}\r{{'loss': {step}.5, 'grad_norm': 1.25, 'learning_rate': 5e-05, 'epoch': 0.{step}}}\n",
                ""
            );
            log += &bar(step, 60);
        }
    }
    log += "\r{'train_runtime': 30.1, 'train_samples_per_second': 16.0, 'train_steps_per_second': 2.0, 'train_loss': 3.5, 'epoch': 1.0}\n";
    let fields = |loss| {
        [
            ("target_iteration", 60.0),
            ("elapsed_time_per_iteration_ms", 500.0),
            ("learning_rate", 5e-5),
            ("lm_loss", loss),
            ("grad_norm", 1.25),
        ]
    };
    let all: Vec<_> = (1..=6).map(|n| (n * 10, fields(n as f64 * 10.0 + 0.5))).collect();
    let expected: Vec<(u64, &[(&str, f64)])> = all.iter().map(|(n, f)| (*n, &f[..])).collect();
    check(&log, "generic", &expected);
    // Where standard output and error are files of their own there is no bar; newer versions quote.
    check(
        "{'loss': '2.5', 'grad_norm': '1.25', 'learning_rate': '5e-05', 'epoch': '0.5', 'step': 30}",
        "generic",
        &[(30, &[("learning_rate", 5e-5), ("lm_loss", 2.5), ("grad_norm", 1.25)])],
    );
}

#[test]
fn axolotl_adds_memory_and_tokens() {
    let log = format!(
        "[2025-05-19 17:03:58,698] [INFO] [axolotl.utils.models.log_gpu_memory_usage:107] [PID:99566] [RANK:0] cuda memory usage after adapters: 2.355GB (+1.009GB cache)
{}\n{{'loss': 2.0312, 'grad_norm': 59.5, 'learning_rate': 4.95e-06, 'ppl': 7.6, 'memory/max_active (GiB)': 34.89, 'memory/max_allocated (GiB)': 34.5, 'memory/device_reserved (GiB)': 41.26, 'tokens/train_per_sec_per_gpu': 3200.12, 'tokens/total': 524288, 'epoch': 2.0}}
{}\n{{'loss': 0.8984, 'grad_norm': 45.0, 'learning_rate': 4.8e-06, 'memory/max_mem_active(gib)': 34.89, 'memory/max_mem_allocated(gib)': 34.5, 'memory/device_mem_reserved(gib)': 41.26, 'epoch': 3.0}}",
        bar(2, 16),
        bar(3, 16)
    );
    let memory = 34.5 * 1.073741824;
    check(
        &log,
        "generic",
        &[
            (
                2,
                &[
                    ("target_iteration", 16.0),
                    ("elapsed_time_per_iteration_ms", 500.0),
                    ("mem_usage", memory),
                    ("tokens_per_gpu", 3200.12),
                    ("learning_rate", 4.95e-6),
                    ("lm_loss", 2.0312),
                    ("grad_norm", 59.5),
                ],
            ),
            (
                3,
                &[
                    ("target_iteration", 16.0),
                    ("elapsed_time_per_iteration_ms", 500.0),
                    ("mem_usage", memory),
                    ("learning_rate", 4.8e-6),
                    ("lm_loss", 0.8984),
                    ("grad_norm", 45.0),
                ],
            ),
        ],
    );
}

const COMPOSER: &str = "\t Train time/epoch: 1
\t Train time/batch: 12
\t Train time/iteration: 0
\t Train trainer/global_step: 12
\t Train memory/current_allocated_mem: 6.8051
\t Train memory/peak_allocated_mem: 14.6740
\t Train loss/train/total: 11.6525
\t Train metrics/train/LanguageCrossEntropy: 11.6525
\t Train throughput/batches_per_sec: 0.0500
\t Train throughput/device/batches_per_sec: 0.0031
\t Train throughput/tokens_per_sec: 6598.0451
\t Train throughput/device/tokens_per_sec: 412.3778
\t Train throughput/device/flops_per_sec: 77651661724520.1406
\t Train throughput/device/mfu: 0.2489
\t Train l2_norm/grad/global: 1.5
\t Train lr-DecoupledAdamW/group0: 0.0002";

#[test]
fn composer_has_a_head_and_a_line_for_each_value() {
    let fields = [
        ("elapsed_time_per_iteration_ms", 20000.0),
        ("mem_usage", 6.8051),
        ("tflops", 77.651_661_724_520_14),
        ("tokens_per_gpu", 412.3778),
        ("learning_rate", 0.0002),
        ("lm_loss", 11.6525),
        ("grad_norm", 1.5),
    ];
    let with_target: Vec<_> = [("target_iteration", 4800.0)].into_iter().chain(fields).collect();
    check(
        &format!(
            "[batch=12/4800]:\n{COMPOSER}\n[batch=13/4800]:\n{COMPOSER}\n[Eval batch=1/10] Eval on eval data:\n\t Eval metrics/eval/LanguageCrossEntropy: 11.2\n"
        ),
        "composer",
        &[(12, &with_target), (13, &with_target)],
    );
    // By epochs the batch begins anew in each.
    check(&format!("[epoch=2][batch=3/10]:\n{COMPOSER}"), "composer", &[(13, &fields)]);
}

#[test]
fn a_value_that_carries_its_unit_names_its_quantity() {
    for (field, metric, value) in [
        ("approx flops per GPU: 112.9TFLOPS", Metric::Tflops, 112.9),
        ("speed: 112.9 TFLOP/s", Metric::Tflops, 112.9),
        ("perf=0.25PFLOPS", Metric::Tflops, 250.0),
        ("we do: 950.5GFLOPS", Metric::Tflops, 0.9505),
        ("speed (TFLOPS): 112.9", Metric::Tflops, 112.9),
        ("speed: 4567 tokens/s/GPU", Metric::TokensPerGpu, 4567.0),
        ("speed per gpu: 4.5k tok/s", Metric::TokensPerGpu, 4500.0),
        ("speed: 1.2 s/it", Metric::ElapsedTimePerIterationMs, 1200.0),
        ("throughput: 5 it/s", Metric::ElapsedTimePerIterationMs, 200.0),
        ("batch: 350ms", Metric::ElapsedTimePerIterationMs, 350.0),
    ] {
        let line = format!("iteration 7 | {field} | loss: 2.5");
        let Outcome::Performance { performance, .. } = Parser::default().parse(&line) else {
            panic!("{line}")
        };
        assert_eq!(performance.iteration(), Some(7), "{line}");
        assert_eq!(performance.get(Metric::LmLoss), Some(2.5), "{line}");
        let found = performance.get(metric).unwrap_or(f64::NAN);
        assert!((found - value).abs() < 1e-9 * value, "{line}: {found}");
    }
    for field in [
        "total: 900TFLOPS",
        "peak flops: 989TFLOPS",
        "speed: 4567 tokens/s",
        "checkpoint: 14GB",
        "data: 0.2s/it",
        "loading: 350ms",
    ] {
        let line = format!("iteration 7 | {field} | loss: 2.5");
        let Outcome::Performance { performance, .. } = Parser::default().parse(&line) else {
            panic!("{line}")
        };
        let known = Metric::ALL.into_iter().filter(|metric| performance.get(*metric).is_some());
        assert_eq!(known.count(), 2, "{line}: {performance:?}");
        assert_eq!(performance.extra().count(), 1, "{line}: {performance:?}");
    }
}
