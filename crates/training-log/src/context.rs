//! What the words in and around a key say beside its name.

use crate::alias::{self, Alias, Target};
use crate::format::Mark;
use crate::key::Key;
use crate::metric::Metric;

/// The rank of an iteration that other words stand before: above guesses, below every plain name.
pub(crate) const AFTER_WORDS: u8 = 199;

/// Whether words before an iteration say that it is the one of a checkpoint.
pub(crate) fn speaks_of_checkpoint(words: &str) -> bool {
    const STEMS: [&str; 6] = ["checkpoint", "ckpt", "load", "resum", "restor", "sav"];
    words.split(' ').any(|word| {
        STEMS.iter().any(|stem| {
            word.as_bytes()
                .get(..stem.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(stem.as_bytes()))
        })
    })
}

/// The first key of a line may have words of a log prefix before it (`root worker step`), and any
/// key may have columns of them, two spaces away.
pub(crate) fn without_prefix(text: &str, first: bool) -> Option<(Alias, Key, &str)> {
    let known = |text| {
        let mut key = Key::read(text)?;
        let (alias, hint) = alias::find(key.name(), key.hint)?;
        key.hint = hint;
        Some((alias, key, text))
    };
    if let Some(at) = text.rfind("  ").or_else(|| text.rfind('\t'))
        && let Some(found) = known(&text[at..])
    {
        return Some(found);
    }
    if !first {
        return None;
    }
    let (words, last) = text.rsplit_once(' ')?;
    if words.split(' ').any(|word| crate::key::is_evaluation_word(word.as_bytes())) {
        return None;
    }
    let (alias, key, last) = known(last)?;
    let guess = Alias { rank: AFTER_WORDS, ..alias };
    (alias.target == Target::Metric(Metric::CurrentIteration)).then_some((guess, key, last))
}

/// Whose memory a list of sizes is.
pub(crate) fn vendor(key: &str) -> Mark {
    let starts = |word: &str| {
        key.as_bytes()
            .get(..word.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(word.as_bytes()))
    };
    match () {
        () if starts("hip") => Mark::Hip,
        () if starts("rocm") => Mark::Rocm,
        () => Mark::None,
    }
}

/// Further fields that only one trainer prints.
pub(crate) fn telling(name: &str) -> Option<Mark> {
    match name {
        "micro_step" | "curr_samples_per_sec" | "running_avg_samples_per_sec" => {
            Some(Mark::DeepSpeed)
        }
        "approx_flops_per_gpu" => Some(Mark::GptNeox),
        _ => None,
    }
}

/// Whether a rate by this name is that of one device now: not that of all together, and not what
/// the hardware could do.
pub(crate) fn is_of_one_device(name: &str) -> bool {
    const OTHERS: [&str; 12] = [
        "total",
        "aggregate",
        "aggregated",
        "cluster",
        "sum",
        "all",
        "global",
        "world",
        "peak",
        "max",
        "theoretical",
        "promised",
    ];
    !name.split('_').any(|word| OTHERS.contains(&word))
}

/// Whether a name says that it is about each device.
pub(crate) fn says_per_device(name: &str) -> bool {
    let mut words = name.split('_').skip_while(|word| *word != "per").skip(1);
    words.any(|word| matches!(word, "gpu" | "device" | "npu" | "tpu" | "xpu" | "chip" | "rank"))
}

/// Whether a time by this name is that of the whole iteration rather than of a part.
pub(crate) fn is_of_whole_iteration(name: &str) -> bool {
    const PARTS: [&str; 12] = [
        "data",
        "loader",
        "dataloader",
        "load",
        "loading",
        "forward",
        "backward",
        "fwd",
        "bwd",
        "optimizer",
        "comm",
        "allreduce",
    ];
    !name.split('_').any(|word| PARTS.contains(&word))
}

/// A loss of its own name, but not one beside the main one.
pub(crate) fn is_main_loss(name: &str) -> bool {
    const BESIDE: [&str; 12] = [
        "val",
        "eval",
        "valid",
        "validation",
        "test",
        "aux",
        "z",
        "mtp",
        "balancing",
        "balance",
        "router",
        "moe",
    ];
    name.ends_with("loss") && !name.split('_').any(|word| BESIDE.contains(&word))
}
