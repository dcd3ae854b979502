//! DuckDB and Polars beside us: the same files, the same questions, the same values.

use super::{alone, child, questions, times};
use crosstalk_figure::Figure;
use serde_json::Value;
use std::error::Error;
use std::path::Path;
use std::process::Command;

const RIVALS: [(&str, &str); 2] = [("DuckDB", "duckdb"), ("Polars", "polars")];

pub(super) fn figures(folder: &Path) -> Result<Vec<Figure>, Box<dyn Error>> {
    let answers = tempfile::tempdir()?;
    let into = answers.path().to_str().ok_or("no text")?;
    let times = times().to_string();
    let ours = alone("--ours", folder, &["--answers", into, "--times", &times, "--tell"])?;
    let asked = answers.path().join("questions.json");
    std::fs::write(&asked, ours["questions"].to_string())?;
    let rivals = ask(folder, answers.path(), &times)?;
    let (mut figures, mut sums, mut worst) = (Vec::new(), [Some(0.0); 3], (String::new(), 0.0));
    for name in questions::names() {
        let own = ours["seconds"][&name].as_f64();
        let own = own.ok_or_else(|| format!("{name}: we do not answer"))?;
        let mut times = vec![Some(own)];
        for (who, key) in RIVALS {
            figures.extend(wrong(&name, who, &rivals[key]));
            times.push(rivals[key]["seconds"][&name].as_f64());
        }
        for (sum, time) in sums.iter_mut().zip(&times) {
            *sum = sum.zip(*time).map(|(sum, time)| sum + time);
        }
        let (text, ratio) = beside(&times, 1e3, "ms");
        if ratio.is_none_or(|ratio| ratio > worst.1) {
            worst = (name.clone(), ratio.unwrap_or(f64::INFINITY));
        }
        let is_met = ratio.is_some_and(|ratio| ratio <= 1.5);
        figures.push(Figure::new(name, text).against("at most 1.5 x", is_met));
    }
    let (text, ratio) = beside(&sums, 1.0, "s");
    let is_met = ratio.is_some_and(|ratio| ratio <= 1.0);
    figures.push(Figure::new("all ten", text).against("not slower than the faster", is_met));
    let text = format!("{:.2} x, {}", worst.1, worst.0);
    let worst = Figure::new("the worst beside the faster of the two", text)
        .against("at most 1.5 x", worst.1 <= 1.5);
    figures.push(worst);
    Ok(figures)
}

/// That a rival does not answer, or otherwise than we do.
fn wrong(name: &str, who: &str, answered: &Value) -> Option<Figure> {
    let said = |key: &str| answered[key][name].as_str().map(|text| text.replace(['\n', '|'], " "));
    if let Some(why) = said("failed") {
        return Some(Figure::new(name, format!("{who} does not answer: {why}")));
    }
    let text = format!("{who} answers otherwise: {}", said("differs")?);
    Some(Figure::new(name, text).against("the same values", false))
}

/// Our time and those of rivals, and how many times the fastest of them ours is, if one of them answered.
fn beside(times: &[Option<f64>], scale: f64, unit: &str) -> (String, Option<f64>) {
    let shown = |time: &Option<f64>| {
        time.map_or("no answer".to_owned(), |time| format!("{:.3} {unit}", scale * time))
    };
    let rivals = RIVALS.iter().zip(&times[1..]);
    let rivals: Vec<String> =
        rivals.map(|((who, _), time)| format!("{who} {}", shown(time))).collect();
    let fastest = times[1..].iter().flatten().copied().min_by(f64::total_cmp);
    let ratio = times[0].zip(fastest).map(|(own, fastest)| own / fastest);
    let told = ratio.map_or(String::new(), |ratio| format!(": {ratio:.2} x"));
    (format!("{}; {}{told}", shown(&times[0]), rivals.join(", ")), ratio)
}

fn ask(folder: &Path, answers: &Path, times: &str) -> Result<Value, Box<dyn Error>> {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(own.join("../../target/readers/bin/python"));
    command.arg(own.join("benches/beside_duckdb/rivals.py")).arg(folder).arg(answers).arg(times);
    child(&mut command)
}
