//! Lines out of a stream of bytes, none longer than a bound.

/// Collects bytes into lines. A longer line than the bound is dropped whole and counted, so a
/// stream without line ends costs no memory.
#[derive(Debug)]
pub(crate) struct Lines {
    most: usize,
    partial: Vec<u8>,
    skipping: bool,
    too_long: u64,
}

impl Lines {
    pub(crate) fn new(most: usize) -> Self {
        Self { most, partial: Vec::new(), skipping: false, too_long: 0 }
    }

    /// Hands every line that `bytes` completes to `take`.
    pub(crate) fn feed(&mut self, mut bytes: &[u8], mut take: impl FnMut(&str)) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.extend(&bytes[..end]);
            if !self.skipping {
                take(&String::from_utf8_lossy(&self.partial));
            }
            self.partial.clear();
            self.skipping = false;
            bytes = &bytes[end + 1..];
        }
        self.extend(bytes);
    }

    fn extend(&mut self, bytes: &[u8]) {
        if self.skipping {
            return;
        }
        if self.partial.len() + bytes.len() > self.most {
            self.partial = Vec::new();
            self.skipping = true;
            self.too_long += 1;
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }

    /// The line so far, whose end has not come.
    pub(crate) fn partial(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.partial)
    }

    /// Takes the unfinished line for finished; what is left of it until its end is dropped.
    pub(crate) fn finish_partial(&mut self) {
        self.partial.clear();
        self.skipping = true;
    }

    pub(crate) fn too_long(&self) -> u64 {
        self.too_long
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines_of(most: usize, pieces: &[&[u8]]) -> (Vec<String>, u64) {
        let mut lines = Lines::new(most);
        let mut seen = Vec::new();
        for piece in pieces {
            lines.feed(piece, |line| seen.push(line.to_owned()));
        }
        (seen, lines.too_long())
    }

    #[test]
    fn a_line_beyond_the_bound_is_dropped_whole_and_the_next_is_kept() {
        let (seen, too_long) = lines_of(4, &[b"ab", b"cde", b"fgh\nok\n", b"toolong\nyes\n"]);
        assert_eq!(seen, ["ok", "yes"]);
        assert_eq!(too_long, 2);
    }

    proptest! {
        #[test]
        fn how_the_bytes_are_cut_into_reads_changes_nothing(
            text in "[a-c\n]{0,60}", cuts in prop::collection::vec(1_usize..7, 0..40)
        ) {
            let (whole, _) = lines_of(8, &[text.as_bytes()]);
            let mut rest = text.as_bytes();
            let mut pieces = Vec::new();
            for cut in cuts {
                let (piece, tail) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = tail;
            }
            pieces.push(rest);
            prop_assert_eq!(lines_of(8, &pieces).0, whole);
        }
    }
}
