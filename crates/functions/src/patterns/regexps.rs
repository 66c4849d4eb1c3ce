//! Matches of regular expressions as lists: `regexp_split_to_array`, and what `regexp_matches` and
//! `regexp_split_to_table` unnest.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, StringArray};
use arrow_schema::{DataType, Field};
use datafusion::arrow::compute::cast;
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};
use regex::Regex;

use super::pattern::{Pattern, Patterns};
use saki_catalog::SqlError;

pub fn functions() -> [ScalarUDF; 2] {
    let signature = Signature::one_of(vec![TypeSignature::String(2), TypeSignature::String(3)], Volatility::Immutable);
    [Kind::Split, Kind::Matches].map(|kind| ScalarUDF::from(Regexps { kind, signature: signature.clone() }))
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    /// What is between the matches.
    Split,
    /// What each match captures, as a list of lists.
    Matches,
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Regexps {
    kind: Kind,
    signature: Signature,
}

fn list(of: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(of, true)))
}

impl ScalarUDFImpl for Regexps {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Split => "regexp_split_to_array",
            Kind::Matches => "pg_matches",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        let texts = list(DataType::Utf8);
        Ok(if self.kind == Kind::Split { texts } else { list(texts) })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let found = |arrays: &[ArrayRef]| -> Result<ArrayRef> {
            let texts = arrays.iter().map(|array| Ok(cast(array, &DataType::Utf8)?)).collect::<Result<Vec<_>>>()?;
            let texts: Vec<&StringArray> = texts.iter().map(|array| array.as_string()).collect();
            match self.kind {
                Kind::Split => split_all(&texts),
                Kind::Matches => match_all(&texts),
            }
        };
        make_scalar_function(found, Vec::new())(&args.args)
    }
}

/// The pattern of a row; `None`: one of its parts is NULL.
fn of_row<'p>(patterns: &'p mut Patterns, texts: &[&StringArray], row: usize) -> Result<Option<&'p Pattern>> {
    if texts.iter().any(|array| array.is_null(row)) {
        return Ok(None);
    }
    patterns.get(texts[1].value(row), texts.get(2).map_or("", |flags| flags.value(row))).map(Some)
}

fn split_all(texts: &[&StringArray]) -> Result<ArrayRef> {
    let (mut lists, mut patterns) = (ListBuilder::new(StringBuilder::new()), Patterns::default());
    for row in 0..texts[0].len() {
        if texts.get(2).is_some_and(|flags| flags.is_valid(row) && flags.value(row).contains('g')) {
            let message = "regexp_split_to_array() does not support the \"global\" option";
            return Err(SqlError::data(message).code("22023").into());
        }
        match of_row(&mut patterns, texts, row)? {
            None => lists.append_null(),
            Some(pattern) => lists.append_value(split(&pattern.regex, texts[0].value(row)).into_iter().map(Some)),
        }
    }
    Ok(Arc::new(lists.finish()))
}

/// The parts between matches. One without letters at an end, or where the match before it ended, does not count.
fn split<'t>(regex: &Regex, text: &'t str) -> Vec<&'t str> {
    let (mut parts, mut end) = (Vec::new(), 0);
    for found in regex.find_iter(text) {
        if found.start() < text.len() && found.end() > end {
            parts.push(&text[end..found.start()]);
            end = found.end();
        }
    }
    parts.push(&text[end..]);
    parts
}

fn match_all(texts: &[&StringArray]) -> Result<ArrayRef> {
    let (mut lists, mut patterns) = (ListBuilder::new(ListBuilder::new(StringBuilder::new())), Patterns::default());
    for row in 0..texts[0].len() {
        let Some(pattern) = of_row(&mut patterns, texts, row)? else {
            lists.append_null();
            continue;
        };
        let most = if pattern.is_global { usize::MAX } else { 1 };
        // The whole match, where nothing is captured.
        let first = usize::from(pattern.regex.captures_len() > 1);
        for captures in pattern.regex.captures_iter(texts[0].value(row)).take(most) {
            lists.values().append_value(captures.iter().skip(first).map(|part| part.map(|part| part.as_str())));
        }
        lists.append(true);
    }
    Ok(Arc::new(lists.finish()))
}
