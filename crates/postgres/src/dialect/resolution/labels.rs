//! Casts to and from enumerations and arrays of their labels, and of texts to arrays.

use arrow_schema::DataType as Arrow;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{Cast, Expr};

use crate::dialect::types::{known_type, typed};
use saki_base::{DataType, Element};
use saki_catalog::{SqlError, enumeration};
use saki_exec::lists;
use saki_functions::arithmetic::NUMERIC;
use saki_functions::bytes::{BYTEA, UUID};
use saki_functions::casts::labels::{kept, no_labels, read, texts};
use saki_functions::json::{AS_JSON, AS_JSONB};
use saki_system::type_name;

/// A cast to an enumeration as what it is here; others as they are.
///
/// # Errors
/// 42846 where PostgreSQL has no such cast, 22P02 for a text that is no label.
pub fn cast(cast: Cast, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let target = cast.field.data_type().clone();
    let source = known_type(&cast.expr, schema);
    let element = |of: &Arrow| element(of).and_then(enumeration);
    if source.as_ref().and_then(element).is_some() || element(&target).is_some() {
        return array(cast, source, &target);
    }
    if let (Some(element), true) = (lists::element_of(&target), source.as_ref().is_some_and(is_text)) {
        return array_of_text(*cast.expr, element).map(Transformed::yes);
    }
    let (from, to) = (source.as_ref().and_then(enumeration), enumeration(&target));
    Ok(match (from, to) {
        (None, None) => Transformed::no(Expr::Cast(cast)),
        (Some(from), Some(to)) if from.is_same_state(to) => Transformed::yes(*cast.expr),
        // The numbers are the same.
        (Some(from), Some(to)) if from == to => Transformed::no(Expr::Cast(cast)),
        (None, Some(to)) => match source {
            None if is_null(&cast.expr) => Transformed::yes(Expr::Literal(ScalarValue::try_from(&target)?, None)),
            None => Transformed::yes(typed(*cast.expr, &target)?),
            Some(of) if is_text(&of) => Transformed::yes(read(*cast.expr, to)),
            Some(other) => return Err(no_cast(&other, &target)),
        },
        (Some(_), _) if is_text(&target) => Transformed::no(Expr::Cast(cast)),
        (Some(_), _) => return Err(no_cast(&source.unwrap_or(Arrow::Null), &target)),
    })
}

/// The same of arrays. Those that are written out have been cast element by element before.
fn array(cast: Cast, source: Option<Arrow>, target: &Arrow) -> Result<Transformed<Expr>> {
    let (from, to) = (source.as_ref().and_then(element), element(target));
    let Some(source) = &source else {
        return Ok(match to.and_then(enumeration) {
            Some(of) if is_null(&cast.expr) => Transformed::yes(no_labels(of, true)),
            _ => Transformed::yes(typed(*cast.expr, target)?),
        });
    };
    match (from.and_then(enumeration), to.and_then(enumeration)) {
        (Some(from), Some(to)) if from.is_same_state(to) => Ok(Transformed::yes(*cast.expr)),
        (Some(from), Some(to)) if from == to => Ok(Transformed::no(Expr::Cast(cast))),
        (Some(_), None) if is_text(target) => Ok(Transformed::no(Expr::Cast(cast))),
        (Some(_), None) if to.is_some_and(is_text) => Ok(Transformed::yes(texts(*cast.expr))),
        (None, Some(of)) if is_empty(&cast.expr) => Ok(Transformed::yes(no_labels(of, false))),
        (None, Some(_)) if is_text(source) || from.is_some_and(is_text) => {
            let message = format!("a cast of {} to {} is not supported", type_name(source), type_name(target));
            Err(SqlError::unsupported(message).hint("write the array out: ARRAY[…], or '{…}'").into())
        }
        _ => Err(no_cast(source, target)),
    }
}

/// A text that is no literal as an array.
///
/// # Errors
/// 0A000 where what its elements mean depends on the session.
fn array_of_text(text: Expr, of: Element) -> Result<Expr> {
    match of.data_type() {
        DataType::Date | DataType::Timestamp | DataType::Timestamptz | DataType::Time | DataType::Interval => {
            let message = format!("a cast of text to {}[] is not supported", of.data_type());
            Err(SqlError::unsupported(message).hint("write the array out: ARRAY[…], or '{…}'").into())
        }
        _ => Ok(saki_functions::casts::lists::read(text, of)),
    }
}

/// A call of which labels become parts of an array or a row: it is not worked out beforehand.
pub fn unfolded(mut call: Transformed<Expr>, schema: &DFSchema) -> Transformed<Expr> {
    let is_label = |arg: &Expr| known_type(arg, schema).as_ref().and_then(enumeration).is_some();
    let is_constant = |arg: &Expr| !arg.any_column_refs() && is_label(arg);
    let has_any = matches!(&call.data, Expr::ScalarFunction(of) if of.args.iter().any(is_constant));
    if has_any
        && known_type(&call.data, schema).is_some_and(|of| holds_labels(&of))
        && let Expr::ScalarFunction(of) = &mut call.data
    {
        for arg in of.args.iter_mut().filter(|arg| is_constant(arg)) {
            *arg = kept(std::mem::take(arg));
        }
        call.transformed = true;
    }
    call
}

fn holds_labels(of: &Arrow) -> bool {
    let is_label = |of: &Arrow| enumeration(of).is_some() || holds_labels(of);
    match of {
        Arrow::List(field) => is_label(field.data_type()),
        Arrow::Struct(fields) => fields.iter().any(|field| is_label(field.data_type())),
        _ => false,
    }
}

/// Arguments with arrays of labels among them as arrays of texts.
pub fn as_texts(args: Vec<Expr>, schema: &DFSchema) -> Vec<Expr> {
    let is_of_labels = |arg: &Expr| known_type(arg, schema).as_ref().and_then(element).and_then(enumeration).is_some();
    args.into_iter().map(|arg| if is_of_labels(&arg) { texts(arg) } else { arg }).collect()
}

/// Refuses casts that have become calls, of labels.
///
/// # Errors
/// 42846.
pub fn refuse_casts(function: &str, args: &[Expr], schema: &DFSchema) -> Result<()> {
    let target = match function {
        NUMERIC => Arrow::Decimal128(38, 0),
        BYTEA => Arrow::Binary,
        UUID => Arrow::FixedSizeBinary(16),
        AS_JSON => Arrow::LargeBinary,
        AS_JSONB => Arrow::LargeUtf8,
        _ => return Ok(()),
    };
    let source = args.first().and_then(|arg| known_type(arg, schema));
    match source.filter(|of| enumeration(of).is_some()) {
        Some(source) => Err(no_cast(&source, &target)),
        None => Ok(()),
    }
}

fn element(of: &Arrow) -> Option<&Arrow> {
    match of {
        Arrow::List(field) => Some(field.data_type()),
        _ => None,
    }
}

fn is_text(of: &Arrow) -> bool {
    matches!(of, Arrow::Utf8 | Arrow::Utf8View)
}

fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.is_null())
}

/// `ARRAY[]`
fn is_empty(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if call.name() == "make_array" && call.args.is_empty())
}

fn no_cast(from: &Arrow, to: &Arrow) -> DataFusionError {
    SqlError::invalid(format!("cannot cast type {} to {}", type_name(from), type_name(to))).code("42846").into()
}
