//! Options of sequences: CREATE SEQUENCE, ALTER SEQUENCE, GENERATED … AS IDENTITY (…).

use datafusion::sql::sqlparser::ast::{self, Expr, SqlOption, UnaryOperator, Value};
use datafusion::sql::sqlparser::parser::Parser;
use saki_base::{DataType, TableId};

use super::syntax::Syntax;
use super::{name_of, object_name, setting_text};
use crate::types::storage_type;
use saki_catalog::{Result, Sequence, SequencePosition, SqlError};

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
    /// `Some("NONE")`, in the case it was written, or the parts of a column's name.
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
                "as" => read.data_type = setting_text(value).as_deref().map(named_type).transpose()?,
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
        if let Some(data_type) = self.data_type {
            retype(&mut sequence, data_type)?;
        }
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

/// Gives a sequence another type; bounds that were the old type's own become the new one's.
fn retype(sequence: &mut Sequence, data_type: DataType) -> Result<()> {
    if !matches!(data_type, DataType::Int2 | DataType::Int4 | DataType::Int8) {
        return Err(SqlError::invalid("sequence type must be smallint, integer, or bigint").code("22023"));
    }
    let ((lowest, highest), (new_lowest, new_highest)) = (range(sequence.data_type), range(data_type));
    if sequence.min == lowest {
        sequence.min = new_lowest;
    }
    if sequence.max == highest {
        sequence.max = new_highest;
    }
    sequence.data_type = data_type;
    Ok(())
}

fn named_type(name: &str) -> Result<DataType> {
    let mut parser = Parser::new(&Syntax).try_with_sql(name)?;
    storage_type(&parser.parse_data_type()?)
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

/// What `nextval` is told, if an expression is that.
pub fn drawn_from(expr: &ast::Expr) -> Option<&str> {
    let ast::Expr::Function(function) = expr else { return None };
    let ast::FunctionArguments::List(list) = &function.args else { return None };
    let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(ast::Expr::Value(text)))] = &list.args[..] else {
        return None;
    };
    let ast::Value::SingleQuotedString(text) = &text.value else { return None };
    (object_name(&function.name).ok()?.0 == "nextval").then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{check, code, parsed};
    use crate::table::alter_table::{Action, AlterTable};

    fn created(options: &str) -> Result<Sequence> {
        let ast::Statement::CreateSequence { sequence_options, data_type, .. } =
            parsed(&format!("CREATE SEQUENCE s {options}"))
        else {
            panic!("{options}: no CREATE SEQUENCE");
        };
        let mut read = SequenceOptions::read(&sequence_options)?;
        read.data_type = data_type.as_ref().map(crate::types::storage_type).transpose()?;
        read.create(TableId(1), "s", "public")
    }

    fn altered(sequence: Sequence, options: &str) -> Result<Sequence> {
        let ast::Statement::AlterTable(alter) = parsed(&format!("ALTER SEQUENCE s {options}")) else {
            panic!("{options}: no ALTER SEQUENCE");
        };
        match &AlterTable::read(&alter)?.actions[..] {
            [Action::SetSequence(options)] => {
                let changed = options.change(sequence)?;
                super::check(&changed)?;
                Ok(changed)
            }
            other => panic!("{options}: {other:?}"),
        }
    }

    fn shown(sequence: Result<Sequence>) -> String {
        let sequence = match sequence {
            Ok(sequence) => sequence,
            Err(error) => return code(&error),
        };
        let Sequence { start, increment, min, max, cycle, cache, position, .. } = sequence;
        let next = if position.is_called { "after" } else { "at" };
        let cycle = if cycle { " cycle" } else { "" };
        format!("{min}..{max} by {increment} from {start} {next} {} cache {cache}{cycle}", position.last_value)
    }

    #[test]
    fn a_new_sequence_begins_at_the_end_it_comes_from() {
        check(
            &[
                ("", "1..9223372036854775807 by 1 from 1 at 1 cache 1"),
                ("INCREMENT -1", "-9223372036854775808..-1 by -1 from -1 at -1 cache 1"),
                ("AS smallint", "1..32767 by 1 from 1 at 1 cache 1"),
                ("AS integer INCREMENT BY -2", "-2147483648..-1 by -2 from -1 at -1 cache 1"),
                ("MINVALUE 5", "5..9223372036854775807 by 1 from 5 at 5 cache 1"),
                ("MINVALUE 5 MAXVALUE 9 START 7", "5..9 by 1 from 7 at 7 cache 1"),
                ("NO MINVALUE NO MAXVALUE NO CYCLE", "1..9223372036854775807 by 1 from 1 at 1 cache 1"),
                ("CYCLE CACHE 20 MAXVALUE 3", "1..3 by 1 from 1 at 1 cache 20 cycle"),
                ("START WITH -5 MINVALUE -10", "-10..9223372036854775807 by 1 from -5 at -5 cache 1"),
                (
                    "INCREMENT -9223372036854775808 MAXVALUE 0",
                    "-9223372036854775808..0 by -9223372036854775808 from 0 at 0 cache 1",
                ),
            ],
            |options| shown(created(options)),
        );
    }

    #[test]
    fn numbers_that_do_not_agree_are_refused() {
        check(
            &[
                ("INCREMENT 0", "22023"),
                ("MINVALUE 5 MAXVALUE 5", "22023"),
                ("MINVALUE 6 MAXVALUE 5", "22023"),
                ("START 0", "22023"),
                ("MAXVALUE 5 START 6", "22023"),
                ("AS smallint MAXVALUE 32768", "22023"),
                ("AS smallint MINVALUE -32769", "22023"),
                ("AS int START 2147483648", "22023"),
                ("CACHE 0", "22023"),
                ("CACHE -1", "22023"),
                ("START 9223372036854775808", "22023"),
                ("INCREMENT 1.5", "22023"),
            ],
            |options| shown(created(options)),
        );
    }

    #[test]
    fn what_is_not_said_stays_when_a_sequence_changes() {
        let before = || created("START 5 MINVALUE 2 MAXVALUE 100 CACHE 3").unwrap();
        check(
            &[
                ("INCREMENT 2", "2..100 by 2 from 5 at 5 cache 3"),
                ("RESTART", "2..100 by 1 from 5 at 5 cache 3"),
                ("RESTART 50", "2..100 by 1 from 5 at 50 cache 3"),
                ("RESTART WITH 50", "2..100 by 1 from 5 at 50 cache 3"),
                ("START 7", "2..100 by 1 from 7 at 5 cache 3"),
                ("START 7 RESTART", "2..100 by 1 from 7 at 7 cache 3"),
                ("NO MINVALUE", "1..100 by 1 from 5 at 5 cache 3"),
                ("NO MAXVALUE", "2..9223372036854775807 by 1 from 5 at 5 cache 3"),
                ("CYCLE", "2..100 by 1 from 5 at 5 cache 3 cycle"),
                ("NO CYCLE", "2..100 by 1 from 5 at 5 cache 3"),
                ("CACHE 9 MINVALUE -3", "-3..100 by 1 from 5 at 5 cache 9"),
                ("RESTART 101", "22023"),
                ("RESTART 1", "22023"),
                ("MAXVALUE 4", "22023"),
                ("MINVALUE 6", "22023"),
                ("INCREMENT 0", "22023"),
                ("CACHE 0", "22023"),
            ],
            |options| shown(altered(before(), options)),
        );
    }

    #[test]
    fn bounds_that_are_a_types_own_follow_the_type() {
        check(
            &[
                ("AS smallint", "1..32767 by 1 from 1 at 1 cache 1"),
                ("AS integer", "1..2147483647 by 1 from 1 at 1 cache 1"),
                ("AS bigint", "1..9223372036854775807 by 1 from 1 at 1 cache 1"),
                ("AS smallint MAXVALUE 9", "1..9 by 1 from 1 at 1 cache 1"),
                ("AS text", "22023"),
            ],
            |options| shown(altered(created("AS int").unwrap(), options)),
        );
        let limited = created("AS int MAXVALUE 40000").unwrap();
        assert_eq!(shown(altered(limited, "AS smallint")), "22023", "what was said stays, and does not fit");
        let down = created("AS int INCREMENT -1").unwrap();
        assert_eq!(shown(altered(down, "AS smallint")), "-32768..-1 by -1 from -1 at -1 cache 1");
    }

    #[test]
    fn each_change_is_a_version() {
        let first = created("").unwrap();
        let second = altered(first.clone(), "CACHE 2").unwrap();
        assert_eq!(second.version, first.version + 1);
    }

    #[test]
    fn an_owner_is_read_as_it_is_written() {
        let owner = |options: &str| {
            let ast::Statement::AlterTable(alter) = parsed(&format!("ALTER SEQUENCE s {options}")) else { panic!() };
            match &AlterTable::read(&alter).unwrap().actions[..] {
                [Action::SetSequence(options)] => options.owned_by.clone().unwrap_or_default(),
                other => panic!("{options}: {other:?}"),
            }
        };
        check(
            &[("OWNED BY t.a", "t.a"), ("OWNED BY s.t.\"A\"", "s.t.\"A\""), ("OWNED BY NONE", "NONE"), ("CACHE 1", "")],
            owner,
        );
    }
}
