//! The experiment's file as it is kept: without what must not lie around.

const HIDDEN: &str = "***";
/// What is shorter is no secret, and would be found in every other word.
const SHORTEST: usize = 4;

/// The text without the values of its keys called password, and without these secrets wherever they stand.
pub(super) fn without_passwords(text: &str, secrets: &[&str]) -> String {
    let secrets = secrets.iter().map(|secret| secret.trim());
    let secrets = secrets.filter(|secret| secret.len() >= SHORTEST);
    let text = secrets.fold(text.to_owned(), |text, secret| text.replace(secret, HIDDEN));
    text.split_inclusive('\n').map(hide_values).collect()
}

fn hide_values(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("password") {
        out += before;
        out += "password";
        let quoted = after.trim_start_matches(['"', '\'']).trim_start_matches(' ');
        let Some(value) = quoted.strip_prefix(':') else {
            rest = after;
            continue;
        };
        out += &after[..after.len() - value.len()];
        let value = value.trim_start_matches(' ');
        let end = length(value);
        out += if end > 0 { " ***" } else { " " };
        rest = &value[end..];
    }
    out + rest
}

/// How long a value is that ends on its line; 0 where it begins on the next.
fn length(value: &str) -> usize {
    match value.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let mut is_escaped = false;
            let end = value[1..].find(|letter| {
                let ends = letter == quote && !is_escaped;
                is_escaped = letter == '\\' && quote == '"' && !is_escaped;
                ends
            });
            let end = end.map_or(value.trim_end().len(), |end| end + 2);
            // A quote within single quotes is written twice.
            end + if value[end..].starts_with(quote) { length(&value[end..]) } else { 0 }
        }
        Some('|' | '>') | None => 0,
        Some(_) => {
            let end = value.find([',', '}', '#', '\n']).unwrap_or(value.len());
            value[..end].trim_end().len()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_kept_however_it_is_written() {
        let text = "db: {user: u, password: s3cret, org: o}\npassword: \"x\"\nname: y\n";
        let expected = "db: {user: u, password: ***, org: o}\npassword: ***\nname: y\n";
        assert_eq!(without_passwords(text, &[]), expected);
        let text =
            "{password: \"a,b}\", org: o}\n'password' : 'it''s, #2' # why\npassword: plain # why\n";
        let expected = "{password: ***, org: o}\n'password' : *** # why\npassword: *** # why\n";
        assert_eq!(without_passwords(text, &[]), expected);
        let text = "password: |\n  long one\npassword: \"a\\\"b\"\n# a password is needed\npassword:\n  \"lo";
        let expected =
            "password: |\n  ***\npassword: ***\n# a password is needed\npassword: \n  \"lo";
        assert_eq!(without_passwords(text, &["long one\n", "lo"]), expected);
    }
}
