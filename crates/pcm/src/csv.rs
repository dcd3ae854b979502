//! Rows of `pcm -csv` and `pcm-memory -csv`.

use crate::error::PcmError;
use crate::metrics::{NodeMetrics, share};
use crate::time::LocalTime;
use std::time::Duration;

/// Longest part of a strange line that an error repeats.
const EXCERPT: usize = 80;

/// One row: what was measured, the time it covers, and the local time it was printed with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// The node's metrics.
    pub metrics: NodeMetrics,
    /// Time the row covers: since the row before, or the configured interval.
    pub covers: Duration,
    /// When, by the clock of whoever reads it on this machine's wall.
    pub local_time: Option<LocalTime>,
}

/// Reads PCM's CSV line by line. Pure: no I/O, no clock.
///
/// The header is two rows, groups over names. Names repeat (`IPC` of the system, of each socket, of each core), so
/// a column is known by both. A new header may come at any time and replaces the old one.
#[derive(Debug)]
pub struct CsvParser {
    interval: Duration,
    /// The line before this one: a header's group row is only known as such by what follows.
    previous: String,
    header: Option<Header>,
    last_time: Option<LocalTime>,
}

#[derive(Debug)]
struct Header {
    fields: usize,
    columns: Vec<(usize, Column)>,
}

/// The columns a node metric is made from. Units are PCM's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Ipc,
    /// Unhalted cycles per tick of the nominal clock.
    Freq,
    /// The same while not halted.
    ActiveFreq,
    /// GHz.
    CoreFreq,
    L3Hit,
    /// Misses per instruction.
    L3Mpi,
    /// 10^9 bytes in the interval.
    Read,
    Write,
    /// KiB; one column per socket.
    SocketL3Occupancy,
    /// Per cent of time in C0.
    C0Residency,
    /// 10^6 bytes per second.
    MemoryRead,
    MemoryWrite,
    MemoryTotal,
    SocketMemoryRead,
    SocketMemoryWrite,
}

impl Column {
    fn of(group: &str, name: &str) -> Option<Self> {
        let socket = |prefix: &str| {
            group.strip_prefix(prefix).is_some_and(|number| number.trim().parse::<u32>().is_ok())
        };
        Some(match (group, name) {
            ("System", "IPC") => Self::Ipc,
            ("System", "FREQ") => Self::Freq,
            ("System", "AFREQ") => Self::ActiveFreq,
            ("System", "CFREQ") => Self::CoreFreq,
            ("System", "L3HIT") => Self::L3Hit,
            ("System", "L3MPI") => Self::L3Mpi,
            ("System", "READ") => Self::Read,
            ("System", "WRITE") => Self::Write,
            ("System Core C-States", "C0res%") => Self::C0Residency,
            ("System", "Read" | "DRAMRead") => Self::MemoryRead,
            ("System", "Write" | "DRAMWrite") => Self::MemoryWrite,
            ("System", "Memory") => Self::MemoryTotal,
            (_, "L3OCC") if socket("Socket") => Self::SocketL3Occupancy,
            (_, "Mem Read (MB/s)") if socket("SKT") => Self::SocketMemoryRead,
            (_, "Mem Write (MB/s)") if socket("SKT") => Self::SocketMemoryWrite,
            _ => return None,
        })
    }
}

impl CsvParser {
    /// A parser for output printed every `interval`, as the command was told.
    #[must_use]
    pub fn new(interval: Duration) -> Self {
        Self { interval, previous: String::new(), header: None, last_time: None }
    }

    /// Takes the next line. Headers, empty lines and the banner before the first header yield no row.
    ///
    /// # Errors
    /// If the line should have been a row and is not. The parser can go on with the next line.
    pub fn line(&mut self, line: &str) -> Result<Option<Row>, PcmError> {
        let line = line.trim().trim_start_matches('\u{feff}');
        if line.is_empty() {
            return Ok(None);
        }
        if is_names_row(line) {
            return self.take_header(line).map(|()| None);
        }
        let fields: Vec<&str> = fields(line);
        let dated = fields.len() > 2 && LocalTime::parse(fields[0], fields[1]).is_some();
        if !dated {
            self.previous = line.to_owned();
            let garbage = self.header.is_some() && !is_groups_row(line);
            return if garbage { Err(not_a_row(line)) } else { Ok(None) };
        }
        self.row(&fields).map(Some)
    }

    /// Whether `line`, of which the end may be missing, already holds as many fields as the header.
    ///
    /// `pcm` ends a row only when it begins the next; this spares waiting an interval for it.
    #[must_use]
    pub fn is_whole_row(&self, line: &str) -> bool {
        let dated = line.starts_with(|c: char| c.is_ascii_digit());
        let whole = |header: &Header| line.ends_with(',') && fields(line).len() == header.fields;
        dated && self.header.as_ref().is_some_and(whole)
    }

    fn take_header(&mut self, names: &str) -> Result<(), PcmError> {
        let groups = std::mem::take(&mut self.previous);
        let (groups, names) = (fields(&groups), fields(names));
        self.header = None;
        self.last_time = None;
        if groups.len() != names.len() {
            return Err(PcmError::HeaderMismatch { groups: groups.len(), names: names.len() });
        }
        let column = |(at, (group, name)): (usize, (&&str, &&str))| {
            Column::of(group, name).map(|column| (at, column))
        };
        let columns: Vec<_> = groups.iter().zip(&names).enumerate().filter_map(column).collect();
        if columns.is_empty() {
            return Err(PcmError::NothingKnown { columns: names.len() });
        }
        self.header = Some(Header { fields: names.len(), columns });
        Ok(())
    }

    fn row(&mut self, fields: &[&str]) -> Result<Row, PcmError> {
        let header = self.header.as_ref().ok_or(PcmError::NoHeader)?;
        if fields.len() != header.fields {
            return Err(PcmError::FieldCount { expected: header.fields, got: fields.len() });
        }
        let local_time = LocalTime::parse(fields[0], fields[1]);
        let since_last = self.last_time.zip(local_time).map(|(last, now)| now.seconds_since(&last));
        self.last_time = local_time;
        // A clock set back, summer time or a lost row make the difference senseless.
        let usual = self.interval.as_secs_f64();
        let plausible = since_last.filter(|s| (usual * 0.5..=usual * 2.0).contains(s));
        let seconds = plausible.unwrap_or(usual);
        let values = Values { header, fields };
        Ok(Row {
            metrics: values.metrics(seconds),
            covers: Duration::from_secs_f64(seconds),
            local_time,
        })
    }
}

struct Values<'a> {
    header: &'a Header,
    fields: &'a [&'a str],
}

impl Values<'_> {
    fn each(&self, wanted: Column) -> impl Iterator<Item = Option<f64>> + '_ {
        let columns = self.header.columns.iter().filter(move |(_, column)| *column == wanted);
        columns.map(|(at, _)| measured(self.fields[*at]))
    }

    fn get(&self, column: Column) -> Option<f64> {
        self.each(column).next()?
    }

    /// The sum over sockets; absent if any is, because a part is not the node.
    fn sum(&self, column: Column) -> Option<f64> {
        let sum: Option<f64> = self.each(column).sum();
        sum.filter(|_| self.each(column).next().is_some())
    }

    fn metrics(&self, seconds: f64) -> NodeMetrics {
        let rate = |column| self.get(column).map(|gigabytes| gigabytes * 1e9 / seconds);
        let megabytes = |system, socket| {
            self.get(system).or_else(|| self.sum(socket)).map(|megabytes| megabytes * 1e6)
        };
        let active = self.get(Column::Freq).zip(self.get(Column::ActiveFreq));
        let unhalted = active.filter(|(_, active)| *active > 0.0).map(|(all, active)| all / active);
        let c0 = self.get(Column::C0Residency).map(|percent| percent / 100.0);
        NodeMetrics {
            cpu_util: c0.or(unhalted).and_then(share),
            ipc: self.get(Column::Ipc),
            freq_mhz: self.get(Column::CoreFreq).map(|gigahertz| gigahertz * 1e3),
            mem_bw_read: rate(Column::Read)
                .or_else(|| megabytes(Column::MemoryRead, Column::SocketMemoryRead)),
            mem_bw_write: rate(Column::Write)
                .or_else(|| megabytes(Column::MemoryWrite, Column::SocketMemoryWrite)),
            mem_bw_total: self.get(Column::MemoryTotal).map(|megabytes| megabytes * 1e6),
            cache_miss: self.get(Column::L3Hit).and_then(|hit| share(1.0 - hit)),
            llc_mpki: self.get(Column::L3Mpi).map(|misses| misses * 1e3),
            llc_occupancy: self.sum(Column::SocketL3Occupancy).map(|kib| kib * 1024.0),
        }
        .with_total()
    }
}

/// PCM prints `N/A`, `nan`, `-nan`, `inf`, nothing, or (for a counter that is not there) a
/// negative number; none of these was measured.
fn measured(field: &str) -> Option<f64> {
    field.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0)
}

/// PCM ends most rows with a comma, some versions do not.
fn fields(line: &str) -> Vec<&str> {
    line.trim_end().strip_suffix(',').unwrap_or(line.trim_end()).split(',').map(str::trim).collect()
}

fn is_names_row(line: &str) -> bool {
    line.starts_with("Date,Time,")
}

fn is_groups_row(line: &str) -> bool {
    line.starts_with(",,") || line.starts_with("System,System,")
}

fn not_a_row(line: &str) -> PcmError {
    PcmError::NotARow { line: line.chars().take(EXCERPT).collect() }
}
