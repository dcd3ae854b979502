//! A command in one line: words for a program, or, where it has a shell's syntax, a line for a shell.

/// What only a shell understands, where it stands outside of quotes.
const SYNTAX: &[char] = &[';', '|', '&', '<', '>', '`'];

/// What a command in one line runs: its words, or a shell that is given all of it.
pub(super) fn read(text: &str) -> Result<Vec<String>, &'static str> {
    let (words, is_for_a_shell) = split(text)?;
    if !is_for_a_shell {
        return Ok(words);
    }
    Ok(["sh", "-c", text.trim()].map(str::to_owned).to_vec())
}

/// The words of a command, as a shell takes them apart, and whether only a shell understands all of it. Quotes hold a
/// word together, a backslash takes the next character as it is.
fn split(text: &str) -> Result<(Vec<String>, bool), &'static str> {
    let (mut words, mut is_for_a_shell) = (Vec::new(), false);
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = text.chars().peekable();
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
            _ => {
                let opens = letter == '$' && letters.peek() == Some(&'(');
                is_for_a_shell |= quote.is_none() && (opens || SYNTAX.contains(&letter));
                word.get_or_insert_default().push(letter);
            }
        }
    }
    if quote.is_some() {
        return Err("has a quote that is not closed");
    }
    words.extend(word);
    Ok((words, is_for_a_shell))
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn a_command_is_taken_apart_as_a_shell_does() {
        let text = "sh -c 'echo \"a b\"; exit 3' x\\ y \"q\\\"r\" ''";
        assert_eq!(read(text).unwrap(), ["sh", "-c", "echo \"a b\"; exit 3", "x y", "q\"r", ""]);
        assert_eq!(read("  "), Ok(Vec::new()));
        assert!(read("echo 'a").is_err() && read("a \\").is_err());
    }

    #[test]
    fn what_only_a_shell_understands_is_given_to_one_as_it_is() {
        for line in [
            "while :; do dd if=/dev/zero of=/x; done",
            "sleep 20 && apk add 'stress-ng'",
            "cat /dev/zero | gzip",
            "a > /dev/null",
            "a < b",
            "echo $(date)",
            "echo `date`",
        ] {
            assert_eq!(read(line).unwrap(), ["sh", "-c", line]);
        }
        assert_eq!(read(" a; b\n").unwrap(), ["sh", "-c", "a; b"]);
        for (line, last) in
            [("x 'a;b'", "a;b"), ("x \"a|b\"", "a|b"), ("x a\\&b", "a&b"), ("x $HOME", "$HOME")]
        {
            assert_eq!(read(line).unwrap(), ["x", last], "what is quoted is no syntax");
        }
    }
}
