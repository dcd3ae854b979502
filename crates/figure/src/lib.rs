//! What every benchmark prints: a table of figures beside their targets.
//!
//! With `--write FILE` on its command line a benchmark replaces its own section of that page and leaves the others as
//! they are. A page always names the machine: figures of different machines, or days, do not compare.
//!
//! ```
//! use crosstalk_figure::{Figure, Section};
//!
//! let mut section = Section::new("The recorder");
//! section.add(Figure::new("pipe storm", "+9.2 %").against("at most +12 %", true));
//! assert!(section.markdown().contains("| pipe storm | +9.2 % | at most +12 % | met |"));
//! ```

pub mod process;
pub mod wrk;

use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

/// One line of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    what: String,
    value: String,
    target: Option<(String, bool)>,
}

impl Figure {
    /// A figure without a target: what others do, or what is only good to know.
    #[must_use]
    pub fn new(what: impl Into<String>, value: impl Into<String>) -> Self {
        Self { what: what.into(), value: value.into(), target: None }
    }

    /// Names the target, and says whether it was met.
    #[must_use]
    pub fn against(mut self, target: impl Into<String>, met: bool) -> Self {
        self.target = Some((target.into(), met));
        self
    }
}

/// The figures of one benchmark.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    name: &'static str,
    figures: Vec<Figure>,
}

impl Section {
    /// Has no figures yet.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self { name, figures: Vec::new() }
    }

    /// Adds a line.
    pub fn add(&mut self, figure: Figure) {
        self.figures.push(figure);
    }

    /// Adds lines.
    pub fn extend(&mut self, figures: impl IntoIterator<Item = Figure>) {
        self.figures.extend(figures);
    }

    /// The section as it stands on a page.
    #[must_use]
    pub fn markdown(&self) -> String {
        let mut text = format!("## {}\n\n{}\n\n", self.name, machine());
        text.push_str("| what | measured | target | |\n|---|---|---|---|\n");
        for figure in &self.figures {
            let (target, met) = match &figure.target {
                Some((target, true)) => (target.as_str(), "met"),
                Some((target, false)) => (target.as_str(), "missed"),
                None => ("", ""),
            };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "| {} | {} | {target} | {met} |", figure.what, figure.value);
        }
        text
    }

    /// Prints the table, and keeps it where the command line says so (`--write FILE`).
    ///
    /// # Errors
    /// If the page cannot be read or written.
    pub fn finish(&self) -> io::Result<()> {
        println!("{}", self.markdown());
        let mut arguments = std::env::args().skip_while(|argument| argument != "--write");
        match arguments.nth(1) {
            Some(path) => self.write(Path::new(&path)),
            None => Ok(()),
        }
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let page = match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            page => page?,
        };
        fs::write(path, self.placed_in(&page))
    }

    /// The page with this section in place of the last one of its name, or behind all others.
    fn placed_in(&self, page: &str) -> String {
        let heading = format!("## {}\n", self.name);
        let Some(start) = page.find(&heading) else {
            return format!("{}\n\n{}", page.trim_end(), self.markdown()).trim_start().to_owned();
        };
        let behind =
            page[start + heading.len()..].find("\n## ").map(|at| start + heading.len() + at + 1);
        let rest = behind.map_or(String::new(), |at| format!("\n{}", &page[at..]));
        format!("{}{}{rest}", &page[..start], self.markdown())
    }
}

/// Processor, number of cores and kernel.
#[must_use]
pub fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model =
        cpus.lines().find_map(|line| line.strip_prefix("model name\t: ")).unwrap_or("unknown");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    format!("On {model}, {cores} cores, Linux {}.", kernel.trim())
}

/// Whether a benchmark was asked for: `cargo test --benches` must not start one.
#[must_use]
pub fn is_asked_for() -> bool {
    has("--bench")
}

/// Whether an argument is on the command line.
#[must_use]
pub fn has(argument: &str) -> bool {
    std::env::args().any(|given| given == argument)
}

/// The middle value, 0 of none.
#[must_use]
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(name: &'static str, value: &str) -> Section {
        let mut section = Section::new(name);
        section.add(Figure::new("a", value));
        section
    }

    #[test]
    fn a_section_replaces_its_own_and_no_other() {
        let page = section("One", "1").placed_in("# Benchmarks\n\nHow to read them.\n");
        let page = section("Two", "2").placed_in(&page);
        let page = section("One", "3").placed_in(&page);
        assert!(page.starts_with("# Benchmarks\n\nHow to read them.\n\n## One\n"), "{page}");
        assert!(page.contains("| a | 3 |") && !page.contains("| a | 1 |"), "{page}");
        assert!(page.contains("|\n\n## Two\n") && page.contains("| a | 2 |"), "{page}");
        assert_eq!(section("Two", "2").placed_in(&page), page);
    }

    #[test]
    fn the_median_of_none_is_no_panic() {
        assert_eq!(median(&mut []), 0.0);
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), 2.0);
    }
}
