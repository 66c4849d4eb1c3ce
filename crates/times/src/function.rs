//! A function over times as a scalar function of the planner.

use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;

use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use saki_catalog::SqlError;

use crate::datum::{Datum, array_of, datum, readable};
use crate::names;
use crate::session::session_time;
use saki_parameters::SessionTime;

/// The type of a function's result, for arguments of some types, of which the first may be a constant.
pub type Returns = fn(&[DataType], Option<&str>) -> Result<DataType>;
/// The result for one row; none of the arguments of a strict function is NULL.
pub type Body = fn(&[Datum], &SessionTime) -> Result<Datum>;

/// A function: its name, how many arguments it takes, and what it gives.
#[derive(Clone, Copy, Debug)]
pub struct TimeFunction {
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    pub arity: (usize, usize),
    pub volatility: Volatility,
    /// Whether a NULL among the arguments is the result.
    pub is_strict: bool,
    pub returns: Returns,
    pub body: Body,
}

impl TimeFunction {
    /// One whose result depends on its arguments and the session's zone and styles, under which a plan is made.
    pub const fn new(name: &'static str, arity: (usize, usize), returns: Returns, body: Body) -> Self {
        Self { name, aliases: &[], arity, volatility: Volatility::Immutable, is_strict: true, returns, body }
    }

    pub fn of(&self) -> ScalarUDF {
        let counts: RangeInclusive<usize> = self.arity.0..=self.arity.1;
        let of_count = |count| if count == 0 { TypeSignature::Nullary } else { TypeSignature::Any(count) };
        let signature = Signature::new(TypeSignature::OneOf(counts.map(of_count).collect()), self.volatility);
        ScalarUDF::from(Planned {
            function: *self,
            aliases: self.aliases.iter().map(|alias| (*alias).to_owned()).collect(),
            signature,
        })
    }
}

/// A type in PostgreSQL's words.
fn type_name(data_type: &DataType) -> &'static str {
    match data_type {
        DataType::Boolean => "boolean",
        DataType::Int16 => "smallint",
        DataType::Int32 => "integer",
        DataType::Int64 => "bigint",
        DataType::Float32 => "real",
        DataType::Float64 => "double precision",
        DataType::Decimal128(..) => "numeric",
        DataType::Date32 => "date",
        DataType::Time64(_) => "time without time zone",
        DataType::Timestamp(_, None) => "timestamp without time zone",
        DataType::Timestamp(_, Some(_)) => "timestamp with time zone",
        DataType::Interval(_) | DataType::Duration(_) => "interval",
        DataType::Utf8 => "text",
        DataType::Null => "unknown",
        _ => "another type",
    }
}

/// 42883: there is no such function.
pub fn no_function(name: &str, types: &[DataType]) -> SqlError {
    let types = types.iter().map(type_name).collect::<Vec<_>>().join(", ");
    SqlError::invalid(format!("function {name}({types}) does not exist"))
        .code("42883")
        .hint("No function matches the given name and argument types. You might need to add explicit type casts.")
}

#[derive(Debug)]
struct Planned {
    function: TimeFunction,
    aliases: Vec<String>,
    signature: Signature,
}

impl PartialEq for Planned {
    fn eq(&self, other: &Self) -> bool {
        self.function.name == other.function.name
    }
}

impl Eq for Planned {}

impl Hash for Planned {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.function.name.hash(state);
    }
}

impl ScalarUDFImpl for Planned {
    fn name(&self) -> &str {
        self.function.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        names::call(self.name(), args)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        (self.function.returns)(types, None)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<_> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let first = args.scalar_arguments.first().copied().flatten().and_then(ScalarValue::try_as_str).flatten();
        let data_type = (self.function.returns)(&types, first)?;
        Ok(Field::new(self.name(), data_type, true).into())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let session = session_time(&args.config_options);
        let is_scalar = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let is_stable = self.function.volatility != Volatility::Volatile;
        let rows = if is_scalar && is_stable { 1 } else { args.number_rows };
        let arrays = args.args.into_iter().map(|arg| readable(&arg.into_array(rows)?)).collect::<Result<Vec<_>>>()?;
        let values = (0..rows).map(|row| self.value(&arrays, row, session)).collect::<Result<Vec<_>>>()?;
        let array = array_of(values, args.return_field.data_type())?;
        Ok(match is_scalar && is_stable {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?),
            false => ColumnarValue::Array(array),
        })
    }
}

impl Planned {
    fn value(&self, arrays: &[ArrayRef], row: usize, session: &SessionTime) -> Result<Datum> {
        if self.function.is_strict && arrays.iter().any(|array| array.is_null(row) || array.data_type().is_null()) {
            return Ok(Datum::Null);
        }
        let values = arrays.iter().map(|array| datum(array, row)).collect::<Result<Vec<_>>>()?;
        (self.function.body)(&values, session)
    }
}
