//! Puts scanned fields together: which field is which metric, in which unit, and which of two wins.

use crate::alias::{self, Alias, PLURAL, Target};
use crate::context::{
    AFTER_WORDS, is_main_loss, is_of_one_device, is_of_whole_iteration, says_per_device,
    speaks_of_checkpoint, telling, vendor, without_prefix,
};
use crate::format::Mark;
use crate::key::{Hint, Key};
use crate::metric::Metric;
use crate::number::Quantity;
use crate::performance::Performance;
use crate::scan::RawField;
use crate::spelling;
use crate::unit::{Scale, Unit};

/// The ranks of guesses; every named field goes before them.
const GUESSED: u8 = 200;

/// Fields gathered from one line.
pub(crate) struct Assembly<'l> {
    performance: Performance,
    ranks: [u8; Metric::COUNT],
    /// The keys that gave the metrics, as printed.
    holders: [Option<&'l str>; Metric::COUNT],
    pub(crate) marks: u16,
    /// Metrics that only training lines have, and ones that others have too.
    strong: u32,
    weak: u32,
    pub(crate) evaluation: bool,
    /// Words before the name of the iteration.
    words: &'l str,
    seen: usize,
    /// The one further field that is a loss, for lines that call their loss by a name of their own.
    other_loss: Option<f64>,
    other_losses: u32,
}

/// A field's name in its one spelling, and as printed where that is known.
#[derive(Clone, Copy)]
struct Name<'l, 'n> {
    name: &'n str,
    printed: Option<&'l str>,
}

impl<'l> Assembly<'l> {
    pub(crate) fn new() -> Assembly<'l> {
        Assembly {
            performance: Performance::default(),
            ranks: [u8::MAX; Metric::COUNT],
            holders: [None; Metric::COUNT],
            marks: 0,
            strong: 0,
            weak: 0,
            evaluation: false,
            words: "",
            seen: 0,
            other_loss: None,
            other_losses: 0,
        }
    }

    /// Takes one field.
    pub(crate) fn take(&mut self, field: &RawField<'l, '_>) {
        if let Some(spelling) = field.spelling.or_else(|| spelling::find(field.key)) {
            self.seen += 1;
            let name = Name { name: &spelling.name, printed: Some(field.key) };
            return self.take_known(spelling.alias, spelling.hint, name, field);
        }
        if field.values.len() > 2 && self.take_listed(field) {
            return;
        }
        let Some(key) = Key::read(field.key) else { return self.take_keyless(field) };
        self.seen += 1;
        if key.hint == Hint::Evaluation {
            self.evaluation = true;
        }
        if let Some((alias, hint)) = alias::find(key.name(), key.hint) {
            let name = Name { name: key.name(), printed: Some(field.key) };
            return self.take_known(alias, hint, name, field);
        }
        if self.take_listed(field) {
            return;
        }
        if let Some((alias, shorter, printed)) = without_prefix(field.key, self.seen == 1) {
            self.words = &field.key[..field.key.len() - printed.len()];
            let name = Name { name: shorter.name(), printed: Some(printed) };
            return self.take_known(alias, shorter.hint, name, field);
        }
        if field.anchored || field.closed {
            self.take_unknown(&key, Some(field.key), field.values[0]);
        }
    }

    /// A number without a word: `300.12 ms`, `10.00it/s`, the `10/5005` of a progress bar.
    fn take_keyless(&mut self, field: &RawField<'l, '_>) {
        let first = field.values[0];
        match first.unit {
            Unit::IterationsPerSecond | Unit::TimePerIteration(_) => {
                self.put(
                    Metric::ElapsedTimePerIterationMs,
                    milliseconds(first, first.unit),
                    GUESSED,
                    true,
                    None,
                );
            }
            Unit::Time(_) if field.closed => {
                self.put(
                    Metric::ElapsedTimePerIterationMs,
                    milliseconds(first, first.unit),
                    GUESSED + 1,
                    true,
                    None,
                );
            }
            Unit::Flops(_) => self.put(Metric::Tflops, first.plain(), GUESSED, false, None),
            Unit::TokensPerSecondPerDevice => {
                self.put(Metric::TokensPerGpu, first.value, GUESSED, false, None);
            }
            Unit::TokensPerSecond => self.performance.add_extra("tokens_per_second", first.value),
            Unit::None if field.values.len() == 2 && field.values.iter().all(is_count) => {
                let rank = if field.bracketed { GUESSED } else { GUESSED + 1 };
                self.put_progress(field.values, rank, None);
            }
            _ => {}
        }
    }

    fn take_known(
        &mut self,
        alias: Alias,
        hint: Hint,
        name: Name<'l, '_>,
        field: &RawField<'_, '_>,
    ) {
        let first = alias.magnified(field.values[0], hint);
        let unit = match (first.unit, hint) {
            (Unit::None, Hint::Unit(unit)) => unit,
            (Unit::None, _) => alias.unit,
            (unit, _) => unit,
        };
        let quantity = Quantity { value: first.value, unit };
        if first.unit != Unit::None
            && field.closed
            && contradicts(alias.target, first.unit, field.anchored)
            && self.take_by_unit(first, name)
        {
            return;
        }
        match alias.target {
            Target::Ignored => return,
            Target::Metric(Metric::GlobalBatchSize | Metric::ConsumedSamples)
                if hint == Hint::Tokens =>
            {
                let name = format!("{}_tokens", name.name);
                return self.performance.add_extra(&name, quantity.plain());
            }
            Target::Throughput { per_device } => {
                return self.take_throughput(alias, hint, per_device, name, quantity);
            }
            Target::Metric(Metric::CurrentIteration) => {
                self.put_progress(field.values, alias.rank, Some(name))
            }
            Target::Metric(Metric::ElapsedTimePerIterationMs) => {
                let value = milliseconds(quantity, unit);
                self.put(
                    Metric::ElapsedTimePerIterationMs,
                    value,
                    alias.rank,
                    alias.weak,
                    Some(name),
                );
            }
            Target::Metric(
                metric @ (Metric::MemUsage
                | Metric::MemFree
                | Metric::MemTotal
                | Metric::MemUsageRatio),
            ) => {
                self.take_memory(metric, alias, name, quantity);
                if let (Metric::MemUsage, Some(percent)) = (metric, field.percent) {
                    self.put(Metric::MemUsageRatio, percent / 100.0, alias.rank, true, None);
                }
                if let Some(total) = memory_total(metric, alias, field.values) {
                    self.put(Metric::MemTotal, total, alias.rank, true, None);
                }
            }
            Target::Metric(metric) => {
                self.put(metric, quantity.plain(), alias.rank, alias.weak, Some(name));
            }
        }
        self.marks |= alias.mark as u16;
    }

    fn take_throughput(
        &mut self,
        alias: Alias,
        hint: Hint,
        per_device: bool,
        name: Name<'l, '_>,
        quantity: Quantity,
    ) {
        let (metric, factor) = match hint {
            _ if matches!(quantity.unit, Unit::Flops(_)) => (Metric::Tflops, 1.0),
            _ if quantity.unit == Unit::TokensPerSecondPerDevice => (Metric::TokensPerGpu, 1.0),
            Hint::Tflops => (Metric::Tflops, 1.0),
            Hint::Pflops => (Metric::Tflops, 1e3),
            Hint::Gflops => (Metric::Tflops, 1e-3),
            Hint::TokensPerDevice => (Metric::TokensPerGpu, 1.0),
            Hint::Tokens if per_device => (Metric::TokensPerGpu, 1.0),
            _ if per_device && quantity.unit == Unit::TokensPerSecond => {
                (Metric::TokensPerGpu, 1.0)
            }
            Hint::None if per_device => (Metric::Tflops, 1.0),
            _ => return self.performance.add_extra(name.name, quantity.plain()),
        };
        self.put(metric, quantity.plain() * factor, alias.rank, alias.weak, Some(name));
        self.marks |= alias.mark as u16;
    }

    /// Memory is printed as a size or as a share, under the same names; the unit tells them apart,
    /// and where there is none, the size of the number.
    fn take_memory(
        &mut self,
        metric: Metric,
        alias: Alias,
        name: Name<'l, '_>,
        quantity: Quantity,
    ) {
        let value = quantity.value;
        let (metric, value) = if let Some(gigabytes) = quantity.unit.gigabytes(value) {
            let size = if metric == Metric::MemUsageRatio { Metric::MemUsage } else { metric };
            (size, gigabytes)
        } else if quantity.unit == Unit::Percent {
            (if metric == Metric::MemUsage { Metric::MemUsageRatio } else { metric }, value / 100.0)
        } else if metric == Metric::MemUsageRatio {
            (metric, if value > 1.5 { value / 100.0 } else { value })
        } else if metric == Metric::MemUsage && value <= 1.0 {
            (Metric::MemUsageRatio, value)
        } else {
            (metric, value / unnamed_size(value))
        };
        self.put(metric, value, alias.rank, alias.weak, Some(name));
    }

    /// `hip mem usage/free/total/usage_ratio: a/b/c/d`: as many names as numbers.
    fn take_listed(&mut self, field: &RawField<'l, '_>) -> bool {
        let names = 1 + memchr::memchr_iter(b'/', field.key.as_bytes()).count();
        if names < 2 || names != field.values.len() {
            return false;
        }
        let first = field.key.split('/').next().unwrap_or_default();
        let shared = first.trim_end().rfind([' ', '_']).map_or("", |at| &first[..=at]);
        let mut known = false;
        let mut full = String::with_capacity(field.key.len());
        for (index, (name, value)) in field.key.split('/').zip(field.values).enumerate() {
            full.clear();
            full.push_str(if index == 0 { "" } else { shared });
            full.push_str(name.trim());
            let values = std::slice::from_ref(value);
            let single = RawField { key: "", spelling: None, values, percent: None, ..*field };
            if let Some(spelling) = spelling::find(&full) {
                known = true;
                let name = Name { name: &spelling.name, printed: None };
                self.take_known(spelling.alias, spelling.hint, name, &single);
                continue;
            }
            let Some(key) = Key::read(&full) else { continue };
            match alias::find(key.name(), key.hint) {
                Some((alias, hint)) => {
                    known = true;
                    let name = Name { name: key.name(), printed: None };
                    self.take_known(alias, hint, name, &single);
                }
                None => self.take_unknown(&key, None, *value),
            }
        }
        if known {
            self.marks |= vendor(field.key) as u16;
        }
        true
    }

    /// What a value's own unit says that it is, whatever its name: `approx flops per GPU:
    /// 112.9TFLOPS`, `speed: 1.2 s/it`. False where the unit names no quantity.
    fn take_by_unit(&mut self, quantity: Quantity, name: Name<'l, '_>) -> bool {
        let (metric, value, weak) = match quantity.unit {
            Unit::Flops(_) if is_of_one_device(name.name) => {
                (Metric::Tflops, quantity.plain(), false)
            }
            Unit::TokensPerSecondPerDevice => (Metric::TokensPerGpu, quantity.value, false),
            Unit::TokensPerSecond if says_per_device(name.name) => {
                (Metric::TokensPerGpu, quantity.value, false)
            }
            unit @ (Unit::IterationsPerSecond | Unit::TimePerIteration(_))
                if is_of_whole_iteration(name.name) =>
            {
                (Metric::ElapsedTimePerIterationMs, milliseconds(quantity, unit), true)
            }
            // Of times only that of a step comes here; others are of anything.
            unit @ Unit::Time(_) => {
                (Metric::ElapsedTimePerIterationMs, milliseconds(quantity, unit), true)
            }
            _ => return false,
        };
        self.put(metric, value, GUESSED, weak, Some(name));
        true
    }

    fn take_unknown(&mut self, key: &Key, printed: Option<&'l str>, quantity: Quantity) {
        let name = key.name();
        if let Some(mark) = telling(name) {
            self.marks |= mark as u16;
        }
        let named = match (quantity.unit, key.hint) {
            (Unit::None, Hint::Tflops) => Unit::Flops(Scale::Tera),
            (Unit::None, Hint::Pflops) => Unit::Flops(Scale::Peta),
            (Unit::None, Hint::Gflops) => Unit::Flops(Scale::Giga),
            (Unit::None, Hint::TokensPerDevice) => Unit::TokensPerSecondPerDevice,
            (Unit::None, Hint::Unit(unit)) => unit,
            (unit, _) => unit,
        };
        let quantity_named = Quantity { value: quantity.value, unit: named };
        if !matches!(named, Unit::None | Unit::Time(_))
            && self.take_by_unit(quantity_named, Name { name, printed })
        {
            return;
        }
        let unit = match (quantity.unit, key.hint) {
            (Unit::None, Hint::Unit(unit)) => unit,
            (unit, _) => unit,
        };
        let memory = name.contains("mem");
        if let Some(factor) = unit.milliseconds() {
            let name = if name.ends_with("_ms") { name.to_owned() } else { format!("{name}_ms") };
            return self.performance.add_extra(&name, quantity.value * factor);
        }
        let size =
            unit.gigabytes(quantity.value).filter(|_| memory || matches!(unit, Unit::Bytes(_)));
        let value = size.unwrap_or_else(|| Quantity { value: quantity.value, unit }.plain());
        if is_main_loss(name) {
            self.other_losses += 1;
            self.other_loss = Some(value);
        }
        self.performance.add_extra(name, value);
    }

    fn put_progress(&mut self, values: &[Quantity], rank: u8, name: Option<Name<'l, '_>>) {
        if !is_count(&values[0]) || values.len() > 2 {
            return;
        }
        let wins = rank < self.ranks[Metric::CurrentIteration as usize];
        self.put(Metric::CurrentIteration, values[0].plain(), rank, true, name);
        if let Some(target) = values.get(1).filter(|target| wins && is_count(target)) {
            self.put(Metric::TargetIteration, target.plain(), rank, true, None);
        }
    }

    fn put(
        &mut self,
        metric: Metric,
        value: f64,
        rank: u8,
        weak: bool,
        name: Option<Name<'l, '_>>,
    ) {
        let bit = 1u32 << metric as u32;
        if weak && self.strong & bit == 0 {
            self.weak |= bit;
        } else if !weak {
            self.strong |= bit;
        }
        let place = metric as usize;
        if rank < self.ranks[place] {
            let displaced = self.holders[place].zip(self.performance.get(metric));
            self.ranks[place] = rank;
            self.holders[place] = name.and_then(|name| name.printed);
            self.performance.set(metric, value);
            // The value that gives way stays, under the name it was printed with.
            if let Some((printed, value)) = displaced
                && let Some(key) = Key::read(printed)
            {
                self.performance.add_extra(key.name(), value);
            }
        } else if let Some(Name { name, .. }) = name {
            self.performance.add_extra(name, value);
        }
    }

    /// What was found, whatever it amounts to.
    pub(crate) fn into_fields(self) -> Performance {
        self.performance
    }

    /// What was found, where somebody else has decided that the line is a training line.
    pub(crate) fn into_matched(self) -> Option<Performance> {
        self.performance.get(Metric::CurrentIteration)?;
        Some(self.performance)
    }

    /// What the line amounts to.
    pub(crate) fn finish(mut self) -> Result<(Performance, u16), Shortfall> {
        if self.performance.get(Metric::LmLoss).is_none()
            && self.other_losses == 1
            && let Some(loss) = self.other_loss
        {
            self.put(Metric::LmLoss, loss, GUESSED, false, None);
        }
        if self.evaluation {
            return Err(Shortfall::Evaluation);
        }
        let progress =
            1u32 << Metric::CurrentIteration as u32 | 1 << Metric::TargetIteration as u32;
        let strong = (self.strong & !progress).count_ones();
        let weak = (self.weak & !progress & !self.strong).count_ones();
        // Settings also say how many steps there are; only a report has a loss.
        let setting = self.ranks[Metric::CurrentIteration as usize] == PLURAL
            && self.performance.get(Metric::LmLoss).is_none();
        let metrics = (strong > 0 || weak > 1) && !setting;
        let checkpoint = || {
            self.ranks[Metric::CurrentIteration as usize] == AFTER_WORDS
                && speaks_of_checkpoint(self.words)
        };
        match (self.performance.get(Metric::CurrentIteration).is_some(), metrics) {
            (true, true) if checkpoint() => Err(Shortfall::Checkpoint(Box::new(self.performance))),
            (true, true) => Ok((self.performance, self.marks)),
            (true, false) => Err(Shortfall::NoMetric(Box::new(self.performance))),
            (false, true) => Err(Shortfall::NoIteration(Box::new(self.performance))),
            (false, false) if self.seen > 0 => Err(Shortfall::Unknown),
            (false, false) => Err(Shortfall::NoFields),
        }
    }
}

impl Alias {
    /// `1.39K` milliseconds are 1390; `1.39G` of memory are gigabytes and stay what they are, and
    /// `171.2T` of compute are TFLOP/s.
    fn magnified(&self, quantity: Quantity, hint: Hint) -> Quantity {
        use Metric::{MemFree, MemTotal, MemUsage, MemUsageRatio};
        let memory =
            matches!(self.target, Target::Metric(MemUsage | MemFree | MemTotal | MemUsageRatio));
        let compute = match self.target {
            Target::Metric(Metric::Tflops) => true,
            Target::Throughput { per_device } => {
                per_device && !matches!(hint, Hint::Tokens | Hint::TokensPerDevice)
            }
            _ => false,
        };
        match quantity.unit {
            Unit::Magnitude(scale @ (Scale::Tera | Scale::Giga)) if compute => {
                Quantity { unit: Unit::Flops(scale), ..quantity }
            }
            Unit::Magnitude(_) if !memory => Quantity { value: quantity.plain(), unit: Unit::None },
            _ => quantity,
        }
    }
}

/// Why fields do not make a training line.
pub(crate) enum Shortfall {
    NoFields,
    Unknown,
    NoIteration(Box<Performance>),
    NoMetric(Box<Performance>),
    Checkpoint(Box<Performance>),
    Evaluation,
}

/// Whether a value's own unit says that it cannot be what its name says.
fn contradicts(target: Target, unit: Unit, anchored: bool) -> bool {
    let Target::Metric(metric) = target else {
        let is_rate = matches!(unit, Unit::IterationsPerSecond | Unit::TimePerIteration(_));
        return matches!(target, Target::Throughput { .. }) && is_rate;
    };
    match unit {
        Unit::Flops(_) => metric != Metric::Tflops,
        Unit::TokensPerSecondPerDevice => metric != Metric::TokensPerGpu,
        Unit::IterationsPerSecond | Unit::TimePerIteration(_) => {
            metric != Metric::ElapsedTimePerIterationMs
        }
        // `step: 350ms`; without a colon the word may be the next name.
        Unit::Time(_) => anchored && metric == Metric::CurrentIteration,
        _ => false,
    }
}

/// Whether a number can count iterations.
fn is_count(quantity: &Quantity) -> bool {
    quantity.plain() >= 0.0 && quantity.plain().fract() == 0.0
}

fn milliseconds(quantity: Quantity, unit: Unit) -> f64 {
    match unit {
        Unit::IterationsPerSecond => 1e3 / quantity.value,
        unit => quantity.value * unit.milliseconds().unwrap_or(1.0),
    }
}

/// The divisor to GB of memory without a unit: no device has two terabytes, so more than 2048 is
/// MB as mmengine prints it, and more than that many MB is bytes.
fn unnamed_size(value: f64) -> f64 {
    match value {
        value if value <= 2048.0 => 1.0,
        value if value <= 4_194_304.0 => Scale::Kilo.factor(),
        _ => Scale::Giga.factor(),
    }
}

/// The second of two sizes, `70.5 GB / 80.0 GB`, where it can be all there is. Names of what was
/// allocated or is reserved have their highest value there.
fn memory_total(metric: Metric, alias: Alias, values: &[Quantity]) -> Option<f64> {
    let [used, total] = values else { return None };
    let total_size = total.unit.gigabytes(total.value)?;
    let fits = used.unit.gigabytes(used.value)? <= total_size;
    let usage = metric == Metric::MemUsage && alias.rank <= 1 && alias.mark == Mark::None;
    (fits && usage).then_some(total_size)
}
