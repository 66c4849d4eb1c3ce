//! `regexp_count`, `regexp_instr`, `regexp_like`, `regexp_substr` and `regexp_replace`, in all of their forms.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BooleanArray, Int32Array, StringArray};
use arrow_schema::DataType;
use datafusion::arrow::compute::cast;
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use saki_catalog::SqlError;

use super::pattern::{Matches, Pattern, Patterns, byte_of};
use super::replacement::{Replacement, replaced};
use crate::arithmetic::undefined_function;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Kind {
    Count,
    Instr,
    Like,
    Replace,
    Substr,
}

/// What an argument is, besides the text and the pattern, which are first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    /// What is put in the place of matches.
    New,
    /// The letter from which on it is looked for, from 1.
    Start,
    /// Which of the matches is meant, from 1; 0 are all of them.
    Number,
    /// 0 for where a match begins, 1 for what follows it.
    End,
    Flags,
    /// A group of the pattern, from 1; 0 is the whole.
    Group,
}

use Part::{End, Flags, Group, New, Number, Start};

/// The functions.
pub fn functions() -> impl Iterator<Item = ScalarUDF> {
    [Kind::Count, Kind::Instr, Kind::Like, Kind::Replace, Kind::Substr]
        .into_iter()
        .map(|kind| ScalarUDF::from(Search { kind, signature: Signature::user_defined(Volatility::Immutable) }))
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Count => "regexp_count",
            Self::Instr => "regexp_instr",
            Self::Like => "regexp_like",
            Self::Replace => "regexp_replace",
            Self::Substr => "regexp_substr",
        }
    }

    /// What its arguments behind the pattern are; `None` for so many of such types.
    fn parts(self, arguments: &[DataType]) -> Option<&'static [Part]> {
        let all: &[Part] = match self {
            Self::Count => &[Start, Flags],
            Self::Instr => &[Start, Number, End, Flags, Group],
            Self::Like => &[Flags],
            Self::Replace if arguments.len() == 4 && !arguments[3].is_integer() => &[New, Flags],
            Self::Replace => &[New, Start, Number, Flags],
            Self::Substr => &[Start, Number, Flags, Group],
        };
        let least = usize::from(self == Self::Replace);
        all.get(..arguments.len().checked_sub(2)?).filter(|parts| parts.len() >= least)
    }
}

#[derive(PartialEq, Eq, Hash, Debug)]
struct Search {
    kind: Kind,
    signature: Signature,
}

impl ScalarUDFImpl for Search {
    fn name(&self) -> &str {
        self.kind.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let undefined = || undefined_function(self.name(), "cast its arguments to what it takes").into();
        let Some(parts) = self.kind.parts(arguments) else { return Err(undefined()) };
        let behind = parts.iter().map(|part| match part {
            New | Flags => DataType::Utf8,
            _ => DataType::Int64,
        });
        let targets = [DataType::Utf8, DataType::Utf8].into_iter().chain(behind);
        let is_text = |of: &DataType| matches!(of, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        let coerced = targets.zip(arguments).map(|(target, of)| {
            let is_taken = of.is_null() || is_text(of) || target == DataType::Int64 && of.is_signed_integer();
            is_taken.then_some(target)
        });
        coerced.collect::<Option<Vec<_>>>().ok_or_else(undefined)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            Kind::Count | Kind::Instr => DataType::Int32,
            Kind::Like => DataType::Boolean,
            Kind::Replace | Kind::Substr => DataType::Utf8,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types: Vec<DataType> = args.args.iter().map(ColumnarValue::data_type).collect();
        let Some(parts) = self.kind.parts(&types) else {
            return Err(SqlError::internal("a regular expression with other arguments").into());
        };
        let kind = self.kind;
        make_scalar_function(move |arrays: &[ArrayRef]| searched(kind, parts, arrays), Vec::new())(&args.args)
    }
}

fn searched(kind: Kind, parts: &[Part], arrays: &[ArrayRef]) -> Result<ArrayRef> {
    let columns = arrays.iter().map(|array| match array.data_type() {
        of if of.is_integer() => Ok(cast(array, &DataType::Int64)?),
        _ => Ok(cast(array, &DataType::Utf8)?),
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let rows = columns.first().map_or(0, |column| column.len());
    let mut patterns = Patterns::default();
    let mut replacement = Replacement::default();
    macro_rules! collected {
        ($array:ty, $of:expr) => {{
            let row = |row: usize| match columns.iter().any(|column| column.is_null(row)) {
                true => Ok(None),
                false => {
                    let asked = Asked::of(kind, parts, &columns, row)?;
                    let pattern = patterns.get(asked.pattern, asked.flags)?;
                    if pattern.is_global && kind != Kind::Replace {
                        return Err(not_global(kind).into());
                    }
                    #[allow(clippy::redundant_closure_call)]
                    Ok($of(&asked, pattern))
                }
            };
            Arc::new((0..rows).map(row).collect::<Result<$array>>()?)
        }};
    }
    Ok(match kind {
        Kind::Count => collected!(Int32Array, |asked: &Asked<'_>, pattern: &Pattern| {
            Some(asked.matches(pattern).count() as i32)
        }),
        Kind::Like => collected!(BooleanArray, |asked: &Asked<'_>, pattern: &Pattern| {
            Some(pattern.regex.is_match(asked.text))
        }),
        Kind::Instr => collected!(Int32Array, |asked: &Asked<'_>, pattern: &Pattern| {
            let place = asked.found(pattern).map(|place| if asked.is_end { place.end } else { place.start });
            Some(place.map_or(0, |place| asked.text[..place].chars().count() as i32 + 1))
        }),
        Kind::Substr => collected!(StringArray, |asked: &Asked<'_>, pattern: &Pattern| {
            asked.found(pattern).map(|place| asked.text[place].to_owned())
        }),
        Kind::Replace => collected!(StringArray, |asked: &Asked<'_>, pattern: &Pattern| {
            let number = asked.number.unwrap_or(usize::from(!pattern.is_global));
            Some(replaced(asked.matches(pattern), asked.text, replacement.of(asked.new), number))
        }),
    })
}

/// What one row asks for.
struct Asked<'a> {
    text: &'a str,
    pattern: &'a str,
    new: &'a str,
    flags: &'a str,
    start: i64,
    number: Option<usize>,
    is_end: bool,
    group: usize,
}

impl<'a> Asked<'a> {
    /// # Errors
    /// 22023 for numbers that mean nothing.
    fn of(kind: Kind, parts: &[Part], columns: &'a [ArrayRef], row: usize) -> Result<Self> {
        let text = |at: usize| columns[at].as_string::<i32>().value(row);
        let (first, pattern) = (text(0), text(1));
        let mut asked = Self {
            text: first,
            pattern,
            new: "",
            flags: "",
            start: 1,
            number: (kind != Kind::Replace).then_some(1),
            is_end: false,
            group: 0,
        };
        for (at, part) in (2..).zip(parts) {
            let number = || columns[at].as_primitive::<Int64Type>().value(row);
            let least = |name: &str, least: i64| match number() {
                number if number >= least => Ok(number),
                number => Err(no_such(name, number)),
            };
            match part {
                New => asked.new = text(at),
                Flags => asked.flags = text(at),
                Start => asked.start = least("start", 1)?,
                Number => {
                    let least = least("n", i64::from(kind != Kind::Replace))?;
                    asked.number = Some(usize::try_from(least).unwrap_or(usize::MAX));
                }
                End => {
                    asked.is_end = least("endoption", 0)? == 1;
                    if number() > 1 {
                        return Err(no_such("endoption", number()).into());
                    }
                }
                Group => asked.group = usize::try_from(least("subexpr", 0)?).unwrap_or(usize::MAX),
            }
        }
        // From a letter on, it is the first match, whichever options there are.
        if kind == Kind::Replace && parts.contains(&Start) && !parts.contains(&Number) {
            asked.number = Some(1);
        }
        let is_option = kind == Kind::Replace && parts == [New, Flags];
        if let Some(digit) = asked.flags.chars().next().filter(|first| is_option && first.is_ascii_digit()) {
            let message = format!("invalid regular expression option: \"{digit}\"");
            let hint = "If you meant to use regexp_replace() with a start parameter, cast the fourth argument to \
                        integer explicitly.";
            return Err(SqlError::data(message).code("22023").hint(hint).into());
        }
        Ok(asked)
    }

    fn matches<'p>(&self, pattern: &'p Pattern) -> Matches<'p, 'a> {
        Matches::new(&pattern.regex, self.text, byte_of(self.text, self.start))
    }

    /// Where the match that is asked for lies, or its group.
    fn found(&self, pattern: &Pattern) -> Option<std::ops::Range<usize>> {
        let groups = pattern.regex.captures_len() - 1;
        if self.group > groups.max(1) {
            return None;
        }
        let mut matches = self.matches(pattern);
        matches.nth(self.number?.checked_sub(1)?)?;
        // The whole, if the pattern has no groups.
        matches.group(if groups == 0 { 0 } else { self.group })
    }
}

fn no_such(parameter: &str, number: i64) -> SqlError {
    SqlError::data(format!("invalid value for parameter \"{parameter}\": {number}")).code("22023")
}

fn not_global(kind: Kind) -> SqlError {
    SqlError::data(format!("{}() does not support the \"global\" option", kind.name())).code("22023")
}
