//! `enum_first`, `enum_last` and `enum_range`: the labels that an enumeration has.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampSecondType;
use arrow_array::{Array, ListArray};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{DataType as Arrow, Field};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use saki_base::{DataType, Enumeration, Value};
use saki_catalog::convert::array_of;
use saki_catalog::{SqlError, enumeration};

const FIRST: &str = "enum_first";
const RANGE: &str = "enum_range";

/// The functions.
pub fn functions() -> impl Iterator<Item = ScalarUDF> {
    let function = |name, forms: &[usize]| {
        let forms = forms.iter().map(|arguments| TypeSignature::Any(*arguments)).collect();
        ScalarUDF::from(Labels { name, signature: Signature::one_of(forms, Volatility::Stable) })
    };
    [function(FIRST, &[1]), function("enum_last", &[1]), function(RANGE, &[1, 2])].into_iter()
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Labels {
    name: &'static str,
    signature: Signature,
}

impl ScalarUDFImpl for Labels {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[Arrow]) -> Result<Arrow> {
        // What it is called with is refused once types are resolved.
        let Some(of) = arguments.iter().find_map(enumeration) else { return Ok(Arrow::Null) };
        let label = saki_exec::arrow_type(DataType::Enum(of));
        Ok(if self.name == RANGE { Arrow::List(Arc::new(Field::new_list_field(label, true))) } else { label })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let of = self.of(args.arg_fields.iter().map(|field| field.data_type()))?;
        let mut all = of.labels().labels.iter().map(|(_, number)| *number);
        if self.name == RANGE {
            return ranges(of, &args);
        }
        let label = if self.name == FIRST { all.next() } else { all.next_back() };
        let Some(label) = label else {
            return Err(SqlError::invalid(format!("enum {} contains no values", of.name())).code("55000").into());
        };
        let label = array_of(DataType::Enum(of), &[Value::Int8(label)]);
        Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&label, 0)?))
    }
}

impl Labels {
    /// The enumeration that it is about.
    fn of<'t>(&self, mut arguments: impl Iterator<Item = &'t Arrow>) -> Result<Enumeration> {
        arguments.find_map(enumeration).ok_or_else(|| {
            let message = format!("function {}(unknown) does not exist", self.name);
            SqlError::invalid(message).code("42883").hint("cast its arguments to types that it takes").into()
        })
    }
}

/// Of each row the labels from one to another; NULL is no bound.
fn ranges(of: Enumeration, args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let are_scalars = args.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
    let rows = if are_scalars { 1 } else { args.number_rows };
    let bounds = match &args.args[..] {
        [low, high] => [Some(low.to_array(rows)?), Some(high.to_array(rows)?)],
        // The argument only says of which type.
        _ => [None, None],
    };
    let bound = |side: usize, row: usize| {
        let bounds = bounds[side].as_ref()?.as_primitive_opt::<TimestampSecondType>()?;
        bounds.is_valid(row).then(|| bounds.value(row))
    };
    let (mut values, mut lengths) = (Vec::new(), Vec::with_capacity(rows));
    for row in 0..rows {
        let (low, high) = (bound(0, row).unwrap_or(i64::MIN), bound(1, row).unwrap_or(i64::MAX));
        let before = values.len();
        let within = of.labels().labels.iter().filter(|(_, number)| (low..=high).contains(number));
        values.extend(within.map(|(_, number)| Value::Int8(*number)));
        lengths.push(values.len() - before);
    }
    let labels = array_of(DataType::Enum(of), &values);
    let field = Arc::new(Field::new_list_field(labels.data_type().clone(), true));
    let lists = ListArray::try_new(field, OffsetBuffer::from_lengths(lengths), labels, None)?;
    Ok(match are_scalars {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&lists, 0)?),
        false => ColumnarValue::Array(Arc::new(lists)),
    })
}
