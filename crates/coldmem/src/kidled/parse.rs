//! Reads the file by its header. Nothing is allocated for a line: only the words of an error are.

use super::{IdleInfo, IdleRow};

/// Why a text is no idle info, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct IdleInfoError {
    /// From 1. What is missing is missing behind the last line.
    pub line: usize,
    /// From 1, in bytes.
    pub column: usize,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong with an idle info.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A word stands where a number must.
    #[error("\"{0}\" is not a number")]
    NotANumber(String),
    /// A number beyond 64 bits.
    #[error("{0} is larger than 64 bits can hold")]
    TooLarge(String),
    /// Bucket edges that do not rise.
    #[error("bucket {0} is not larger than the one before it")]
    BucketOrder(u64),
    /// A header line that is there twice.
    #[error("the header has {0} twice")]
    HeaderTwice(&'static str),
    /// A header line that must be there.
    #[error("the header has no {0}")]
    NoHeader(&'static str),
    /// A row before the header said how many buckets there are.
    #[error("row {0} comes before the line of the buckets")]
    RowBeforeBuckets(&'static str),
    /// A row of a name that kidled does not have.
    #[error("there is no row \"{0}\"")]
    UnknownRow(String),
    /// A row that is there twice.
    #[error("row {0} is there twice")]
    RowTwice(&'static str),
    /// A row that must be there: the file is cut off.
    #[error("row {0} is missing: the file is cut off")]
    NoRow(&'static str),
    /// A last line without its end: what stands there may be the beginning of something longer.
    #[error("the last line does not end: the file is cut off")]
    NoEnd,
    /// Fewer values than buckets.
    #[error("row {row} ends after {values} values of {buckets}")]
    TooFewValues {
        /// The row.
        row: &'static str,
        /// How many it has.
        values: usize,
        /// How many the header promises.
        buckets: usize,
    },
    /// More values than buckets.
    #[error("row {row} has more values than the {buckets} buckets of the header")]
    TooManyValues {
        /// The row.
        row: &'static str,
        /// How many the header promises.
        buckets: usize,
    },
}

const HEADERS: [&str; 6] =
    ["version", "page_scans", "slab_scans", "scan_period_in_seconds", "use_hierarchy", "buckets"];
const VERSION: usize = 0;
const PAGE_SCANS: usize = 1;
const PERIOD: usize = 3;
const BUCKETS: usize = 5;

/// A line with its number, which knows where a word of it stands.
#[derive(Clone, Copy)]
struct Line<'a> {
    text: &'a str,
    number: usize,
}

impl Line<'_> {
    /// `word` is a part of the line.
    fn error(&self, word: &str, problem: Problem) -> IdleInfoError {
        let offset = (word.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize);
        IdleInfoError { line: self.number, column: offset + 1, problem }
    }

    fn number(&self, word: &str) -> Result<u64, IdleInfoError> {
        word.parse().map_err(|_| {
            let digits = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
            let problem = if digits { Problem::TooLarge } else { Problem::NotANumber };
            self.error(word, problem(word.chars().take(64).collect()))
        })
    }
}

impl IdleInfo {
    /// Reads a file into this, in place of what it held. After an error it holds nothing.
    ///
    /// # Errors
    /// The text is not what a kernel with kidled writes; the error names line and column.
    pub fn parse(&mut self, text: &str) -> Result<(), IdleInfoError> {
        self.clear();
        self.read(text).inspect_err(|_| self.clear())
    }

    fn clear(&mut self) {
        self.version.clear();
        self.buckets.clear();
        self.cells.clear();
        (self.page_scans, self.scan_period_in_seconds, self.seen) = (0, 0, 0);
        (self.slab_scans, self.use_hierarchy) = (None, None);
    }

    fn read(&mut self, text: &str) -> Result<(), IdleInfoError> {
        let mut headers = 0u32;
        let mut last = Line { text: "", number: 0 };
        for (at, line) in text.lines().enumerate() {
            let line = Line { text: line, number: at + 1 };
            last = line;
            let trimmed = line.text.trim();
            if let Some(comment) = trimmed.strip_prefix('#') {
                self.header(line, comment, &mut headers)?;
            } else if !trimmed.is_empty() {
                self.cells(line, headers & (1 << BUCKETS) != 0)?;
            }
        }
        self.complete(headers).map_err(|problem| IdleInfoError {
            line: last.number + 1,
            column: 1,
            problem,
        })?;
        match text.ends_with('\n') {
            true => Ok(()),
            false => Err(last.error(&last.text[last.text.len()..], Problem::NoEnd)),
        }
    }

    /// `key: value`. What is none, such as the legend, and keys of a later kernel are passed over.
    fn header(&mut self, line: Line, text: &str, seen: &mut u32) -> Result<(), IdleInfoError> {
        let Some((key, value)) = text.split_once(':') else { return Ok(()) };
        let (key, value) = (key.trim(), value.trim());
        let name = if key == "scans" { "page_scans" } else { key };
        let Some(which) = HEADERS.iter().position(|header| *header == name) else { return Ok(()) };
        if *seen & (1 << which) != 0 {
            return Err(line.error(key, Problem::HeaderTwice(HEADERS[which])));
        }
        *seen |= 1 << which;
        match which {
            VERSION => self.version.push_str(value),
            BUCKETS => self.bucket_edges(line, value)?,
            _ => {
                let number = line.number(value)?;
                match which {
                    PAGE_SCANS => self.page_scans = number,
                    PERIOD => self.scan_period_in_seconds = number,
                    2 => self.slab_scans = Some(number),
                    _ => self.use_hierarchy = Some(number),
                }
            }
        }
        Ok(())
    }

    fn bucket_edges(&mut self, line: Line, value: &str) -> Result<(), IdleInfoError> {
        if value == "no valid bucket available" {
            return Ok(());
        }
        for word in value.split(',') {
            let word = word.trim();
            let edge = line.number(word)?;
            if self.buckets.last().is_some_and(|last| *last >= edge) {
                return Err(line.error(word, Problem::BucketOrder(edge)));
            }
            self.buckets.push(edge);
        }
        self.cells.resize(17 * self.buckets.len(), 0);
        Ok(())
    }

    fn cells(&mut self, line: Line, has_buckets: bool) -> Result<(), IdleInfoError> {
        let mut words = line.text.split_ascii_whitespace();
        let Some(name) = words.next() else { return Ok(()) };
        let Some(row) = IdleRow::named(name) else {
            let problem = Problem::UnknownRow(name.chars().take(64).collect());
            return Err(line.error(name, problem));
        };
        if !has_buckets {
            return Err(line.error(name, Problem::RowBeforeBuckets(row.name())));
        }
        if self.seen & (1 << row.index()) != 0 {
            return Err(line.error(name, Problem::RowTwice(row.name())));
        }
        let buckets = self.buckets.len();
        for at in 0..buckets {
            let Some(word) = words.next() else {
                let end = &line.text[line.text.trim_end().len()..];
                let row = row.name();
                return Err(line.error(end, Problem::TooFewValues { row, values: at, buckets }));
            };
            self.cells[row.index() * buckets + at] = line.number(word)?;
        }
        if let Some(extra) = words.next() {
            return Err(line.error(extra, Problem::TooManyValues { row: row.name(), buckets }));
        }
        self.seen |= 1 << row.index();
        Ok(())
    }

    /// Whether all is there that must be. A kernel that has never scanned slab may leave its row out.
    fn complete(&self, headers: u32) -> Result<(), Problem> {
        for which in [VERSION, PAGE_SCANS, PERIOD, BUCKETS] {
            if headers & (1 << which) == 0 {
                return Err(Problem::NoHeader(HEADERS[which]));
            }
        }
        let slab = self.slab_scans.is_some_and(|scans| scans > 0);
        let mut needed = IdleRow::all().filter(|row| *row != IdleRow::SLAB || slab);
        let missing = needed.find(|row| self.seen & (1 << row.index()) == 0);
        match missing {
            Some(row) if !self.buckets.is_empty() => Err(Problem::NoRow(row.name())),
            _ => Ok(()),
        }
    }
}
