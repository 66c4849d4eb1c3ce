//! Values of fast statements: what they are made of, and how they are worked out.

use std::cmp::Ordering;

use datafusion::common::ScalarValue;
use saki_base::types::{DECIMAL_PRECISION_MAX, decimal_limit};
use saki_base::{DataType, Value, ValueRef, compare};

use saki_catalog::SqlError;
use saki_catalog::columns::without_excess;

/// A value to be.
#[derive(Clone, Debug)]
pub enum Expr {
    /// Of the row that is there; digits behind the point, if it is a decimal.
    Column(usize, u8),
    /// Of the row that was to be inserted; as above.
    Excluded(usize, u8),
    /// By number, from 0.
    Parameter(usize),
    /// The same.
    Literal(Value, u8),
    /// The moment at which the transaction began, in microseconds since 1970, as a timestamp with or without a zone.
    Now(DataType),
    /// What was drawn from a sequence, by number, from 0.
    Drawn(usize),
    /// Of the type that PostgreSQL gives the result.
    Arithmetic(Operator, Box<Self>, Box<Self>, DataType),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operator {
    Add,
    Subtract,
    Multiply,
}

/// What expressions are worked out with.
pub struct Inputs<'i> {
    /// Of the row that is there, by table column.
    pub row: &'i [ValueRef<'i>],
    /// Of the row that was to be inserted beside it.
    pub excluded: &'i [ValueRef<'i>],
    pub parameters: &'i [ScalarValue],
    /// Values of sequences.
    pub drawn: &'i [i64],
    /// When the transaction began, in microseconds since 1970, and what the session's clocks showed.
    pub now: i64,
    pub local_now: i64,
}

/// Why there is no value.
#[derive(Debug)]
pub enum Misfit {
    /// The statement is to go the ordinary way.
    Ordinary,
    Error(SqlError),
}

impl From<SqlError> for Misfit {
    fn from(error: SqlError) -> Self {
        Self::Error(error)
    }
}

/// A value, and the digits behind its point if it is a decimal.
#[derive(Clone, Copy, Debug)]
pub struct Scaled<'v> {
    pub value: ValueRef<'v>,
    pub scale: u8,
}

impl<'v> From<ValueRef<'v>> for Scaled<'v> {
    fn from(value: ValueRef<'v>) -> Self {
        Self { value, scale: 0 }
    }
}

impl Expr {
    /// Visits the columns that it is made of.
    pub fn columns(&self, visit: &mut dyn FnMut(usize)) {
        match self {
            Self::Column(column, _) => visit(*column),
            Self::Arithmetic(_, left, right, _) => {
                left.columns(visit);
                right.columns(visit);
            }
            Self::Excluded(..) | Self::Parameter(_) | Self::Literal(..) | Self::Now(_) | Self::Drawn(_) => {}
        }
    }

    /// # Errors
    /// 22003 where it is out of its type's range; the ordinary way for numbers that take more digits than there are.
    pub fn value<'v>(&'v self, inputs: &Inputs<'v>) -> Result<Scaled<'v>, Misfit> {
        Ok(match self {
            Self::Column(column, scale) => Scaled { value: inputs.row[*column], scale: *scale },
            Self::Excluded(column, scale) => Scaled { value: inputs.excluded[*column], scale: *scale },
            Self::Parameter(parameter) => scalar(&inputs.parameters[*parameter])?,
            Self::Literal(value, scale) => Scaled { value: value.as_ref(), scale: *scale },
            Self::Now(DataType::Timestamptz) => ValueRef::Timestamptz(inputs.now).into(),
            Self::Now(_) => ValueRef::Timestamp(inputs.local_now).into(),
            Self::Drawn(number) => ValueRef::Int8(inputs.drawn[*number]).into(),
            Self::Arithmetic(operator, left, right, data_type) => {
                operator.apply(left.value(inputs)?, right.value(inputs)?, *data_type)?
            }
        })
    }
}

impl Operator {
    fn apply(self, left: Scaled<'_>, right: Scaled<'_>, data_type: DataType) -> Result<Scaled<'static>, Misfit> {
        let (Some(left), Some(right)) = (left.number(), right.number()) else { return Ok(ValueRef::Null.into()) };
        if self == Self::Multiply {
            let scale = left.1.checked_add(right.1).filter(|scale| *scale <= DECIMAL_PRECISION_MAX);
            let product = left.0.checked_mul(right.0).zip(scale).ok_or(Misfit::Ordinary)?;
            return of_number(product, data_type);
        }
        let (left, right, scale) = aligned(left, right).ok_or(Misfit::Ordinary)?;
        let result = if self == Self::Add { left.checked_add(right) } else { left.checked_sub(right) };
        of_number((result.ok_or(Misfit::Ordinary)?, scale), data_type)
    }
}

/// A result of arithmetic.
fn of_number((number, scale): (i128, u8), data_type: DataType) -> Result<Scaled<'static>, Misfit> {
    match data_type {
        DataType::Decimal { .. } if has_digits(number, DECIMAL_PRECISION_MAX) => {
            Ok(Scaled { value: ValueRef::Decimal(number), scale })
        }
        DataType::Decimal { .. } => Err(Misfit::Ordinary),
        _ => Ok(of_integer(number, data_type).ok_or_else(|| out_of_range(data_type))?.into()),
    }
}

/// Two numbers with the same digits behind the point, and how many these are.
fn aligned(left: (i128, u8), right: (i128, u8)) -> Option<(i128, i128, u8)> {
    let scale = left.1.max(right.1);
    let at_scale = |(number, own): (i128, u8)| number.checked_mul(10_i128.checked_pow(u32::from(scale - own))?);
    Some((at_scale(left)?, at_scale(right)?, scale))
}

impl<'v> Scaled<'v> {
    /// Of a column of a row.
    pub fn of(value: ValueRef<'v>, data_type: DataType) -> Self {
        Self { value, scale: scale_of(data_type) }
    }

    fn number(self) -> Option<(i128, u8)> {
        match self.value {
            ValueRef::Int2(value) => Some((value.into(), 0)),
            ValueRef::Int4(value) => Some((value.into(), 0)),
            ValueRef::Int8(value) => Some((value.into(), 0)),
            ValueRef::Decimal(value) => Some((value, self.scale)),
            _ => None,
        }
    }

    /// The value as assignment to a column makes it: numbers are rounded to its digits, text loses the blanks at its
    /// end where these mean nothing.
    ///
    /// # Errors
    /// 22003 where the type's range ends.
    pub fn assigned(self, data_type: DataType) -> Result<ValueRef<'v>, Misfit> {
        match (self.value, data_type) {
            (ValueRef::Text(_), DataType::Char(_)) => Ok(self.trimmed(data_type).value),
            (ValueRef::Text(text), DataType::Varchar(limit)) => {
                Ok(ValueRef::Text(without_excess(text, limit as usize)))
            }
            (ValueRef::Decimal(_), DataType::Decimal { precision, scale }) if self.scale == scale => {
                within_precision(self.value, precision)
            }
            (_, DataType::Decimal { precision, scale }) => match self.number() {
                Some(number) => within_precision(ValueRef::Decimal(rounded(number, scale)?), precision),
                None => Ok(self.value),
            },
            (_, DataType::Int2 | DataType::Int4 | DataType::Int8) => match self.number() {
                Some((number, 0)) => Ok(of_integer(number, data_type).ok_or_else(|| out_of_range(data_type))?),
                Some(_) => Err(Misfit::Ordinary),
                None => Ok(self.value),
            },
            (value, _) => Ok(value),
        }
    }

    /// The value of a column's type that equals it; `None` if none does.
    pub fn exactly(self, data_type: DataType) -> Option<ValueRef<'v>> {
        match data_type {
            DataType::Int2 | DataType::Int4 | DataType::Int8 => match self.number() {
                Some(number) => of_integer(rescaled(number, 0)?, data_type),
                None => Some(self.value),
            },
            DataType::Decimal { precision, scale } => match self.number() {
                Some(number) => {
                    let number = rescaled(number, scale)?;
                    has_digits(number, precision).then_some(ValueRef::Decimal(number))
                }
                None => Some(self.value),
            },
            _ => Some(self.value),
        }
    }

    /// How two values compare; `None` if one is NULL.
    ///
    /// # Errors
    /// The ordinary way for numbers that take too many digits.
    pub fn compared(self, other: Self) -> Result<Option<Ordering>, Misfit> {
        if let (Some(left), Some(right)) = (self.number(), other.number()) {
            let (left, right, _) = aligned(left, right).ok_or(Misfit::Ordinary)?;
            return Ok(Some(left.cmp(&right)));
        }
        match (self.value, other.value) {
            (ValueRef::Null, _) | (_, ValueRef::Null) => Ok(None),
            (left, right) if left.kind() == right.kind() => Ok(Some(compare(left, right))),
            _ => Err(Misfit::Ordinary),
        }
    }

    /// Without the blanks at its end, where they mean nothing.
    pub fn trimmed(self, data_type: DataType) -> Self {
        match (self.value, data_type) {
            (ValueRef::Text(text), DataType::Char(_)) => ValueRef::Text(text.trim_end_matches(' ')).into(),
            _ => self,
        }
    }
}

/// Digits behind the point.
pub fn scale_of(data_type: DataType) -> u8 {
    match data_type {
        DataType::Decimal { scale, .. } => scale,
        _ => 0,
    }
}

/// Whether a number has no more digits.
pub fn has_digits(number: i128, precision: u8) -> bool {
    number.unsigned_abs() < decimal_limit(precision).unsigned_abs()
}

fn within_precision(value: ValueRef<'_>, precision: u8) -> Result<ValueRef<'_>, Misfit> {
    match value {
        ValueRef::Decimal(number) if !has_digits(number, precision) => {
            Err(SqlError::data("numeric field overflow").code("22003").into())
        }
        value => Ok(value),
    }
}

/// The number with so many digits behind the point, if it has no others.
fn rescaled((number, own): (i128, u8), scale: u8) -> Option<i128> {
    let factor = 10_i128.checked_pow(u32::from(scale.abs_diff(own)))?;
    if scale >= own { number.checked_mul(factor) } else { (number % factor == 0).then_some(number / factor) }
}

/// The number with so many digits behind the point; halves go away from zero.
fn rounded((number, own): (i128, u8), scale: u8) -> Result<i128, Misfit> {
    let factor = 10_i128.checked_pow(u32::from(scale.abs_diff(own))).ok_or(Misfit::Ordinary)?;
    if scale >= own {
        return number.checked_mul(factor).ok_or(Misfit::Ordinary);
    }
    let is_up = (number % factor).unsigned_abs() * 2 >= factor.unsigned_abs();
    Ok(number / factor + if is_up { number.signum() } else { 0 })
}

fn out_of_range(data_type: DataType) -> SqlError {
    SqlError::data(format!("{data_type} out of range")).code("22003")
}

fn of_integer(value: i128, data_type: DataType) -> Option<ValueRef<'static>> {
    match data_type {
        DataType::Int2 => value.try_into().ok().map(ValueRef::Int2),
        DataType::Int4 => value.try_into().ok().map(ValueRef::Int4),
        DataType::Int8 => value.try_into().ok().map(ValueRef::Int8),
        _ => None,
    }
}

/// A parameter as a value.
///
/// # Errors
/// The ordinary way for what is no stored type.
pub fn scalar(value: &ScalarValue) -> Result<Scaled<'_>, Misfit> {
    Ok(match value {
        value if value.is_null() => ValueRef::Null.into(),
        ScalarValue::Boolean(Some(value)) => ValueRef::Bool(*value).into(),
        ScalarValue::Int16(Some(value)) => ValueRef::Int2(*value).into(),
        ScalarValue::Int32(Some(value)) => ValueRef::Int4(*value).into(),
        ScalarValue::Int64(Some(value)) => ValueRef::Int8(*value).into(),
        ScalarValue::Float32(Some(value)) => ValueRef::Float4(*value).into(),
        ScalarValue::Float64(Some(value)) => ValueRef::Float8(*value).into(),
        ScalarValue::Decimal128(Some(value), _, scale) => {
            Scaled { value: ValueRef::Decimal(*value), scale: u8::try_from(*scale).map_err(|_| Misfit::Ordinary)? }
        }
        ScalarValue::Utf8(Some(value)) => ValueRef::Text(value).into(),
        ScalarValue::LargeUtf8(Some(value)) => ValueRef::Text(value).into(),
        ScalarValue::LargeBinary(Some(value)) => {
            ValueRef::Text(std::str::from_utf8(value).map_err(|_| Misfit::Ordinary)?).into()
        }
        ScalarValue::Binary(Some(value)) => ValueRef::Bytea(value).into(),
        ScalarValue::Date32(Some(value)) => ValueRef::Date(*value).into(),
        ScalarValue::TimestampSecond(Some(value), Some(_)) => ValueRef::Int8(*value).into(),
        ScalarValue::TimestampMicrosecond(Some(value), None) => ValueRef::Timestamp(*value).into(),
        ScalarValue::TimestampMicrosecond(Some(value), Some(_)) => ValueRef::Timestamptz(*value).into(),
        ScalarValue::Time64Microsecond(Some(value)) => ValueRef::Time(*value).into(),
        ScalarValue::IntervalMonthDayNano(Some(value)) => ValueRef::Interval(saki_exec::interval(*value)).into(),
        ScalarValue::FixedSizeBinary(16, Some(value)) => {
            ValueRef::Uuid(value.as_slice().try_into().map_err(|_| Misfit::Ordinary)?).into()
        }
        _ => return Err(Misfit::Ordinary),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MONEY: DataType = DataType::Decimal { precision: 6, scale: 2 };

    fn decimal(number: i128, scale: u8) -> Scaled<'static> {
        Scaled { value: ValueRef::Decimal(number), scale }
    }

    #[test]
    fn assignment_rounds_halves_away_from_zero_and_ends_where_the_type_does() {
        let assigned = |number, scale| decimal(number, scale).assigned(MONEY);
        for (number, scale, expected) in [(1005, 3, 101), (-1005, 3, -101), (1004, 3, 100), (7, 0, 700), (-15, 1, -150)]
        {
            assert_eq!(assigned(number, scale).unwrap(), ValueRef::Decimal(expected), "{number} e-{scale}");
        }
        let refused = |misfit| matches!(misfit, Err(Misfit::Error(error)) if error.sqlstate() == "22003");
        assert!(refused(assigned(1_000_000, 2)) && refused(assigned(9_999_996, 3)));
        assert!(refused(Scaled::from(ValueRef::Int8(70_000)).assigned(DataType::Int2)));
        let text = Scaled::from(ValueRef::Text("ab  ")).assigned(DataType::Char(3));
        assert_eq!(text.unwrap(), ValueRef::Text("ab"));
    }

    #[test]
    fn a_value_of_another_type_equals_one_of_the_columns_or_none() {
        assert_eq!(decimal(1200, 2).exactly(DataType::Int4), Some(ValueRef::Int4(12)));
        assert_eq!(decimal(1250, 2).exactly(DataType::Int4), None);
        assert_eq!(Scaled::from(ValueRef::Int8(1 << 40)).exactly(DataType::Int4), None);
        assert_eq!(Scaled::from(ValueRef::Int4(12)).exactly(MONEY), Some(ValueRef::Decimal(1200)));
        assert_eq!(decimal(12_345, 3).exactly(MONEY), None);
        assert_eq!(Scaled::from(ValueRef::Null).exactly(MONEY), Some(ValueRef::Null));
    }

    #[test]
    fn arithmetic_is_exact_and_ends_at_the_range_of_its_type() {
        let row = [ValueRef::Int4(i32::MAX), ValueRef::Decimal(150)];
        let inputs = Inputs { row: &row, excluded: &[], parameters: &[], drawn: &[], now: 0, local_now: 0 };
        let add = |left, right, data_type| Expr::Arithmetic(Operator::Add, Box::new(left), Box::new(right), data_type);
        let one = || Expr::Literal(Value::Int4(1), 0);
        let overflow = add(Expr::Column(0, 0), one(), DataType::Int4);
        assert!(matches!(overflow.value(&inputs), Err(Misfit::Error(error)) if error.sqlstate() == "22003"));
        let wide = add(Expr::Column(0, 0), one(), DataType::Int8);
        assert_eq!(wide.value(&inputs).unwrap().value, ValueRef::Int8(1 << 31));
        let sum = add(Expr::Column(1, 2), Expr::Literal(Value::Decimal(5), 3), MONEY);
        let sum = sum.value(&inputs).unwrap();
        assert_eq!((sum.value, sum.scale), (ValueRef::Decimal(1505), 3));
    }

    #[test]
    fn values_compare_as_in_postgresql() {
        let compared = |left: Scaled<'_>, right| left.compared(right).unwrap();
        assert_eq!(compared(decimal(120, 1), ValueRef::Int2(12).into()), Some(Ordering::Equal));
        assert_eq!(compared(decimal(121, 1), ValueRef::Int2(12).into()), Some(Ordering::Greater));
        let float = |value| Scaled::from(ValueRef::Float8(value));
        assert_eq!(compared(float(f64::NAN), float(f64::NAN)), Some(Ordering::Equal));
        assert_eq!(compared(float(f64::NAN), float(f64::INFINITY)), Some(Ordering::Greater));
        assert_eq!(compared(float(-0.0), float(0.0)), Some(Ordering::Equal));
        assert_eq!(compared(ValueRef::Null.into(), float(0.0)), None);
        assert!(Scaled::from(ValueRef::Text("a")).compared(float(0.0)).is_err());
    }
}
