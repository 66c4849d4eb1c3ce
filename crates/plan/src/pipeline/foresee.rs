//! What a chain is about to read: the leaves of its ranges, and as many look-ups as rows are expected.

use std::ops::Bound;

use saki_base::{Part, PartKind};
use saki_catalog::TableAccess;
use saki_exec::plan::KeyRange;
use saki_store::Database;

use crate::access::chain::{Chain, Origin};
use crate::node::{Forecast, Plan, QueryEnv, statistics_of};

/// A chain that stops at a limit says nothing: how far it comes is not known. `rows`: that it is expected to yield.
pub fn of_chain(env: &QueryEnv, chain: &Chain, child: Option<&Plan>, mut rows: f64, forecast: &mut Forecast) {
    let Some(database) = forecast.database(env).filter(|_| chain.limit.is_none()) else { return };
    match &chain.origin {
        Origin::Ranges { access, ranges, .. } => ranges.iter().for_each(|range| {
            of_range(access, range, &database, forecast);
        }),
        Origin::Rows { .. } => {
            let of_child = child.and_then(|child| statistics_of(child.as_ref()).ok());
            let known = of_child.and_then(|it| it.num_rows.get_value().copied());
            rows = rows.max(known.unwrap_or(0) as f64);
        }
    }
    for link in &chain.links {
        lookups(&link.access, rows, forecast);
    }
}

/// The leaves of a range, if what is above them is in memory; of a whole tree in any case.
fn of_range(access: &TableAccess, range: &KeyRange, database: &Database, forecast: &mut Forecast) {
    let tree = access.tree.tree;
    if range.low.is_none() && range.high.is_none() {
        forecast.whole(Part::new(tree, PartKind::Inner));
        forecast.whole(Part::new(tree, PartKind::Leaves));
        return;
    }
    let low = range.low.as_deref().map_or(Bound::Unbounded, Bound::Included);
    let high = range.high.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
    let mut pages = Vec::new();
    let is_known = database.leaves(&access.table, access.index, (low, high), &mut |page| pages.push(page));
    // Where some of what is above them is not in memory, which they are is not known.
    if is_known {
        forecast.pages(database, pages);
    }
}

/// As many look-ups as there are rows, anywhere in a tree.
fn lookups(access: &TableAccess, rows: f64, forecast: &mut Forecast) {
    forecast.lookups(Part::new(access.tree.tree, PartKind::Inner), rows);
    forecast.lookups(Part::new(access.tree.tree, PartKind::Leaves), rows);
}
