//! Rows of wide tables: 8 192 of 60 KB are 480 MB, which every join and sort would make before anybody could count
//! them. Batches of such rows are small.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};

use super::narrow::BATCH_BYTES;
use super::tracked::Untracked;
use crate::node::{QueryEnv, find};

/// Rows of a batch of any operator of a plan: those of the settings, or fewer where the texts that its scans read fill
/// a batch with fewer. A power of two then.
pub fn batch_rows(plan: &Untracked, env: &QueryEnv) -> usize {
    let mut bytes = 0.0;
    let walked = plan.plan().apply(|plan| {
        let tables = find(plan.as_ref()).map(|node| node.text_tables()).unwrap_or_default();
        bytes += tables.into_iter().map(|table| env.row_bytes(table)).sum::<f64>();
        Ok(TreeNodeRecursion::Continue)
    });
    let fitting = (BATCH_BYTES as f64 / f64::max(bytes, 1.0)) as usize;
    match walked.is_err() || fitting >= env.settings.batch_rows {
        true => env.settings.batch_rows,
        false => 1 << fitting.max(1).ilog2(),
    }
}

#[cfg(test)]
mod tests {
    use saki_base::DataType;
    use saki_base::value::Value;

    use super::*;
    use crate::fixture::{Fixture, TableBuilder};

    #[test]
    fn rows_with_long_texts_come_in_small_batches() {
        let fixture = Fixture::new();
        let table = |name: &str| {
            TableBuilder::new(name).column("id", DataType::Int8).column("text", DataType::Text).key(&["id"])
        };
        let row = |bytes: usize| move |id: i64| vec![Value::Int8(id), Value::Text("x".repeat(bytes))];
        fixture.load(table("wide"), &(0..50).map(row(6_000)).collect::<Vec<_>>());
        fixture.load(table("narrow"), &(0..5_000).map(row(10)).collect::<Vec<_>>());
        let env = fixture.default_env();
        let rows = |sql: &str| batch_rows(&fixture.plan(&env, sql), &env);
        assert_eq!(rows("SELECT * FROM narrow"), env.settings.batch_rows);
        assert_eq!(rows("SELECT id FROM wide ORDER BY id + 1"), env.settings.batch_rows, "no texts");
        let wide = rows("SELECT * FROM wide");
        assert!((1024..=2048).contains(&wide), "{wide}");
        let joined = rows("SELECT * FROM wide a JOIN wide b ON a.id + 1 = b.id + 2 JOIN narrow c ON c.id = a.id * 2");
        assert!(joined <= wide / 2, "two of them in a row: {joined}");
    }
}
