//! Each dialect's line gives all that it holds.

use crosstalk_training_log::{Outcome, Parser};

/// Parses a line and compares format and fields, each `name value`.
fn check(line: &str, format: &str, expected: &[(&str, f64)]) {
    let outcome = Parser::default().parse(line);
    assert_eq!(outcome, Parser::default().parse_thoroughly(line), "{line}");
    let Outcome::Performance { performance, format: found } = outcome else {
        panic!("{line}\n{outcome:?}")
    };
    assert_eq!(found.name(), format, "{line}");
    let mut found: Vec<_> = performance.fields().collect();
    let mut expected = expected.to_vec();
    found.sort_by(|a, b| a.0.cmp(b.0));
    expected.sort_by(|a, b| a.0.cmp(b.0));
    let same =
        |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs() || a == b || (a.is_nan() && b.is_nan());
    let equal = found.len() == expected.len()
        && found.iter().zip(&expected).all(|(a, b)| a.0 == b.0 && same(a.1, b.1));
    assert!(equal, "{line}\n   found {found:?}\nexpected {expected:?}");
}

fn refuse(line: &str, why: &str) {
    assert!(matches!(Parser::default().parse(line), Outcome::Nothing(_)), "{line}");
    match Parser::default().parse_thoroughly(line) {
        Outcome::Nothing(reason) => assert!(reason.to_string().contains(why), "{line}\n{reason}"),
        outcome => panic!("{line}\n{outcome:?}"),
    }
}

const PREFIX: &str =
    "\x1b[32m[20251023 12:39:12]\x1b[0m[rank-63/64][INFO ] [--------trainer.py:2382] :  ";

const PRIMUS: &[(&str, f64)] = &[
    ("current_iteration", 424.0),
    ("target_iteration", 40000.0),
    ("consumed_samples", 27136.0),
    ("elapsed_time_per_iteration_ms", 16601.3),
    ("mem_usage", 253.38),
    ("mem_free", 2.60),
    ("mem_total", 255.98),
    ("mem_usage_ratio", 0.9898),
    ("tflops", 11.9),
    ("tokens_per_gpu", 246.7),
    ("learning_rate", 9.997254E-06),
    ("global_batch_size", 64.0),
    ("lm_loss", 4.447942),
    ("loss_scale", 1.0),
    ("grad_norm", 6.142),
    ("num_zeros", 960902016.0),
    ("skipped_iterations_number", 0.0),
    ("nan_iterations_number", 0.0),
];

fn primus(memory: &str) -> String {
    format!(
        "{PREFIX}iteration      424/   40000 | consumed samples:        27136 | elapsed time per iteration (ms): 16601.3/17219.3 | {memory} | throughput per GPU (TFLOP/s/GPU): 11.9/11.5 | tokens per GPU (tokens/s/GPU): 246.7/238.1 | learning rate: 9.997254E-06 | global batch size:    64 | lm loss: 4.447942E+00 | loss scale: 1.0 | grad norm: 6.142 | num zeros: 960902016.0 | number of skipped iterations:   0 | number of nan iterations:   0 |\x1b[0m"
    )
}

#[test]
fn primus_with_hip_and_with_rocm_memory_give_all_eighteen_metrics() {
    check(
        &primus("hip mem usage/free/total/usage_ratio: 253.38GB/2.60GB/255.98GB/98.98%"),
        "primus-hip",
        PRIMUS,
    );
    check(
        &primus("rocm mem usage/free/total/usage_ratio: 253.38GB/2.60GB/255.98GB/98.98%"),
        "primus-rocm",
        PRIMUS,
    );
}

#[test]
fn primus_with_both_memories_keeps_both() {
    let both = "hip mem usage/free/total/usage_ratio: 253.38GB/2.60GB/255.98GB/98.98% | rocm mem usage/free/total/usage_ratio: 200.00GB/55.98GB/255.98GB/78.13%";
    let mut expected = PRIMUS.to_vec();
    expected.extend([
        ("rocm_mem_usage", 200.0),
        ("rocm_mem_free", 55.98),
        ("rocm_mem_total", 255.98),
        ("rocm_mem_usage_ratio", 0.7813),
    ]);
    check(&primus(both), "primus-hip", &expected);
}

#[test]
fn legacy_memory_is_a_ratio() {
    let line = format!(
        "{PREFIX}iteration      424/   40000 | consumed samples:        27136 | elapsed time per iteration (ms): 16601.3 | mem usages: 0.8312 | throughput per GPU (TFLOP/s/GPU): 11.9 | tokens per GPU (tokens/s/GPU): 246.7 | learning rate: 9.997254E-06 | global batch size:    64 | lm loss: 4.447942E+00 | loss scale: 1.0 | grad norm: 6.142 | num zeros: 960902016.0 | number of skipped iterations:   0 | number of nan iterations:   0 |"
    );
    let mut expected: Vec<_> =
        PRIMUS.iter().copied().filter(|(name, _)| !name.starts_with("mem_")).collect();
    expected.push(("mem_usage_ratio", 0.8312));
    check(&line, "primus-legacy", &expected);
}

#[test]
fn primus_of_2026_has_averages_in_brackets_and_memory_last() {
    check(
        "[20260101 00:00:00][rank-7/8][INFO ] [-----trainer.py:10] : iteration 5/ 50 | consumed samples: 640 | elapsed time per iteration (ms): 6046.6 (avg 6100.2) | compute per GPU (TFLOP/s/GPU): 1255.4 (avg 1250.1)  | tokens/s/GPU inst/harmonic mean: 9801.4/9800.0 | learning rate: 1.0E-05 | global batch size:   128 | lm loss: 1.189062E+01 | loss scale: 1.0 | grad norm: 7.499 | number of skipped iterations:   0 | number of nan iterations:   0 | rocm mem usage/free/total/usage_ratio: 150.5GB/100.5GB/251.0GB/59.96%",
        "primus-rocm",
        &[
            ("current_iteration", 5.0),
            ("target_iteration", 50.0),
            ("consumed_samples", 640.0),
            ("elapsed_time_per_iteration_ms", 6046.6),
            ("tflops", 1255.4),
            ("tokens_per_gpu", 9801.4),
            ("learning_rate", 1e-5),
            ("global_batch_size", 128.0),
            ("lm_loss", 11.89062),
            ("loss_scale", 1.0),
            ("grad_norm", 7.499),
            ("skipped_iterations_number", 0.0),
            ("nan_iterations_number", 0.0),
            ("mem_usage", 150.5),
            ("mem_free", 100.5),
            ("mem_total", 251.0),
            ("mem_usage_ratio", 0.5996),
        ],
    );
}

#[test]
fn megatron_without_memory_and_final_pipe() {
    check(
        "[2025-12-25 08:40:22] iteration        2/      50 | consumed samples:          256 | elapsed time per iteration (ms): 6046.6 | throughput per GPU (TFLOP/s/GPU): 1255.4 | learning rate: 1.000000E-05 | global batch size:   128 | lm loss: 1.189062E+01 | loss scale: 1.0 | grad norm: 7.499 | number of skipped iterations:   0 | number of nan iterations:   0",
        "megatron",
        &[
            ("current_iteration", 2.0),
            ("target_iteration", 50.0),
            ("consumed_samples", 256.0),
            ("elapsed_time_per_iteration_ms", 6046.6),
            ("tflops", 1255.4),
            ("learning_rate", 1e-5),
            ("global_batch_size", 128.0),
            ("lm_loss", 11.89062),
            ("loss_scale", 1.0),
            ("grad_norm", 7.499),
            ("skipped_iterations_number", 0.0),
            ("nan_iterations_number", 0.0),
        ],
    );
}

#[test]
fn megatron_with_optional_parts_nan_and_inf() {
    check(
        " iteration       10/  143051 | consumed samples:         2560 | skipped samples: 0 | elapsed time per iteration (s): 12.59 | energy per GPU (J/iter/GPU): 123.4 | learning rate: 1.678E-06 | global batch size:   256 | lm loss: nan | mtp_1 loss: 3.5E+00 | load_balancing_loss: 1.1 | loss scale: 4096.0 | grad norm: inf | num zeros: 0.0 | params norm: 1234.5 | number of skipped iterations:   1 | number of nan iterations:   2 | samples per second: 20.3 | TFLOPs: 95.1 |",
        "megatron",
        &[
            ("current_iteration", 10.0),
            ("target_iteration", 143051.0),
            ("consumed_samples", 2560.0),
            ("skipped_samples", 0.0),
            ("elapsed_time_per_iteration_ms", 12590.0),
            ("energy_per_gpu", 123.4),
            ("learning_rate", 1.678e-6),
            ("global_batch_size", 256.0),
            ("lm_loss", f64::NAN),
            ("mtp_1_loss", 3.5),
            ("load_balancing_loss", 1.1),
            ("loss_scale", 4096.0),
            ("grad_norm", f64::INFINITY),
            ("num_zeros", 0.0),
            ("params_norm", 1234.5),
            ("skipped_iterations_number", 1.0),
            ("nan_iterations_number", 2.0),
            ("samples_per_second", 20.3),
            ("tflops", 95.1),
        ],
    );
}

#[test]
fn torchtitan_with_colours_and_without_mfu() {
    let expected = [
        ("current_iteration", 20.0),
        ("lm_loss", 11.83506),
        ("grad_norm", 9.6669),
        ("mem_usage", 48.87 * 1.073741824),
        ("mem_usage_ratio", 0.5144),
        ("tokens_per_gpu", 4376.0),
        ("tflops", 253.41),
    ];
    let with_mfu: Vec<_> = expected.iter().copied().chain([("mfu", 0.2562)]).collect();
    check(
        "[titan] 2025-01-01 00:00:00,000 - root - INFO - step: 20  loss: 11.83506  grad_norm:  9.6669  memory: 48.87GiB(51.44%)  tps: 4,376  tflops: 253.41  mfu: 25.62%",
        "torchtitan",
        &with_mfu,
    );
    check(
        "[rank0]:\x1b[0m[titan] 2025-01-01 00:00:00,000 - root - INFO - \x1b[31mstep: 20  \x1b[32mloss: 11.83506  \x1b[33mgrad_norm:  9.6669  \x1b[34mmemory: 48.87GiB(51.44%)  \x1b[36mtps: 4,376  \x1b[35mtflops: 253.41  \x1b[0mmfu: N/A\x1b[0m",
        "torchtitan",
        &expected,
    );
    // The escape byte itself lost on the way.
    check(
        "[31mstep: 20  [32mloss: 11.83506  [33mgrad_norm:  9.6669  [34mmemory: 48.87GiB(51.44%)  [36mtps: 4,376  [35mtflops: 253.41  [0mmfu: 25.62%[0m",
        "torchtitan",
        &with_mfu,
    );
}

#[test]
fn maxtext() {
    check(
        "completed step: 1, seconds: 0.319, TFLOP/s/device: 2400.734, Tokens/s/device: 154316.608, total_weights: 196608, loss: 12.038",
        "maxtext",
        &[
            ("current_iteration", 1.0),
            ("elapsed_time_per_iteration_ms", 319.0),
            ("tflops", 2400.734),
            ("tokens_per_gpu", 154316.608),
            ("total_weights", 196608.0),
            ("lm_loss", 12.038),
        ],
    );
}

#[test]
fn nemo() {
    check(
        "[default0]:Training epoch 0, iteration 1/19 | lr: 2.999e-07 | global_batch_size: 512 | global_step: 1 | reduced_train_loss: 11.03 | train_step_timing in s: 7.549 | consumed_samples: 1024",
        "nemo",
        &[
            ("training_epoch", 0.0),
            ("current_iteration", 1.0),
            ("target_iteration", 19.0),
            ("learning_rate", 2.999e-7),
            ("global_batch_size", 512.0),
            ("global_step", 1.0),
            ("lm_loss", 11.03),
            ("elapsed_time_per_iteration_ms", 7549.0),
            ("consumed_samples", 1024.0),
        ],
    );
}

#[test]
fn deepspeed() {
    check(
        "[2023-07-25 21:03:17,269] [INFO] [timer.py:215:stop] epoch=0/micro_step=34/global_step=34, RunningAvgSamplesPerSec=7.86, CurrSamplesPerSec=8.01, MemAllocated=59.65GB, MaxMemAllocated=63.31GB",
        "deepspeed",
        &[
            ("epoch", 0.0),
            ("micro_step", 34.0),
            ("current_iteration", 34.0),
            ("running_avg_samples_per_sec", 7.86),
            ("curr_samples_per_sec", 8.01),
            ("mem_usage", 59.65),
            ("max_mem_allocated", 63.31),
        ],
    );
    check(
        "[2023-07-25 21:03:17,269] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=0, lr=[9.65e-06, 9.65e-06], mom=[(0.9, 0.95), (0.9, 0.95)]",
        "generic",
        &[
            ("current_iteration", 10.0),
            ("skipped_iterations_number", 0.0),
            ("learning_rate", 9.65e-6),
            ("mom", 0.9),
        ],
    );
}

#[test]
fn dialects_that_no_rule_was_written_for() {
    // nanoGPT
    check(
        "iter 100: loss 4.2, time 120.33ms, mfu 25.3%",
        "generic",
        &[
            ("current_iteration", 100.0),
            ("lm_loss", 4.2),
            ("elapsed_time_per_iteration_ms", 120.33),
            ("mfu", 0.253),
        ],
    );
    // build-nanogpt
    check(
        "step   12 | loss: 9.5 | lr 6.0e-05 | norm: 15.3 | dt: 312.12ms | tok/sec: 1234.5",
        "generic",
        &[
            ("current_iteration", 12.0),
            ("lm_loss", 9.5),
            ("learning_rate", 6e-5),
            ("grad_norm", 15.3),
            ("elapsed_time_per_iteration_ms", 312.12),
            ("tok_sec", 1234.5),
        ],
    );
    // llm.c
    check(
        "step    1/19560 | loss 11.0 (+nanz)| norm 15.3 (+nanz)| lr 1.00e-06 | 300.12 ms | 35.2% bf16 MFU | 174000 tok/s",
        "generic",
        &[
            ("current_iteration", 1.0),
            ("target_iteration", 19560.0),
            ("lm_loss", 11.0),
            ("grad_norm", 15.3),
            ("learning_rate", 1e-6),
            ("elapsed_time_per_iteration_ms", 300.12),
            ("tokens_per_second", 174000.0),
        ],
    );
    // modded-nanogpt
    check(
        "step:100/1000 train_loss:4.2 train_time:1000ms step_avg:100.2ms",
        "generic",
        &[
            ("current_iteration", 100.0),
            ("target_iteration", 1000.0),
            ("lm_loss", 4.2),
            ("train_time_ms", 1000.0),
            ("elapsed_time_per_iteration_ms", 100.2),
        ],
    );
    // nanotron
    check(
        "12/01/2023 12:00:00 [INFO|DP=0|PP=0|TP=0|ip-1]: iteration: 1 / 15 | consumed_tokens: 1.02K | elapsed_time_per_iteration_ms: 1.39K | tokens_per_sec: 186 | tokens_per_sec_per_gpu: 23.2 | global_batch_size: 8 | lm_loss: 10.5 | lr: 0.00015 | model_tflops_per_gpu: 0.0201 | hardware_tflops_per_gpu: 0.02 | grad_norm: 2.1",
        "megatron",
        &[
            ("current_iteration", 1.0),
            ("target_iteration", 15.0),
            ("consumed_tokens", 1020.0),
            ("elapsed_time_per_iteration_ms", 1390.0),
            ("tokens_per_sec", 186.0),
            ("tokens_per_gpu", 23.2),
            ("global_batch_size", 8.0),
            ("lm_loss", 10.5),
            ("learning_rate", 0.00015),
            ("tflops", 0.0201),
            ("hardware_tflops_per_gpu", 0.02),
            ("grad_norm", 2.1),
        ],
    );
    // InternLM
    check(
        "2023-07-05 11:56:44,123 INFO train.py:323 in record_current_batch_training_metrics -- tflops=63.28,step=0,loss=11.63,tgs (tokens/gpu/second)=3095.57,lr=4.0e-07,loss_scale=65536.0,grad_norm=3.19",
        "generic",
        &[
            ("tflops", 63.28),
            ("current_iteration", 0.0),
            ("lm_loss", 11.63),
            ("tokens_per_gpu", 3095.57),
            ("learning_rate", 4e-7),
            ("loss_scale", 65536.0),
            ("grad_norm", 3.19),
        ],
    );
    // mmengine
    check(
        "2024/01/01 12:00:00 - mmengine - INFO - Iter(train) [  10/5198]  lr: 3.0004e-06  eta: 5:00:00  time: 3.3  data_time: 0.0087  memory: 11742  loss: 1.4  grad_norm: 2.0",
        "generic",
        &[
            ("current_iteration", 10.0),
            ("target_iteration", 5198.0),
            ("learning_rate", 3.0004e-6),
            ("elapsed_time_per_iteration_ms", 3300.0),
            ("data_time", 0.0087),
            ("mem_usage", 11.742),
            ("lm_loss", 1.4),
            ("grad_norm", 2.0),
        ],
    );
    check(
        "Epoch(train) [1][10/1000]  lr: 1.0e-05  loss: 1.234",
        "generic",
        &[
            ("epoch", 1.0),
            ("current_iteration", 10.0),
            ("target_iteration", 1000.0),
            ("learning_rate", 1e-5),
            ("lm_loss", 1.234),
        ],
    );
    // PyTorch's imagenet example
    check(
        "Epoch: [0][  10/5005]\tTime  0.5 ( 1.2)\tData  0.1 ( 0.3)\tLoss 6.9e+00 (7.0e+00)\tAcc@1   0.10 (  0.20)",
        "generic",
        &[
            ("epoch", 0.0),
            ("current_iteration", 10.0),
            ("target_iteration", 5005.0),
            ("elapsed_time_per_iteration_ms", 500.0),
            ("data", 0.1),
            ("lm_loss", 6.9),
            ("acc_1", 0.1),
        ],
    );
    // fairseq
    check(
        "2020-05-01 12:00:00 | INFO | train_inner | epoch 001:     10 / 1000 loss=12.3, ppl=5000, ups=0.5, num_updates=10, lr=1e-05, gnorm=2.3, wall=30",
        "generic",
        &[
            ("epoch", 1.0),
            ("current_iteration", 10.0),
            ("target_iteration", 1000.0),
            ("lm_loss", 12.3),
            ("ppl", 5000.0),
            ("elapsed_time_per_iteration_ms", 2000.0),
            ("learning_rate", 1e-5),
            ("grad_norm", 2.3),
            ("wall", 30.0),
        ],
    );
    // Lightning's progress bar
    check(
        "Epoch 0:  10%|█         | 100/1000 [00:10<01:30, 10.00it/s, v_num=0, loss=2.3]",
        "generic",
        &[
            ("epoch", 0.0),
            ("current_iteration", 100.0),
            ("target_iteration", 1000.0),
            ("elapsed_time_per_iteration_ms", 100.0),
            ("lm_loss", 2.3),
        ],
    );
    // detectron2
    check(
        "[01/01 12:00:00 d2.utils.events]:  eta: 1:00:00  iter: 19  total_loss: 1.2  loss_cls: 0.5  time: 0.3  lr: 0.0002  max_mem: 2500M",
        "generic",
        &[
            ("current_iteration", 19.0),
            ("lm_loss", 1.2),
            ("loss_cls", 0.5),
            ("elapsed_time_per_iteration_ms", 300.0),
            ("learning_rate", 0.0002),
            ("mem_usage", 2.5),
        ],
    );
    // a JSON line, and Python's dictionary
    check(
        r#"{"step": 10, "loss": 1.25, "lr": "1e-5", "run": "a b: 7", "grad_norm": null}"#,
        "generic",
        &[("current_iteration", 10.0), ("lm_loss", 1.25), ("learning_rate", 1e-5)],
    );
    check(
        "{'loss': 0.5, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.1, 'step': 70}",
        "generic",
        &[
            ("lm_loss", 0.5),
            ("grad_norm", 1.2),
            ("learning_rate", 5e-5),
            ("epoch", 0.1),
            ("current_iteration", 70.0),
        ],
    );
    // logfmt behind Ray's prefix and srun's label
    check(
        "3: (TrainerActor pid=1234) ts=2025-01-01T00:00:00Z level=info step=10 loss=1.2 lr=3e-4 step_time=0.35s mem=41.2GB host=node7",
        "generic",
        &[
            ("current_iteration", 10.0),
            ("lm_loss", 1.2),
            ("learning_rate", 3e-4),
            ("elapsed_time_per_iteration_ms", 350.0),
            ("mem_usage", 41.2),
        ],
    );
    // PaddleNLP
    check(
        "[2024-05-01 10:00:00,123] [    INFO] - loss: 10.9, learning_rate: 1e-06, global_step: 10, interval_tokens_per_second_per_device: 3000, interval_hardware_tflops_per_device: 100.2, progress_or_epoch: 0.001",
        "generic",
        &[
            ("lm_loss", 10.9),
            ("learning_rate", 1e-6),
            ("current_iteration", 10.0),
            ("tokens_per_gpu", 3000.0),
            ("tflops", 100.2),
            ("progress_or_epoch", 0.001),
        ],
    );
    // CRI's prefix, text in front, a loss by another name, memory as used/total
    check(
        "2025-01-01T00:00:00.123456789Z stdout F worker one step: 4 | mlm loss: 2.5 | cuda memory used/total: 10.5GB/80GB",
        "generic",
        &[
            ("current_iteration", 4.0),
            ("mlm_loss", 2.5),
            ("lm_loss", 2.5),
            ("mem_usage", 10.5),
            ("mem_total", 80.0),
        ],
    );
}

#[test]
fn units_after_the_value_say_what_it_is() {
    check(
        "[INFO|trainer.py:100] Step 500 - Loss: 1.234 - LR: 3.0e-4 - Throughput: 123.4 TFLOPs/GPU - Tokens/s/GPU: 4567.8",
        "generic",
        &[
            ("current_iteration", 500.0),
            ("lm_loss", 1.234),
            ("learning_rate", 3e-4),
            ("tflops", 123.4),
            ("tokens_per_gpu", 4567.8),
        ],
    );
    for throughput in ["Throughput: 4567 tokens/s/GPU", "throughput=4567 tokens/sec/gpu"] {
        check(
            &format!("Step: 5 | Training loss: 2.1 | {throughput} | Time: 1.2 s"),
            "generic",
            &[
                ("current_iteration", 5.0),
                ("lm_loss", 2.1),
                ("tokens_per_gpu", 4567.0),
                ("elapsed_time_per_iteration_ms", 1200.0),
            ],
        );
    }
    for divider in [", ", " ", " | "] {
        check(
            &format!("Step 5: loss=2.1, 310.5 TFLOP/s/GPU{divider}4567 tokens/s/GPU"),
            "generic",
            &[
                ("current_iteration", 5.0),
                ("lm_loss", 2.1),
                ("tflops", 310.5),
                ("tokens_per_gpu", 4567.0),
            ],
        );
    }
    check(
        "step 5 | loss 2.1 | 0.31 PFLOP/s/GPU | 12.3k tok/s",
        "generic",
        &[
            ("current_iteration", 5.0),
            ("lm_loss", 2.1),
            ("tflops", 310.0),
            ("tokens_per_second", 12300.0),
        ],
    );
    // The same words as names, without a colon.
    check(
        "step 5 loss 2.1 tflops 310.5 tokens/s/gpu 4567",
        "generic",
        &[
            ("current_iteration", 5.0),
            ("lm_loss", 2.1),
            ("tflops", 310.5),
            ("tokens_per_gpu", 4567.0),
        ],
    );
}

#[test]
fn iterations_in_brackets_and_rates_by_other_names() {
    check(
        "[Step 3] loss=2.5 | time/iter=1.2s | TFLOPS/GPU=301 | max_mem=61.2GB",
        "generic",
        &[
            ("current_iteration", 3.0),
            ("lm_loss", 2.5),
            ("elapsed_time_per_iteration_ms", 1200.0),
            ("tflops", 301.0),
            ("mem_usage", 61.2),
        ],
    );
    for bracket in ["[Epoch 1, Iter 10/100]", "[rank 3] [iteration: 10/100]"] {
        let line = format!("{bracket} loss: 2.5");
        let Outcome::Performance { performance, .. } = Parser::default().parse(&line) else {
            panic!("{line}")
        };
        let found = |name| performance.fields().find(|(known, _)| *known == name).map(|f| f.1);
        assert_eq!(found("current_iteration"), Some(10.0), "{line}");
        assert_eq!(found("target_iteration"), Some(100.0), "{line}");
    }
    check(
        "I0101 00:00:00.000000 140 train.py:5] step = 5, loss = 2.5, steps/sec = 2.0",
        "generic",
        &[("current_iteration", 5.0), ("lm_loss", 2.5), ("elapsed_time_per_iteration_ms", 500.0)],
    );
    check(
        "steps: 10 loss: 0.7000 iter time (s): 1.200 samples/sec: 20.0",
        "generic",
        &[
            ("current_iteration", 10.0),
            ("lm_loss", 0.7),
            ("elapsed_time_per_iteration_ms", 1200.0),
            ("samples_sec", 20.0),
        ],
    );
    refuse("epochs=3, steps=1000, learning_rate=1e-4, seed=1", "no loss");
}

#[test]
fn mindformers() {
    check(
        "2025-01-01 10:00:00 - mindformers[callback.py:316] - INFO - { Epoch:[  1/  2], step:[    2/ 6500], loss: 10.574, per_step_time: 2413ms, lr: 3.3e-08, overflow cond: False, loss_scale: 1.0, global_norm: [1.9], train_throughput_per_npu: 171.2T",
        "generic",
        &[
            ("epoch", 1.0),
            ("current_iteration", 2.0),
            ("target_iteration", 6500.0),
            ("lm_loss", 10.574),
            ("elapsed_time_per_iteration_ms", 2413.0),
            ("learning_rate", 3.3e-8),
            ("loss_scale", 1.0),
            ("grad_norm", 1.9),
            ("tflops", 171.2),
        ],
    );
}

#[test]
fn a_value_by_parts_is_its_first() {
    check(
        "2025-01-01 10:00:00,000 INFO train.py:1 in record -- tflops=188.5 step=3 loss=11.6 tgs (tokens/gpu/second)=4119.3 lr=3.2e-07 loss_scale=65536.0 grad_norm={'0_default': 72.5, '1_fp32': 3.5} micro_num=4",
        "generic",
        &[
            ("tflops", 188.5),
            ("current_iteration", 3.0),
            ("lm_loss", 11.6),
            ("tokens_per_gpu", 4119.3),
            ("learning_rate", 3.2e-7),
            ("loss_scale", 65536.0),
            ("grad_norm", 72.5),
            ("micro_num", 4.0),
        ],
    );
    // Fields inside another are fields.
    check(
        r#"{"metrics": {"loss": 2.5, "step": 3}}"#,
        "generic",
        &[("current_iteration", 3.0), ("lm_loss", 2.5)],
    );
}

#[test]
fn memory_in_use_of_all_there_is() {
    check(
        "Train Step: 77/1000, Loss: 1.9, Grad Norm: 0.5, LR: 0.0001, Tokens/sec/GPU: 1000, Memory: 70.5 GB / 80.0 GB (88%)",
        "generic",
        &[
            ("current_iteration", 77.0),
            ("target_iteration", 1000.0),
            ("lm_loss", 1.9),
            ("grad_norm", 0.5),
            ("learning_rate", 1e-4),
            ("tokens_per_gpu", 1000.0),
            ("mem_usage", 70.5),
            ("mem_total", 80.0),
            ("mem_usage_ratio", 0.88),
        ],
    );
}

#[test]
fn of_two_names_for_a_metric_the_lesser_stays_under_its_own_wherever_it_stands() {
    for line in [
        "iteration 2/50 | loss: 1.0 | lm loss: 2.0 | moe loss: 0.1",
        "iteration 2/50 | lm loss: 2.0 | loss: 1.0 | moe loss: 0.1",
    ] {
        check(
            line,
            "generic",
            &[
                ("current_iteration", 2.0),
                ("target_iteration", 50.0),
                ("lm_loss", 2.0),
                ("loss", 1.0),
                ("moe_loss", 0.1),
            ],
        );
    }
}

#[test]
fn text_that_a_greedy_colour_rule_would_eat_stays_harmless() {
    check(
        "\x1b[0m[main.py:12] [7B] step: 3 loss: 2.5",
        "generic",
        &[("current_iteration", 3.0), ("lm_loss", 2.5)],
    );
    check(
        "[main.py [7B step: 3 loss: 2.5",
        "generic",
        &[("current_iteration", 3.0), ("lm_loss", 2.5)],
    );
}

#[test]
fn lines_that_are_no_training_lines_say_why() {
    refuse("", "empty");
    refuse("hello world", "no key with a number");
    refuse("saving checkpoint at iteration 500 to /data/ckpt", "no loss");
    refuse("checkpoint: step=100 time=3.2", "no loss");
    refuse("loaded checkpoint from iteration 500, loss scale: 1.0", "of a checkpoint");
    refuse("resuming from step 500 lr: 1e-4", "of a checkpoint");
    refuse(
        " validation loss at iteration 100 | lm loss value: 2.5E+00 | lm loss PPL: 1.2E+01 |",
        "known training metric",
    );
    refuse("[eval] step: 10 loss: 2.3", "evaluation");
    refuse("Iter(val) [10/100]  loss: 2.3", "evaluation");
    refuse("Eval step: 10 loss: 2.3", "no iteration");
    refuse("listening on 10.0.0.1:8080, pid=7", "known training metric");
    refuse("{'loss': 0.5, 'epoch': 0.1}", "no iteration");
}

#[test]
fn a_training_start_is_told_from_talk_of_training() {
    let parser = Parser::default();
    for line in [
        "training ...",
        "[20251023 12:39:12][rank-0/8][INFO ] [--trainer.py:1] : training ...",
        "\x1b[32mtraining ...\x1b[0m",
    ] {
        assert_eq!(parser.parse(line), Outcome::Start, "{line}");
    }
    assert!(matches!(parser.parse("training has begun"), Outcome::Nothing(_)));
}
