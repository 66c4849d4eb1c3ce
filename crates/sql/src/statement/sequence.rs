//! Options of sequences: CREATE SEQUENCE, ALTER SEQUENCE, GENERATED … AS IDENTITY (…).

use datafusion::sql::sqlparser::ast::{self, Expr, SqlOption, UnaryOperator, Value};
use saki_base::{DataType, TableId};

use super::{name_of, setting_text};
use crate::catalog::{Sequence, SequencePosition};
use crate::error::{Result, SqlError};

/// What was said of a sequence; `None`: nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SequenceOptions {
    pub data_type: Option<DataType>,
    pub increment: Option<i64>,
    /// `Some(None)`: NO MINVALUE.
    pub min: Option<Option<i64>>,
    pub max: Option<Option<i64>>,
    pub start: Option<i64>,
    /// `Some(None)`: RESTART, with the start value.
    pub restart: Option<Option<i64>>,
    pub cache: Option<i64>,
    pub cycle: Option<bool>,
    /// `Some("none")` or the parts of a column's name.
    pub owned_by: Option<String>,
}

impl SequenceOptions {
    pub fn read<'o>(options: impl IntoIterator<Item = &'o ast::SequenceOptions>) -> Result<Self> {
        let mut read = Self::default();
        for option in options {
            match option {
                ast::SequenceOptions::IncrementBy(value, _) => read.increment = Some(number(value)?),
                ast::SequenceOptions::MinValue(value) => read.min = Some(value.as_ref().map(number).transpose()?),
                ast::SequenceOptions::MaxValue(value) => read.max = Some(value.as_ref().map(number).transpose()?),
                ast::SequenceOptions::StartWith(value, _) => read.start = Some(number(value)?),
                ast::SequenceOptions::Cache(value) => read.cache = Some(number(value)?),
                // The parser's tree says whether it was NO CYCLE.
                ast::SequenceOptions::Cycle(no) => read.cycle = Some(!no),
            }
        }
        Ok(read)
    }

    /// Reads what [`super::utility`] made of ALTER SEQUENCE.
    pub fn read_properties(properties: &[SqlOption]) -> Result<Self> {
        let mut read = Self::default();
        for property in properties {
            let SqlOption::KeyValue { key, value } = property else {
                return Err(SqlError::internal(format!("sequence option {property}")));
            };
            let optional = || match setting_text(value) {
                None => Ok(None),
                Some(_) => number(value).map(Some),
            };
            match name_of(key).as_str() {
                "increment" => read.increment = Some(number(value)?),
                "minvalue" => read.min = Some(optional()?),
                "maxvalue" => read.max = Some(optional()?),
                "start" => read.start = Some(number(value)?),
                "restart" => read.restart = Some(optional()?),
                "cache" => read.cache = Some(number(value)?),
                "cycle" => read.cycle = Some(setting_text(value).as_deref() == Some("true")),
                "owned by" => read.owned_by = setting_text(value),
                other => return Err(SqlError::internal(format!("sequence option {other:?}"))),
            }
        }
        Ok(read)
    }

    /// A new sequence; it is in no schema and has no owner yet.
    pub fn create(&self, id: TableId, name: &str, schema: &str) -> Result<Sequence> {
        let data_type = self.data_type.unwrap_or(DataType::Int8);
        let (min, max) = bounds(data_type, self.increment.unwrap_or(1));
        let sequence = Sequence {
            id,
            name: name.to_owned(),
            schema: schema.to_owned(),
            data_type,
            start: 0,
            increment: 1,
            min,
            max,
            cycle: false,
            cache: 1,
            owner: None,
            position: SequencePosition { last_value: 0, is_called: false },
            version: 0,
            comment: None,
        };
        let mut sequence = Self { start: None, ..self.clone() }.change(sequence)?;
        let first = if sequence.increment > 0 { sequence.min } else { sequence.max };
        sequence.start = self.start.unwrap_or(first);
        sequence.position.last_value = sequence.start;
        check(&sequence)?;
        Ok(sequence)
    }

    /// ALTER SEQUENCE, but for the owner. Whether the position fits is left to [`check`].
    pub fn change(&self, mut sequence: Sequence) -> Result<Sequence> {
        if let Some(increment) = self.increment {
            sequence.increment = increment;
        }
        if sequence.increment == 0 {
            return Err(SqlError::invalid("INCREMENT must not be zero").code("22023"));
        }
        let (min, max) = bounds(sequence.data_type, sequence.increment);
        if let Some(said) = self.min {
            sequence.min = said.unwrap_or(min);
        }
        if let Some(said) = self.max {
            sequence.max = said.unwrap_or(max);
        }
        if let Some(start) = self.start {
            sequence.start = start;
        }
        if let Some(cache) = self.cache {
            if cache < 1 {
                return Err(SqlError::invalid(format!("CACHE ({cache}) must be greater than zero")).code("22023"));
            }
            sequence.cache = cache;
        }
        if let Some(cycle) = self.cycle {
            sequence.cycle = cycle;
        }
        if let Some(restart) = self.restart {
            let last_value = restart.unwrap_or(sequence.start);
            sequence.position = SequencePosition { last_value, is_called: false };
        }
        sequence.version += 1;
        Ok(sequence)
    }
}

/// Whether a sequence's numbers agree with one another.
pub fn check(sequence: &Sequence) -> Result<()> {
    let Sequence { min, max, start, .. } = *sequence;
    let (lowest, highest) = range(sequence.data_type);
    let refused = if min < lowest || max > highest {
        format!("MINVALUE ({min}) or MAXVALUE ({max}) is out of range for sequence data type {}", sequence.data_type)
    } else if min >= max {
        format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")
    } else if start < min {
        format!("START value ({start}) cannot be less than MINVALUE ({min})")
    } else if start > max {
        format!("START value ({start}) cannot be greater than MAXVALUE ({max})")
    } else if sequence.position.last_value < min {
        format!("RESTART value ({}) cannot be less than MINVALUE ({min})", sequence.position.last_value)
    } else if sequence.position.last_value > max {
        format!("RESTART value ({}) cannot be greater than MAXVALUE ({max})", sequence.position.last_value)
    } else {
        return Ok(());
    };
    Err(SqlError::invalid(refused).code("22023"))
}

fn range(data_type: DataType) -> (i64, i64) {
    match data_type {
        DataType::Int2 => (i16::MIN.into(), i16::MAX.into()),
        DataType::Int4 => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN, i64::MAX),
    }
}

/// Smallest and largest value unless told otherwise.
fn bounds(data_type: DataType, increment: i64) -> (i64, i64) {
    let (lowest, highest) = range(data_type);
    if increment >= 0 { (1, highest) } else { (lowest, -1) }
}

fn number(expression: &Expr) -> Result<i64> {
    let digits = |expression: &Expr| match expression {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => Some(digits.to_string()),
            _ => None,
        },
        _ => None,
    };
    let text = match expression {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => digits(expr).map(|digits| format!("-{digits}")),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => digits(expr),
        other => digits(other),
    };
    text.and_then(|text| text.parse().ok())
        .ok_or_else(|| SqlError::invalid(format!("{expression} is not a whole number of 64 bits")).code("22023"))
}
