//! What LIKE says of the beginning of a column's texts: they are ordered by their bytes, so it is a range of them.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, LikeExpr, Literal};
use saki_base::value::Value;
use saki_base::{DataType, Pattern, pattern};
use saki_catalog::{ColumnTest, Test};
use saki_exec::predicate::CompareOp;

/// Adds the tests that follow from a condition, if it is LIKE; whether they say all that it says.
pub fn says_all(
    condition: &Arc<dyn PhysicalExpr>,
    type_of: &dyn Fn(usize) -> Option<DataType>,
    tests: &mut Vec<ColumnTest>,
) -> bool {
    let Some((column, text)) = pattern_of(condition, type_of) else { return false };
    let (beginning, read) = (pattern::beginning(text), Pattern::read(text));
    let mut add = |op, bound| tests.push(ColumnTest::new(column, Test::Compare(op, Value::Text(bound))));
    if let Some(Pattern::Text(text)) = read {
        add(CompareOp::Equal, text.to_owned());
    } else if !beginning.is_empty() {
        add(CompareOp::GreaterOrEqual, beginning.to_owned());
        if let Some(behind) = pattern::behind(beginning) {
            add(CompareOp::Less, behind);
        }
    }
    read.is_some()
}

/// The column and the pattern of `column LIKE 'pattern'`. Of char(n) blanks mean something that are not stored.
fn pattern_of<'c>(
    condition: &'c Arc<dyn PhysicalExpr>,
    type_of: &dyn Fn(usize) -> Option<DataType>,
) -> Option<(usize, &'c str)> {
    let like = condition.downcast_ref::<LikeExpr>().filter(|like| !like.negated() && !like.case_insensitive())?;
    let column = like.expr().downcast_ref::<Column>()?.index();
    let ScalarValue::Utf8(Some(text)) = like.pattern().downcast_ref::<Literal>()?.value() else { return None };
    matches!(type_of(column)?, DataType::Text | DataType::Varchar(_)).then_some((column, text))
}
