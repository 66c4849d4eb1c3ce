//! JSON made of values of other types.

use std::sync::Arc;

use arrow_array::builder::{LargeBinaryBuilder, LargeStringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray, StringArray};
use arrow_schema::DataType;
use datafusion::arrow::compute::cast;
use datafusion::common::{Result, ScalarValue};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use saki_base::array_elements;
use saki_base::json::{Kind as Value, canonical, kind};
use saki_catalog::SqlError;
use saki_parameters::TimeStyle;
use saki_times::session_time;

use super::definition::failed;
use super::kinds::{JSON, JSONB};
use super::writer::{items, quoted};

/// Aggregates, each as a function of the array that is gathered of its argument, or of what another function makes of
/// its arguments.
pub const GATHERED: &[(&str, &str, Option<&str>)] = &[
    ("json_agg", "json_of_items", None),
    ("jsonb_agg", "jsonb_of_items", None),
    ("json_object_agg", "json_of_pairs", Some("json_pair")),
    ("jsonb_object_agg", "jsonb_of_pairs", Some("json_pair")),
];
/// Functions and aggregates whose argument may be a whole row.
pub const WHOLE_ROW: &[&str] = &["json_agg", "jsonb_agg", "to_json", "to_jsonb", "row_to_json"];

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    /// One value.
    Value,
    /// Values in turn.
    Array,
    /// Keys and values in turn.
    Object,
    /// Of an array of texts, or of one of keys and one of values.
    TextObject,
    /// A key and its value as text.
    Pair,
    OfItems,
    OfPairs,
}

pub fn functions() -> impl Iterator<Item = ScalarUDF> {
    [
        ("to_json", Kind::Value, false),
        ("to_jsonb", Kind::Value, true),
        ("array_to_json", Kind::Value, false),
        ("row_to_json", Kind::Value, false),
        ("json_build_array", Kind::Array, false),
        ("jsonb_build_array", Kind::Array, true),
        ("json_build_object", Kind::Object, false),
        ("jsonb_build_object", Kind::Object, true),
        ("json_object", Kind::TextObject, false),
        ("jsonb_object", Kind::TextObject, true),
        ("json_pair", Kind::Pair, false),
        ("json_of_items", Kind::OfItems, false),
        ("jsonb_of_items", Kind::OfItems, true),
        ("json_of_pairs", Kind::OfPairs, false),
        ("jsonb_of_pairs", Kind::OfPairs, true),
    ]
    .into_iter()
    .map(|(name, kind, binary)| {
        let signature = match kind {
            Kind::Array | Kind::Object => {
                Signature::one_of(vec![TypeSignature::Nullary, TypeSignature::VariadicAny], Volatility::Stable)
            }
            _ => Signature::variadic_any(Volatility::Stable),
        };
        ScalarUDF::from(Build { name, kind, binary, signature })
    })
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Build {
    name: &'static str,
    kind: Kind,
    /// Of `jsonb`.
    binary: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Build {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::Pair => DataType::Utf8,
            _ if self.binary => JSONB,
            _ => JSON,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let style = session_time(&args.config_options).style.clone();
        if args.args.is_empty() {
            let text = if self.kind == Kind::Array { "[]" } else { "{}" };
            let made = self.finished([Some(text.to_owned())].into_iter().map(Ok))?;
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?));
        }
        make_scalar_function(|arrays: &[ArrayRef]| self.made(arrays, &style), Vec::new())(&args.args)
    }
}

impl Build {
    fn made(&self, arrays: &[ArrayRef], style: &TimeStyle) -> Result<ArrayRef> {
        let rows = 0..arrays[0].len();
        match self.kind {
            Kind::Value => {
                let values = items(&arrays[0], style)?;
                self.finished(values.iter().map(|value| Ok(value.map(str::to_owned))))
            }
            Kind::Array => {
                let columns = arrays.iter().map(|array| items(array, style)).collect::<Result<Vec<_>>>()?;
                let row = |row| {
                    let values: Vec<_> = columns.iter().map(|column| value(column, row)).collect();
                    Ok(Some(format!("[{}]", values.join(", "))))
                };
                self.finished(rows.map(row))
            }
            Kind::Object => {
                if arrays.len() % 2 == 1 {
                    let message = "argument list must have even number of elements";
                    let hint = format!("The arguments of {}() must consist of alternating keys and values.", self.name);
                    return Err(SqlError::data(message).code("22023").hint(hint).into());
                }
                if arrays.iter().step_by(2).any(|keys| !is_scalar(keys.data_type())) {
                    let message = "key value must be scalar, not array, composite, or json";
                    return Err(SqlError::data(message).code("22023").into());
                }
                let columns = arrays.iter().map(|array| items(array, style)).collect::<Result<Vec<_>>>()?;
                let row = |row| {
                    let pairs = columns.chunks(2).enumerate().map(|(at, pair)| {
                        let key = key(&pair[0], row).ok_or_else(|| {
                            SqlError::data(format!("argument {} cannot be null", at * 2 + 1))
                                .code("22023")
                                .hint("Object keys should be text.")
                        })?;
                        Ok(format!("{key} : {}", value(&pair[1], row)))
                    });
                    Ok(Some(format!("{{{}}}", pairs.collect::<std::result::Result<Vec<_>, SqlError>>()?.join(", "))))
                };
                self.finished(rows.map(row))
            }
            Kind::Pair => {
                let (keys, values) = (items(&arrays[0], style)?, items(&arrays[1], style)?);
                let pair = |row| {
                    let missing = || SqlError::data("field name must not be null").code("22023");
                    let key = key(&keys, row).ok_or_else(missing)?;
                    Ok(Some(format!("{key} : {}", value(&values, row))))
                };
                let pairs: std::result::Result<StringArray, SqlError> = rows.map(pair).collect();
                Ok(Arc::new(pairs?))
            }
            Kind::OfItems => self.of_items(&arrays[0], style),
            Kind::OfPairs => self.of_pairs(&arrays[0]),
            Kind::TextObject => self.finished(rows.map(|row| text_object(arrays, row))),
        }
    }

    /// Of lists of values: rows and arrays each begin a line.
    fn of_items(&self, lists: &ArrayRef, style: &TimeStyle) -> Result<ArrayRef> {
        let lists = gathered(lists)?;
        let structured = matches!(lists.value_type(), DataType::List(_) | DataType::Struct(_));
        let separator = if structured { ", \n " } else { ", " };
        let values = items(lists.values(), style)?;
        let row = |row: usize| {
            let ends = [row, row + 1].map(|at| lists.value_offsets()[at] as usize);
            let values: Vec<&str> = (ends[0]..ends[1]).map(|at| value(&values, at)).collect();
            Ok(lists.is_valid(row).then(|| format!("[{}]", values.join(separator))))
        };
        self.finished((0..lists.len()).map(row))
    }

    /// Of lists of pairs.
    fn of_pairs(&self, lists: &ArrayRef) -> Result<ArrayRef> {
        let row = |list: Option<ArrayRef>| {
            let list = list.map(|list| cast(&list, &DataType::Utf8)).transpose()?;
            let pairs = list.as_ref().map(|list| list.as_string::<i32>().iter().flatten().collect::<Vec<_>>());
            Ok(pairs.map(|pairs| format!("{{ {} }}", pairs.join(", "))))
        };
        self.finished(gathered(lists)?.iter().map(row))
    }

    /// Texts as values of the type that the function gives.
    fn finished(&self, texts: impl Iterator<Item = std::result::Result<Option<String>, SqlError>>) -> Result<ArrayRef> {
        if !self.binary {
            let mut out = LargeBinaryBuilder::new();
            for text in texts {
                out.append_option(text?);
            }
            return Ok(Arc::new(out.finish()));
        }
        let mut out = LargeStringBuilder::new();
        for text in texts {
            out.append_option(text?.as_deref().map(canonical).transpose().map_err(failed)?);
        }
        Ok(Arc::new(out.finish()))
    }
}

fn value(column: &StringArray, row: usize) -> &str {
    if column.is_valid(row) { column.value(row) } else { "null" }
}

/// Whether a value can be a key.
fn is_scalar(data_type: &DataType) -> bool {
    !data_type.is_nested() && *data_type != JSON && *data_type != JSONB
}

/// A value as a key: what is no string is put in quotes.
fn key(column: &StringArray, row: usize) -> Option<String> {
    let value = column.is_valid(row).then(|| column.value(row))?;
    Some(match kind(value) {
        Value::String => value.to_owned(),
        _ => quoted(value),
    })
}

fn gathered(lists: &ArrayRef) -> Result<&ListArray> {
    Ok(lists.as_list_opt::<i32>().ok_or_else(|| SqlError::internal("what is gathered is a list"))?)
}

/// # Errors
/// 2202E for arrays of other lengths, 22004 for a NULL as a key.
fn text_object(arrays: &[ArrayRef], row: usize) -> std::result::Result<Option<String>, SqlError> {
    if arrays.iter().any(|array| array.is_null(row)) {
        return Ok(None);
    }
    let texts = |array: &ArrayRef| -> std::result::Result<Vec<Option<String>>, SqlError> {
        match array.as_list_opt::<i32>() {
            Some(list) => {
                let list = cast(&list.value(row), &DataType::Utf8)?;
                Ok(list.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect())
            }
            None => {
                let text = cast(array, &DataType::Utf8)?;
                let text = text.as_string::<i32>().value(row);
                Ok(array_elements(text)?)
            }
        }
    };
    let pairs: Vec<(Option<String>, Option<String>)> = match arrays {
        [keys, values] => {
            let (keys, values) = (texts(keys)?, texts(values)?);
            if keys.len() != values.len() {
                return Err(SqlError::data("mismatched array dimensions").code("2202E"));
            }
            keys.into_iter().zip(values).collect()
        }
        _ => {
            let texts = texts(&arrays[0])?;
            if texts.len() % 2 == 1 {
                return Err(SqlError::data("array must have even number of elements").code("2202E"));
            }
            texts.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()
        }
    };
    let pair = |(key, value): (Option<String>, Option<String>)| {
        let key = key.ok_or_else(|| SqlError::data("null value not allowed for object key").code("22004"))?;
        Ok(format!("{} : {}", quoted(&key), value.map_or("null".to_owned(), |value| quoted(&value))))
    };
    let pairs = pairs.into_iter().map(pair).collect::<std::result::Result<Vec<_>, SqlError>>()?;
    Ok(Some(format!("{{{}}}", pairs.join(", "))))
}
