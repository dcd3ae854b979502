//! Plain-text tables.

/// How a column is aligned.
#[derive(Clone, Copy)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Lays out rows under a header; the last column is not padded.
pub(crate) fn render(header: &[(&str, Align)], rows: &[Vec<String>]) -> String {
    let width = |i: usize| {
        let cells = rows.iter().map(|row| row[i].chars().count());
        cells.chain([header[i].0.chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let mut text = String::new();
    let names: Vec<String> = header.iter().map(|(name, _)| (*name).to_owned()).collect();
    for row in std::iter::once(&names).chain(rows) {
        let mut line = String::new();
        for (i, cell) in row.iter().enumerate() {
            let pad = " ".repeat(widths[i] - cell.chars().count());
            match header[i].1 {
                Align::Left => line += &format!("{cell}{pad}  "),
                Align::Right => line += &format!("{pad}{cell}  "),
            }
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}
