//! What the turns of the join come to: a line for each selectivity, the ratio to the best rival, the chart.

use std::fmt;
use std::path::Path;

use saki::plot::{Axis, Chart, Series};
use serde_json::{Value, json};

use crate::plot::save;
use saki_report::{Report, figure};

/// Seconds of all engines over the same customers, ours first; `None` for one that was not asked again.
#[derive(Clone, Default, Debug)]
pub struct Turn {
    pub cold: Vec<Option<f64>>,
    pub hot: Vec<Option<f64>>,
}

/// One selectivity.
#[derive(Clone, Debug)]
pub struct Cell {
    percent: f64,
    engines: Vec<String>,
    pub turns: Vec<Turn>,
}

/// Cold or hot seconds of a turn.
type Temperature = fn(&Turn) -> &[Option<f64>];
const COLD: Temperature = |turn| &turn.cold;
const HOT: Temperature = |turn| &turn.hot;

impl Cell {
    pub fn new(percent: f64, engines: &[String]) -> Self {
        Self { percent, engines: engines.to_vec(), turns: Vec::new() }
    }

    pub fn title(engines: &[String]) -> String {
        let mut title = format!("{:>10}", "percent");
        for name in engines {
            let name: String = name.chars().take(14).collect();
            title += &format!("{:>16}{:>10}", format!("{name} cold"), "hot");
        }
        title + &format!("{:>12}{:>10}", "cold ratio", "hot")
    }

    /// Seconds that an engine has taken so far.
    pub fn spent(&self, engine: usize) -> f64 {
        self.turns.iter().flat_map(|turn| [turn.cold[engine], turn.hot[engine]]).flatten().sum()
    }

    pub fn to_json(&self) -> Value {
        let engine = |(position, name): (usize, &String)| {
            let all = |of: Temperature| self.turns.iter().map(|turn| of(turn)[position]).collect::<Vec<_>>();
            json!({
                "engine": name, "cold_seconds": self.median(COLD, position), "hot_seconds": self.median(HOT, position),
                "all_cold_seconds": all(COLD), "all_hot_seconds": all(HOT),
            })
        };
        json!({
            "percent": self.percent, "cold_over_best_rival": self.over_best_rival(COLD),
            "hot_over_best_rival": self.over_best_rival(HOT),
            "engines": self.engines.iter().enumerate().map(engine).collect::<Vec<_>>(),
        })
    }

    fn median(&self, of: Temperature, engine: usize) -> Option<f64> {
        median(self.turns.iter().filter_map(|turn| of(turn)[engine]))
    }

    /// The median, over the turns, of our time over the best rival's.
    fn over_best_rival(&self, of: Temperature) -> Option<f64> {
        median(self.turns.iter().filter_map(|turn| {
            let (ours, theirs) = of(turn).split_first()?;
            Some((*ours)? / theirs.iter().flatten().copied().min_by(f64::total_cmp)?)
        }))
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |value: Option<f64>| value.map_or_else(String::new, figure);
        write!(f, "{:>10}", self.percent)?;
        for engine in 0..self.engines.len() {
            write!(f, "{:>16}{:>10}", show(self.median(COLD, engine)), show(self.median(HOT, engine)))?;
        }
        write!(f, "{:>12}{:>10}", show(self.over_best_rival(COLD)), show(self.over_best_rival(HOT)))
    }
}

/// The ratio of the selectivity that is worst for us.
pub fn summarise(cells: &[Cell], report: &mut Report) {
    for (name, of) in [("worst_over_best_rival", COLD), ("worst_hot_over_best_rival", HOT)] {
        let ratios = cells.iter().filter_map(|cell| cell.over_best_rival(of));
        if let Some(worst) = ratios.max_by(f64::total_cmp) {
            report.summarise(name, worst);
        }
    }
}

/// Cold seconds over selectivity, a line for each engine.
pub fn plot(path: &Path, cells: &[Cell], scale: f64) -> Result<(), String> {
    let mut chart = Chart::new("Three-table join, cold, against other engines")
        .subtitle(format!("customer, orders, lineitem; TPC-H scale factor {scale}"))
        .x(Axis::log("customers selected, percent"))
        .y(Axis::log("seconds"));
    let engines = cells.first().map_or(&[][..], |cell| &cell.engines);
    for (position, name) in engines.iter().enumerate() {
        let points = cells.iter().filter_map(|cell| Some((cell.percent, cell.median(COLD, position)?)));
        chart = chart.series(Series::new(name, points.collect()));
    }
    save(&chart, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_rival_of_each_turn_is_the_one_compared_with() {
        let mut cell = Cell::new(1.0, &["saki", "one", "other"].map(String::from));
        let turn =
            |ours, one, other| Turn { cold: vec![Some(ours), one, other], hot: vec![Some(1.0), Some(2.0), None] };
        cell.turns = vec![turn(1.0, Some(2.0), Some(4.0)), turn(3.0, Some(2.0), Some(1.0)), turn(2.0, Some(2.0), None)];
        assert_eq!(cell.over_best_rival(COLD), Some(1.0));
        assert_eq!(cell.over_best_rival(HOT), Some(0.5));
        assert_eq!(cell.spent(2), 5.0);
    }
}
