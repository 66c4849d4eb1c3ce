//! What is said of texts that are no times: PostgreSQL's words.

use saki_catalog::SqlError;

/// Why a text is no time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bad {
    /// It has no form that is known.
    Form,
    /// A part of it is beyond what there is: a 25th hour.
    Field,
    /// A month or a day is, perhaps since they stand in another order.
    MonthOrDay,
    /// A part of an interval is.
    Interval,
    /// An offset is.
    Offset,
    /// There is no such zone.
    Zone(String),
    /// The type does not reach so far.
    Range,
}

impl Bad {
    /// The error; `name` is the type's in PostgreSQL.
    pub fn of(self, text: &str, name: &str) -> SqlError {
        let said = |message: String, code| SqlError::data(message).code(code);
        match self {
            Self::Form => said(format!("invalid input syntax for type {name}: \"{text}\""), "22007"),
            Self::Field => said(format!("date/time field value out of range: \"{text}\""), "22008"),
            Self::MonthOrDay => said(format!("date/time field value out of range: \"{text}\""), "22008")
                .hint("Perhaps you need a different \"datestyle\" setting."),
            Self::Interval => said(format!("interval field value out of range: \"{text}\""), "22015"),
            Self::Offset => said(format!("time zone displacement out of range: \"{text}\""), "22009"),
            Self::Zone(zone) => said(format!("time zone \"{zone}\" not recognized"), "22023"),
            Self::Range => {
                let name = if name.starts_with("timestamp") { "timestamp" } else { name };
                said(format!("{name} out of range: \"{text}\""), "22008")
            }
        }
    }
}
