//! Columns becoming a table's: their ids, defaults, and the sequences that belong to them.

use datafusion::sql::sqlparser::ast::Expr;
use saki_base::DataType;

use super::constraint::free_name;
use crate::catalog::{Catalog, ColumnDetail, Identity, SequenceOwner, Table};
use crate::error::{Result, SqlError};
use crate::statement::column::{Generated, NewColumn};
use crate::statement::sequence::SequenceOptions;

/// Adds a column at the end, without its constraints.
pub fn add(catalog: &mut Catalog, table: &mut Table, new: &NewColumn) -> Result<()> {
    let id = table.next_column_id;
    table.next_column_id += 1;
    table.columns.push(new.column.clone());
    table.details.push(ColumnDetail {
        id,
        default: new.default.as_ref().and_then(default_text),
        identity: None,
        comment: None,
    });
    match &new.generated {
        Some(generated) => add_sequence(catalog, table, table.columns.len() - 1, generated),
        None => Ok(()),
    }
    .map_err(|error| error.at(new.position))
}

/// The text to store; DEFAULT NULL is none.
pub fn default_text(expression: &Expr) -> Option<String> {
    let text = super::stored_text(expression);
    (!text.eq_ignore_ascii_case("null")).then_some(text)
}

/// Makes the sequence of a serial or identity column.
pub fn add_sequence(catalog: &mut Catalog, table: &mut Table, position: usize, generated: &Generated) -> Result<()> {
    let column = &table.columns[position];
    let data_type = match column.data_type {
        fits @ (DataType::Int2 | DataType::Int4 | DataType::Int8) => fits,
        other => {
            return Err(SqlError::invalid(format!(
                "identity column type must be smallint, integer, or bigint, not {other}"
            ))
            .code("22023"));
        }
    };
    let base = format!("{}_{}_seq", table.bare_name(), column.name);
    let name = free_name(catalog, table, &table.schema, &base);
    let options = SequenceOptions { data_type: Some(data_type), ..generated.options.clone() };
    let mut sequence = options.create(catalog.new_table_id(), &name, &table.schema)?;
    let detail = &mut table.details[position];
    sequence.owner = Some(SequenceOwner { table: table.id, column: detail.id });
    match generated.identity {
        Some(identity) => detail.identity = Some(identity),
        None => detail.default = Some(nextval(&name)),
    }
    catalog.put_sequence(sequence);
    Ok(())
}

/// The expression that draws from a sequence.
pub fn nextval(sequence: &str) -> String {
    format!("nextval('{}')", quoted_path(sequence).replace('\'', "''"))
}

/// A catalog name as text that is read back as that name.
fn quoted_path(name: &str) -> String {
    let plain = |part: &str| {
        !part.is_empty()
            && part.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            && !part.starts_with(|c: char| c.is_ascii_digit())
    };
    if name.split('.').all(plain) { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

impl Table {
    /// What fills a column that a statement gives no value for: SQL text. `None`: NULL.
    pub fn default_of(&self, catalog: &Catalog, position: usize) -> Option<String> {
        let detail = &self.details[position];
        match detail.identity {
            Some(Identity::Always | Identity::ByDefault) => {
                catalog.owned_sequence(self.id, detail.id).map(|sequence| nextval(&sequence.name))
            }
            None => detail.default.clone(),
        }
    }
}

/// Renames the sequence literal in a default expression, if it draws from that sequence.
pub fn follow_sequence(default: &mut String, old: &str, new: &str) {
    if *default == nextval(old) {
        *default = nextval(new);
    }
}
