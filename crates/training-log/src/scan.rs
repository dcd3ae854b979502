//! Splits a line into fields: a key, and the numbers after it.
//!
//! The scanner knows no dialect. A field is words, then maybe `:` or `=`, then a number or several
//! with slashes between; pipes, commas, semicolons, braces and quotes divide; brackets before a
//! number are a log prefix unless they hold numbers themselves.

use crate::ansi;
use crate::key::is_evaluation_word;
use crate::number::{self, Quantity};
use crate::spelling::{self, Spelling};
use crate::unit::Unit;

/// More numbers after one key are read over.
const MAX_VALUES: usize = 8;

/// A field as it stands in the line.
#[derive(Debug)]
pub(crate) struct RawField<'l, 'v> {
    /// Empty for a number that no word precedes.
    pub(crate) key: &'l str,
    /// What the key means, where the scanner had to look that up.
    pub(crate) spelling: Option<&'static Spelling>,
    /// At least one.
    pub(crate) values: &'v [Quantity],
    /// A percentage in brackets after the value, as in `48.87GiB(51.44%)`.
    pub(crate) percent: Option<f64>,
    /// Whether `:` or `=` stood between key and value.
    pub(crate) anchored: bool,
    /// Whether the value is followed by the end or a divider, so that it was all there is.
    pub(crate) closed: bool,
    /// Whether the value stood in square brackets of its own.
    pub(crate) bracketed: bool,
}

/// Calls `field` for each field of the line. Returns whether words before the first field say that
/// the line reports an evaluation.
pub(crate) fn scan<'l>(line: &'l str, field: &mut impl FnMut(RawField<'l, '_>)) -> bool {
    let mut scanner = Scanner {
        line,
        bytes: line.as_bytes(),
        at: 0,
        key: None,
        anchor: Anchor::None,
        spelling: None,
        fields: 0,
        evaluation: false,
    };
    while scanner.at < scanner.bytes.len() {
        scanner.step(field);
    }
    scanner.evaluation
}

#[derive(Clone, Copy, PartialEq)]
enum Anchor {
    None,
    /// A colon: a word after it may be a value or the next key.
    Colon,
    /// An equals sign: a word right after it is a value.
    Equals,
}

struct Scanner<'l> {
    line: &'l str,
    bytes: &'l [u8],
    at: usize,
    /// Start and end of the words that a number would belong to.
    key: Option<(usize, usize)>,
    anchor: Anchor,
    /// What the key means, if it was looked up.
    spelling: Option<&'static Spelling>,
    fields: usize,
    evaluation: bool,
}

impl<'l> Scanner<'l> {
    fn step(&mut self, field: &mut impl FnMut(RawField<'l, '_>)) {
        let byte = self.bytes[self.at];
        match byte {
            b' ' | b'\t' | b'\r' => self.at = skip_spaces(self.bytes, self.at + 1),
            b'{' => self.brace(),
            b'|' => self.pipe(field),
            b',' | b';' | b'}' | b'\n' | b']' | b')' | b'>' | b'<' => self.divide(1),
            b':' | b'=' => self.anchor(byte),
            b'[' => self.square_bracket(field),
            b'(' => self.round_bracket(),
            b'"' | b'\'' | b'`' => self.quote(byte, field),
            _ if number::may_start(&self.bytes[self.at..]) => self.number(field, false),
            _ => self.word(field),
        }
    }

    /// A pipe, after which the dialects that print most lines have one of their keys and a colon.
    /// Only a short cut: word by word such a key is found as well.
    fn pipe(&mut self, field: &mut impl FnMut(RawField<'l, '_>)) {
        self.divide(1);
        self.at = skip_spaces(self.bytes, self.at);
        let rest = &self.bytes[self.at..];
        let rest = &rest[..rest.len().min(spelling::LONGEST + 2)];
        if let Some(colon) = memchr::memchr(b':', rest)
            && rest.get(colon + 1) == Some(&b' ')
            && let Some(key) = self.line.get(self.at..self.at + colon)
            && let Some(spelling) = spelling::find(key)
        {
            self.key = Some((self.at, self.at + colon));
            self.anchor = Anchor::Colon;
            self.at = skip_spaces(self.bytes, self.at + colon + 1);
            if number::may_start(&self.bytes[self.at..]) {
                self.spelling = Some(spelling);
                self.number(field, false);
            }
        }
    }

    /// Forgets the words so far and goes on `skip` bytes later.
    fn divide(&mut self, skip: usize) {
        self.note_prefix();
        self.key = None;
        self.anchor = Anchor::None;
        self.at += skip;
    }

    /// Words dropped before the first field may say that the line is about an evaluation.
    fn note_prefix(&mut self) {
        if self.fields == 0
            && let Some((start, end)) = self.key
        {
            self.evaluation |= speaks_of_evaluation(&self.bytes[start..end]);
        }
    }

    fn anchor(&mut self, byte: u8) {
        let Some((start, end)) = self.key else {
            self.at += 1;
            return;
        };
        let next = self.bytes.get(self.at + 1);
        // `main.py:12` is a place in the code and `s3://` an address; neither is a field.
        let is_place =
            next.is_some_and(u8::is_ascii_digit) && names_source(&self.bytes[start..end]);
        if byte == b':' && (is_place || self.bytes[self.at..].starts_with(b"://")) {
            let token = token_length(&self.bytes[self.at..]);
            self.divide(token);
            return;
        }
        if self.anchor == Anchor::None {
            self.anchor = if byte == b'=' { Anchor::Equals } else { Anchor::Colon };
        }
        self.at += 1;
    }

    fn square_bracket(&mut self, field: &mut impl FnMut(RawField<'l, '_>)) {
        let colour = ansi::bare_colour(&self.bytes[self.at..]);
        if colour > 0 {
            self.at += colour;
            return;
        }
        let Some(length) = memchr::memchr(b']', &self.bytes[self.at..]) else {
            return self.divide(1);
        };
        let inner = &self.bytes[self.at + 1..self.at + length];
        let close = self.at + length + 1;
        let numeric = inner.trim_ascii();
        if number::may_start(numeric) {
            let progress = numeric.iter().all(|b| {
                b.is_ascii_digit() || matches!(b, b'/' | b' ' | b'(' | b')' | b'%' | b'.')
            });
            if progress || self.anchor != Anchor::None {
                self.at += 1;
                while self.bytes[self.at] == b' ' {
                    self.at += 1;
                }
                self.number(field, true);
                self.divide(0);
                self.at = close.max(self.at);
                return;
            }
        }
        if holds_fields(inner) || tells_progress(inner) {
            return self.divide(1);
        }
        if self.anchor != Anchor::None && memchr::memchr2(b'(', b'[', inner).is_some() {
            self.at += 1;
            return;
        }
        if self.fields == 0 {
            self.evaluation |= is_evaluation_word(inner.trim_ascii());
        }
        self.divide(0);
        self.at = close;
    }

    /// A brace divides, unless it holds a key's value under the name of a part.
    fn brace(&mut self) {
        if self.key.is_some()
            && self.anchor != Anchor::None
            && let Some(value) = part_value(&self.bytes[self.at..])
        {
            self.at += value;
        } else {
            self.divide(1);
        }
    }

    fn round_bracket(&mut self) {
        let length = memchr::memchr(b')', &self.bytes[self.at..]);
        match (self.key, self.anchor, length) {
            // Part of the key: `elapsed time per iteration (ms)`.
            (Some((start, _)), Anchor::None, Some(length)) => {
                self.at += length + 1;
                self.key = Some((start, self.at));
            }
            // A list as a value: its first number counts.
            (Some(_), Anchor::Colon | Anchor::Equals, _) => self.at += 1,
            (None, _, Some(length))
                if !holds_fields(&self.bytes[self.at + 1..self.at + length]) =>
            {
                self.at += length + 1;
            }
            _ => self.divide(1),
        }
    }

    fn quote(&mut self, quote: u8, field: &mut impl FnMut(RawField<'l, '_>)) {
        if self.anchor == Anchor::None {
            self.at += 1;
            return;
        }
        let inner = self.at + 1;
        let close = memchr::memchr(quote, &self.bytes[inner..]).map(|length| inner + length);
        let Some(close) = close else { return self.divide(1) };
        self.at = inner;
        if number::read(&self.bytes[inner..close]).is_some() {
            self.number(field, false);
        }
        self.divide(0);
        self.at = self.at.max(close + 1);
    }

    /// A number, or something that starts like one.
    fn number(&mut self, field: &mut impl FnMut(RawField<'l, '_>), bracketed: bool) {
        let bare_name = self.key.is_some() && self.anchor == Anchor::None;
        let Some((first, length)) = number::read_after(&self.bytes[self.at..], bare_name) else {
            self.spelling = None;
            let token = token_length(&self.bytes[self.at..]);
            return self.divide(token);
        };
        let mut values = [first; MAX_VALUES];
        let mut count = 1;
        let mut at = self.at + length;
        loop {
            let slash = skip_spaces(self.bytes, at);
            if self.bytes.get(slash) != Some(&b'/') {
                break;
            }
            let next = skip_spaces(self.bytes, slash + 1);
            match self.bytes.get(next..).and_then(number::read) {
                Some((value, length)) => {
                    if count < MAX_VALUES {
                        values[count] = value;
                        count += 1;
                    }
                    at = next + length;
                }
                None => {
                    at = slash + 1;
                    break;
                }
            }
        }
        let (percent, at) = self.aside(at);
        let closed = is_closed(&self.bytes[at..]);
        let line = self.line;
        let key = self.key.map_or("", |(start, end)| &line[start..end]);
        let anchored = self.anchor != Anchor::None;
        let (values, spelling) = (&values[..count], self.spelling.take());
        field(RawField { key, spelling, values, percent, anchored, closed, bracketed });
        self.at = at;
        self.fields += usize::from(anchored || !key.is_empty());
        self.key = None;
        self.anchor = Anchor::None;
    }

    /// What stands in round brackets after a value: an average, a share, a remark.
    fn aside(&self, at: usize) -> (Option<f64>, usize) {
        let open = skip_spaces(self.bytes, at);
        if self.bytes.get(open) != Some(&b'(') {
            return (None, at);
        }
        let Some(length) = memchr::memchr(b')', &self.bytes[open..]) else { return (None, at) };
        let inner = self.bytes[open + 1..open + length].trim_ascii();
        let percent = match number::read(inner) {
            Some((Quantity { value, unit: Unit::Percent }, _)) => Some(value),
            _ => None,
        };
        (percent, open + length + 1)
    }

    fn word(&mut self, field: &mut impl FnMut(RawField<'l, '_>)) {
        let rest = &self.bytes[self.at..];
        let length = word_length(rest).max(1);
        let word = &rest[..length];
        // The first byte tells most words from those that mean something by themselves.
        if !word[0].is_ascii_lowercase() || matches!(word[0], b'n' | b'i' | b's') {
            if self.key.is_some() && self.is_not_finite(word) {
                return self.number(field, false);
            }
            if is_bullet(word) || is_level(word) {
                return self.divide(length);
            }
        }
        match (self.anchor, self.key) {
            (Anchor::None, key) => {
                let start = key.map_or(self.at, |(start, _)| start);
                self.at = self.plain_words(self.at + length);
                self.key = Some((start, self.at));
                return;
            }
            (Anchor::Equals, _) => return self.divide(length),
            (Anchor::Colon, _) if is_absent(word) => return self.divide(length),
            // `INFO: step: 20`: what looked like a value is the next key.
            (Anchor::Colon, _) => {
                self.note_prefix();
                self.key = Some((self.at, self.at + length));
                self.anchor = Anchor::None;
            }
        }
        self.at += length;
    }

    /// Where the words end that follow here, one space apart, and cannot be anything but words.
    fn plain_words(&self, mut at: usize) -> usize {
        while let [b' ', first, ..] = &self.bytes[at..]
            && first.is_ascii_lowercase()
            && !matches!(first, b'n' | b'i' | b's')
        {
            at += 1 + word_length(&self.bytes[at + 1..]);
        }
        at
    }

    /// `nan` is a value after `:` or `=`, and before a divider; in `number of nan iterations` it
    /// is a word.
    fn is_not_finite(&self, word: &[u8]) -> bool {
        let Some((_, length)) = number::read(word) else { return false };
        let after = self.at + length;
        length == word.len() && (self.anchor != Anchor::None || is_closed(&self.bytes[after..]))
    }
}

const ENDS_WORD: [bool; 256] = {
    let mut table = [false; 256];
    let ends = b" \t\r\n|,;{}[]()<>:=\"'`";
    let mut at = 0;
    while at < ends.len() {
        table[ends[at] as usize] = true;
        at += 1;
    }
    table
};

fn word_length(rest: &[u8]) -> usize {
    rest.iter().position(|byte| ENDS_WORD[usize::from(*byte)]).unwrap_or(rest.len())
}

fn skip_spaces(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at) == Some(&b' ') {
        at += 1;
    }
    at
}

/// Whether nothing more belongs to the value before this.
fn is_closed(rest: &[u8]) -> bool {
    match rest {
        [] | [b' ', b' ', ..] | [b' '] | [b':', ..] => true,
        [b' ', next, ..] | [next, ..] => {
            matches!(
                next,
                b'|' | b',' | b';' | b'}' | b']' | b')' | b'\t' | b'\n' | b'\r' | b'"' | b'\''
            )
        }
    }
}

/// Length of what only starts like a number: up to a space or divider.
fn token_length(rest: &[u8]) -> usize {
    rest.iter()
        .take_while(|b| {
            !matches!(b, b' ' | b'\t' | b'\n' | b'|' | b',' | b';' | b']' | b')' | b'}')
        })
        .count()
        .max(1)
}

/// Whether a bracket holds fields rather than a log prefix: something is set to a value, or it is
/// the rate of a progress bar.
fn holds_fields(inner: &[u8]) -> bool {
    let rate = || inner.windows(4).any(|window| matches!(window, b"it/s" | b"s/it"));
    let fields =
        memchr::memchr(b'=', inner).is_some() || (memchr::memchr(b'/', inner).is_some() && rate());
    fields
        && !inner.windows(3).any(|window| window == b"pid")
        && !inner.split(|byte| !byte.is_ascii_alphabetic()).any(is_level)
}

/// Whether a bracket tells how far training is: `[Step 3]`, `[epoch 1, iter 10/100]`.
fn tells_progress(inner: &[u8]) -> bool {
    let ends_in_number =
        matches!(inner, [b' ' | b'a'..=b'z' | b'A'..=b'Z', .., b'0'..=b'9' | b')']);
    ends_in_number && inner.split(|byte| *byte == b',').any(names_progress)
}

/// Whether this is plain words, the last of which counts iterations, and a number.
fn names_progress(part: &[u8]) -> bool {
    let Some(number) = part.iter().position(u8::is_ascii_digit) else { return false };
    let words = &part[..number];
    let plain = |byte: &u8| byte.is_ascii_alphabetic() || matches!(byte, b' ' | b'_' | b':');
    if !matches!(words.last(), Some(b' ' | b':')) || !words.iter().all(plain) {
        return false;
    }
    let last = words.split(|byte| !byte.is_ascii_alphabetic()).rfind(|word| !word.is_empty());
    let counts = |last: &[u8]| {
        ["step", "iter", "iteration"].iter().any(|word| last.eq_ignore_ascii_case(word.as_bytes()))
    };
    last.is_some_and(counts)
}

/// Where the number of `{'0_default': 72.5}` starts: a value by parts, of which the first counts.
/// None for what may be a field of its own.
fn part_value(rest: &[u8]) -> Option<usize> {
    let colon = memchr::memchr2(b':', b'}', rest).filter(|at| rest[*at] == b':')?;
    let name = rest[1..colon].trim_ascii();
    let name = match name {
        [b'\'' | b'"', name @ .., b'\'' | b'"'] => name,
        name => name,
    };
    let names_part =
        name.first().is_some_and(u8::is_ascii_digit) || [&b"default"[..], b"value"].contains(&name);
    let value = skip_spaces(rest, colon + 1);
    (names_part && number::read(&rest[value..]).is_some()).then_some(value)
}

/// Dashes and dots between the parts of a log prefix.
fn is_bullet(word: &[u8]) -> bool {
    word.iter().all(|byte| matches!(byte, b'-' | b'*' | b'#' | b'+' | b'.'))
}

fn is_level(word: &[u8]) -> bool {
    matches!(
        word,
        b"INFO"
            | b"WARN"
            | b"WARNING"
            | b"ERROR"
            | b"DEBUG"
            | b"NOTICE"
            | b"TRACE"
            | b"CRITICAL"
            | b"info"
            | b"stdout"
            | b"stderr"
    )
}

/// What is printed where there is no value.
fn is_absent(word: &[u8]) -> bool {
    ["n/a", "na", "none", "null"].iter().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
}

fn names_source(key: &[u8]) -> bool {
    [".py", ".cc", ".cpp", ".cu", ".rs", ".go", ".c", ".h", ".jl"]
        .iter()
        .any(|end| key.ends_with(end.as_bytes()))
}

fn speaks_of_evaluation(words: &[u8]) -> bool {
    words.split(|byte| !byte.is_ascii_alphabetic()).any(is_evaluation_word)
}
