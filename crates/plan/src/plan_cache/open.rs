//! Plans of statements that leave parameters open: what each was made for, and which other values it serves.

use std::sync::Arc;

use datafusion::common::ScalarValue;

use crate::access::conditions;
use crate::node::{Plan, find};
use saki_catalog::{ColumnTest, Table};

/// A value serves where it is at most so many times as common as the one that a plan was made for, and at least such a
/// part of it.
const SHARES_DIFFER_MAX: f64 = 4.0;

/// A test by a parameter, somewhere in a plan.
pub struct OpenTest {
    table: Arc<Table>,
    test: ColumnTest,
    /// Of the table's rows, with the value the plan was made for; `None` where that is not known of any value.
    share: Option<f64>,
}

impl OpenTest {
    /// Those of a plan.
    pub fn all(plan: &Plan) -> Vec<Self> {
        let mut found = Vec::new();
        collect(plan, &mut found);
        found
    }

    /// Whether the plan is worth using for these values of the parameters, and right.
    pub fn serves(&self, values: &[ScalarValue]) -> bool {
        let Some(test) = conditions::rebound(&self.test, &self.table, values) else { return false };
        match (self.share, share(&self.table, &test)) {
            (Some(then), Some(now)) => now <= then * SHARES_DIFFER_MAX && then <= now * SHARES_DIFFER_MAX,
            (then, now) => then.is_none() && now.is_none(),
        }
    }
}

fn collect(plan: &Plan, found: &mut Vec<OpenTest>) {
    let tests = find(plan.as_ref()).map_or_else(Vec::new, |node| node.open_tests());
    found.extend(tests.into_iter().map(|(table, test)| OpenTest {
        table: Arc::clone(table),
        test: test.clone(),
        share: share(table, test),
    }));
    plan.children().into_iter().for_each(|child| collect(child, found));
}

fn share(table: &Table, test: &ColumnTest) -> Option<f64> {
    let [value] = test.points()? else { return None };
    table.likely_share(test.column, value)
}

#[cfg(test)]
mod tests {
    use saki_base::DataType;
    use saki_base::value::Value;

    use super::*;
    use crate::fixture::TableBuilder;

    fn open(table: &Arc<Table>, value: i32) -> OpenTest {
        let test = conditions::of_parameter(0, DataType::Int4, 1, &[ScalarValue::Int32(Some(value))]).unwrap();
        let share = share(table, &test);
        OpenTest { table: Arc::clone(table), test, share }
    }

    fn serves(test: &OpenTest, value: ScalarValue) -> bool {
        test.serves(&[value])
    }

    /// Every second row is 0, the rest are all different.
    fn skewed() -> TableBuilder {
        TableBuilder::new("t").column("a", DataType::Int4).column("id", DataType::Int4).key(&["id"])
    }

    fn rows() -> Vec<Vec<Value>> {
        (0..4000).map(|id| vec![Value::Int4(if id % 2 == 0 { 0 } else { id }), Value::Int4(id)]).collect()
    }

    #[test]
    fn a_plan_serves_values_that_are_about_as_common() {
        let table = skewed().analyzed(&rows()).build();
        let rare = open(&table, 17);
        assert!(serves(&rare, ScalarValue::Int32(Some(18))));
        assert!(serves(&rare, ScalarValue::Int64(Some(99_999))), "what lies beyond all that was seen may be new");
        assert!(!serves(&rare, ScalarValue::Int32(Some(0))));
        let common = open(&table, 0);
        assert!(serves(&common, ScalarValue::Int32(Some(0))));
        assert!(!serves(&common, ScalarValue::Int32(Some(17))));
    }

    #[test]
    fn a_plan_serves_no_value_that_asks_for_another() {
        let table = skewed().analyzed(&rows()).build();
        let test = open(&table, 17);
        for value in [ScalarValue::Int32(None), ScalarValue::Int64(Some(1 << 40)), ScalarValue::Utf8(Some("x".into()))]
        {
            assert!(!serves(&test, value.clone()), "{value}");
        }
        assert!(!test.serves(&[]), "no value at all");
    }

    #[test]
    fn without_statistics_all_values_are_alike() {
        let table = skewed().build();
        let test = open(&table, 17);
        assert!(test.share.is_none());
        assert!(serves(&test, ScalarValue::Int32(Some(0))));
    }
}
