//! Paths and conditions in words, for EXPLAIN.

use std::sync::Arc;

use saki_catalog::columns::value_literal;
use saki_catalog::key_range::op_text;
use saki_catalog::{ColumnTest, Table, TableAccess};
use saki_exec::predicate::Predicate;

use super::path::Path;

/// Values of a list that are shown.
const VALUES_SHOWN: usize = 8;

/// A path in words.
pub fn path_text(path: &Path) -> String {
    let access = &path.access;
    let tree = access.describe();
    let only = if access.index.is_some() && !path.fetches_primary { ", index only" } else { "" };
    match &path.bounds {
        None if access.index.is_none() => format!("{}, all {} leaf pages", access.table.name, access.tree.leaf_pages),
        None => format!("{tree}{only}, all {} leaf pages", access.tree.leaf_pages),
        Some(bounds) => {
            let ranges = match bounds.ranges.len() {
                1 if bounds.points => "1 key".into(),
                1 => "1 range".into(),
                n if bounds.points => format!("{n} keys"),
                n => format!("{n} ranges"),
            };
            format!("{tree}{only}, {ranges}: {}", bounds.text)
        }
    }
}

/// A test of a column of `table`.
pub fn test_text(test: &ColumnTest, table: &Arc<Table>) -> String {
    let primary = TableAccess::primary(table);
    let position = primary.position(test.column).expect("the primary tree has every column");
    predicate_text(&test.predicate(position), &primary)
}

/// A test of a column of a tree.
pub fn predicate_text(predicate: &Predicate, access: &TableAccess) -> String {
    let column = |index: &usize| &access.tree.columns[*index];
    match predicate {
        Predicate::Compare { column: index, op, value } => {
            let column = column(index);
            format!("{} {} {}", column.name, op_text(*op), value_literal(value, column.data_type))
        }
        Predicate::OneOf { column: index, values, negated } => {
            let column = column(index);
            let list: Vec<String> =
                values.iter().take(VALUES_SHOWN).map(|v| value_literal(v, column.data_type)).collect();
            let more =
                if values.len() > VALUES_SHOWN { format!(", … {} in all", values.len()) } else { String::new() };
            format!("{}{} IN ({}{more})", column.name, if *negated { " NOT" } else { "" }, list.join(", "))
        }
        Predicate::IsNull { column: index } => format!("{} IS NULL", column(index).name),
        Predicate::IsNotNull { column: index } => format!("{} IS NOT NULL", column(index).name),
    }
}

#[cfg(test)]
mod tests {
    use saki_base::DataType;
    use saki_base::value::Value;
    use saki_catalog::Test;
    use saki_exec::predicate::CompareOp;
    use saki_store::DeviceSpeed;

    use super::*;
    use crate::access::path::Wanted;
    use crate::cost::CostModel;
    use crate::fixture::TableBuilder;
    use saki_settings::{AccessPath, Settings};

    fn table() -> Arc<Table> {
        TableBuilder::new("t")
            .column("a", DataType::Int4)
            .column("b", DataType::Int4)
            .nullable("c", DataType::Text)
            .column("d", DataType::Int4)
            .key(&["a", "b"])
            .covering("t_c", &["c"], &[])
            .with_rows(100_000)
            .with_distinct(&[1000.0, 100.0, 50_000.0, 10.0])
            .build()
    }

    fn points(column: usize, values: std::ops::Range<i32>) -> ColumnTest {
        ColumnTest::new(column, Test::OneOf { values: values.map(Value::Int4).collect(), negated: false })
    }

    #[test]
    fn a_path_says_its_tree_and_what_is_read_of_it() {
        let speed = DeviceSpeed { latency: 1e-4, reads_per_second: 1e5, bytes_per_second: 1e9 };
        let costs = CostModel::new(speed, 8192, &Settings::default());
        let of_c = ColumnTest::new(2, Test::Compare(CompareOp::Equal, Value::Text("x'y".into())));
        let cases: [(&[usize], Vec<ColumnTest>, &str); 6] = [
            (&[0, 3], vec![], "t, all 1000 leaf pages"),
            (&[2], vec![], "t by index t_c, index only, all 250 leaf pages"),
            (&[0, 3], vec![points(0, 3..4), points(1, 4..5)], "t by primary key, 1 key: a = 3, b = 4"),
            (&[0, 3], vec![points(0, 3..5), points(1, 4..6)], "t by primary key, 4 keys: a IN (3, 4), b IN (4, 5)"),
            (&[0, 3], vec![points(0, 3..4)], "t by primary key, 1 range: a = 3"),
            (&[0], vec![of_c], "t by index t_c, index only, 1 range: c = 'x''y'"),
        ];
        for (columns, tests, text) in cases {
            let path = Path::choose(&Wanted::new(&table(), columns, &tests), &costs, AccessPath::Auto);
            assert_eq!(path_text(&path), text);
        }
    }

    #[test]
    fn a_test_reads_as_sql() {
        let text = |column, test| test_text(&ColumnTest::new(column, test), &table());
        assert_eq!(text(0, Test::Compare(CompareOp::GreaterOrEqual, Value::Int4(-3))), "a >= -3");
        assert_eq!(text(2, Test::Compare(CompareOp::NotEqual, Value::Text("it's".into()))), "c <> 'it''s'");
        assert_eq!(text(2, Test::IsNull), "c IS NULL");
        assert_eq!(text(2, Test::IsNotNull), "c IS NOT NULL");
        let values = |n: i32| (0..n).map(Value::Int4).collect();
        assert_eq!(text(0, Test::OneOf { values: values(2), negated: true }), "a NOT IN (0, 1)");
        assert_eq!(text(0, Test::OneOf { values: values(8), negated: false }), "a IN (0, 1, 2, 3, 4, 5, 6, 7)");
        assert_eq!(
            text(0, Test::OneOf { values: values(9), negated: false }),
            "a IN (0, 1, 2, 3, 4, 5, 6, 7, … 9 in all)"
        );
    }
}
