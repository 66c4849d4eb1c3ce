//! ALTER TABLE … SET (option = value, …).

use datafusion::sql::sqlparser::ast::{self, AlterTableOperation};

use super::object_name;
use super::table_options::TableOptions;
use crate::error::{Position, Result, SqlError};

/// A table's change.
#[derive(Debug)]
pub struct AlterTable {
    pub name: String,
    pub position: Option<Position>,
    pub if_exists: bool,
    pub options: TableOptions,
}

impl AlterTable {
    pub fn read(alter: &ast::AlterTable) -> Result<Self> {
        let (name, position) = object_name(&alter.name)?;
        let [AlterTableOperation::SetOptionsParens { options }] = &alter.operations[..] else {
            let operations = alter.operations.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            return Err(SqlError::unsupported(format!("ALTER TABLE: {operations} is not supported"))
                .hint(format!("ALTER TABLE {name} SET (columns = on | off, bloom = 'column, …')"))
                .at(position));
        };
        Ok(Self { name, position, if_exists: alter.if_exists, options: TableOptions::read(options)? })
    }
}
