//! Which dialect a line is in, told from the spellings of its keys.

/// What one key's spelling says about who printed the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub(crate) enum Mark {
    None = 0,
    Hip = 1,
    Rocm = 2,
    Legacy = 4,
    Primus = 8,
    Megatron = 16,
    Nemo = 32,
    TorchTitan = 64,
    MaxText = 128,
    DeepSpeed = 256,
    GptNeox = 512,
    Composer = 1024,
}

/// The dialect of a line. It only names what was seen: every dialect is read by the same rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Format {
    /// Primus with HIP memory.
    PrimusHip,
    /// Primus with ROCm memory.
    PrimusRocm,
    /// Primus as it was first: memory as a ratio, no averages.
    PrimusLegacy,
    /// Primus with compute per GPU.
    Primus,
    /// Megatron-LM.
    Megatron,
    /// NeMo.
    Nemo,
    /// torchtitan.
    TorchTitan,
    /// MaxText.
    MaxText,
    /// DeepSpeed.
    DeepSpeed,
    /// GPT-NeoX.
    GptNeox,
    /// Composer.
    Composer,
    /// None of these, but iteration and training metrics under names we know.
    Generic,
    /// A pattern of the configuration, by its name.
    Pattern(String),
}

impl Format {
    /// The name shown by `explain-log`.
    pub fn name(&self) -> &str {
        match self {
            Format::PrimusHip => "primus-hip",
            Format::PrimusRocm => "primus-rocm",
            Format::PrimusLegacy => "primus-legacy",
            Format::Primus => "primus",
            Format::Megatron => "megatron",
            Format::Nemo => "nemo",
            Format::TorchTitan => "torchtitan",
            Format::MaxText => "maxtext",
            Format::DeepSpeed => "deepspeed",
            Format::GptNeox => "gpt-neox",
            Format::Composer => "composer",
            Format::Generic => "generic",
            Format::Pattern(name) => name,
        }
    }

    /// The most telling of the marks seen.
    pub(crate) fn of(marks: u16) -> Format {
        let order = [
            (Mark::Hip, Format::PrimusHip),
            (Mark::Rocm, Format::PrimusRocm),
            (Mark::Legacy, Format::PrimusLegacy),
            (Mark::Primus, Format::Primus),
            (Mark::GptNeox, Format::GptNeox),
            (Mark::Megatron, Format::Megatron),
            (Mark::Nemo, Format::Nemo),
            (Mark::TorchTitan, Format::TorchTitan),
            (Mark::MaxText, Format::MaxText),
            (Mark::DeepSpeed, Format::DeepSpeed),
            (Mark::Composer, Format::Composer),
        ];
        let seen = order.into_iter().find(|(mark, _)| marks & *mark as u16 != 0);
        seen.map_or(Format::Generic, |(_, format)| format)
    }
}
