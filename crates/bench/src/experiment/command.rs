//! A command in one line, taken apart as a shell would, but without its other powers.

/// The words of a command: quotes hold a word together, a backslash takes the next character as it is.
pub(super) fn words(text: &str) -> Result<Vec<String>, &'static str> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                let next = letters.next().ok_or("ends with a backslash")?;
                word.get_or_insert_default().push(next);
            }
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    if quote.is_some() {
        return Err("has a quote that is not closed");
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn a_command_is_taken_apart_as_a_shell_does() {
        let text = "sh -c 'echo \"a b\"; exit 3' x\\ y \"q\\\"r\" ''";
        assert_eq!(words(text).unwrap(), ["sh", "-c", "echo \"a b\"; exit 3", "x y", "q\"r", ""]);
        assert_eq!(words("  "), Ok(Vec::new()));
        assert!(words("echo 'a").is_err() && words("a \\").is_err());
    }
}
