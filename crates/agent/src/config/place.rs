//! Where in a TOML text a key stands.

/// The line, from 1, on which `key` (such as `sampling.period`) is set; `None` if it is not.
pub(super) fn line_of(text: &str, key: &str) -> Option<usize> {
    let mut table = String::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            table = format!("{}.", header.trim());
            continue;
        }
        let Some((name, _)) = line.split_once('=') else { continue };
        if format!("{table}{}", name.trim()) == key {
            return Some(number + 1);
        }
    }
    None
}

/// The line, from 1, of a byte offset.
pub(super) fn line_at(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_in_its_table_only() {
        let text = "a = 1\n[x]\n# period = 0\nperiod = 2\n[x.y]\nperiod = 3\n";
        assert_eq!(line_of(text, "a"), Some(1));
        assert_eq!(line_of(text, "x.period"), Some(4));
        assert_eq!(line_of(text, "x.y.period"), Some(6));
        assert_eq!(line_of(text, "period"), None);
    }
}
