//! What a subquery refers to outside, as parameters.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// What the names of such parameters begin with.
const PARAMETER: &str = "$outer";

/// The plan with parameters for the columns it refers to outside, and what these are: columns of the schema, or, of
/// what is further out, references still.
pub fn parameterized(plan: LogicalPlan, schema: &DFSchema) -> Result<(LogicalPlan, Vec<Expr>)> {
    let mut outer: Vec<Column> = Vec::new();
    let mut arguments = Vec::new();
    let replaced = plan.transform_up(|node| {
        let names = NamePreserver::new(&node);
        let changed = node.map_expressions(|expr| {
            let name = names.save(&expr);
            let replaced = expr.transform_up(|expr| {
                let Expr::OuterReferenceColumn(field, column) = expr else { return Ok(Transformed::no(expr)) };
                let at = outer.iter().position(|known| *known == column).unwrap_or_else(|| {
                    outer.push(column.clone());
                    arguments.push(if schema.has_column(&column) {
                        Expr::Column(column.clone())
                    } else {
                        Expr::OuterReferenceColumn(Arc::clone(&field), column.clone())
                    });
                    outer.len() - 1
                });
                Ok(Transformed::yes(Expr::Placeholder(Placeholder::new_with_field(parameter(at), Some(field)))))
            })?;
            Ok(replaced.update_data(|expr| name.restore(expr)))
        })?;
        if changed.transformed { Ok(Transformed::yes(changed.data.recompute_schema()?)) } else { Ok(changed) }
    })?;
    Ok((replaced.data, arguments))
}

/// What the parameter for an argument is called.
fn parameter(at: usize) -> String {
    format!("{PARAMETER}{at}")
}

/// The argument that a parameter is for, if it is one of these.
pub fn argument(parameter: &str) -> Option<usize> {
    parameter.strip_prefix(PARAMETER)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use datafusion::logical_expr::LogicalPlanBuilder;
    use saki_base::DataType;

    use super::*;
    use crate::fixture::{Fixture, TableBuilder};

    static TABLES: LazyLock<Fixture> = LazyLock::new(|| {
        let fixture = Fixture::new();
        for name in ["a", "b"] {
            fixture.load(
                TableBuilder::new(name).column("id", DataType::Int8).column("x", DataType::Int8).key(&["id"]),
                &[],
            );
        }
        fixture
    });

    #[test]
    fn names_of_parameters_say_which_argument_they_are_for() {
        assert_eq!((argument(&parameter(0)), argument(&parameter(17))), (Some(0), Some(17)));
        assert_eq!((argument("$1"), argument("$outer"), argument("$outerx")), (None, None, None));
    }

    #[test]
    fn each_column_outside_is_one_parameter_however_often_it_is_named() {
        let env = TABLES.default_env();
        let outside = TABLES.logical(&env, "SELECT * FROM a");
        let reference = |name: &str| {
            let column = Column::new(Some("a"), name);
            let (_, field) = outside.schema().qualified_field_from_column(&column).unwrap();
            Expr::OuterReferenceColumn(Arc::clone(field), column)
        };
        let inside = TABLES.logical(&env, "SELECT * FROM b");
        let column = |name: &str| Expr::Column(Column::new(Some("b"), name));
        let filter =
            column("id").eq(reference("id")).and(column("x").gt(reference("x"))).or(column("x").eq(reference("id")));
        let plan = LogicalPlanBuilder::from(inside).filter(filter).unwrap().build().unwrap();
        let (plan, arguments) = parameterized(plan, outside.schema()).unwrap();
        let named: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        assert_eq!(named.len(), 2);
        assert!(named.contains(&"a.id".to_owned()) && named.contains(&"a.x".to_owned()), "{named:?}");
        let text = plan.display_indent().to_string();
        assert!(text.contains("$outer0") && text.contains("$outer1") && !text.contains("$outer2"), "{text}");
        assert!(!text.contains("outer_ref"), "{text}");
    }

    #[test]
    fn what_is_further_out_stays_a_reference() {
        let env = TABLES.default_env();
        let outside = TABLES.logical(&env, "SELECT * FROM a");
        let nowhere = DFSchema::empty();
        let column = Column::new(Some("a"), "id");
        let (_, field) = outside.schema().qualified_field_from_column(&column).unwrap();
        let reference = Expr::OuterReferenceColumn(Arc::clone(field), column);
        let inside = TABLES.logical(&env, "SELECT * FROM b");
        let plan = LogicalPlanBuilder::from(inside).filter(reference.clone().gt(reference)).unwrap().build().unwrap();
        let (_, arguments) = parameterized(plan, &nowhere).unwrap();
        assert!(matches!(arguments[..], [Expr::OuterReferenceColumn(..)]));
    }
}
