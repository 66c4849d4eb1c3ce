//! Why a text is no JSON.

use std::fmt;

/// Levels of arrays and objects within each other.
pub const DEPTH_MAX: usize = 2_000;

/// Why a text is no JSON, or none that can be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JsonFault {
    /// It ends before its value does.
    Ended,
    /// What stands at a byte of it is no part of JSON, or not there.
    Unexpected { at: usize },
    /// A character below U+0020 in a string.
    Control,
    /// A backslash before what none is written before.
    Escape,
    /// Half of a surrogate pair, or U+0000, which no text holds.
    Unicode,
    /// A number with more digits than a numeric has.
    OutOfRange,
    /// More than [`DEPTH_MAX`] levels.
    TooDeep,
}

impl JsonFault {
    /// PostgreSQL's SQLSTATE.
    pub const fn sqlstate(self) -> &'static str {
        match self {
            Self::Unicode => "22P05",
            Self::OutOfRange => "22003",
            Self::TooDeep => "54001",
            _ => "22P02",
        }
    }

    /// More about it, as PostgreSQL's DETAIL.
    pub fn detail(self) -> String {
        match self {
            Self::Ended => "The input string ended unexpectedly.".to_owned(),
            Self::Unexpected { at } => format!("What begins at byte {} is invalid.", at + 1),
            Self::Control => "Characters below 0x20 must be escaped.".to_owned(),
            Self::Escape => "Escape sequence is invalid.".to_owned(),
            Self::Unicode => "\\u0000 and half of a surrogate pair cannot be converted to text.".to_owned(),
            Self::OutOfRange => "A number has more digits than a numeric.".to_owned(),
            Self::TooDeep => format!("It has more than {DEPTH_MAX} levels."),
        }
    }
}

impl fmt::Display for JsonFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unicode => "unsupported Unicode escape sequence",
            Self::OutOfRange => "value overflows numeric format",
            Self::TooDeep => "stack depth limit exceeded",
            _ => "invalid input syntax for type json",
        })
    }
}

impl std::error::Error for JsonFault {}
