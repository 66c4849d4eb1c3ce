//! Casts to and from enumerations.

use arrow_schema::DataType as Arrow;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{Cast, Expr};

use crate::dialect::types::{known_type, typed};
use saki_catalog::SqlError;
use saki_functions::casts::labels::read;
use saki_system::type_name;

/// A cast to an enumeration as what it is here; others as they are.
///
/// # Errors
/// 42846 where PostgreSQL has no such cast, 22P02 for a text that is no label.
pub fn cast(cast: Cast, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let target = cast.field.data_type().clone();
    let source = known_type(&cast.expr, schema);
    let of = |known: Option<&Arrow>| known.and_then(saki_exec::enumeration);
    let (from, to) = (of(source.as_ref()), of(Some(&target)));
    Ok(match (from, to) {
        (None, None) => Transformed::no(Expr::Cast(cast)),
        (Some(from), Some(to)) if from == to => Transformed::yes(*cast.expr),
        (None, Some(to)) => match source {
            None if matches!(&*cast.expr, Expr::Literal(value, _) if value.is_null()) => {
                Transformed::yes(Expr::Literal(ScalarValue::try_from(&target)?, None))
            }
            None => Transformed::yes(typed(*cast.expr, &target)?),
            Some(Arrow::Utf8 | Arrow::Utf8View) => Transformed::yes(read(*cast.expr, to)),
            Some(other) => return Err(no_cast(&other, &target)),
        },
        (Some(_), _) if matches!(target, Arrow::Utf8 | Arrow::Utf8View) => Transformed::no(Expr::Cast(cast)),
        (Some(_), _) => return Err(no_cast(&source.unwrap_or(Arrow::Null), &target)),
    })
}

fn no_cast(from: &Arrow, to: &Arrow) -> datafusion::common::DataFusionError {
    SqlError::invalid(format!("cannot cast type {} to {}", type_name(from), type_name(to))).code("42846").into()
}
