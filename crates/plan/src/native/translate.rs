//! DataFusion's expressions as ours.
//!
//! Everything translates: what [`Expr`] has no word for becomes a [`foreign`] call over the columns that it names.
//! Types stay those of the plan, with one freedom: a cast that only lets a decimal have more digits disappears, because
//! native decimals have no limit of digits to widen; so `1 - discount` stays arithmetic on small integers.

use std::sync::Arc;

use arrow_schema::{DataType, Schema, TimeUnit};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NegativeExpr,
    NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use saki_base::value::Value;
use saki_vector::expr::{ArithmeticOp, CompareOp, DatePart, LikePattern, ValueSet};
use saki_vector::{Batch, Column as NativeColumn, Expr};

use super::foreign::foreign;

use crate::access::conditions::compare_op;

/// An expression over columns of `schema` as one over the columns of a batch at the same positions.
pub fn translate(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Expr> {
    match (Translator { schema }).known(expr)? {
        Some(known) => Ok(known),
        None => foreign(expr, schema),
    }
}

/// The values of several expressions for each row.
pub fn evaluate_all(exprs: &[Expr], batch: &Batch) -> saki_vector::Result<Vec<NativeColumn>> {
    exprs.iter().map(|expr| expr.evaluate(batch)).collect()
}

struct Translator<'a> {
    schema: &'a Schema,
}

impl Translator<'_> {
    fn any(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Expr> {
        translate(expr, self.schema)
    }

    fn boxed(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Box<Expr>> {
        Ok(Box::new(self.any(expr)?))
    }

    fn native_type(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Option<DataType>> {
        Ok(Some(expr.data_type(self.schema)?).filter(is_native))
    }

    /// The translation of an expression whose outermost operator has one.
    fn known(&self, expr: &Arc<dyn PhysicalExpr>) -> Result<Option<Expr>> {
        if let Some(column) = expr.downcast_ref::<Column>() {
            let data_type = self.schema.field(column.index()).data_type().clone();
            return Ok(Some(Expr::Column { index: column.index(), data_type }));
        }
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            return Ok(literal_expr(literal.value()));
        }
        if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
            return self.binary(binary, expr);
        }
        if let Some(cast) = expr.downcast_ref::<CastExpr>() {
            return self.cast(cast);
        }
        if let Some(not) = expr.downcast_ref::<NotExpr>() {
            return Ok(Some(Expr::Not(self.boxed(not.arg())?)));
        }
        if let Some(is_null) = expr.downcast_ref::<IsNullExpr>() {
            return Ok(Some(Expr::IsNull(self.boxed(is_null.arg())?)));
        }
        if let Some(is_not_null) = expr.downcast_ref::<IsNotNullExpr>() {
            return Ok(Some(Expr::IsNotNull(self.boxed(is_not_null.arg())?)));
        }
        if let Some(negative) = expr.downcast_ref::<NegativeExpr>() {
            let number = self.native_type(negative.arg())?.is_some_and(|data_type| data_type.is_numeric());
            return if number { Ok(Some(Expr::Negate(self.boxed(negative.arg())?))) } else { Ok(None) };
        }
        if let Some(like) = expr.downcast_ref::<LikeExpr>() {
            return self.like(like);
        }
        if let Some(list) = expr.downcast_ref::<InListExpr>() {
            return self.in_list(list);
        }
        if let Some(case) = expr.downcast_ref::<CaseExpr>() {
            return self.case(case, expr);
        }
        if let Some(function) = expr.downcast_ref::<ScalarFunctionExpr>() {
            return self.function(function);
        }
        Ok(None)
    }

    fn binary(&self, binary: &BinaryExpr, whole: &Arc<dyn PhysicalExpr>) -> Result<Option<Expr>> {
        let (left, right) = (binary.left(), binary.right());
        match binary.op() {
            Operator::And => return Ok(Some(Expr::And(self.operands(whole, Operator::And)?))),
            Operator::Or => return Ok(Some(Expr::Or(self.operands(whole, Operator::Or)?))),
            _ => {}
        }
        let (Some(left_type), Some(right_type)) = (self.native_type(left)?, self.native_type(right)?) else {
            return Ok(None);
        };
        if let Some(op) = compare_op(*binary.op()) {
            return Ok(if comparable(&left_type, &right_type) {
                Some(Expr::Compare { op, left: self.boxed(left)?, right: self.boxed(right)? })
            } else {
                None
            });
        }
        let Some(op) = arithmetic_op(*binary.op()) else { return Ok(None) };
        let data_type = whole.data_type(self.schema)?;
        let decimals = [&left_type, &right_type, &data_type].iter().all(|t| matches!(t, DataType::Decimal128(..)));
        // How many digits a quotient has is DataFusion's to say.
        let known = match op {
            ArithmeticOp::Divide | ArithmeticOp::Remainder if decimals => false,
            _ => decimals || (left_type == right_type && left_type.is_numeric()),
        };
        Ok(if known {
            Some(Expr::Arithmetic { op, left: self.boxed(left)?, right: self.boxed(right)?, data_type })
        } else {
            None
        })
    }

    /// The conditions that a chain of one connective puts together, from left to right.
    fn operands(&self, expr: &Arc<dyn PhysicalExpr>, connective: Operator) -> Result<Vec<Expr>> {
        match expr.downcast_ref::<BinaryExpr>().filter(|binary| *binary.op() == connective) {
            Some(binary) => {
                let mut operands = self.operands(binary.left(), connective)?;
                operands.extend(self.operands(binary.right(), connective)?);
                Ok(operands)
            }
            None => Ok(vec![self.any(expr)?]),
        }
    }

    fn cast(&self, cast: &CastExpr) -> Result<Option<Expr>> {
        let target = cast.cast_type();
        if let Some(literal) = cast.expr().downcast_ref::<Literal>()
            && let Ok(value) = literal.value().cast_to(target)
        {
            return Ok(literal_expr(&value));
        }
        let Some(source) = self.native_type(cast.expr())? else { return Ok(None) };
        if same_form(&source, target) {
            return Ok(Some(self.any(cast.expr())?));
        }
        let known = match (&source, target) {
            (DataType::Decimal128(..), DataType::Decimal128(..)) => true,
            (from, DataType::Decimal128(_, scale)) => from.is_signed_integer() && *scale >= 0,
            (from, DataType::Int16 | DataType::Int32 | DataType::Int64) => from.is_signed_integer(),
            (from, DataType::Float64) => from.is_signed_integer() || *from == DataType::Float32,
            _ => false,
        };
        Ok(if known { Some(Expr::Cast { expr: self.boxed(cast.expr())?, data_type: target.clone() }) } else { None })
    }

    fn like(&self, like: &LikeExpr) -> Result<Option<Expr>> {
        let text = self.native_type(like.expr())?.is_some_and(|data_type| is_text(&data_type));
        let pattern = like.pattern().downcast_ref::<Literal>().and_then(|literal| native_value(literal.value()));
        Ok(match pattern {
            Some(Value::Text(pattern)) if text => Some(Expr::Like {
                expr: self.boxed(like.expr())?,
                pattern: Arc::new(LikePattern::new(&pattern, like.case_insensitive())),
                negated: like.negated(),
            }),
            _ => None,
        })
    }

    fn in_list(&self, list: &InListExpr) -> Result<Option<Expr>> {
        let Some(data_type) = self.native_type(list.expr())? else { return Ok(None) };
        let value = |item: &Arc<dyn PhysicalExpr>| {
            let literal = item.downcast_ref::<Literal>()?.value();
            let alike = comparable(&data_type, &literal.data_type());
            native_value(literal).filter(|value| alike && !value.is_null())
        };
        let values: Option<Vec<Value>> = list.list().iter().map(value).collect();
        Ok(match values {
            Some(values) if !values.is_empty() => {
                let values = Arc::new(ValueSet::new(values));
                Some(Expr::InList { expr: self.boxed(list.expr())?, values, negated: list.negated() })
            }
            _ => None,
        })
    }

    fn case(&self, case: &CaseExpr, whole: &Arc<dyn PhysicalExpr>) -> Result<Option<Expr>> {
        let data_type = whole.data_type(self.schema)?;
        if !is_native(&data_type) {
            return Ok(None);
        }
        let mut branches = Vec::with_capacity(case.when_then_expr().len());
        for (when, then) in case.when_then_expr() {
            let condition = match case.expr() {
                None => self.any(when)?,
                Some(subject) => {
                    let types = (self.native_type(subject)?, self.native_type(when)?);
                    let (Some(left), Some(right)) = types else { return Ok(None) };
                    if !comparable(&left, &right) {
                        return Ok(None);
                    }
                    Expr::Compare { op: CompareOp::Equal, left: self.boxed(subject)?, right: self.boxed(when)? }
                }
            };
            branches.push((condition, self.typed(then, &data_type)?));
        }
        let otherwise = case.else_expr().map(|expr| self.typed(expr, &data_type)).transpose()?.map(Box::new);
        Ok(Some(Expr::Case { branches, otherwise, data_type }))
    }

    /// An expression whose type may be that of an untyped NULL where another is expected.
    fn typed(&self, expr: &Arc<dyn PhysicalExpr>, expected: &DataType) -> Result<Expr> {
        match expr.downcast_ref::<Literal>() {
            Some(literal) if literal.value().is_null() => {
                Ok(Expr::Literal { value: Value::Null, data_type: expected.clone() })
            }
            _ => self.any(expr),
        }
    }

    fn function(&self, function: &ScalarFunctionExpr) -> Result<Option<Expr>> {
        let constant = |position: usize| {
            let argument = function.args().get(position)?;
            native_value(argument.downcast_ref::<Literal>()?.value())
        };
        match (function.name(), function.args()) {
            ("date_part", [_, date]) => {
                let dated = matches!(
                    self.native_type(date)?,
                    Some(DataType::Date32 | DataType::Timestamp(TimeUnit::Microsecond, None))
                );
                let Some(Value::Text(part)) = constant(0).filter(|_| dated) else { return Ok(None) };
                let part = match part.to_ascii_lowercase().as_str() {
                    "year" => DatePart::Year,
                    "month" => DatePart::Month,
                    "day" => DatePart::Day,
                    _ => return Ok(None),
                };
                Ok(Some(Expr::DatePart { part, expr: self.boxed(date)? }))
            }
            ("substr" | "substring", [text, _] | [text, _, _]) => {
                if !self.native_type(text)?.is_some_and(|data_type| is_text(&data_type)) {
                    return Ok(None);
                }
                // Positions before the first character, and lengths below 0, have rules of their own.
                let Some(Value::Int8(start @ 1..)) = constant(1) else { return Ok(None) };
                let length = match (function.args().len(), constant(2)) {
                    (2, _) => None,
                    (_, Some(Value::Int8(length @ 0..))) => Some(length),
                    _ => return Ok(None),
                };
                Ok(Some(Expr::Substring { expr: self.boxed(text)?, start, length }))
            }
            // Operators of floats, by the names that PostgreSQL has for them.
            ("float8pl", [left, right]) => self.floats(ArithmeticOp::Add, left, right),
            ("float8mi", [left, right]) => self.floats(ArithmeticOp::Subtract, left, right),
            ("float8mul", [left, right]) => self.floats(ArithmeticOp::Multiply, left, right),
            ("float8div", [left, right]) => self.floats(ArithmeticOp::Divide, left, right),
            _ => Ok(None),
        }
    }

    fn floats(
        &self,
        op: ArithmeticOp,
        left: &Arc<dyn PhysicalExpr>,
        right: &Arc<dyn PhysicalExpr>,
    ) -> Result<Option<Expr>> {
        let types = (self.native_type(left)?, self.native_type(right)?);
        let (Some(data_type), Some(other)) = types else { return Ok(None) };
        if data_type != other || !data_type.is_floating() {
            return Ok(None);
        }
        Ok(Some(Expr::Arithmetic { op, left: self.boxed(left)?, right: self.boxed(right)?, data_type }))
    }
}

/// Types whose native forms operators know.
pub fn is_native(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Boolean
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Float32
            | DataType::Float64
            | DataType::Decimal128(_, 0..)
            | DataType::Date32
            | DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Second, _)
            | DataType::Time64(TimeUnit::Microsecond)
            | DataType::Utf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(16)
    )
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::Utf8View)
}

fn is_binary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::BinaryView)
}

/// Whether values of two types are held and ordered alike.
pub fn comparable(left: &DataType, right: &DataType) -> bool {
    match (left, right) {
        (DataType::Decimal128(_, left), DataType::Decimal128(_, right)) => left == right,
        _ => left == right || (is_text(left) && is_text(right)) || (is_binary(left) && is_binary(right)),
    }
}

/// Whether every native column of type `source` is one of type `target` as it is.
fn same_form(source: &DataType, target: &DataType) -> bool {
    match (source, target) {
        (DataType::Decimal128(narrow, from), DataType::Decimal128(wide, to)) => from == to && narrow <= wide,
        _ => comparable(source, target),
    }
}

fn arithmetic_op(op: Operator) -> Option<ArithmeticOp> {
    Some(match op {
        Operator::Plus => ArithmeticOp::Add,
        Operator::Minus => ArithmeticOp::Subtract,
        Operator::Multiply => ArithmeticOp::Multiply,
        Operator::Divide => ArithmeticOp::Divide,
        Operator::Modulo => ArithmeticOp::Remainder,
        _ => return None,
    })
}

fn literal_expr(literal: &ScalarValue) -> Option<Expr> {
    let data_type = Some(literal.data_type()).filter(is_native)?;
    Some(Expr::Literal { value: native_value(literal)?, data_type })
}

/// A constant of a native type.
pub fn native_value(literal: &ScalarValue) -> Option<Value> {
    Some(match literal {
        literal if literal.is_null() => Value::Null,
        ScalarValue::Boolean(Some(value)) => Value::Bool(*value),
        ScalarValue::Int16(Some(value)) => Value::Int2(*value),
        ScalarValue::Int32(Some(value)) => Value::Int4(*value),
        ScalarValue::Int64(Some(value)) => Value::Int8(*value),
        ScalarValue::Float32(Some(value)) => Value::Float4(*value),
        ScalarValue::Float64(Some(value)) => Value::Float8(*value),
        ScalarValue::Decimal128(Some(value), ..) => Value::Decimal(*value),
        ScalarValue::Utf8(Some(value)) | ScalarValue::Utf8View(Some(value)) => Value::Text(value.clone()),
        ScalarValue::Binary(Some(value)) | ScalarValue::BinaryView(Some(value)) => Value::Bytea(value.clone()),
        ScalarValue::Date32(Some(value)) => Value::Date(*value),
        ScalarValue::TimestampMicrosecond(Some(value), None) => Value::Timestamp(*value),
        // The number of a label: as one, labels are held.
        ScalarValue::TimestampSecond(Some(value), Some(_)) => Value::Int8(*value),
        ScalarValue::TimestampMicrosecond(Some(value), Some(_)) => Value::Timestamptz(*value),
        ScalarValue::Time64Microsecond(Some(value)) => Value::Time(*value),
        ScalarValue::FixedSizeBinary(16, Some(value)) => Value::Uuid(value.as_slice().try_into().ok()?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray;
    use arrow_array::types::Int64Type;
    use arrow_array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray};
    use arrow_schema::Field;
    use datafusion::physical_expr::expressions::{binary, cast, col, in_list, lit};
    use saki_vector::{Batch, form};

    use super::*;

    fn table() -> RecordBatch {
        let prices = Decimal128Array::from(vec![Some(1999), None, Some(-5)]).with_precision_and_scale(12, 2).unwrap();
        let names = StringArray::from(vec![Some("a"), Some("bc"), None]);
        let numbers = Int64Array::from(vec![Some(1), Some(2), None]);
        RecordBatch::try_from_iter_with_nullable([
            ("price", Arc::new(prices) as ArrayRef, true),
            ("name", Arc::new(names) as ArrayRef, true),
            ("number", Arc::new(numbers) as ArrayRef, true),
        ])
        .unwrap()
    }

    fn native(table: &RecordBatch) -> Batch {
        let columns = table.columns().iter().map(|column| form::from_surface(column).unwrap()).collect();
        Batch::new(columns, table.num_rows())
    }

    /// The value for each row, as the plan's type says.
    fn evaluated(expr: &Arc<dyn PhysicalExpr>, table: &RecordBatch) -> ArrayRef {
        let translated = translate(expr, &table.schema()).unwrap();
        let column = translated.evaluate(&native(table)).unwrap();
        form::to_surface(&column, &expr.data_type(&table.schema()).unwrap()).unwrap()
    }

    #[test]
    fn casts_that_only_widen_decimals_disappear() {
        let table = table();
        let wide = cast(col("price", &table.schema()).unwrap(), &table.schema(), DataType::Decimal128(30, 2)).unwrap();
        assert!(matches!(translate(&wide, &table.schema()).unwrap(), Expr::Column { index: 0, .. }));
        let rescaled = cast(wide, &table.schema(), DataType::Decimal128(30, 4)).unwrap();
        assert!(matches!(translate(&rescaled, &table.schema()).unwrap(), Expr::Cast { .. }));
        assert_eq!(evaluated(&rescaled, &table).data_type(), &DataType::Decimal128(30, 4));
        let narrowed =
            cast(col("price", &table.schema()).unwrap(), &table.schema(), DataType::Decimal128(3, 2)).unwrap();
        assert!(matches!(translate(&narrowed, &table.schema()).unwrap(), Expr::Cast { .. }), "19.99 has four digits");
    }

    #[test]
    fn constants_are_cast_once() {
        let constant = cast(lit(1_i64), &Schema::empty(), DataType::Decimal128(20, 0)).unwrap();
        let translated = translate(&constant, &Schema::empty()).unwrap();
        assert!(matches!(
            translated,
            Expr::Literal { value: Value::Decimal(1), data_type: DataType::Decimal128(20, 0) }
        ));
    }

    #[test]
    fn what_is_not_known_is_evaluated_by_datafusion() {
        let table = table();
        let schema = table.schema();
        let name = col("name", &schema).unwrap();
        let exprs = [
            binary(Arc::clone(&name), Operator::StringConcat, lit("!"), &schema).unwrap(),
            binary(col("number", &schema).unwrap(), Operator::IsDistinctFrom, lit(2_i64), &schema).unwrap(),
            in_list(name, vec![lit("a"), lit(ScalarValue::Utf8(None))], &false, &schema).unwrap(),
        ];
        for expr in exprs {
            assert!(matches!(translate(&expr, &schema).unwrap(), Expr::Foreign { .. }), "{expr}");
            let expected = expr.evaluate(&table).unwrap().into_array(table.num_rows()).unwrap();
            assert_eq!(&evaluated(&expr, &table), &expected, "{expr}");
        }
    }

    #[test]
    fn a_foreign_call_without_columns_has_a_value_for_each_row() {
        let schema = Schema::new(vec![Field::new("unused", DataType::Int64, false)]);
        let expr = binary(lit(2_i64), Operator::BitwiseXor, lit(3_i64), &schema).unwrap();
        let table = RecordBatch::try_new(Arc::new(schema), vec![Arc::new(Int64Array::from(vec![7, 8]))]).unwrap();
        assert_eq!(evaluated(&expr, &table).as_primitive::<Int64Type>().values(), &[1, 1]);
    }
}
