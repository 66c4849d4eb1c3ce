//! Conditions of outer joins by merging, on rows without a partner.
//!
//! DataFusion tests such a condition on batches that hold, beside pairs, rows whose other side is missing: NULLs. Their
//! schema is that of the two inputs, so a column that is never NULL in its table fails the query. Here all columns of
//! the condition may be.

use std::sync::Arc;

use arrow_schema::{Field, Schema};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::SortMergeJoinExec;
use datafusion::physical_plan::joins::utils::JoinFilter;

use crate::node::Plan;

/// The rule; belongs behind those that choose joins.
#[derive(Debug)]
pub struct MergeFilters;

impl PhysicalOptimizerRule for MergeFilters {
    fn optimize(&self, plan: Plan, _: &ConfigOptions) -> Result<Plan> {
        plan.transform_up(|node| {
            let replaced = match node.downcast_ref::<SortMergeJoinExec>() {
                Some(join) => with_nullable_filter(join)?,
                None => None,
            };
            Ok(replaced.map_or_else(|| Transformed::no(node), Transformed::yes))
        })
        .map(|transformed| transformed.data)
    }

    fn name(&self) -> &'static str {
        "merge_filters"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn with_nullable_filter(join: &SortMergeJoinExec) -> Result<Option<Plan>> {
    let Some(filter) = join.filter() else { return Ok(None) };
    let fields = filter.schema().fields();
    if fields.iter().all(|field| field.is_nullable()) {
        return Ok(None);
    }
    let nullable: Vec<Field> = fields.iter().map(|field| field.as_ref().clone().with_nullable(true)).collect();
    let (expression, columns) = (Arc::clone(filter.expression()), filter.column_indices().to_vec());
    let join = SortMergeJoinExec::try_new(
        Arc::clone(join.left()),
        Arc::clone(join.right()),
        join.on().to_vec(),
        Some(JoinFilter::new(expression, columns, Arc::new(Schema::new(nullable)))),
        join.join_type(),
        join.sort_options().to_vec(),
        join.null_equality(),
    )?;
    Ok(Some(Arc::new(join)))
}

#[cfg(test)]
mod tests {
    use saki_base::DataType;
    use saki_base::value::Value;

    use crate::fixture::{Fixture, TableBuilder};
    use saki_settings::Settings;

    #[test]
    fn an_outer_join_by_merging_tests_rows_without_a_partner() {
        let fixture = Fixture::new();
        let row = |id: i64| vec![Value::Int8(id), if id % 4 == 1 { Value::Null } else { Value::Int8(id % 7) }];
        for (name, rows) in [("a", 40), ("b", 25)] {
            let table = TableBuilder::new(name).column("id", DataType::Int8).nullable("x", DataType::Int8).key(&["id"]);
            fixture.load(table, &(0..rows).map(row).collect::<Vec<_>>());
        }
        let mut settings = Settings { partitions: 2, ..Settings::default() };
        for (name, value) in [("operators", "spilling"), ("index_join", "never")] {
            settings.set(name, Some(value)).unwrap();
        }
        let env = fixture.env(settings);
        for kind in ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"] {
            let sql = format!("SELECT a.id, b.id FROM a {kind} b ON a.x = b.x AND a.id < b.id");
            assert!(fixture.explain(&env, &sql).contains("SortMergeJoinExec"), "{sql}");
            fixture.check(&env, &sql);
        }
        fixture.check(&env, "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE a.x = b.x AND a.id < b.id)");
        fixture.check(&env, "SELECT id FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE a.x = b.x AND a.id < b.id)");
    }
}
