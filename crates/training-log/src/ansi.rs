//! Takes terminal escape sequences out of a line.
//!
//! Only what follows a real escape byte is a sequence: `[main.py` and `[7B` are text. A code that
//! lost its escape byte is left to the scanner, which reads over it where it cannot be a prefix.

use std::borrow::Cow;

const ESC: u8 = 0x1b;

/// The line without its escape sequences; borrowed where there are none.
pub(crate) fn strip(line: &str) -> Cow<'_, str> {
    let bytes = line.as_bytes();
    let Some(first) = memchr::memchr(ESC, bytes) else { return Cow::Borrowed(line) };
    let mut kept = String::with_capacity(line.len());
    kept.push_str(&line[..first]);
    let mut at = first;
    loop {
        at = sequence_end(bytes, at);
        let next = memchr::memchr(ESC, &bytes[at..]).map_or(bytes.len(), |offset| at + offset);
        kept.push_str(&line[at..next]);
        if next == bytes.len() {
            return Cow::Owned(kept);
        }
        at = next;
    }
}

/// Where the sequence that starts with the escape at `start` ends. Every byte that can end one is
/// ASCII, so the place is a character boundary.
fn sequence_end(bytes: &[u8], start: usize) -> usize {
    let body = start + 1;
    match bytes.get(body) {
        Some(b'[') => control_end(bytes, body + 1),
        Some(b']') => command_end(bytes, body + 1),
        // Two-byte sequences (ECMA-48 Fp, Fe, Fs).
        Some(0x30..=0x7e) => body + 1,
        _ => body,
    }
}

/// ECMA-48 5.4: parameter bytes 30-3f, intermediate bytes 20-2f, one final byte 40-7e. A sequence
/// cut short ends where the first byte that does not belong to it stands.
fn control_end(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(0x30..=0x3f)) {
        at += 1;
    }
    while matches!(bytes.get(at), Some(0x20..=0x2f)) {
        at += 1;
    }
    if matches!(bytes.get(at), Some(0x40..=0x7e)) { at + 1 } else { at }
}

/// An operating system command (window titles, links) ends with BEL or ESC \; one that never ends
/// is not taken to be a command, so that it cannot swallow the line.
fn command_end(bytes: &[u8], start: usize) -> usize {
    let end = bytes[start..].iter().position(|&byte| byte == 0x07 || byte == ESC);
    match end.map(|offset| start + offset) {
        Some(at) if bytes[at] == 0x07 => at + 1,
        Some(at) if bytes.get(at + 1) == Some(&b'\\') => at + 2,
        _ => start,
    }
}

/// Length of a colour code at the start of `text` whose escape byte was lost on the way, as in
/// `[31mstep`; zero for anything else.
pub(crate) fn bare_colour(text: &[u8]) -> usize {
    let [b'[', rest @ ..] = text else { return 0 };
    let digits = rest.iter().take_while(|b| b.is_ascii_digit() || **b == b';').count();
    if digits > 0 && rest.get(digits) == Some(&b'm') { digits + 2 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::strip;

    #[test]
    fn colours_go_and_text_that_looks_like_them_stays() {
        for (line, expected) in [
            ("plain", "plain"),
            ("\x1b[32m[20251023 12:39:12]\x1b[0m[rank-63/64]", "[20251023 12:39:12][rank-63/64]"),
            ("\x1b[0m[main.py:12] [7B] x", "[main.py:12] [7B] x"),
            ("[main.py [7B [0m", "[main.py [7B [0m"),
            ("\x1b[38;5;196mloss\x1b[m", "loss"),
            ("\x1b[38:2:1:2:3mloss\x1b[K", "loss"),
            ("\x1b]8;;http://x\x07link\x1b]8;;\x1b\\!", "link!"),
            ("\x1b(Bx", "(Bx"),
            ("cut \x1b[31", "cut "),
            ("cut \x1b", "cut "),
            ("\x1bé", "é"),
            ("\x1b[3é", "é"),
        ] {
            assert_eq!(strip(line), expected, "{line:?}");
        }
    }
}
