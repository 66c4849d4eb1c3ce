//! A function about the system as a scalar function of the planner. It answers row by row: what it is asked about is as
//! many rows as a database has objects.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow_array::new_empty_array;
use arrow_schema::{DataType, Field, Fields};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

use super::super::system::SystemCatalog;

/// What a function gives for one row.
pub type Body = fn(&SystemCatalog, &Arguments<'_>) -> Result<ScalarValue>;

/// A function: its name, what it returns, whether a NULL among its arguments is its answer, and how it is answered.
pub struct Definition {
    pub name: &'static str,
    pub returns: Returns,
    pub strict: bool,
    pub body: Body,
}

/// The type of a function's result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Returns {
    Bool,
    Int4,
    Int8,
    Text,
    Timestamp,
    TextList,
    Int4List,
    Int8List,
    /// What the first argument is.
    First,
    /// Structures of `x`, an element, and `n`, its position from 1.
    Positions,
}

impl Returns {
    fn data_type(self, arguments: &[DataType]) -> DataType {
        let list = |item| DataType::List(Arc::new(Field::new_list_field(item, true)));
        match self {
            Self::Bool => DataType::Boolean,
            Self::Int4 => DataType::Int32,
            Self::Int8 => DataType::Int64,
            Self::Text => DataType::Utf8,
            Self::Timestamp => DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, Some("UTC".into())),
            Self::TextList => list(DataType::Utf8),
            Self::Int4List => list(DataType::Int32),
            Self::Int8List => list(DataType::Int64),
            Self::First => arguments.first().cloned().unwrap_or(DataType::Null),
            Self::Positions => list(position_type()),
        }
    }
}

/// A strict function.
pub const fn strict(name: &'static str, returns: Returns, body: Body) -> Definition {
    Definition { name, returns, strict: true, body }
}

/// A function that is asked about NULL too.
pub const fn lax(name: &'static str, returns: Returns, body: Body) -> Definition {
    Definition { name, returns, strict: false, body }
}

/// An element of `_pg_expandarray`.
pub fn position_type() -> DataType {
    DataType::Struct(position_fields())
}

pub fn position_fields() -> Fields {
    ["x", "n"].map(|name| Field::new(name, DataType::Int64, true)).into_iter().collect()
}

/// The values of one row that a function is asked about.
pub struct Arguments<'a>(&'a [ScalarValue]);

impl Arguments<'_> {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn get(&self, at: usize) -> &ScalarValue {
        self.0.get(at).unwrap_or(&ScalarValue::Null)
    }

    pub fn text(&self, at: usize) -> Option<&str> {
        self.get(at).try_as_str().flatten()
    }

    pub fn integer(&self, at: usize) -> Option<i64> {
        integer(self.get(at))
    }

    pub fn truth(&self, at: usize) -> bool {
        matches!(self.get(at), ScalarValue::Boolean(Some(true)))
    }
}

/// A whole number of any width, or one that a text spells.
pub fn integer(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::Int8(value) => value.map(i64::from),
        ScalarValue::Int16(value) => value.map(i64::from),
        ScalarValue::Int32(value) => value.map(i64::from),
        ScalarValue::Int64(value) => *value,
        ScalarValue::UInt8(value) => value.map(i64::from),
        ScalarValue::UInt16(value) => value.map(i64::from),
        ScalarValue::UInt32(value) => value.map(i64::from),
        ScalarValue::UInt64(value) => value.and_then(|value| value.try_into().ok()),
        other => other.try_as_str().flatten()?.trim().parse().ok(),
    }
}

/// Text or NULL.
pub fn text(value: Option<String>) -> ScalarValue {
    ScalarValue::Utf8(value)
}

/// A definition bound to a session.
#[derive(Debug)]
pub struct SystemFunction {
    name: &'static str,
    returns: Returns,
    strict: bool,
    body: Body,
    signature: Signature,
    system: Arc<SystemCatalog>,
}

impl SystemFunction {
    pub fn new(definition: &Definition, system: Arc<SystemCatalog>) -> Self {
        let any = TypeSignature::OneOf(vec![TypeSignature::Nullary, TypeSignature::VariadicAny]);
        Self {
            name: definition.name,
            returns: definition.returns,
            strict: definition.strict,
            body: definition.body,
            signature: Signature::new(any, Volatility::Stable),
            system,
        }
    }

    fn answer(&self, row: &[ScalarValue]) -> Result<ScalarValue> {
        if self.strict && row.iter().any(ScalarValue::is_null) {
            return ScalarValue::try_from(&self.returns.data_type(&[]));
        }
        (self.body)(&self.system, &Arguments(row))
    }
}

impl PartialEq for SystemFunction {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for SystemFunction {}

impl Hash for SystemFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl ScalarUDFImpl for SystemFunction {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(self.returns.data_type(arguments))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_))) {
            let row = args.args.iter().filter_map(|arg| match arg {
                ColumnarValue::Scalar(value) => Some(value.clone()),
                ColumnarValue::Array(_) => None,
            });
            return Ok(ColumnarValue::Scalar(self.answer(&row.collect::<Vec<_>>())?));
        }
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let rows = (0..args.number_rows).map(|row| {
            let row = arrays.iter().map(|array| ScalarValue::try_from_array(array, row)).collect::<Result<Vec<_>>>()?;
            self.answer(&row)
        });
        let answers = rows.collect::<Result<Vec<_>>>()?;
        if answers.is_empty() {
            return Ok(ColumnarValue::Array(new_empty_array(args.return_field.data_type())));
        }
        Ok(ColumnarValue::Array(ScalarValue::iter_to_array(answers)?))
    }
}
