//! Functions of texts that PostgreSQL has for bytes too, under the same names, and `substring` by a pattern.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::functions::{core, string, unicode};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::definition::Definition;
use super::slices::FUNCTIONS as SLICES;
use crate::patterns::similar::substrings;

/// What `position(… IN …)` calls.
pub const POSITION: &str = "position";
/// What `substring(… FROM … FOR …)` calls.
pub const SUBSTRING: &str = "substring";

/// The functions.
pub fn functions() -> impl Iterator<Item = ScalarUDF> {
    let of_bytes = |name: &str| SLICES.iter().find(|slice| slice.name() == name);
    [
        ("substr", unicode::substr(), of_bytes("substr")),
        (SUBSTRING, unicode::substr(), of_bytes("substr")),
        (POSITION, unicode::strpos(), of_bytes("strpos")),
        ("overlay", core::overlay(), of_bytes("overlay")),
        ("btrim", string::btrim(), of_bytes("btrim")),
        ("ltrim", string::ltrim(), of_bytes("ltrim")),
        ("rtrim", string::rtrim(), of_bytes("rtrim")),
    ]
    .into_iter()
    .map(|(name, of_texts, of_bytes)| {
        let aliases = if name == "btrim" { vec!["trim".to_owned()] } else { Vec::new() };
        let signature = Signature::user_defined(Volatility::Immutable);
        ScalarUDF::from(Overloaded { name, aliases, of_texts, of_bytes, signature })
    })
}

/// A function of the planner's, but where it is given bytes, or a pattern.
#[derive(Debug)]
struct Overloaded {
    name: &'static str,
    aliases: Vec<String>,
    of_texts: Arc<ScalarUDF>,
    of_bytes: Option<&'static Definition>,
    signature: Signature,
}

impl PartialEq for Overloaded {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Overloaded {}

impl std::hash::Hash for Overloaded {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

/// Which function a call is.
enum Form {
    Texts,
    Bytes(&'static Definition, Vec<DataType>),
    Pattern,
}

impl Overloaded {
    fn form(&self, arguments: &[DataType]) -> Form {
        let is_text = |of: &DataType| matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        if self.name == SUBSTRING && arguments.len() > 1 && arguments[1..].iter().all(is_text) {
            return Form::Pattern;
        }
        match self.of_bytes.filter(|of_bytes| of_bytes.is_of_bytes(arguments)) {
            Some(of_bytes) => of_bytes.taken(arguments).map_or(Form::Texts, |types| Form::Bytes(of_bytes, types)),
            None => Form::Texts,
        }
    }
}

fn types_of(fields: &[FieldRef]) -> Vec<DataType> {
    fields.iter().map(|field| field.data_type().clone()).collect()
}

impl ScalarUDFImpl for Overloaded {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        match self.form(arguments) {
            Form::Bytes(_, types) => Ok(types),
            Form::Pattern => Ok(vec![DataType::Utf8; arguments.len()]),
            Form::Texts => {
                let fields = arguments.iter().map(|of| Arc::new(Field::new("argument", of.clone(), true)));
                Ok(types_of(&fields_with_udf(&fields.collect::<Vec<_>>(), self.of_texts.as_ref())?))
            }
        }
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        match self.form(arguments) {
            Form::Bytes(of_bytes, _) => Ok(of_bytes.returns(arguments)),
            Form::Pattern => Ok(DataType::Utf8),
            Form::Texts => self.of_texts.return_type(arguments),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types = types_of(args.arg_fields);
        match self.form(&types) {
            Form::Texts => self.of_texts.return_field_from_args(args),
            _ => Ok(Arc::new(Field::new(self.name, self.return_type(&types)?, true))),
        }
    }

    fn is_strict(&self) -> bool {
        self.of_texts.is_strict()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match self.form(&types_of(&args.arg_fields)) {
            Form::Bytes(of_bytes, _) => of_bytes.invoke(&args),
            Form::Pattern => make_scalar_function(substrings, Vec::new())(&args.args),
            Form::Texts => self.of_texts.invoke_with_args(args),
        }
    }
}
