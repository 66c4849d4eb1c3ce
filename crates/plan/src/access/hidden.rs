//! Hidden columns in the place of what they are made of: how conditions come to indexes over expressions, and to those
//! that have a condition of their own.
//!
//! A hidden column without a condition has the value of its expression in every row, so it may stand wherever the
//! expression does. One with a condition has the value of its key only in rows that meet it: where a query's conditions
//! say that they do, what they say of the key they say of the column too. Nothing that NULL passes is said of it, as
//! the other rows have NULL.
//!
//! Expressions are the same if they are spelled the same once they have been analysed and simplified. That more of them
//! have the same meaning costs a path, and no row.

use arrow_schema::Schema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator, lit};
use saki_catalog::{ColumnTest, Test};

/// What a hidden column is made of; names of columns are bare.
#[derive(Clone, Debug)]
pub struct HiddenKey {
    /// Its position in the table.
    pub column: usize,
    pub key: Expr,
    /// All of these are true where the column has the key's value; elsewhere it is NULL.
    pub predicate: Vec<Expr>,
}

impl HiddenKey {
    /// # Errors
    /// Of the planner.
    pub fn new(column: usize, key: &Expr, predicate: Option<&Expr>) -> Result<Self> {
        let conditions = predicate.into_iter().flat_map(split_conjunction);
        // What is true of every row need not be said.
        let conditions = conditions.filter(|condition| **condition != lit(true));
        Ok(Self { column, key: unqualified(key)?, predicate: conditions.map(unqualified).collect::<Result<_>>()? })
    }

    /// The condition with the hidden column for its key. `schema` has all columns of the table.
    fn put(&self, condition: Expr, schema: &Schema) -> Result<Expr> {
        let column = Expr::Column(Column::new_unqualified(schema.field(self.column).name()));
        let put = condition.transform_down(|node| {
            Ok(if node == self.key { Transformed::yes(column.clone()) } else { Transformed::no(node) })
        })?;
        Ok(put.data)
    }

    /// Whether rows that meet all `conditions` meet its own.
    fn is_met(&self, conditions: &[&Expr]) -> bool {
        let reject_null = |of: &Expr| conditions.iter().any(|condition| rejects_null(condition, of));
        self.predicate
            .iter()
            .all(|wanted| conditions.contains(&wanted) || matches!(wanted, Expr::IsNotNull(of) if reject_null(of)))
    }
}

/// The condition with bare column names.
pub fn unqualified(condition: &Expr) -> Result<Expr> {
    let bare = condition.clone().transform(|node| {
        Ok(match node {
            Expr::Column(column) if column.relation.is_some() => {
                Transformed::yes(Expr::Column(Column::new_unqualified(column.name)))
            }
            other => Transformed::no(other),
        })
    })?;
    Ok(bare.data)
}

/// Whether a condition is a comparison of an expression, which is not true where that is NULL.
fn rejects_null(condition: &Expr, of: &Expr) -> bool {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            use Operator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
            matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq) && (**left == *of || **right == *of)
        }
        Expr::InList(InList { expr, negated: false, .. }) => **expr == *of,
        _ => false,
    }
}

/// A condition with hidden columns in the place of the expressions that they have in every row.
pub fn replaced(condition: Expr, keys: &[HiddenKey], schema: &Schema) -> Result<Expr> {
    let mut always = keys.iter().filter(|key| key.predicate.is_empty());
    always.try_fold(condition, |condition, key| key.put(condition, schema))
}

/// What conditions say of hidden columns that have conditions of their own: the column, and something that is about it
/// alone.
pub fn implied(conditions: &[Expr], keys: &[HiddenKey], schema: &Schema) -> Result<Vec<(usize, Expr)>> {
    let mut found = Vec::new();
    let conditions: Vec<&Expr> = conditions.iter().flat_map(split_conjunction).collect();
    for key in keys.iter().filter(|key| !key.predicate.is_empty() && key.is_met(&conditions)) {
        let name = schema.field(key.column).name();
        for condition in &conditions {
            let said = key.put((*condition).clone(), schema)?;
            let columns = said.column_refs();
            if columns.len() == 1 && columns.iter().all(|column| column.name == *name) {
                found.push((key.column, said));
            }
        }
    }
    Ok(found)
}

/// Whether a test is one that NULL does not pass.
pub fn is_strict(test: &ColumnTest) -> bool {
    match &test.test {
        Test::Compare(..) | Test::IsNotNull => true,
        Test::OneOf { negated, .. } => !negated,
        Test::IsNull => false,
    }
}

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType, Field};
    use datafusion::functions::string::expr_fn::lower;
    use datafusion::logical_expr::col;

    use super::*;

    /// `x` and `deleted`, and what hidden columns are made of.
    fn schema() -> Schema {
        let field = |name: &str| Field::new(name, DataType::Utf8, true);
        Schema::new(vec![field("x"), field("deleted"), field("\0hidden 2"), field("\0hidden 3")])
    }

    fn hidden(column: usize) -> Expr {
        Expr::Column(Column::new_unqualified(format!("\0hidden {column}")))
    }

    fn always() -> HiddenKey {
        HiddenKey { column: 2, key: lower(col("x")), predicate: Vec::new() }
    }

    fn partial(predicate: Expr) -> HiddenKey {
        HiddenKey { column: 3, key: col("x"), predicate: vec![predicate] }
    }

    #[test]
    fn an_expression_is_replaced_wherever_it_stands() {
        let keys = [always(), partial(col("deleted").is_null())];
        let condition = lower(col("x")).eq(lit("a")).or(col("x").eq(lower(col("x"))));
        let expected = hidden(2).eq(lit("a")).or(col("x").eq(hidden(2)));
        assert_eq!(replaced(condition, &keys, &schema()).unwrap(), expected);
        let other = lower(col("deleted")).eq(lit("a"));
        assert_eq!(replaced(other.clone(), &keys, &schema()).unwrap(), other);
    }

    #[test]
    fn a_condition_has_to_be_met_before_anything_is_said_of_its_column() {
        let keys = [always(), partial(col("deleted").is_null())];
        let said = |conditions: &[Expr]| implied(conditions, &keys, &schema()).unwrap();
        let is_x = || col("x").eq(lit("a"));
        assert!(said(&[is_x()]).is_empty());
        assert!(said(&[is_x(), col("deleted").is_not_null()]).is_empty());
        assert_eq!(said(&[is_x(), col("deleted").is_null()]), [(3, hidden(3).eq(lit("a")))]);
        assert_eq!(said(&[is_x().and(col("deleted").is_null())]), [(3, hidden(3).eq(lit("a")))], "in one condition");
        let beside = col("x").eq(col("deleted"));
        assert!(said(&[beside, col("deleted").is_null()]).is_empty(), "it is about another column as well");
    }

    #[test]
    fn what_is_compared_is_not_null() {
        let keys = [partial(col("x").is_not_null())];
        let said = |condition: Expr| implied(&[condition], &keys, &schema()).unwrap().len();
        assert_eq!(said(col("x").gt(lit("a"))), 1);
        assert_eq!(said(col("x").in_list(vec![lit("a"), lit("b")], false)), 1);
        assert_eq!(said(col("x").in_list(vec![lit("a"), lit("b")], true)), 0);
        assert_eq!(said(col("x").is_null()), 0);
        assert_eq!(said(col("x").is_not_null()), 1);
    }

    #[test]
    fn names_of_relations_are_not_part_of_a_condition() {
        let bare = unqualified(&col("t.id").eq(col("u.part"))).unwrap();
        assert_eq!(bare, col("id").eq(col("part")));
        let both = col("t.a").eq(lit(1)).and(lit(true)).and(col("t.b").is_null());
        let key = HiddenKey::new(3, &col("t.x"), Some(&both)).unwrap();
        assert_eq!((key.key, key.predicate), (col("x"), vec![col("a").eq(lit(1)), col("b").is_null()]));
    }

    #[test]
    fn null_passes_no_strict_test() {
        let test = |test| ColumnTest::new(3, test);
        assert!(is_strict(&test(Test::IsNotNull)));
        assert!(!is_strict(&test(Test::IsNull)));
        assert!(!is_strict(&test(Test::OneOf { values: Vec::new(), negated: true })));
    }
}
