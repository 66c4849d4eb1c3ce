//! Options of tables: `WITH (columns = on | off, bloom = 'column, …', resident = on | off)` in CREATE TABLE, `SET (…)` in ALTER TABLE.

use datafusion::sql::sqlparser::ast::{Expr, SqlOption};
use saki_base::{Column, DataType};

use super::{name_of, position_of, setting_text};
use crate::error::{Position, Result, SqlError};

/// What was said of a table's options; `None`: nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TableOptions {
    /// Whether the rows are stored column by column too.
    pub columns: Option<bool>,
    /// Which columns have Bloom filters.
    bloom: Option<NamedColumns>,
    /// Whether rows stay in memory after a merge.
    pub resident: Option<bool>,
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

    /// Positions of the columns with Bloom filters, ascending, in a table that has had them on `before`. `segments`: whether it has segments
    /// from now on; filters are theirs.
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

const HINT: &str = "options are: columns = on | off, bloom = 'column, …', resident = on | off";

const POSTGRES: [&str; 7] = [
    "fillfactor",
    "parallel_workers",
    "toast_tuple_target",
    "vacuum_index_cleanup",
    "vacuum_truncate",
    "log_autovacuum_min_duration",
    "user_catalog_table",
];
