//! Units as they are printed after a number or in a key's brackets.

/// What a number was printed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    None,
    Percent,
    /// Scale of a second.
    Time(Scale),
    /// Scale of a byte.
    Bytes(Scale),
    /// A bare K, M, G, B or T: a thousand, a million ... or, for memory, kilobytes, megabytes ...
    Magnitude(Scale),
    /// Scale of a second, for one iteration.
    TimePerIteration(Scale),
    IterationsPerSecond,
    TokensPerSecond,
    /// Of one device.
    TokensPerSecondPerDevice,
    /// Scale of a FLOP/s.
    Flops(Scale),
    PerSecond,
}

/// A factor; an enum because units are compared and floats are not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Micro,
    Milli,
    One,
    Kilo,
    Mega,
    Giga,
    Tera,
    Peta,
    Kibi,
    Mebi,
    Gibi,
    Tebi,
    Minute,
    Hour,
}

impl Scale {
    pub(crate) const fn factor(self) -> f64 {
        match self {
            Scale::Micro => 1e-6,
            Scale::Milli => 1e-3,
            Scale::One => 1.0,
            Scale::Kilo => 1e3,
            Scale::Mega => 1e6,
            Scale::Giga => 1e9,
            Scale::Tera => 1e12,
            Scale::Peta => 1e15,
            Scale::Kibi => 1024.0,
            Scale::Mebi => 1_048_576.0,
            Scale::Gibi => 1_073_741_824.0,
            Scale::Tebi => 1_099_511_627_776.0,
            Scale::Minute => 60.0,
            Scale::Hour => 3600.0,
        }
    }
}

/// Bytes of the longest unit.
pub(crate) const LONGEST: usize = 24;

/// The unit spelled so, without regard to case except where case tells two units apart.
pub(crate) fn parse(text: &[u8]) -> Option<Unit> {
    use Scale::*;
    use Unit::{Bytes, IterationsPerSecond, Magnitude, PerSecond, Percent, Time, TimePerIteration};
    let mut lower = [0u8; LONGEST];
    let lower = lower.get_mut(..text.len())?;
    lower.copy_from_slice(text);
    lower.make_ascii_lowercase();
    Some(match &*lower {
        b"%" | b"pct" | b"percent" => Percent,
        b"us" | b"usec" => Time(Micro),
        b"ms" | b"msec" | b"millisecond" | b"milliseconds" => Time(Milli),
        b"s" | b"sec" | b"secs" | b"second" | b"seconds" => Time(One),
        b"min" | b"mins" | b"minutes" => Time(Minute),
        b"h" | b"hr" | b"hrs" | b"hours" => Time(Hour),
        b"byte" | b"bytes" => Bytes(One),
        b"kb" => Bytes(Kilo),
        b"mb" => Bytes(Mega),
        b"gb" => Bytes(Giga),
        b"tb" => Bytes(Tera),
        b"kib" => Bytes(Kibi),
        b"mib" => Bytes(Mebi),
        b"gib" => Bytes(Gibi),
        b"tib" => Bytes(Tebi),
        b"k" => Magnitude(Kilo),
        b"m" => Magnitude(Mega),
        b"g" | b"b" => Magnitude(Giga),
        b"t" => Magnitude(Tera),
        b"it/s" | b"iter/s" | b"iters/s" | b"step/s" | b"steps/s" | b"it/sec" => {
            IterationsPerSecond
        }
        b"s/it" | b"s/iter" | b"s/step" | b"sec/it" | b"sec/step" => TimePerIteration(One),
        b"ms/it" | b"ms/iter" | b"ms/step" => TimePerIteration(Milli),
        b"/s" | b"/sec" => PerSecond,
        _ => return rate(lower),
    })
}

/// `TFLOP/s/GPU`, `tokens/s`: what is done, in what time, by one device or all.
fn rate(text: &[u8]) -> Option<Unit> {
    let mut words = text.split(|byte| *byte == b'/');
    let done = words.next()?;
    let (mut per_second, mut per_device) = (false, false);
    for word in words {
        match word {
            b"s" | b"sec" | b"second" => per_second = true,
            b"gpu" | b"device" | b"chip" | b"npu" | b"tpu" | b"xpu" | b"card" | b"rank" => {
                per_device = true;
            }
            _ => return None,
        }
    }
    match done {
        b"flop" if per_second => Some(Unit::Flops(Scale::One)),
        b"flops" => Some(Unit::Flops(Scale::One)),
        b"kflop" | b"kflops" => Some(Unit::Flops(Scale::Kilo)),
        b"mflop" | b"mflops" => Some(Unit::Flops(Scale::Mega)),
        b"gflop" | b"gflops" => Some(Unit::Flops(Scale::Giga)),
        b"tflop" | b"tflops" => Some(Unit::Flops(Scale::Tera)),
        b"pflop" | b"pflops" => Some(Unit::Flops(Scale::Peta)),
        b"tok" | b"toks" | b"token" | b"tokens" if per_second => {
            Some(if per_device { Unit::TokensPerSecondPerDevice } else { Unit::TokensPerSecond })
        }
        _ => None,
    }
}

impl Unit {
    /// Milliseconds in one of this unit, where it is one of time.
    pub(crate) fn milliseconds(self) -> Option<f64> {
        match self {
            Unit::Time(Scale::Milli) | Unit::TimePerIteration(Scale::Milli) => Some(1.0),
            Unit::Time(Scale::Micro) => Some(1e-3),
            Unit::Time(scale) | Unit::TimePerIteration(scale) => Some(scale.factor() * 1e3),
            _ => None,
        }
    }

    /// A value of this unit in GB, where it is one of size; bare magnitudes count as sizes.
    pub(crate) fn gigabytes(self, value: f64) -> Option<f64> {
        match self {
            Unit::Bytes(Scale::Giga) | Unit::Magnitude(Scale::Giga) => Some(value),
            Unit::Bytes(scale) | Unit::Magnitude(scale) => Some(value * scale.factor() / 1e9),
            _ => None,
        }
    }

    /// Whether it says what was done in a time; such words are also names of numbers.
    pub(crate) fn is_throughput(self) -> bool {
        matches!(self, Unit::Flops(_) | Unit::TokensPerSecond | Unit::TokensPerSecondPerDevice)
    }

    /// A bare magnitude's factor, one for everything else.
    pub(crate) fn magnitude(self) -> f64 {
        match self {
            Unit::Magnitude(scale) => scale.factor(),
            _ => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Unit, parse};

    #[test]
    fn sizes_and_times_come_out_in_gb_and_ms() {
        let gigabytes = |unit: &str, value| parse(unit.as_bytes()).unwrap().gigabytes(value);
        assert_eq!(gigabytes("GB", 253.38), Some(253.38));
        assert_eq!(gigabytes("MB", 2500.0), Some(2.5));
        assert_eq!(gigabytes("GiB", 1.0), Some(1.073741824));
        assert_eq!(gigabytes("ms", 1.0), None);
        let ms = |unit: &str| parse(unit.as_bytes()).unwrap().milliseconds();
        assert_eq!(ms("ms"), Some(1.0));
        assert_eq!(ms("s"), Some(1000.0));
        assert_eq!(ms("s/it"), Some(1000.0));
        assert_eq!(ms("GB"), None);
        assert_eq!(parse(b"furlongs"), None);
        assert_eq!(parse(b"TFLOPs/GPU"), Some(Unit::Flops(super::Scale::Tera)));
        assert_eq!(parse(b"tokens/s/GPU"), Some(Unit::TokensPerSecondPerDevice));
        assert_eq!(parse(b"tok/sec"), Some(Unit::TokensPerSecond));
        assert_eq!(parse(b"tokens/GPU"), None);
        assert_eq!(parse(b"tokens/s/parsec"), None);
        assert_eq!(parse(b"a unit far too long to be one"), None);
        assert_eq!(parse(b"%"), Some(Unit::Percent));
    }
}
