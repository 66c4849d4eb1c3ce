//! A function by its definition: the types that it takes, and what it gives for one row.

use std::sync::Arc;

use arrow_array::{ArrayRef, new_empty_array};
use arrow_schema::{DataType, Field};
use datafusion::common::{Result, ScalarValue};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::type_coercion::binary::comparison_coercion;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use saki_catalog::SqlError;

use crate::arithmetic::undefined_function;
use crate::texts::encodings::bytea;

/// What a function takes at a place.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Takes {
    /// Bytes, or a text that is read as such.
    Bytes,
    Integer,
    Float,
    Text,
    /// An array; several of one function are brought to one type.
    Array,
}

/// What a function gives.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Gives {
    Truth,
    Integer,
    Bigint,
    Float,
    Text,
    Bytes,
    /// What the first argument is.
    First,
}

/// A function, by the values of one row, none of which is NULL.
pub type Body = fn(&[ScalarValue]) -> Result<ScalarValue>;

#[derive(Debug)]
pub struct Definition {
    name: &'static str,
    takes: &'static [Takes],
    /// How many of the last arguments need not be given.
    optional: usize,
    gives: Gives,
    body: Body,
}

pub const fn define(name: &'static str, takes: &'static [Takes], gives: Gives, body: Body) -> Definition {
    Definition { name, takes, optional: 0, gives, body }
}

impl Definition {
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// So many of its last arguments need not be given.
    pub const fn with_optional(self, optional: usize) -> Self {
        Self { optional, ..self }
    }

    /// The types that arguments become; `None`: it does not take them.
    pub fn taken(&self, arguments: &[DataType]) -> Option<Vec<DataType>> {
        if !(self.takes.len() - self.optional..=self.takes.len()).contains(&arguments.len()) {
            return None;
        }
        let types: Option<Vec<DataType>> = self.takes.iter().zip(arguments).map(|(takes, of)| takes.of(of)).collect();
        together(self.takes, types?)
    }

    /// Whether it takes bytes at a place where it is given some.
    pub fn is_of_bytes(&self, arguments: &[DataType]) -> bool {
        self.takes.iter().zip(arguments).any(|pair| matches!(pair, (Takes::Bytes, DataType::Binary)))
    }

    /// As the planner takes it.
    pub fn function(&'static self) -> ScalarUDF {
        ScalarUDF::from(RowWise { definition: self, signature: Signature::user_defined(Volatility::Immutable) })
    }
}

#[derive(Debug)]
struct RowWise {
    definition: &'static Definition,
    signature: Signature,
}

impl PartialEq for RowWise {
    fn eq(&self, other: &Self) -> bool {
        self.definition.name == other.definition.name
    }
}

impl Eq for RowWise {}

impl std::hash::Hash for RowWise {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.definition.name.hash(state);
    }
}

impl ScalarUDFImpl for RowWise {
    fn name(&self) -> &str {
        self.definition.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let types = self.definition.taken(arguments);
        types.ok_or_else(|| undefined_function(self.name(), "cast its arguments to what it takes").into())
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        Ok(self.definition.returns(arguments))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.definition.invoke(&args)
    }
}

impl Definition {
    pub fn returns(&self, arguments: &[DataType]) -> DataType {
        match self.gives {
            Gives::Truth => DataType::Boolean,
            Gives::Integer => DataType::Int32,
            Gives::Bigint => DataType::Int64,
            Gives::Float => DataType::Float64,
            Gives::Text => DataType::Utf8,
            Gives::Bytes => DataType::Binary,
            Gives::First => arguments.first().cloned().unwrap_or(DataType::Null),
        }
    }

    pub fn invoke(&self, args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
        let returns = args.return_field.data_type().clone();
        make_scalar_function(move |arrays: &[ArrayRef]| self.of_rows(arrays, &returns), Vec::new())(&args.args)
    }

    fn of_rows(&self, arrays: &[ArrayRef], returns: &DataType) -> Result<ArrayRef> {
        let rows = arrays.first().map_or(0, |array| array.len());
        if rows == 0 {
            return Ok(new_empty_array(returns));
        }
        let row = |row: usize| -> Result<ScalarValue> {
            let value = |(takes, array): (&Takes, &ArrayRef)| takes.read(ScalarValue::try_from_array(array, row)?);
            let values = self.takes.iter().zip(arrays).map(value).collect::<Result<Vec<_>>>()?;
            match values.iter().any(ScalarValue::is_null) {
                true => ScalarValue::try_from(returns),
                false => (self.body)(&values),
            }
        };
        ScalarValue::iter_to_array((0..rows).map(row).collect::<Result<Vec<_>>>()?)
    }
}

impl Takes {
    /// As what an argument of a type is taken; `None`: it is not.
    fn of(self, argument: &DataType) -> Option<DataType> {
        let is_text = matches!(argument, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null);
        match self {
            Self::Bytes if is_text || *argument == DataType::Binary => Some(argument.clone()),
            Self::Integer if is_text || argument.is_signed_integer() => Some(DataType::Int64),
            Self::Float if is_text || argument.is_numeric() => Some(DataType::Float64),
            Self::Text if is_text => Some(DataType::Utf8),
            Self::Array if matches!(argument, DataType::List(_)) => Some(argument.clone()),
            Self::Bytes | Self::Integer | Self::Float | Self::Text | Self::Array => None,
        }
    }

    /// A text that stands for bytes becomes them.
    ///
    /// # Errors
    /// For a text that is no bytes; and 42883 for another value than was said when types were resolved, as that of a
    /// parameter may be.
    fn read(self, value: ScalarValue) -> Result<ScalarValue> {
        let is_taken = match self {
            Self::Bytes => matches!(value, ScalarValue::Binary(_)) || value.try_as_str().is_some(),
            Self::Integer => matches!(value, ScalarValue::Int64(_)),
            Self::Float => matches!(value, ScalarValue::Float64(_)),
            Self::Text => matches!(value, ScalarValue::Utf8(_)),
            Self::Array => matches!(value, ScalarValue::List(_)),
        };
        if !is_taken && !value.is_null() {
            let message = format!("a value of type {} is no argument of this function", value.data_type());
            return Err(SqlError::invalid(message).code("42883").into());
        }
        match value.try_as_str() {
            Some(Some(text)) if self == Self::Bytes => Ok(ScalarValue::Binary(Some(bytea(text)?))),
            _ => Ok(value),
        }
    }
}

/// Arrays beside each other get elements of one type; `None` if these cannot be compared.
fn together(takes: &[Takes], mut types: Vec<DataType>) -> Option<Vec<DataType>> {
    let [Takes::Array, Takes::Array] = takes else { return Some(types) };
    let [DataType::List(left), DataType::List(right)] = &types[..] else { return None };
    let of = comparison_coercion(left.data_type(), right.data_type())?;
    let list = DataType::List(Arc::new(Field::new_list_field(of, true)));
    types.fill(list);
    Some(types)
}

/// The integer at a place where one is taken.
pub fn integer(values: &[ScalarValue], at: usize) -> i64 {
    match values.get(at) {
        Some(ScalarValue::Int64(Some(number))) => *number,
        _ => unreachable!("arguments are what the function takes"),
    }
}

pub fn float(values: &[ScalarValue], at: usize) -> f64 {
    match values.get(at) {
        Some(ScalarValue::Float64(Some(number))) => *number,
        _ => unreachable!("arguments are what the function takes"),
    }
}

pub fn text(values: &[ScalarValue], at: usize) -> &str {
    match values.get(at) {
        Some(ScalarValue::Utf8(Some(text))) => text,
        _ => unreachable!("arguments are what the function takes"),
    }
}

pub fn bytes(values: &[ScalarValue], at: usize) -> &[u8] {
    match values.get(at) {
        Some(ScalarValue::Binary(Some(bytes))) => bytes,
        _ => unreachable!("arguments are what the function takes"),
    }
}
