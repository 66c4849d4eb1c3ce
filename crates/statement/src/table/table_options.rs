//! Options of tables: `WITH (columns = on | off, bloom = 'column, …', resident = on | off, tier = 'fast')` in CREATE
//! TABLE, `SET (…)` in ALTER TABLE.

use datafusion::sql::sqlparser::ast::{Expr, SqlOption};
use saki_base::{Column, DataType};

use crate::{name_of, position_of, setting_text};
use saki_catalog::{Position, Result, SqlError, TableTier};

/// What was said of a table's options; `None`: nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TableOptions {
    /// Whether the rows are stored column by column too.
    pub columns: Option<bool>,
    /// Which columns have Bloom filters.
    bloom: Option<NamedColumns>,
    /// Whether rows stay in memory after a merge.
    pub resident: Option<bool>,
    /// Whether it is copied to fast devices.
    pub tier: Option<TableTier>,
}

/// Columns by their names, and where they are named.
#[derive(Clone, PartialEq, Eq, Debug)]
struct NamedColumns {
    names: Vec<String>,
    position: Option<Position>,
}

impl TableOptions {
    pub fn read(options: &[SqlOption]) -> Result<Self> {
        let mut read = Self::default();
        for option in options {
            let SqlOption::KeyValue { key, value } = option else {
                return Err(SqlError::unsupported(format!("table option {option} is not supported")).hint(HINT));
            };
            let (name, at) = (name_of(key), position_of(key));
            let twice = match name.as_str() {
                "columns" => read.columns.replace(switch(&name, value).map_err(|error| error.at(at))?).is_some(),
                "bloom" => {
                    let names = names(value).map_err(|error| error.at(at))?;
                    read.bloom.replace(NamedColumns { names, position: at }).is_some()
                }
                "resident" => read.resident.replace(switch(&name, value).map_err(|error| error.at(at))?).is_some(),
                "tier" => read.tier.replace(tier(value).map_err(|error| error.at(at))?).is_some(),
                // How PostgreSQL's own storage is to be laid out and cleaned.
                name if POSTGRES.contains(&name) || name.starts_with("autovacuum_") => false,
                _ => return Err(SqlError::unsupported(format!("there is no table option {name:?}")).hint(HINT).at(at)),
            };
            if twice {
                return Err(SqlError::invalid(format!("{name} is given twice")).at(at));
            }
        }
        Ok(read)
    }

    /// Positions of the columns with Bloom filters, ascending, in a table that has had them on `before`. `segments`:
    /// whether it has segments from now on; filters are theirs.
    pub fn bloom_columns(&self, columns: &[Column], segments: bool, before: &[usize]) -> Result<Vec<usize>> {
        match &self.bloom {
            None if segments => Ok(before.to_owned()),
            None => Ok(Vec::new()),
            Some(bloom) if !segments && !bloom.names.is_empty() => {
                Err(SqlError::invalid("Bloom filters belong to column segments, and the table has none")
                    .hint("columns = on stores them")
                    .at(bloom.position))
            }
            Some(bloom) => bloom.positions(columns),
        }
    }
}

impl NamedColumns {
    fn positions(&self, columns: &[Column]) -> Result<Vec<usize>> {
        let mut positions = Vec::with_capacity(self.names.len());
        for name in &self.names {
            let position = position_to_filter(name, columns).map_err(|error| error.at(self.position))?;
            if positions.contains(&position) {
                return Err(SqlError::invalid(format!("bloom names column {name:?} twice")).at(self.position));
            }
            positions.push(position);
        }
        positions.sort_unstable();
        Ok(positions)
    }
}

fn position_to_filter(name: &str, columns: &[Column]) -> Result<usize> {
    let Some(position) = columns.iter().position(|column| column.name == name) else {
        let names = columns.iter().take(20).map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(SqlError::invalid(format!("bloom names no column: {name:?}")).hint(format!("columns are: {names}")));
    };
    if columns[position].data_type == DataType::Bool {
        return Err(SqlError::invalid(format!("bloom names column {name:?}, which is boolean"))
            .hint("a filter helps to find one of many values; segments know which of two they have"));
    }
    Ok(position)
}

fn switch(name: &str, value: &Expr) -> Result<bool> {
    match setting_text(value).as_deref().map(str::to_lowercase).as_deref() {
        Some("on" | "true") => Ok(true),
        Some("off" | "false") => Ok(false),
        _ => Err(SqlError::invalid(format!("{name} = {value}: it is on or off")).code("22023")),
    }
}

fn tier(value: &Expr) -> Result<TableTier> {
    match setting_text(value).as_deref().map(str::to_lowercase).as_deref() {
        Some("auto") => Ok(TableTier::Auto),
        Some("fast") => Ok(TableTier::Fast),
        Some("slow") => Ok(TableTier::Slow),
        _ => Err(SqlError::invalid(format!("tier = {value}: it is 'auto', 'fast' or 'slow'")).code("22023")),
    }
}

/// Names divided by commas: in lower case unless quoted, as identifiers are. Blank text names none.
fn names(value: &Expr) -> Result<Vec<String>> {
    let refused = || SqlError::invalid(format!("bloom = {value}: it is a list of columns")).hint("bloom = 'a, b'");
    let text = setting_text(value).ok_or_else(refused)?;
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let name = |part: &str| match part.trim() {
        "" => Err(refused()),
        quoted if quoted.len() > 2 && quoted.starts_with('"') && quoted.ends_with('"') => {
            Ok(quoted[1..quoted.len() - 1].to_owned())
        }
        plain => Ok(plain.to_lowercase()),
    };
    text.split(',').map(name).collect()
}

const HINT: &str =
    "options are: columns = on | off, bloom = 'column, …', resident = on | off, tier = 'auto' | 'fast' | 'slow'";

const POSTGRES: [&str; 7] = [
    "fillfactor",
    "parallel_workers",
    "toast_tuple_target",
    "vacuum_index_cleanup",
    "vacuum_truncate",
    "log_autovacuum_min_duration",
    "user_catalog_table",
];

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::{CreateTableOptions, Statement};

    use super::*;
    use crate::fixture::{check, code, parsed};

    fn read_text(options: &str) -> Result<TableOptions> {
        let Statement::CreateTable(create) = parsed(&format!("CREATE TABLE t (a int) WITH ({options})")) else {
            panic!("{options}: no CREATE TABLE");
        };
        match &create.table_options {
            CreateTableOptions::With(options) => TableOptions::read(options),
            other => panic!("{options}: read as {other:?}"),
        }
    }

    fn columns() -> Vec<Column> {
        let column = |(name, data_type): &(&str, DataType)| Column {
            name: (*name).to_owned(),
            data_type: *data_type,
            nullable: true,
        };
        [("a", DataType::Int4), ("b", DataType::Text), ("C d", DataType::Text), ("e", DataType::Bool)]
            .iter()
            .map(column)
            .collect()
    }

    fn shown(options: &str) -> String {
        match read_text(options) {
            Ok(TableOptions { tier: Some(tier), .. }) => format!("{tier:?}"),
            Ok(read) => format!("columns {:?} resident {:?}", read.columns, read.resident),
            Err(error) => code(&error),
        }
    }

    /// The columns with filters of a table that has segments, and had one on column 0.
    fn filters(bloom: &str) -> String {
        match read_text(&format!("bloom = '{bloom}'")).and_then(|read| read.bloom_columns(&columns(), true, &[0])) {
            Ok(columns) => format!("{columns:?}"),
            Err(error) => code(&error),
        }
    }

    #[test]
    fn switches_are_on_or_off_in_any_spelling() {
        check(
            &[
                ("columns = on", "columns Some(true) resident None"),
                ("columns = off", "columns Some(false) resident None"),
                ("columns = true", "columns Some(true) resident None"),
                ("columns = FALSE", "columns Some(false) resident None"),
                ("columns = 'on'", "columns Some(true) resident None"),
                ("COLUMNS = ON, Resident = 'Off'", "columns Some(true) resident Some(false)"),
                ("resident = on", "columns None resident Some(true)"),
                ("tier = 'Fast'", "Fast"),
                ("TIER = slow", "Slow"),
                ("tier = auto", "Auto"),
                ("fillfactor = 70, autovacuum_enabled = false, toast_tuple_target = 128", "columns None resident None"),
            ],
            shown,
        );
    }

    #[test]
    fn what_is_no_option_is_refused_where_it_stands() {
        check(
            &[
                ("columns = 2", "22023 at 1:30"),
                ("columns = maybe", "22023 at 1:30"),
                ("columns = on, columns = off", "42000 at 1:44"),
                ("columns = on, resident = on, resident = on", "42000 at 1:59"),
                ("tier = 'object'", "22023 at 1:30"),
                ("tier = on", "22023 at 1:30"),
                ("tier = fast, tier = slow", "42000 at 1:43"),
                ("nosuch = on", "0A000 at 1:30"),
                ("columns = on, \"COLUMNS\" = on", "0A000 at 1:44"),
                ("bloom = ',a'", "42000 at 1:30"),
                ("bloom = 'a,,b'", "42000 at 1:30"),
            ],
            shown,
        );
    }

    #[test]
    fn filters_are_of_columns_by_name_in_the_tables_order() {
        check(
            &[
                ("a", "[0]"),
                ("b, a", "[0, 1]"),
                ("B", "[1]"),
                ("\"C d\"", "[2]"),
                (" a ,\"C d\" ", "[0, 2]"),
                ("", "[]"),
                ("  ", "[]"),
                ("c d", "42000 at 1:30"),
                ("nosuch", "42000 at 1:30"),
                ("a, A", "42000 at 1:30"),
                ("e", "42000 at 1:30"),
            ],
            filters,
        );
    }

    #[test]
    fn filters_stay_unless_something_is_said_and_go_with_the_segments() {
        let (nothing, some, none) = (TableOptions::default(), read_text("bloom = 'b'"), read_text("bloom = ''"));
        let (some, none) = (some.unwrap(), none.unwrap());
        assert_eq!(nothing.bloom_columns(&columns(), true, &[0, 2]).unwrap(), [0, 2]);
        assert_eq!(nothing.bloom_columns(&columns(), false, &[0, 2]).unwrap(), [0; 0]);
        assert_eq!(some.bloom_columns(&columns(), true, &[0]).unwrap(), [1]);
        assert_eq!(none.bloom_columns(&columns(), true, &[0]).unwrap(), [0; 0]);
        assert_eq!(none.bloom_columns(&columns(), false, &[0]).unwrap(), [0; 0]);
        let error = some.bloom_columns(&columns(), false, &[0]).unwrap_err();
        assert_eq!((code(&error).as_str(), error.hint.as_deref()), ("42000 at 1:30", Some("columns = on stores them")));
    }

    #[test]
    fn a_missing_column_is_answered_with_those_there_are() {
        let error = read_text("bloom = 'x'").unwrap().bloom_columns(&columns(), true, &[]).unwrap_err();
        assert_eq!(error.hint.as_deref(), Some("columns are: a, b, C d, e"));
    }
}
