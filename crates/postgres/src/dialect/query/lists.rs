//! Columns of VALUES have one type: texts among numbers or dates are such, and decimals among floats are floats. The
//! planner would make texts of all, or decimals.

use std::ops::ControlFlow;

use arrow_schema::DataType as Arrow;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, Query, SetExpr, TimezoneInfo, TypedString, UnaryOperator, Value, Values,
    VisitorMut,
};
use saki_exec::arrow_type;

use crate::dialect::types::{Together, chosen, compared, do_not_match};
use crate::statement::take;
use crate::types::{enumeration_name, storage_type};
use saki_catalog::SqlError;

pub struct Lists;

impl VisitorMut for Lists {
    type Break = SqlError;

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        match within(&mut query.body) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    }
}

fn within(body: &mut SetExpr) -> Result<(), SqlError> {
    match body {
        SetExpr::Values(values) => {
            let width = values.rows.iter().map(|row| row.content.len()).min().unwrap_or(0);
            (0..width).try_for_each(|column| bring_together(values, column))
        }
        SetExpr::SetOperation { left, right, .. } => {
            within(left)?;
            within(right)
        }
        _ => Ok(()),
    }
}

/// What a value is, as far as it says so itself.
#[derive(Clone, PartialEq)]
pub enum Kind {
    /// A text whose type is unknown.
    Text,
    /// NULL, or a parameter: it becomes whatever it has to be.
    Null,
    Typed(Arrow),
    Other,
}

pub fn kind(expr: &Expr) -> Kind {
    match expr {
        Expr::Nested(inner) | Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr: inner } => {
            match kind(inner) {
                Kind::Text if !matches!(expr, Expr::Nested(_)) => Kind::Other,
                kind => kind,
            }
        }
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(_) => Kind::Text,
            Value::Null | Value::Placeholder(_) => Kind::Null,
            Value::Boolean(_) => Kind::Typed(Arrow::Boolean),
            Value::Number(digits, _) => Kind::Typed(number(digits)),
            _ => Kind::Other,
        },
        Expr::Cast { data_type, array: false, .. } | Expr::TypedString(TypedString { data_type, .. }) => {
            storage_type(data_type).map_or(Kind::Other, |of| Kind::Typed(arrow_type(of)))
        }
        _ => Kind::Other,
    }
}

fn number(digits: &str) -> Arrow {
    match digits.parse::<i64>() {
        Ok(whole) if i32::try_from(whole).is_ok() => Arrow::Int32,
        Ok(_) => Arrow::Int64,
        Err(_) => Arrow::Decimal128(38, 0),
    }
}

fn bring_together(values: &mut Values, column: usize) -> Result<(), SqlError> {
    let kinds: Vec<Kind> = values.rows.iter().map(|row| kind(&row.content[column])).collect();
    if kinds.contains(&Kind::Other) {
        return Ok(());
    }
    let types: Vec<&Arrow> = kinds
        .iter()
        .filter_map(|kind| match kind {
            Kind::Typed(of) => Some(of),
            _ => None,
        })
        .collect();
    let (target, is_for_all) = match chosen(types.iter().copied()) {
        Together::Cast(target) => (target, true),
        Together::As(target) => (target, false),
        Together::Unknown => return Ok(()),
        Together::Apart => {
            let other = types.iter().find(|of| compared(types[0], of) == Together::Apart).unwrap_or(&types[0]);
            return Err(do_not_match("VALUES", types[0], other));
        }
    };
    let Some(spelled) = spelled(&target) else { return Ok(()) };
    for (row, kind) in values.rows.iter_mut().zip(kinds) {
        let is_cast = match kind {
            Kind::Text => true,
            Kind::Null => is_placeholder(&row.content[column]),
            Kind::Typed(of) => is_for_all && of != target,
            Kind::Other => false,
        };
        if is_cast {
            let cell = &mut row.content[column];
            *cell = cast(take(cell), spelled.clone());
        }
    }
    Ok(())
}

fn is_placeholder(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(value.value, Value::Placeholder(_)))
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

/// A type as statements write it; `None` for texts, which need no cast.
fn spelled(data_type: &Arrow) -> Option<DataType> {
    Some(match data_type {
        Arrow::Boolean => DataType::Boolean,
        Arrow::Int16 => DataType::SmallInt(None),
        Arrow::Int32 => DataType::Integer(None),
        Arrow::Int64 => DataType::BigInt(None),
        Arrow::Float32 => DataType::Real,
        Arrow::Float64 => DataType::DoublePrecision,
        Arrow::Decimal128(..) => DataType::Numeric(ExactNumberInfo::None),
        Arrow::Date32 => DataType::Date,
        labels if let Some(of) = saki_catalog::enumeration(labels) => {
            DataType::Custom(enumeration_name(of), Vec::new())
        }
        Arrow::Timestamp(_, None) => DataType::Timestamp(None, TimezoneInfo::None),
        Arrow::Timestamp(_, Some(_)) => DataType::Timestamp(None, TimezoneInfo::WithTimeZone),
        Arrow::Time64(_) => DataType::Time(None, TimezoneInfo::None),
        Arrow::Interval(_) => DataType::Interval { fields: None, precision: None },
        Arrow::Binary => DataType::Bytea,
        Arrow::FixedSizeBinary(16) => DataType::Uuid,
        Arrow::LargeBinary => DataType::JSON,
        Arrow::LargeUtf8 => DataType::JSONB,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use crate::fixture::{check, shown};

    #[test]
    fn columns_have_one_type() {
        check(
            &[
                ("VALUES (1), ('2'), (NULL)", "1 2 NULL"),
                ("SELECT x + 1 FROM (VALUES ('1'), (2)) AS t(x)", "2 3"),
                ("SELECT x::text FROM (VALUES (1e15::float8), (-0.0), ('NaN'), (2)) AS t(x)", "1e+15 0 NaN 2"),
                ("SELECT x::text FROM (VALUES (16777217::real), (1.5)) AS t(x)", "1.6777216e+07 1.5"),
                ("SELECT x + 1 FROM (VALUES (DATE '2024-01-31'), ('2024-02-01')) AS t(x)", "2024-02-01 2024-02-02"),
                ("SELECT x FROM (VALUES (true), ('f')) AS t(x)", "true false"),
            ],
            shown,
        );
    }

    #[test]
    fn what_does_not_match_is_refused() {
        check(
            &[
                ("VALUES (1), ('a')", "22P02"),
                ("VALUES (true), (1)", "42804"),
                ("VALUES ('a'::text), (1)", "42804"),
                ("VALUES (DATE '2024-01-31'), (1.5)", "42804"),
                ("VALUES (abs(1)), ('a')", "22P02"),
                ("VALUES (abs(1)), (true)", "42804"),
            ],
            shown,
        );
    }
}
