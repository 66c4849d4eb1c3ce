//! What the engine itself counts of the three-table join, from `EXPLAIN ANALYZE`.

use std::sync::Arc;

use saki::experiment::{Join, Mode};
use saki_sql::{Database, Session};
use serde::Serialize;
use tokio::runtime::Runtime;

use crate::data::tpch::{lines, rows_of, text};

/// Sums over the stages of the join's pipelines.
#[derive(Clone, Copy, Default, Debug, Serialize)]
pub struct Counts {
    /// Pages looked at, wherever they came from.
    pub visits: f64,
    pub pages_read: f64,
    /// Lookups.
    pub probes: f64,
}

/// Runs the join once more, cold, for the engine's own counts.
pub fn counts(database: &Arc<Database>, runtime: &Runtime, mode: Mode, join: &Join) -> Result<Counts, String> {
    let session = Session::new(database);
    mode.apply(&session).map_err(text)?;
    database.drop_caches();
    let sql = format!("EXPLAIN ANALYZE {}", join.sql());
    let plan = lines(&runtime.block_on(rows_of(&session, &sql))?)?.join("\n");
    let sum = |name| figures(&plan, name).sum();
    Ok(Counts { visits: sum(" visits="), pages_read: sum(" pages_read="), probes: sum("probes=") })
}

/// The numbers that follow `name` in a plan.
pub fn figures<'a>(plan: &'a str, name: &'a str) -> impl Iterator<Item = f64> + 'a {
    plan.match_indices(name).filter_map(move |(at, _)| {
        let rest = &plan[at + name.len()..];
        let end = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_in_a_plan() {
        let plan = "stage 0: read\n  probes=1 visits=12 pages_read=9\nstage 1:\n  probes=7 visits=30 pages_read=30\n";
        assert_eq!(figures(plan, " visits=").sum::<f64>(), 42.0);
        assert_eq!(figures(plan, "probes=").collect::<Vec<_>>(), [1.0, 7.0]);
    }
}
