//! Why text spells no value of a type.

use std::fmt;

use crate::json::JsonFault;
use crate::types::DataType;

/// Characters of the text that an error repeats.
const QUOTED_CHARACTERS_MAX: usize = 80;

/// Text that spells no value of a type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// The text, cut if it is long.
    pub value: String,
    pub data_type: DataType,
    pub reason: ParseReason,
}

/// Why text spells no value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseReason {
    /// It has not the form that is named.
    Syntax { expected: &'static str },
    /// It has, but the type cannot hold the value.
    OutOfRange,
    /// A month, day, hour, … that does not exist.
    FieldOutOfRange { field: &'static str },
    /// More digits before the point than the type has.
    NumericOverflow { precision: u8, scale: u8 },
    /// More characters than the type has.
    TooLong { limit: u32, found: usize },
    /// A zero character, which no text can hold.
    ZeroCharacter,
    /// The enumeration has no such label.
    NoLabel,
    /// It is no array.
    Array,
    /// It is an array of several dimensions.
    Dimensions,
    /// It is no JSON.
    Json(JsonFault),
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, data_type, reason } = self;
        match reason {
            ParseReason::Syntax { expected } => {
                write!(f, "invalid input syntax for type {data_type}: \"{value}\": expected {expected}")
            }
            ParseReason::OutOfRange => write!(f, "value \"{value}\" is out of range for type {data_type}"),
            ParseReason::FieldOutOfRange { field } => {
                write!(f, "date/time field value out of range: \"{value}\": no such {field}")
            }
            ParseReason::NumericOverflow { precision, scale } => write!(
                f,
                "numeric field overflow: \"{value}\": a field with precision {precision}, scale {scale} must round to \
                 an absolute value less than 10^{}",
                i16::from(*precision) - i16::from(*scale)
            ),
            ParseReason::TooLong { limit, found } => {
                write!(f, "value too long for type {data_type}: \"{value}\": {found} characters, at most {limit}")
            }
            ParseReason::NoLabel => write!(f, "invalid input value for enum {data_type}: \"{value}\""),
            ParseReason::Array => write!(f, "malformed array literal: \"{value}\""),
            ParseReason::Dimensions => write!(f, "arrays of several dimensions are not supported: \"{value}\""),
            ParseReason::Json(fault) => fault.fmt(f),
            ParseReason::ZeroCharacter => write!(f, "invalid text for type {data_type}: it has a zero character"),
        }
    }
}

impl std::error::Error for ParseError {}

pub(super) fn quote(text: &str) -> String {
    let mut characters = text.chars();
    let mut quoted: String = characters.by_ref().take(QUOTED_CHARACTERS_MAX).collect();
    if characters.next().is_some() {
        quoted.push('…');
    }
    quoted
}

pub(super) const fn syntax<T>(expected: &'static str) -> Result<T, ParseReason> {
    Err(ParseReason::Syntax { expected })
}
