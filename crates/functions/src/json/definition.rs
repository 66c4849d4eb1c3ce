//! A function by its definition: what it takes at each place, and what it gives for one row.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::builder::{LargeBinaryBuilder, LargeStringBuilder, ListBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Int32Array, LargeBinaryArray, LargeStringArray, StringArray};
use arrow_schema::{DataType, Field};
use datafusion::arrow::compute::cast;
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use saki_base::array_elements;
use saki_base::json::JsonFault;
use saki_catalog::SqlError;

use super::kinds::{JSON, JSONB};
use super::parse::parsed;
use crate::arithmetic::undefined_function;

/// What a function takes at a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Takes {
    /// `json` or `jsonb`.
    Either,
    Json,
    Jsonb,
    Text,
    Integer,
    Truth,
    /// An array of texts, or a text that spells one.
    Texts,
    /// A text or an integer.
    Place,
}

/// What a function gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gives {
    /// What the first argument is.
    Same,
    Jsonb,
    Text,
    Truth,
    Integer,
    /// A list of what the first argument is.
    Sames,
    /// A list of texts.
    Texts,
}

/// What a function gives for a row.
pub enum Answer<'a> {
    Null,
    Text(Cow<'a, str>),
    Truth(bool),
    Integer(i32),
    List(Vec<Option<Cow<'a, str>>>),
}

impl<'a> Answer<'a> {
    pub fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self::Text(text.into())
    }
}

impl<'a> From<Option<Cow<'a, str>>> for Answer<'a> {
    fn from(text: Option<Cow<'a, str>>) -> Self {
        text.map_or(Self::Null, Self::Text)
    }
}

/// The arguments of a row, none of which is NULL.
pub struct Row<'a> {
    arguments: &'a [Argument],
    row: usize,
}

/// A function's work on a row.
pub type Body = for<'a> fn(&Row<'a>) -> std::result::Result<Answer<'a>, SqlError>;

#[derive(Debug)]
pub struct Definition {
    pub name: &'static str,
    pub takes: &'static [Takes],
    /// Whether texts follow, any number of them, which the last place takes as one array.
    pub variadic: bool,
    pub gives: Gives,
    pub body: Body,
}

pub const fn define(name: &'static str, takes: &'static [Takes], gives: Gives, body: Body) -> Definition {
    Definition { name, takes, variadic: false, gives, body }
}

impl Definition {
    /// As the planner takes it.
    pub fn function(&'static self) -> ScalarUDF {
        ScalarUDF::from(Function { definition: self, signature: Signature::user_defined(Volatility::Immutable) })
    }
}

/// What is said of JSON that is none, or too much.
pub fn failed(fault: JsonFault) -> SqlError {
    SqlError::data(fault.to_string()).code(fault.sqlstate()).detail(fault.detail())
}

#[derive(Debug)]
struct Function {
    definition: &'static Definition,
    signature: Signature,
}

impl PartialEq for Function {
    fn eq(&self, other: &Self) -> bool {
        self.definition.name == other.definition.name
    }
}

impl Eq for Function {}

impl std::hash::Hash for Function {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.definition.name.hash(state);
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        self.definition.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let Definition { takes, variadic, .. } = self.definition;
        // What is left out has a default.
        let counts = arguments.len() <= takes.len() || *variadic;
        let at = |at: usize| takes.get(at).copied().unwrap_or(Takes::Text);
        let taken = arguments.iter().enumerate().map(|(place, of)| match at(place) {
            Takes::Texts if *variadic && is_text(of) => Some(DataType::Utf8),
            takes => takes.of(of),
        });
        let types: Option<Vec<DataType>> = taken.collect();
        types
            .filter(|_| counts)
            .ok_or_else(|| undefined_function(self.name(), "cast its arguments to what it takes").into())
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        let same = || match (self.definition.takes.first(), arguments.first()) {
            (Some(Takes::Json), _) => JSON,
            (Some(Takes::Either), Some(json)) if *json == JSON => JSON,
            _ => JSONB,
        };
        let list = |of| DataType::List(Arc::new(Field::new_list_field(of, true)));
        Ok(match self.definition.gives {
            Gives::Same => same(),
            Gives::Jsonb => JSONB,
            Gives::Text => DataType::Utf8,
            Gives::Truth => DataType::Boolean,
            Gives::Integer => DataType::Int32,
            Gives::Sames => list(same()),
            Gives::Texts => list(DataType::Utf8),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let returns = args.return_field.data_type().clone();
        make_scalar_function(move |arrays: &[ArrayRef]| self.definition.of_rows(arrays, &returns), Vec::new())(
            &args.args,
        )
    }
}

fn is_text(of: &DataType) -> bool {
    matches!(of, DataType::Utf8 | DataType::Utf8View | DataType::Null)
}

impl Takes {
    /// As what an argument of a type is taken; `None`: it is not.
    fn of(self, argument: &DataType) -> Option<DataType> {
        let is_null = *argument == DataType::Null;
        match self {
            Self::Either | Self::Json if *argument == JSON => Some(JSON),
            Self::Either | Self::Jsonb if *argument == JSONB => Some(JSONB),
            // What has no type yet is read as what is taken.
            Self::Either | Self::Json | Self::Jsonb if is_text(argument) => Some(DataType::Utf8),
            Self::Text | Self::Place if is_text(argument) => Some(DataType::Utf8),
            Self::Integer | Self::Place if argument.is_integer() || is_null => Some(DataType::Int64),
            Self::Truth if *argument == DataType::Boolean || is_null => Some(DataType::Boolean),
            Self::Texts if is_text(argument) => Some(DataType::Utf8),
            Self::Texts if matches!(argument, DataType::List(_)) => {
                Some(DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, true))))
            }
            _ => None,
        }
    }
}

/// The values of an argument.
enum Argument {
    Json(LargeBinaryArray),
    Jsonb(LargeStringArray),
    Text(StringArray),
    Other(ArrayRef),
}

impl Argument {
    fn new(array: &ArrayRef) -> Self {
        match array.data_type() {
            DataType::LargeBinary => Self::Json(array.as_binary::<i64>().clone()),
            DataType::LargeUtf8 => Self::Jsonb(array.as_string::<i64>().clone()),
            DataType::Utf8 => Self::Text(array.as_string::<i32>().clone()),
            _ => Self::Other(Arc::clone(array)),
        }
    }
}

impl<'a> Row<'a> {
    /// How many arguments there are.
    pub fn count(&self) -> usize {
        self.arguments.len()
    }

    /// The text at a place.
    ///
    /// # Errors
    /// For another type than was said, as that of a parameter may be.
    pub fn text(&self, at: usize) -> std::result::Result<&'a str, SqlError> {
        match &self.arguments[at] {
            Argument::Json(array) => std::str::from_utf8(array.value(self.row)).map_err(SqlError::internal),
            Argument::Jsonb(array) => Ok(array.value(self.row)),
            Argument::Text(array) => Ok(array.value(self.row)),
            Argument::Other(array) => {
                let message = format!("a value of type {} is no argument of this function", array.data_type());
                Err(SqlError::invalid(message).code("42883"))
            }
        }
    }

    pub fn is_json(&self, at: usize) -> bool {
        matches!(self.arguments[at], Argument::Json(_))
    }

    /// The integer at a place, if one stands there.
    pub fn integer(&self, at: usize) -> Option<i64> {
        let Argument::Other(array) = self.arguments.get(at)? else { return None };
        array.as_primitive_opt::<Int64Type>().map(|array| array.value(self.row))
    }

    /// The truth at a place; `None` if none is given.
    pub fn truth(&self, at: usize) -> Option<bool> {
        let Argument::Other(array) = self.arguments.get(at)? else { return None };
        array.as_boolean_opt().map(|array| array.value(self.row))
    }

    /// The texts of an array at a place, or of all places from it on.
    ///
    /// # Errors
    /// 22P02 for a text that spells no array.
    pub fn texts(&self, at: usize, variadic: bool) -> std::result::Result<Vec<Option<String>>, SqlError> {
        if let Some(Argument::Other(array)) = self.arguments.get(at) {
            let list = array.as_list_opt::<i32>().map(|list| list.value(self.row));
            let texts = list.as_ref().and_then(|list| list.as_string_opt::<i32>());
            let texts = texts.ok_or_else(|| SqlError::invalid("an array of texts is expected").code("42883"))?;
            return Ok(texts.iter().map(|text| text.map(str::to_owned)).collect());
        }
        if variadic {
            return (at..self.count()).map(|at| self.text(at).map(|text| Some(text.to_owned()))).collect();
        }
        let text = self.text(at)?;
        Ok(array_elements(text)?)
    }
}

impl Definition {
    fn of_rows(&self, arrays: &[ArrayRef], returns: &DataType) -> Result<ArrayRef> {
        let rows = arrays.first().map_or(0, |array| array.len());
        let arrays = arrays.iter().enumerate().map(|(at, array)| self.read(at, array)).collect::<Result<Vec<_>>>()?;
        let arguments: Vec<Argument> = arrays.iter().map(Argument::new).collect();
        let answer = |row: usize| match arrays.iter().any(|array| array.is_null(row)) {
            true => Ok(Answer::Null),
            false => (self.body)(&Row { arguments: &arguments, row }),
        };
        Ok(column((0..rows).map(answer), returns)?)
    }

    /// Texts in the layout that is looked at here, or as the JSON that they spell.
    fn read(&self, at: usize, array: &ArrayRef) -> Result<ArrayRef> {
        match (self.takes.get(at), array.data_type()) {
            (Some(Takes::Json), DataType::Utf8 | DataType::Utf8View | DataType::Null) => parsed(array, &JSON),
            (Some(Takes::Jsonb | Takes::Either), DataType::Utf8 | DataType::Utf8View | DataType::Null) => {
                parsed(array, &JSONB)
            }
            (_, DataType::Utf8View) => Ok(cast(array, &DataType::Utf8)?),
            _ => Ok(Arc::clone(array)),
        }
    }
}

/// Answers as a column.
fn column<'a>(
    answers: impl Iterator<Item = std::result::Result<Answer<'a>, SqlError>>,
    returns: &DataType,
) -> std::result::Result<ArrayRef, SqlError> {
    let text = |answer: Answer<'a>| if let Answer::Text(text) = answer { Some(text) } else { None };
    Ok(match returns {
        DataType::Boolean => {
            let truth = |answer| if let Answer::Truth(truth) = answer { Some(truth) } else { None };
            let truths: std::result::Result<BooleanArray, SqlError> = answers.map(|a| a.map(truth)).collect();
            Arc::new(truths?)
        }
        DataType::Int32 => {
            let number = |answer| if let Answer::Integer(number) = answer { Some(number) } else { None };
            let numbers: std::result::Result<Int32Array, SqlError> = answers.map(|a| a.map(number)).collect();
            Arc::new(numbers?)
        }
        DataType::LargeUtf8 => {
            let mut out = LargeStringBuilder::new();
            for answer in answers {
                out.append_option(text(answer?));
            }
            Arc::new(out.finish())
        }
        DataType::LargeBinary => {
            let mut out = LargeBinaryBuilder::new();
            for answer in answers {
                out.append_option(text(answer?).as_deref().map(str::as_bytes));
            }
            Arc::new(out.finish())
        }
        DataType::List(field) => lists(answers, field.data_type())?,
        _ => {
            let mut out = StringBuilder::new();
            for answer in answers {
                out.append_option(text(answer?));
            }
            Arc::new(out.finish())
        }
    })
}

fn lists<'a>(
    answers: impl Iterator<Item = std::result::Result<Answer<'a>, SqlError>>,
    element: &DataType,
) -> std::result::Result<ArrayRef, SqlError> {
    // Of bytes where the elements are `json`, which differ in no more than their type.
    let mut out = ListBuilder::new(LargeStringBuilder::new());
    for answer in answers {
        if let Answer::List(list) = answer? {
            list.into_iter().for_each(|item| out.values().append_option(item));
            out.append(true);
        } else {
            out.append(false);
        }
    }
    let lists: ArrayRef = Arc::new(out.finish());
    Ok(cast(&lists, &DataType::List(Arc::new(Field::new_list_field(element.clone(), true))))?)
}
