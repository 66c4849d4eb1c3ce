//! How well plans say what they are about to read.

use saki_report::Report;

use super::runs::{Bench, Way};

/// Pages over all queries, each run cold.
#[derive(Default)]
pub struct Prediction {
    predicted: u64,
    read: u64,
    hit: u64,
}

impl Prediction {
    pub fn of(bench: &Bench<'_>, way: &Way) -> Result<Self, String> {
        let mut all = Self::default();
        for told in bench.explained(way)? {
            let line = told.iter().find(|line| line.contains("pages predicted"));
            let line = line.ok_or("EXPLAIN ANALYZE does not say what was predicted")?;
            let numbers = line.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse::<u64>().ok());
            let [predicted, read, hit] = numbers.take(3).collect::<Vec<_>>()[..] else {
                return Err(format!("{line}: has no three numbers"));
            };
            all.predicted += predicted;
            all.read += read;
            all.hit += hit;
        }
        Ok(all)
    }

    pub fn report(&self, name: &str, report: &mut Report) {
        report.summarise(format!("{name}_recall"), self.hit as f64 / self.read as f64);
        report.summarise(format!("{name}_precision"), self.hit as f64 / self.predicted as f64);
    }
}
