//! Options of tables: `WITH (columns = on | off)` in CREATE TABLE, `SET (…)` in ALTER TABLE.

use datafusion::sql::sqlparser::ast::SqlOption;

use super::{name_of, position_of, setting_text};
use crate::error::{Result, SqlError};

/// What was said of a table's options; `None`: nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TableOptions {
    /// Whether the rows are stored column by column too.
    pub columns: Option<bool>,
}

impl TableOptions {
    pub fn read(options: &[SqlOption]) -> Result<Self> {
        let mut read = Self::default();
        for option in options {
            let SqlOption::KeyValue { key, value } = option else {
                return Err(SqlError::unsupported(format!("table option {option} is not supported")).hint(HINT));
            };
            let (name, at) = (name_of(key), position_of(key));
            if name != "columns" {
                return Err(SqlError::unsupported(format!("there is no table option {name:?}")).hint(HINT).at(at));
            }
            let on = match setting_text(value).as_deref().map(str::to_lowercase).as_deref() {
                Some("on" | "true") => true,
                Some("off" | "false") => false,
                _ => return Err(SqlError::invalid(format!("columns = {value}: it is on or off")).at(at)),
            };
            if read.columns.replace(on).is_some() {
                return Err(SqlError::invalid("columns is given twice").at(at));
            }
        }
        Ok(read)
    }
}

const HINT: &str = "options are: columns = on | off";
